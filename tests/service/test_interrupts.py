# SPDX-License-Identifier: MIT
"""Programs that are interrupted while the service does not answer."""

import os
import signal
import subprocess
import sys
import unittest

from service import HoldingProxy, ServiceTest, SOURCE, wait_for
from engines import for_engine  # pylint: disable=wrong-import-order

# Says what stat gave, after a signal that it handles.
PATIENT = """
import os, signal, sys
signal.signal(signal.SIGWINCH, lambda *_: print("signal", flush=True))
print("ready", flush=True)
print(os.stat(sys.argv[1]).st_size, flush=True)
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
    def pending(pid):
        with open(f"/proc/{pid}/status", encoding="utf-8") as status:
            masks = [int(line.split()[1], 16) for line in status if line.startswith("ShdPnd:")]
        return masks[0] >> (signal.SIGWINCH - 1) & 1


Interrupts_dynoxide = for_engine(Interrupts, "dynoxide")
del Interrupts

if __name__ == "__main__":
    unittest.main()
