# SPDX-License-Identifier: MIT
"""The closing line of a test run."""

import os
import subprocess
import sys
import tempfile
import unittest

from test_style import ROOT

TALLY = os.path.join(ROOT, "tests", "tally.py")


def case(name, output, status="run"):
    return f'<testcase name="{name}" status="{status}"><system-out>{output}</system-out></testcase>'


class Tally(unittest.TestCase):
    def tally(self, *suites, failed=0):
        """Exit status and lines for results that hold these cases."""
        with tempfile.TemporaryDirectory() as directory:
            names = []
            for number, cases in enumerate(suites):
                names.append(os.path.join(directory, f"{number}.xml"))
                with open(names[-1], "w") as file:
                    file.write(f"<testsuite>{cases}</testsuite>")
            done = subprocess.run([sys.executable, TALLY, str(failed), *names],
                                  capture_output=True, text=True)
            return done.returncode, done.stdout.splitlines()

    def test_counts_are_added(self):
        self.assertEqual((0, ["10 passed, 0 failed, 2 skipped"]), self.tally(
            case("c", "7 tests, 0 failures\n"),
            case("py", "ok\n2 passed, 0 failed, 2 skipped\n") + case("silent", "")))

    def test_failures_are_named(self):
        self.assertEqual((1, ["Failed: c, killed", "6 passed, 2 failed"]), self.tally(
            case("c", "7 tests, 1 failures\n", "fail") + case("killed", "", "fail"), failed=1))

    def test_failed_build_keeps_the_other_counts(self):
        """tests/run stands such a file in for the stage that could not run."""
        self.assertEqual((1, ["Failed: the build in b", "7 passed, 1 failed"]), self.tally(
            case("c", "7 tests, 0 failures\n"),
            '<testcase name="the build in b" status="fail"/>', failed=1))

    def test_nothing_is_no_success(self):
        self.assertEqual((1, ["0 passed, 0 failed"]), self.tally(""))


if __name__ == "__main__":
    unittest.main()
