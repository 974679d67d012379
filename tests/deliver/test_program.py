# SPDX-License-Identifier: MIT
"""Delivery to programs: what they get, where they run, and how they are judged and ended."""

import json
import os
import re
import time

from delivery import DeliveryTest, unittest, wait_for

PRELUDE = "#!/bin/bash\nset -eu\ncd %(dir)s\n"


class ProgramTest(DeliveryTest):
    def program(self, script, name="program"):
        """An executable of the test's directory, made of SCRIPT; gives its path."""
        path = os.path.join(self.dir, name)
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(PRELUDE % {"dir": self.dir} + script)
        os.chmod(path + ".new", 0o700)
        os.rename(path + ".new", path)
        return path

    def deliver(self, script, records=1, arguments="", **keys):
        """Records 0.. are waiting when the daemon with this program starts."""
        self.put_numbers(0, records)
        self.write_config(f"exec:{self.program(script)} {arguments}", **keys)
        return self.mounted()

    def output(self, name="out"):
        try:
            with open(os.path.join(self.dir, name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def is_running(self, pid):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                return ") Z " not in file.read()
        except (FileNotFoundError, ProcessLookupError):
            return False


class Programs(ProgramTest):
    def test_batch_on_standard_input(self):
        mount = self.deliver("cat >>out; echo >>out", 3)
        self.wait_status(mount, records=3, batches=1, state="idle", function=f"exec:{self.dir}/program")
        payload = json.loads(self.output())
        self.assertEqual(("change_stream", self.table), (payload["trigger_type"], payload["change_table"]))
        self.assertEqual(["k0", "k1", "k2"],
                         [record["keys"]["id"]["S"] for record in payload["change_records"]])

    def test_arguments(self):
        mount = self.deliver('printf "[%s]" "$@" >out', arguments='''one "two words" '$HOME "' ";"''')
        self.wait_status(mount, records=1)
        self.assertEqual('[one][two words][$HOME "][;]', self.output())

    def test_surroundings(self):
        script = ('{ env | sort; pwd; umask; ls -l /proc/self/fd; '
                  'grep -E "^Sig(Blk|Ign)" /proc/self/status; ps -o pid=,sid= -p $$; } >out\n'
                  'cd /; pwd >>"$OLDPWD/out"')
        self.put_numbers(0, 1)
        self.write_config(f"exec:{self.program(script.replace('pwd; umask', 'echo; umask'))}")
        mount = self.mounted(AWS_SECRET_ACCESS_KEY="s3cret-key", AWS_SESSION_TOKEN="t0ken",
                             ITEMFS_SOURCE="x")
        self.wait_status(mount, records=1)
        out = self.output()
        variables = dict(line.split("=", 1) for line in out.split("\n\n")[0].split("\n"))
        for set_by_shell in ("_", "SHLVL", "PWD", "OLDPWD"):
            variables.pop(set_by_shell, None)
        self.assertEqual({"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                          "HOME": self.home, "LANG": "C.UTF-8", "ITEMFS_TABLE": self.table,
                          "ITEMFS_TRIGGER": "change_stream"}, variables)
        self.assertIn("\n0077\n", out)
        # Nothing of the daemon's: no /dev/fuse, no store, no socket; 3 is the directory that ls reads.
        self.assertRegex(out, r" 0 -> pipe:\S+\n.* 1 -> .*/out\n.* 2 -> pipe:\S+\n.* 3 -> /proc/\d+/fd\n")
        self.assertNotRegex(out, r"/dev/fuse|items\.db|socket:| 4 -> ")
        self.assertRegex(out, r"(?m)^ *(\d+) +\1$")
        with open(f"/proc/{mount.process.pid}/environ", encoding="utf-8") as file:
            self.assertIn("s3cret-key", file.read())  # the daemon has what the program has not

    def test_starts_in_the_root(self):
        path = os.path.join(self.dir, "bare")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\npwd >{self.dir}/out\n")
        os.chmod(path, 0o700)
        self.put_numbers(0, 1)
        self.write_config(f"exec:{path}")
        self.wait_status(self.mounted(), records=1)
        self.assertEqual("/\n", self.output())
        self.assertEqual(0o600, os.stat(f"{self.dir}/out").st_mode & 0o777)

    def test_status_decides(self):
        script = "n=$(cat count 2>/dev/null || echo 0); echo $((n + 1)) >count; cat >>batch$n\n"
        mount = self.deliver(script + "case $n in 0) exit 1;; 1) kill -9 $$;; esac", 2)
        self.wait_status(mount, records=2, retries=2, batches=1, state="idle")
        self.assertEqual("3\n", self.output("count"))
        self.assertEqual(self.output("batch0"), self.output("batch1"))
        self.assertEqual(self.output("batch0"), self.output("batch2"))
        self.assertIn("the program ended with status 1: tried again", mount.log_text())
        self.assertIn("the program was ended by signal 9: tried again", mount.log_text())

    def test_input_need_not_be_read(self):
        self.put({"id": {"S": "large"}, "text": {"S": "x" * 1000000}})
        mount = self.deliver("exit 0", 3)
        self.wait_status(mount, records=4, retries=0, state="idle")

    def test_complaints_are_logged(self):
        mount = self.deliver("echo out; printf 'bad \\033[31m row\\nand more\\n' >&2")
        self.wait_status(mount, records=1)
        self.assertIn(f"table {self.table}, exec:{self.dir}/program: bad \\x1B[31m row\n",
                      mount.log_text())
        self.assertIn(f"exec:{self.dir}/program: and more\n", mount.log_text())
        self.assertNotIn("program: out", mount.log_text())

    def test_100_lines_of_each_run_are_logged(self):
        mount = self.deliver("seq -f 'line %.0f.' 150 >&2")
        self.wait_status(mount, records=1)
        self.assertEqual([str(number) for number in range(1, 101)],
                         re.findall(r"program: line (\d+)\.\n", mount.log_text()))

    def test_a_program_that_comes_later(self):
        self.put_numbers(0, 1)
        self.write_config(f"exec:{self.dir}/program --secret word")
        mount = self.mounted()
        status = self.wait_status(mount, state="waiting")
        self.assertEqual(f"{self.dir}/program cannot be started: No such file or directory",
                         status["reason"])
        self.assertIn(f"table {self.table}: {self.dir}/program: No such file or directory",
                      mount.log_text())
        self.program("cat >out")
        self.wait_status(mount, records=1, state="idle")
        self.assertNotIn("--secret", mount.log_text())
        self.assertNotIn("--secret", json.dumps(self.status(mount)))

    def test_grandchildren_do_not_outlive_the_deadline(self):
        script = "[ -e pid ] && exit 0\n(trap '' TERM; exec sleep 1000) &\necho $! >pid\nwait\n"
        mount = self.deliver(script, function_timeout=0.5)
        status = self.wait_status(mount, records=1, state="idle")
        self.assertEqual("the program did not end within 0.5 s", status["last_error"])
        self.assertFalse(self.is_running(int(self.output("pid"))))

    def test_grandchildren_do_not_outlive_their_parent(self):
        mount = self.deliver("sleep 1000 &\necho $! >pid")
        self.wait_status(mount, records=1, retries=0)
        pid = int(self.output("pid"))
        wait_for("its end", lambda: not self.is_running(pid))  # it has been killed, and has to see it

    def test_ended_at_the_unmount(self):
        mount = self.deliver("echo $$ >pid; sleep 1000 & wait", function_timeout=600)
        pid = int(wait_for("the program", lambda: self.output("pid").strip()))
        mount.unmount()
        self.assertFalse(self.is_running(pid))
        self.program("cat >out")
        self.wait_status(self.mounted("again"), records=1)

    def test_what_it_does_in_the_mount(self):
        os.mkdir(f"{self.dir}/mnt")
        self.itemctl("create", "seen", "--key", "id")
        script = ("id=$(jq -r '.change_records[0].keys.id.S'); cp mnt/users/$id.json mnt/seen/$id.json\n")
        mount = self.deliver(script)
        self.wait_status(mount, records=1)
        self.assertEqual("k0", json.loads(self.itemctl("get", "seen", "-k", "k0").stdout)["id"]["S"])

    @staticmethod
    def pipes(mount):
        """Descriptors of the store come and go with its readers."""
        folder = f"/proc/{mount.process.pid}/fd"
        found = [os.readlink(os.path.join(folder, name)) for name in os.listdir(folder)]
        return sorted(name.split(":")[0] for name in found if not name.startswith("/"))

    def test_descriptors_do_not_pile_up(self):
        mount = self.deliver("cat >/dev/null")
        self.wait_status(mount, records=1, state="idle")
        before = self.pipes(mount)
        for number in range(1, 21):
            self.put_numbers(number, number + 1)
            self.wait_status(mount, records=number + 1, state="idle")
        self.assertEqual(before, self.pipes(mount))
        children = f"/proc/{mount.process.pid}/task"
        left = [child for task in os.listdir(children)
                for child in open(f"{children}/{task}/children", encoding="utf-8").read().split()]
        self.assertEqual(1, len(left))  # the one that watches over the connection

    def test_killed_daemon_starts_over(self):
        mount = self.deliver("[ -e pid ] && { cat >out; exit 0; }\necho $$ >pid; sleep 1000",
                             function_timeout=600)
        pid = int(wait_for("the program", lambda: self.output("pid").strip()))
        mount.kill()
        self.addCleanup(os.killpg, pid, 9)
        began = time.monotonic()
        self.wait_status(self.mounted("again"), records=1, state="idle")
        self.assertGreater(time.monotonic() - began, 5)  # the dead one's lease has to lapse first


if __name__ == "__main__":
    unittest.main()
