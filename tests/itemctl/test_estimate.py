# SPDX-License-Identifier: MIT
"""estimate where nothing is consumed; tests/service has services."""

import json
import unittest

from ctl import ABSENT, USAGE, CtlTest


class Estimate(CtlTest):
    def setUp(self):
        super().setUp()
        self.out("create", "a", "--key", "id")
        self.out("create", "b")

    def test_the_embedded_store_consumes_nothing(self):
        nothing = lambda name: {"TableName": name, "Backend": "store", "Kind": "sqlite",
                                "Consumes": False}
        self.assertEqual(nothing("a"), json.loads(self.out("estimate", "a")))
        self.assertEqual(nothing("a"), json.loads(self.out("estimate", "a", "--import", "-")))
        self.assertEqual({"Tables": [nothing("a"), nothing("b")]}, json.loads(self.out("estimate")))

    def test_for_people(self):
        table = lambda name: (f"Table     {name} (store)\n"
                              "Consumes  nothing: the embedded store does not count in units\n")
        self.assertEqual(table("a"), self.on_terminal("estimate", "a"))
        self.assertEqual(table("a") + table("b"), self.on_terminal("estimate"))

    def test_usage(self):
        self.assertEqual('there is no table "c"', self.error(ABSENT, "estimate", "c"))
        self.assertEqual("--import needs the table that FILE is for",
                         self.error(USAGE, "estimate", "--import", "x"))
        self.assertEqual('estimate: one argument too many: "b"',
                         self.error(USAGE, "estimate", "a", "b"))


if __name__ == "__main__":
    unittest.main()
