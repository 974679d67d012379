# SPDX-License-Identifier: MIT
"""Runs one Python test file and closes with "N passed, M failed[, K skipped]".

usage: runner.py FILE [PATTERN...]

A PATTERN is a part of a test's name. Skipped tests say why.
"""

import importlib
import os
import sys
import time
import unittest


class Result(unittest.TextTestResult):
    """A line per test, with its time, as soon as it is done."""

    def startTest(self, test):
        self.started = time.monotonic()
        unittest.TestResult.startTest(self, test)

    def say(self, test, word, detail=""):
        name = test.id().split(".", 1)[-1]
        took = time.monotonic() - getattr(self, "started", time.monotonic())
        self.stream.writeln(f"{word} {name} ({took:.2f} s){detail}")
        self.stream.flush()

    def addSuccess(self, test):
        unittest.TestResult.addSuccess(self, test)
        self.say(test, "ok  ")

    def addError(self, test, err):
        unittest.TestResult.addError(self, test, err)
        self.say(test, "FAIL", " " + str(err[1])[:400])

    def addFailure(self, test, err):
        unittest.TestResult.addFailure(self, test, err)
        self.say(test, "FAIL", " " + str(err[1])[:400])

    def addSkip(self, test, reason):
        unittest.TestResult.addSkip(self, test, reason)
        self.say(test, "skip", ": " + reason)

    def addSubTest(self, test, subtest, err):
        unittest.TestResult.addSubTest(self, test, subtest, err)
        if err is not None:
            self.say(subtest, "FAIL", " " + str(err[1])[:400])


def main(arguments):
    path, patterns = arguments[0], arguments[1:]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    module = importlib.import_module(os.path.splitext(os.path.basename(path))[0])
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*{pattern}*" for pattern in patterns] or None
    suite = loader.loadTestsFromModule(module)
    runner = unittest.TextTestRunner(stream=sys.stdout, resultclass=Result, verbosity=2)
    result = runner.run(suite)
    broken = {getattr(test, "test_case", test).id() for test, _ in result.failures + result.errors}
    failed, skipped = len(broken), len(result.skipped)
    fixtures = ("setUpClass", "tearDownClass", "setUpModule", "tearDownModule")
    failed_cases = sum(1 for name in broken if not name.startswith(fixtures))
    passed = max(0, result.testsRun - skipped - failed_cases)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
