# SPDX-License-Identifier: MIT
"""Functions and surroundings that do their worst: what no server should reply, programs that will not
end, a disk without room, a clock that jumps. Nothing of it may lose a change, or hold one up for good."""

import contextlib
import gzip
import os
import signal
import socket
import subprocess
import threading
import time

from delivery import DeliveryTest, ITEMFS, unittest, wait_for
from test_program import ProgramTest

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class RawServer:
    """Answers the requests of each connection with the bytes of the script, one entry each, then with
    OK: bytes, or an iterator of bytes, after which the connection is closed. `early`: without reading."""

    def __init__(self, *script, early=False):
        self.script, self.early = list(script), early
        self.bodies, self.ended = [], threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://localhost:{self.listener.getsockname()[1]}/hook"
        threading.Thread(target=self.serve, daemon=True).start()

    def close(self):
        self.ended.set()
        self.listener.close()

    def serve(self):
        while True:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                while self.answer(connection):
                    pass

    def answer(self, connection):
        reply = self.script.pop(0) if self.script else OK
        if self.early and reply is not OK:
            connection.sendall(reply)
            return False
        with connection.makefile("rb") as file:
            length = 0
            for line in iter(file.readline, b"\r\n"):
                if not line:
                    return False
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            self.bodies.append(file.read(length))
        for part in [reply] if isinstance(reply, bytes) else reply:
            connection.sendall(part)
        return reply is OK


