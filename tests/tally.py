# SPDX-License-Identifier: MIT
"""Adds up the test cases of ctest result files and prints the one closing line.

usage: tally.py FAILED RESULTS.xml...

A test program says its own count as "N tests, M failures" (C) or "N passed, M failed[, K skipped]"
(Python). One that says nothing, or was killed before, is one case: passed or failed as a whole.
FAILED is not 0 when a ctest run failed: the exit status then is 1 whatever the counts say.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree

C_COUNT = re.compile(r"^(\d+) tests, (\d+) failures$", re.M)
PYTHON_COUNT = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.M)


def count(case):
    """(passed, failed, skipped) of one ctest entry."""
    good = case.get("status") == "run"
    output = case.findtext("system-out") or ""
    found = PYTHON_COUNT.findall(output)
    if found:
        passed, failed, skipped = (int(number or 0) for number in found[-1])
    elif C_COUNT.search(output):
        tests, failures = map(int, C_COUNT.findall(output)[-1])
        failed = min(failures, tests)
        passed, skipped = tests - failed, 0
    else:
        passed, failed, skipped = int(good), 0, 0
    if not good and failed == 0:
        failed = 1
    return passed, failed, skipped


def main(ctest_failed, files):
    total = [0, 0, 0]
    broken = []
    for name in files:
        try:
            suite = ElementTree.parse(name).getroot()
        except (OSError, ElementTree.ParseError) as error:
            print(f"tally: {name}: {error}", file=sys.stderr)
            broken.append(name)
            continue
        for case in suite.iter("testcase"):
            counts = count(case)
            total = [sum(pair) for pair in zip(total, counts)]
            if counts[1]:
                broken.append(case.get("name"))
    passed, failed, skipped = total
    if broken:
        print("Failed:", ", ".join(broken))
    if ctest_failed and not failed:
        failed = 1
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or broken or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] != "0", sys.argv[2:]))
