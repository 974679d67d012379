# SPDX-License-Identifier: MIT
"""itemctl akka, and get --raw, on services: rows put by boto3."""

import os
import subprocess
import sys
import unittest

from service import HERE, ITEMCTL, ServiceTest, SOURCE, each_service

sys.path.insert(0, os.path.join(HERE, "..", "itemctl"))

from akka_cases import AkkaCases, native  # noqa: E402  pylint: disable=wrong-import-position


@each_service
class Akka(AkkaCases, ServiceTest):
    def itemctl(self, *words, status=0, binary=False, **more):  # pylint: disable=arguments-differ
        done = subprocess.run([ITEMCTL, "-s", SOURCE, *words], env=self.environment(),
                              cwd=self.place, capture_output=True, stdin=subprocess.DEVNULL,
                              timeout=120, **more)
        self.assertEqual(status, done.returncode, done.stderr)
        return (done.stdout if binary else done.stdout.decode()), done.stderr.decode()

    def make_table(self, words):
        self.itemctl("create", self.table, *words)

    def fill(self, items):
        for item in items:
            self.put(**{name: native(value) for name, value in item.items()})


if __name__ == "__main__":
    unittest.main()