class Replies(DeliveryTest):
    def deliver(self, *script, early=False, more=1, **keys):
        """The status once a change was taken, of MORE that are made here; the server."""
        server = RawServer(*script, early=early)
        self.addCleanup(server.close)
        if more:
            self.put_numbers(0, more)
        self.write_config(server.url, **keys)
        self.mount = self.mounted()
        return self.wait_status(self.mount, state="idle", records=1, dropped=0), server

    def test_a_compressed_error(self):
        # None is asked for, but a server's front may compress all the same.
        body = gzip.compress(b'{"error": "table is locked"}')
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
        status, _ = self.deliver(head.encode() + body)
        self.assertEqual(('the handler\'s error: "table is locked"', 1),
                         (status.get("last_error"), status["retries"]))

    def test_much_in_a_compressed_reply(self):
        body = gzip.compress(b" " * (64 << 20))
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
        status, _ = self.deliver(head.encode() + body)
        self.assertEqual(0, status["retries"])

    def test_broken_compression_is_a_failure(self):
        head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd"
        status, _ = self.deliver(head)
        self.assertEqual(1, status["retries"])

    def test_http_1_0_without_a_length(self):
        status, _ = self.deliver(b'HTTP/1.0 200 OK\r\n\r\n{"error": 1}', b"HTTP/1.0 200 OK\r\n\r\n{}")
        self.assertEqual(("the handler's error: 1", 1), (status["last_error"], status["retries"]))

    def test_a_body_that_is_cut_short(self):
        status, server = self.deliver(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{")
        self.assertEqual(1, status["retries"])
        self.assertEqual(server.bodies[0], server.bodies[1])

    def test_one_byte_at_a_time(self):
        def slowly():
            for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n":
                yield bytes([byte])
                time.sleep(0.1)
        status, _ = self.deliver(slowly(), function_timeout=1)
        self.assertRegex(status["last_error"], "timed out")
        self.assertEqual(1, status["retries"])

    def test_no_end_of_continues(self):
        def forever():
            while True:
                yield b"HTTP/1.1 100 Continue\r\n\r\n"
                time.sleep(0.01)
        status, _ = self.deliver(forever(), function_timeout=1)
        self.assertEqual(1, status["retries"])

    def test_no_end_of_headers(self):
        def forever():
            yield b"HTTP/1.1 200 OK\r\n"
            while True:
                yield b"X-Much: " + b"x" * 60000 + b"\r\n"
        status, _ = self.deliver(forever(), function_timeout=20)
        self.assertEqual(1, status["retries"])

    def test_no_http(self):
        status, _ = self.deliver(b"SSH-2.0-OpenSSH_9.2\r\n", b"\0\xff" * 100, b"", b"HTTP/9.9 200 OK\r\n\r\n",
                                 b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n")
        self.assertGreaterEqual(status["retries"], 4)

    def test_an_answer_before_the_request(self):
        # The connection is cut while the body is still on its way.
        self.put({"id": {"S": "large"}, "text": {"S": "x" * 3000000}})
        status, _ = self.deliver(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", early=True, more=0)
        self.assertEqual(1, status["retries"])


class Programs(ProgramTest):
    def test_a_gigabyte_of_output(self):
        mount = self.deliver("head -c 1G /dev/zero; head -c 100M /dev/zero >&2", function_timeout=600)
        self.wait_status(mount, records=1, retries=0, state="idle")
        with open(f"/proc/{mount.process.pid}/status", encoding="utf-8") as file:
            peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
        self.assertLess(peak, 400 << 10)  # with a sanitizer's own
        self.assertLess(len(mount.log_text()), 100_000)

    def test_a_program_that_ignores_sigterm(self):
        script = ("[ -e pid ] && exit 0\ntrap '' TERM\necho $$ >pid\n(trap '' TERM; sleep 1000) &\n"
                  "echo $! >child\nwhile :; do sleep 1; done\n")
        mount = self.deliver(script, function_timeout=0.5)
        self.wait_status(mount, records=1, retries=1, state="idle")
        for name in ("pid", "child"):
            self.assertFalse(self.is_running(int(self.output(name))), name)

    def test_one_that_leaves_its_group_and_keeps_the_pipes(self):
        # It goes on by itself, and delivery does not wait for it.
        script = "setsid bash -c 'echo $$ >pid; exec sleep 1000' &\nuntil [ -s pid ]; do sleep 0.1; done"
        mount = self.deliver(script, function_timeout=600)
        pid = int(wait_for("the program", lambda: self.output("pid").strip()))
        self.addCleanup(os.kill, pid, signal.SIGKILL)
        self.wait_status(mount, records=1, retries=0, state="idle")
        self.assertTrue(self.is_running(pid))

    def test_closes_its_input_at_once(self):
        self.put({"id": {"S": "large"}, "text": {"S": "x" * 3000000}})
        mount = self.deliver("exec <&-\nsleep 0.2\n")
        self.wait_status(mount, records=2, retries=0, state="idle")

    def test_stopped_and_never_continued(self):
        mount = self.deliver("[ -e pid ] && exit 0\necho $$ >pid\nkill -STOP $$\n", function_timeout=0.5)
        self.wait_status(mount, records=1, retries=1, state="idle")
        self.assertFalse(self.is_running(int(self.output("pid"))))


@unittest.skipUnless(os.getuid() == 0, "only root can mount a small filesystem")
class FullDisk(DeliveryTest):
    def setUp(self):
        super().setUp()
        self.small = os.path.join(self.dir, "small")
        os.mkdir(self.small)
        self.run_tool(["mount", "-t", "tmpfs", "-o", "size=3m", "none", self.small])
        self.addCleanup(subprocess.run, ["umount", "-l", self.small], check=True)
        self.db = os.path.join(self.small, "items.db")
        self.write_config()
        self.create()

    def test_a_position_that_cannot_be_written(self):
        release = threading.Event()
        self.addCleanup(release.set)
        function = self.function(script=[{"hold": release}])
        self.put_numbers(0, 2)
        self.write_config(function, function_batch=1)
        mount = self.mounted()
        function.wait_calls(1)
        with open(f"{self.small}/filler", "wb", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(bytes(4096))
        release.set()
        status = self.wait_status(mount, state="waiting", records=1)
        self.assertRegex(status["reason"], "^the lease cannot be used: .*full")
        # Behind what is not written down nothing is delivered.
        self.assertEqual(1, len(function.deliveries))
        os.unlink(f"{self.small}/filler")
        self.wait_status(mount, state="idle", records=2, retries=0)
        self.assertEqual([["k0"], ["k1"]], [[record["keys"]["id"]["S"] for record in call.records]
                                            for call in function.deliveries])


class Clock(DeliveryTest):
    """The wall clock jumps; waits and leases go by another."""

    def shift(self, seconds):
        with open(self.shift_file + ".new", "w", encoding="utf-8") as file:
            file.write(f"{seconds}\n")
        os.rename(self.shift_file + ".new", self.shift_file)

    def test_jumps(self):
        self.shift_file = os.path.join(self.dir, "shift")
        self.shift(0)
        function = self.function()
        self.write_config(function)
        mount = self.mounted(program=f"{ITEMFS}_shifted", ITEMFS_SHIFT=self.shift_file)
        for number, seconds in enumerate((0, 20 * 3600, -20 * 3600, -10 * 365 * 86400, 0)):
            self.shift(seconds)
            self.put_numbers(number, number + 1)
            status = self.wait_status(mount, state="idle", records=number + 1, behind=0)
            self.assertEqual(0, status["lag_seconds"])
        function.reply = 500
        self.put_numbers(9, 10)
        self.wait_status(mount, state="waiting")
        self.shift(-3600)
        self.assertEqual(0, self.status(mount)["lag_seconds"])
        function.reply = 200
        self.wait_status(mount, state="idle", skipped=0, lost=0, dropped=0)


class Secrets(DeliveryTest):
    def test_one_that_comes_later(self):
        secret = os.path.join(self.dir, "secret")
        function = self.function()
        self.put_numbers(0, 1)
        self.write_config(function, function_secret_file=secret)
        mount = self.mounted()
        for make, reason in (
                (lambda: None, "No such file or directory"),
                (lambda: os.mkdir(secret), "no regular file"),
                (lambda: (os.rmdir(secret), os.mkfifo(secret)), "no regular file"),
                (lambda: (os.unlink(secret), self.write(secret, "")), "empty"),
                (lambda: self.write(secret, "x" * 5000), "larger than 4096 bytes")):
            make()
            wait_for(reason, lambda reason=reason: self.status(mount).get("reason") == f"secret {secret}: {reason}")
        self.assertEqual([], function.deliveries)
        self.write(secret, "word")
        self.wait_status(mount, state="idle", records=1)
        self.assertIn("Itemfs-Signature", function.deliveries[0].headers)

    def write(self, path, text):
        with open(path, "w", encoding="utf-8", opener=lambda *how: os.open(*how, 0o600)) as file:
            file.write(text)


if __name__ == "__main__":
    unittest.main()
