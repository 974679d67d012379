# SPDX-License-Identifier: MIT
"""itemctl akka, and get --raw, on the embedded store."""

import json
import subprocess
import unittest

from akka_cases import AKKA, USAGE, AkkaCases, event
from ctl import ITEMCTL, CtlTest


class Akka(AkkaCases, CtlTest):
    table = "Journal"

    def itemctl(self, *words, status=0, binary=False):
        done = subprocess.run([ITEMCTL, *words], env=self.env, cwd=self.dir, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=120)
        self.assertEqual(status, done.returncode, done.stderr)
        return (done.stdout if binary else done.stdout.decode()), done.stderr.decode()

    def make_table(self, words):
        self.out("create", self.table, *words)

    def fill(self, items):
        self.put(self.table, *map(json.dumps, items))

    def test_usage(self):
        self.make("Journal")
        for words, told in (
                (("events", "Journal", ""), "a persistence id cannot be empty"),
                (("events", "Journal", "x" * 2049),
                 "a persistence id has 2048 UTF-16 units at most, and this one has 2049: "
                 f"\"{'x' * 100}...\""),
                (("events", "Journal", "x", "--from", "-1"),
                 '--from is a whole number from 0 to 9223372036854775807, not "-1"'),
                (("events", "Journal", "x", "--to", "9223372036854775808"),
                 "--to is a whole number from 0 to 9223372036854775807, not "
                 '"9223372036854775808"'),
                (("events", "Journal", "x", "--max", "1.5"),
                 '--max is a whole number from 0 to 9223372036854775807, not "1.5"'),
                (("events", "Journal", "x", "--deleted", "--all"),
                 "--deleted and --all exclude each other"),
                (("by-tag", "Journal", "x", "--from", "1"), "akka by-tag takes no --from"),
                (("by-tag", "Journal", "a,b"), "a tag is not empty and has no comma"),
                (("by-tag", "Journal", ""), "a tag is not empty and has no comma"),
                (("highest-sequence", "Journal", "x", "--all"),
                 "akka highest-sequence takes no --all"),
                (("all", "Journal", "x"), "there is no akka all"),
                (("all",), "there is no akka all"),
                (("events", "Journal"), "akka events needs a table and a persistence id"),
                (("by-tag",), "akka by-tag needs a table and a tag")):
            with self.subTest(words):
                self.assertEqual(told, self.error(USAGE, "akka", *words))
        self.error(3, "akka", "events", "Nowhere", "x")
        self.assertEqual("", self.out("akka", "events", "Journal", "x" * 2048))

    def test_create(self):
        """As the vectors have the tables, and what is added to that."""
        for name in ("Journal", "Snapshot", "State"):
            self.out("create", name, "--profile", "akka-" + name.lower())
            told = json.loads(self.out("describe", name))
            want = AKKA["tables"][name]

            def schema(part):
                return [[key["AttributeName"], key["AttributeType"], key["KeyType"]]
                        for key in part["KeySchema"]]
            self.assertEqual(want["key"], schema(told))
            self.assertEqual([(index["name"], index["key"]) for index in want["indexes"]],
                             [(index["IndexName"], schema(index)) for index in told["Indexes"]])
        self.out("create", "more", "--profile", "akka-snapshot", "--index", "mine:created:N")
        self.assertEqual(["GetSnapshotRowsIndex", "mine"], [
            index["IndexName"] for index in json.loads(self.out("describe", "more"))["Indexes"]])
        self.assertEqual("--sort is what the table's profile says", self.error(
            USAGE, "create", "other", "--profile", "akka-state", "--sort", "x"))

    def test_for_people(self):
        self.make("Journal")
        self.fill([event(1, tags="red"), event(2)])
        self.assertEqual("2\n", self.on_terminal("akka", "highest-sequence", "Journal", "tagged-1"))
        rest = '{"deleted":false,"message":{"$B":"AA=="},"ordering":1'
        self.assertEqual(["sequence-nr  ROW", f'1            {rest},"tags":"red"}}',
                          f"2            {rest}}}"],
                         self.on_terminal("akka", "events", "Journal", "tagged-1").splitlines())
        self.assertEqual(["persistence-id  sequence-nr  ROW",
                          f'tagged-1        1            {rest},"tags":"red"}}'[:79]],
                         [line[:79] for line in self.on_terminal(
                             "akka", "by-tag", "Journal", "red", columns=200).splitlines()])


if __name__ == "__main__":
    unittest.main()
