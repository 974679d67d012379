# SPDX-License-Identifier: MIT
"""The contract that every backend must pass (tests/contract), over services: each of its tests is a
test here, in a process of its own. What an engine cannot do stands in LACKS; the program says what
is left out for that, and why."""

import os
import subprocess
import unittest

from service import ServiceTest, each_service
from harness import BIN  # pylint: disable=wrong-import-order

PROGRAM = os.path.join(BIN, "contract_service")
# Beyond what no service can do (contract_service.c), by their names in tests/contract/fixture.h.
LACKS = {"moto": "atomic limits surrogates switches", "dynalite": "indexes limits ttl streams",
         "dynoxide": "surrogates", "alternator": "surrogates"}


class Contract(ServiceTest):
    def setUp(self):
        pass  # no table beside those that the program makes

    def run_one(self, name):
        done = self.run_tool([PROGRAM, name], None, env=self.environment(
            ITEMFS_CONTRACT_LACKS=LACKS[self.engine.name]))
        print(done.stdout, end="")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertTrue(done.stdout.endswith("1 tests, 0 failures\n"), done.stdout)
        if "\nskipped\n" in "\n" + done.stdout:
            self.skipTest(done.stdout.split("\n")[0])


def add_tests():
    names = subprocess.run([PROGRAM, "--list"], capture_output=True, text=True, check=True).stdout
    for name in names.split():
        setattr(Contract, f"test_{name}", lambda self, name=name: self.run_one(name))


add_tests()
each_service(Contract)
del Contract


if __name__ == "__main__":
    unittest.main()
