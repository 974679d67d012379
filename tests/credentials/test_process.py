# SPDX-License-Identifier: MIT
"""credential_process"""

import json
import os
import subprocess
import time

from chain import MARK, PROGRAM, ChainTest, process_keys, secret


class Process(ChainTest):
    def command(self, script, profile="default", settings=""):
        """A profile whose process is a shell script with this text."""
        path = self.write("command", f"#!/bin/sh\n{script}\n", 0o700)
        header = "[default]" if profile == "default" else f"[profile {profile}]"
        self.config(f"{header}\ncredential_process = {path}\n{settings}")

    def writes(self, text):
        self.command(f"cat <<'END'\n{text}\nEND")

    def failure(self, *arguments):
        code, text = self.error(*arguments)
        start = "credentials of profile default (process): "
        self.assertEqual(start, text[:len(start)])
        return code, text[len(start):]

    def test_for_ever(self):
        self.writes(process_keys("AKP", session=False))
        self.assertEqual(0, self.agree("profile default (process)", "AKP", session=False)["expires"])

    def test_with_expiry(self):
        self.writes(process_keys("AKP", 4e9))
        self.assertEqual(4000000000, self.agree("profile default (process)", "AKP")["expires"])

    def test_null_and_empty(self):
        made = json.loads(process_keys("AKP", session=False))
        self.writes(json.dumps(made | {"SessionToken": None, "Expiration": None}))
        self.agree("profile default (process)", "AKP", session=False)
        self.writes(json.dumps(made | {"SessionToken": "", "Other": {"x": [1]}}, indent=4))
        self.assertKeys("AKP", self.found()[1], session=False)

    def test_in_the_credentials_file(self):
        self.command(f"echo '{process_keys('AKP')}'", profile="other")
        command = self.path("command")
        self.credentials(f"[default]\ncredential_process = {command}\n")
        self.agree("profile default (process)", "AKP")

    def test_arguments(self):
        keys = process_keys("AK-$1-$2").replace('"', '\\"')
        self.command(f'echo "{keys}"')
        command = self.path("command")
        self.config(f"[default]\ncredential_process = \"{command}\" 'one two'   three\n")
        # One word with a space in it cannot be an ID.
        self.assertIn("holds what no ID can", self.failure()[1])
        self.config(f"[default]\ncredential_process = \"{command}\" \"one\" two\n")
        self.agree("profile default (process)", "AK-one-two")

    def test_shell(self):
        self.env["NAME"] = "AKSHELL"
        self.write("keys", process_keys("NAME"))
        self.config('[default]\ncredential_process = sed "s,NAME,$NAME,g" <keys | cat\n')
        self.assertKeys("AKSHELL", self.found()[1])

    def test_fails(self):
        self.command(f"echo '{process_keys('AKP')}'\nprintf 'no\\tluck \\377\\033[1m\\nsecond' >&2\nexit 3")
        self.refuse("EACCES", r"^credentials of profile default \(process\): the process ended with "
                    r"status 3: no\\x09luck \\xFF\\x1B\[1m$", "UnicodeDecodeError")
        self.command("exit 7")
        self.assertEqual(("EACCES", "the process ended with status 7"), self.failure())
        self.config("[default]\ncredential_process = kill -9 $$\n")
        self.assertEqual(("EACCES", "the process was ended by signal 9"), self.failure())
        self.config(f"[default]\ncredential_process = ./{MARK}-not-there 2>/dev/null\n")
        self.assertEqual(("EACCES", "the process ended with status 127"), self.failure())
        self.command("head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1")
        self.assertRegex(self.failure()[1], r"^the process ended with status 1: x{300,}\.\.\.$")

    def test_complaints_of_one_that_succeeds_are_not_shown(self):
        self.command(f"echo {MARK} >&2\nhead -c 1000000 /dev/zero >&2\necho '{process_keys('AKP')}'")
        self.assertKeys("AKP", self.found()[1])

    def test_answers_that_are_none(self):
        made = json.loads(process_keys("AKP"))
        whole = json.dumps(made)
        without = lambda name: json.dumps({k: v for k, v in made.items() if k != name})
        for text, message in (
                ("", "the answer is no JSON: line "),
                (secret("x"), "the answer is no JSON: line 1, column 1: "),
                (whole + "x", "the answer is no JSON: line 1, column "),
                (whole[:-1], "the answer is no JSON: line "),
                ("[]", "there is no AccessKeyId in the answer"),
                (without("AccessKeyId"), "there is no AccessKeyId in the answer"),
                (without("SecretAccessKey"), "there is no SecretAccessKey in the answer"),
                (without("Version"), 'the process\'s answer has not "Version": 1'),
                (whole.replace("1", "2", 1), 'the process\'s answer has not "Version": 1'),
                (json.dumps(made | {"AccessKeyId": 5}), "AccessKeyId in the answer is no text"),
                (json.dumps(made | {"SecretAccessKey": "a\0b"}), "SecretAccessKey in the answer is no"),
                (json.dumps(made | {"Expiration": "soon"}), "Expiration in the answer is no time")):
            self.writes(text)
            code, said = self.failure()
            self.assertEqual("EIO", code)
            self.assertEqual(message, said[:len(message)])

    def test_expired(self):
        self.writes(process_keys("AKP", time.time() - 1))
        self.refuse("EACCES", "they have expired$", "RuntimeError")

    def test_too_long(self):
        """All that it has started goes, too."""
        self.command("sleep 300 & echo $! >pid; echo $$ >>pid; sleep 300")
        began = time.monotonic()
        self.assertEqual(("ETIMEDOUT", "the process did not end within 700 ms"),
                         self.failure("--process-ms", "700"))
        self.assertLess(time.monotonic() - began, 10)
        with open(self.path("pid")) as file:
            for pid in file.read().split():
                self.assertFalse(self.lives(pid), pid)

    @staticmethod
    def lives(pid):
        for _ in range(100):
            try:
                with open(f"/proc/{pid}/stat") as file:
                    if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                        return False
            except (FileNotFoundError, ProcessLookupError):
                return False
            time.sleep(0.02)
        return True

    def test_too_much(self):
        self.command("exec cat /dev/zero")
        began = time.monotonic()
        self.assertEqual(("EIO", "the process wrote more than 65536 bytes"), self.failure())
        self.assertLess(time.monotonic() - began, 20)
        self.writes(process_keys("AKP") + " " * 60000)
        self.assertKeys("AKP", self.found()[1])

    def test_endless_complaints(self):
        self.command("exec cat /dev/zero >&2")
        self.assertEqual("ETIMEDOUT", self.failure("--process-ms", "500")[0])

    def test_what_it_leaves_behind(self):
        """A child that keeps the outputs open does not hold us up."""
        self.command(f"sleep 100 & echo $! >pid\necho '{process_keys('AKP')}'")
        began = time.monotonic()
        self.assertKeys("AKP", self.found()[1])
        self.assertLess(time.monotonic() - began, 20)
        with open(self.path("pid")) as file:
            os.kill(int(file.read()), 9)

    def test_closed_outputs(self):
        self.command(f"echo '{process_keys('AKP')}'\nexec >&- 2>&-\nsleep 0.3")
        self.assertKeys("AKP", self.found()[1])

    def test_surroundings(self):
        """No input, no files of ours, signals as usual."""
        self.command("read line && exit 9\nls -l /proc/self/fd >fds\nid -u >user\n"
                     f"grep -E 'Sig(Ign|Blk)' /proc/self/status >signals\necho '{process_keys('AKP')}'")
        with open(self.path("extra"), "w") as extra:
            done = subprocess.run([PROGRAM, "open", "get"], env=self.env, cwd=self.dir,
                                  pass_fds=[extra.fileno()], stdout=subprocess.PIPE, text=True)
        self.assertKeys("AKP", self.read(done.stdout)[1])
        with open(self.path("fds")) as file:
            # Those of ls: three, and the directory that it reads.
            self.assertEqual(4, sum("->" in line for line in file))
        with open(self.path("signals")) as file:
            signals = [int(line.split()[1], 16) for line in file]
        # The C library keeps the first two of the real-time signals for itself.
        self.assertEqual([0, 0], [bits & ~(3 << 31) for bits in signals])
