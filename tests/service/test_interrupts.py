# SPDX-License-Identifier: MIT
"""Programs that are interrupted while the service does not answer."""

import os
import signal
import subprocess
import sys
import unittest

from service import HoldingProxy, ServiceTest, SOURCE, wait_for
from engines import for_engine  # pylint: disable=wrong-import-order
from harness import PATIENCE  # pylint: disable=wrong-import-order

# Says what stat gave, after a signal that it handles.
PATIENT = """
import os, signal, sys
signal.signal(signal.SIGWINCH, lambda *_: print("signal", flush=True))
print("ready", flush=True)
print(os.stat(sys.argv[1]).st_size, flush=True)
"""

# Writes new.json, and says so, before it goes on.
WRITER = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.write(fd, b'{"v": 5}')
print("written", flush=True)
"""


class Interrupts(ServiceTest):
    def setUp(self):
        super().setUp()
        self.make()
        self.put(id={"S": "a"}, v={"N": "1"})
        self.proxy = HoldingProxy(self.engine.endpoint).__enter__()
        self.addCleanup(self.proxy.__exit__, None, None, None)
        self.mount = self.new_mount(SOURCE, f"mnt-{self.table}", ("cache_ttl=0",))
        self.mount.env = self.environment(AWS_ENDPOINT_URL=self.proxy.url)
        self.mount.start()
        self.addCleanup(self.mount.unmount)
        self.addCleanup(self.proxy.release.set)
        self.dir = os.path.join(self.mount.point, self.table)
        os.stat(self.dir)

    def interrupted(self, operation, number, *command):
        """COMMAND ends by the signal while the answer to OPERATION is still kept back."""
        before = len(self.proxy.calls())
        self.proxy.given.clear()
        self.proxy.hold = operation
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self.assertTrue(self.proxy.given.wait(60))
        process.send_signal(number)
        self.assertEqual(-number, process.wait(60))
        # It was not the end of the daemon's patience that ended it: that repeats the request.
        self.assertEqual(1, sum(call.operation == operation for call in self.proxy.calls()[before:]))

    def test_a_program_that_reads_can_be_ended(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1):
            with self.subTest(number):
                self.interrupted("GetItem", number, "cat", self.dir + "/a.json")
        self.proxy.release.set()
        with open(self.dir + "/a.json", encoding="utf-8") as file:
            self.assertIn('"v": 1', file.read())

    def test_a_listing_can_be_ended(self):
        self.interrupted("Scan", signal.SIGINT, "ls", self.dir)
        self.proxy.release.set()
        self.assertEqual(["a.json"], os.listdir(self.dir))
        self.assertNotIn("interrupted", self.mount.log_text())

    def test_other_signals_end_nothing(self):
        self.proxy.hold = "GetItem"
        with subprocess.Popen([sys.executable, "-c", PATIENT, self.dir + "/a.json"],
                              stdout=subprocess.PIPE, text=True) as process:
            self.assertEqual("ready", process.stdout.readline().strip())
            self.assertTrue(self.proxy.given.wait(60))
            process.send_signal(signal.SIGWINCH)
            wait_for("the signal to be pending or handled", lambda: self.pending(process.pid))
            self.proxy.release.set()
            out, _ = process.communicate(timeout=60)
        self.assertEqual(["signal", "26"], sorted(out.split(), reverse=True))
        self.assertEqual(0, process.returncode)

    @staticmethod
    def pending(pid, number=signal.SIGWINCH):
        with open(f"/proc/{pid}/status", encoding="utf-8") as status:
            masks = [int(line.split()[1], 16) for line in status if line.startswith("ShdPnd:")]
        return masks[0] >> (number - 1) & 1

    # Calls about tables.

    def held(self, operation, *command):
        """COMMAND, begun again until it has come to OPERATION, whose answer is kept back."""
        self.proxy.release.clear()
        self.proxy.given.clear()
        self.proxy.hold = operation
        while True:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            while process.poll() is None:
                if self.proxy.given.wait(0.01):
                    return process

    def test_a_listing_or_lookup_of_tables_can_be_ended(self):
        for operation, command in (("ListTables", ["ls", self.mount.point]),
                                   ("DescribeTable", ["stat", self.dir]),
                                   ("DescribeTimeToLive", ["stat", self.dir])):
            with self.subTest(operation):
                before = len(self.proxy.calls())
                process = self.held(operation, *command)
                process.send_signal(signal.SIGINT)
                self.assertEqual(-signal.SIGINT, process.wait(60))
                calls = [call.operation for call in self.proxy.calls()[before:]]
                self.assertEqual(1, calls.count(operation))
                self.proxy.release.set()
        self.assertIn(self.table, os.listdir(self.mount.point))
        self.assertNotIn("interrupted", self.mount.log_text())

    # Saves.

    def save_held(self, mount, leaves_open=False):
        """A program that saves new.json, or does not close it and waits for a signal."""
        code = WRITER + ("signal.pause()" if leaves_open else "os.close(fd)")
        return subprocess.Popen([sys.executable, "-c", code,
                                 os.path.join(mount.point, self.table, "new.json")],
                                stdout=subprocess.PIPE, text=True)

    def test_a_save_that_was_sent_is_not_given_up(self):
        """It may have been applied."""
        self.proxy.hold = "PutItem"
        with self.save_held(self.mount) as process:
            self.assertTrue(self.proxy.given.wait(60))
            process.send_signal(signal.SIGINT)
            wait_for("the signal", lambda: self.pending(process.pid, signal.SIGINT))
            self.proxy.release.set()
            self.assertEqual(-signal.SIGINT, process.wait(60))
        self.assertEqual({"N": "5"}, self.item(id={"S": "new"})["v"])
        self.assertEqual([], self.drafts(self.mount))

    def test_a_save_that_waits_for_its_budget_is_given_up(self):
        """Nothing was sent: a draft keeps the text."""
        mount = self.new_mount(SOURCE, f"budget-{self.table}", ("cache_ttl=0", "write_units=0.00001"))
        mount.env = self.environment(AWS_ENDPOINT_URL=self.proxy.url)
        mount.start()
        self.addCleanup(mount.unmount)
        with open(os.path.join(mount.point, self.table, "first.json"), "w", encoding="utf-8") as file:
            file.write("{}")
        with self.save_held(mount) as process:
            wait_for("a save that waits", lambda: self.waiting(mount) == 1)
            process.send_signal(signal.SIGINT)
            self.assertEqual(-signal.SIGINT, process.wait(60))
        self.assertIsNone(self.item(id={"S": "new"}))
        self.assertIn("PutItem: interrupted", mount.log_text())
        [draft] = [name for name in self.drafts(mount) if name.endswith(".json")]
        with open(os.path.join(mount.point, ".itemfs", "drafts", self.table, draft),
                  encoding="utf-8") as file:
            self.assertEqual('{"v": 5}', file.read())
        self.assertEqual(0, self.waiting(mount))
        self.assertEqual(["first"], [call.json["Item"]["id"]["S"] for call in self.proxy.calls()
                                     if call.operation == "PutItem"])

    def test_what_a_program_leaves_open_when_it_is_ended_is_saved(self):
        """The kernel closes it then, under the very signal."""
        with self.save_held(self.mount, leaves_open=True) as process:
            self.assertEqual("written\n", process.stdout.readline())
            process.send_signal(signal.SIGINT)
            self.assertEqual(-signal.SIGINT, process.wait(60))
        self.assertEqual({"N": "5"}, self.item(id={"S": "new"})["v"])
        self.assertEqual([], self.drafts(self.mount))

    def drafts(self, mount):
        folder = os.path.join(mount.point, ".itemfs", "drafts", self.table)
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []

    def waiting(self, mount):
        with open(os.path.join(mount.point, ".itemfs", "metrics"), encoding="utf-8") as file:
            return sum(int(line.split()[-1]) for line in file
                       if line.startswith("itemfs_budget_waiting{"))

    # The end of the mount.

    def ending(self, *options):
        mount = self.new_mount(SOURCE, f"end-{self.table}", ("cache_ttl=0", *options))
        mount.env = self.environment(AWS_ENDPOINT_URL=self.proxy.url)
        return mount.start()

    def test_a_listing_that_waits_does_not_keep_the_daemon(self):
        """Its budget owes 100 000 seconds; the daemon's patience with a request is a minute."""
        mount = self.ending("read_units=0.00001")
        directory = os.path.join(mount.point, self.table)
        with subprocess.Popen(["ls", directory], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as process:
            wait_for("a listing that waits", lambda: self.waiting(mount) == 1)
            mount.terminate()
            process.communicate(timeout=60)
        self.assertEqual(2, process.returncode)

    def test_a_look_ahead_does_not_keep_the_daemon(self):
        """Nor does it keep who reads on, or closes the directory."""
        for number in range(9):
            self.put(id={"S": f"{number:03}"}, pad={"S": "x" * 3000})
        mount = self.ending("read_units=0.00001")
        directory = os.path.join(mount.point, self.table)
        os.stat(directory)
        with subprocess.Popen(["ls", directory], stdout=subprocess.DEVNULL) as process:
            wait_for("a listing that waits", lambda: self.waiting(mount) > 0)
            process.send_signal(signal.SIGINT)
            self.assertEqual(-signal.SIGINT, process.wait(PATIENCE))
            wait_for("that nobody waits", lambda: self.waiting(mount) == 0)
        mount.terminate()

    def test_saves_are_finished(self):
        mount = self.ending("write_units=2")
        directory = os.path.join(mount.point, self.table)
        with open(directory + "/first.json", "w", encoding="utf-8") as file:
            file.write('{"pad": "%s"}' % ("x" * 6000))
        with self.save_held(mount) as process:
            wait_for("a save that waits", lambda: self.waiting(mount) == 1)
            mount.terminate()
            self.assertEqual(0, process.wait(60))
        self.assertEqual({"N": "5"}, self.item(id={"S": "new"})["v"])


Interrupts_dynoxide = for_engine(Interrupts, "dynoxide")
del Interrupts

if __name__ == "__main__":
    unittest.main()
