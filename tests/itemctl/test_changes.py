# SPDX-License-Identifier: MIT
"""changes and drafts."""

import contextlib
import json
import sqlite3
import time
import unittest

from ctl import ABSENT, FAILED, USAGE, CtlTest, typed

TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$"


class Changes(CtlTest):
    def changes(self, *arguments):
        return [json.loads(line) for line in self.lines("changes", "t", *arguments)]

    def setUp(self):
        super().setUp()
        self.out("create", "t", "--key", "id")
        self.out("create", "other", "--key", "id")

    def test_records(self):
        first = typed(id={"S": "a"}, n={"N": "1.0"}, b={"BS": ["AA=="]})
        second = typed(id={"S": "a"}, n={"N": "2"})
        self.put("t", first)
        self.put("other", first)
        self.put("t", second)
        self.out("delete", "t", "-k", "a")
        raw = self.lines("changes", "t")
        self.assertTrue(raw[0].startswith('{"change_type":"INSERT","keys":{"id":{"S":"a"}},'
                                          f'"new_item":{first},"change_id":"'), raw[0])
        self.assertTrue(raw[1].startswith('{"change_type":"MODIFY","keys":{"id":{"S":"a"}},'
                                          f'"old_item":{first},"new_item":{second},'), raw[1])
        records = self.changes()
        self.assertEqual(["INSERT", "MODIFY", "REMOVE"], [r["change_type"] for r in records])
        self.assertNotIn("old_item", records[0])
        self.assertNotIn("new_item", records[2])
        self.assertNotIn("expired", records[2])
        for record in records:
            self.assertRegex(record["time"], TIME)
            self.assertRegex(record["change_id"], "^[0-9a-f]{32}$")
        self.assertEqual(sorted(r["time"] for r in records), [r["time"] for r in records])
        self.assertAlmostEqual(time.time(), time.mktime(time.strptime(
            records[0]["time"][:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone, delta=60)
        self.assertEqual(3, len({r["change_id"] for r in records}))

    def test_from(self):
        for number in range(700):
            if number % 100 == 0:
                self.put("other", typed(id={"S": str(number)}))
        self.put("t", *(typed(id={"S": f"{number:03}"}) for number in range(700)))
        records = self.changes()
        self.assertEqual([f"{number:03}" for number in range(700)],
                         [r["keys"]["id"]["S"] for r in records])
        for place in (0, 255, 256, 698, 699):
            self.assertEqual(records[place + 1:],
                             self.changes("--from", records[place]["change_id"]))
        self.assertIn("older than what is kept",
                      self.error(ABSENT, "changes", "t", "--from", "0" * 32))

    def test_stream_off(self):
        self.out("create", "off", "--key", "id", "--stream", "off")
        self.assertIn("is off", self.error(FAILED, "changes", "off"))

    def test_values_beside_their_ttl(self):
        item = typed(**{"id": {"S": "a"}, "$value": {"N": "5"}, "-ttl": {"N": "4000000000"}})
        self.put("t", item)
        self.put("t", typed(**{"id": {"S": "a"}, "$value": {"N": "6"}}))
        records = self.changes()
        self.assertEqual(json.loads(item), records[0]["new_item"])
        self.assertEqual(json.loads(item), records[1]["old_item"])
        self.assertNotIn("-ttl", records[1]["new_item"])


class Drafts(CtlTest):
    def setUp(self):
        super().setUp()
        self.out("create", "t")
        self.add(("t", "a.json", "line 1, column 2: \x1b[31m", b'{"x": \x1b[2J\n\xff\0\n'),
                 ("t", "p/b.json", "too large", b"b"), ("u", "a.json", "conflict", b"old"),
                 ("u", "a.json", "conflict again", b"new"))

    def add(self, *drafts):
        with contextlib.closing(sqlite3.connect(self.store)) as db, db:
            for table, path, reason, body in drafts:
                db.execute("INSERT INTO draft(table_name, path, code, reason, time, size, body)"
                           " VALUES(?, ?, ?, ?, ?, ?, ?)",
                           (table, path, 22, reason, 1_700_000_000_000_000_001, len(body), body))

    def drafts(self, *arguments):
        return json.loads(self.out("drafts", *arguments))["Drafts"]

    def test_list(self):
        found = self.drafts()
        self.assertEqual([("t", "a.json"), ("t", "p/b.json"), ("u", "a.json"), ("u", "a.json")],
                         [(draft["Table"], draft["Path"]) for draft in found])
        self.assertEqual({"Id": 1, "Table": "t", "Path": "a.json", "Error": "EINVAL",
                          "Reason": "line 1, column 2: \x1b[31m", "Size": 14,
                          "Time": "2023-11-14T22:13:20.000000001Z"}, found[0])
        self.assertEqual(found[:2], self.drafts("t"))
        self.assertEqual([], self.drafts("nothing"))
        shown = self.on_terminal("drafts")
        self.assertIn("t      p/b.json  1      2023-11-14T22:13:20Z  too large\n", shown)
        self.assertNotIn("\x1b", shown)

    def test_print(self):
        self.assertEqual('{"x": \x1b[2J\n\udcff\0\n', self.out("drafts", "t", "a.json"))
        self.assertEqual("new", self.out("drafts", "u", "a.json"))
        self.assertEqual('{"x": \\x1B[2J\n\\xFF\\x00\n', self.on_terminal("drafts", "t", "a.json"))
        self.error(ABSENT, "drafts", "t", "c.json")

    def test_delete(self):
        self.out("drafts", "--delete", "t", "p/b.json")
        self.out("drafts", "--delete", "u", "a.json")
        self.assertEqual([("t", "a.json"), ("u", "a.json")],
                         [(draft["Table"], draft["Path"]) for draft in self.drafts()])
        self.assertEqual("old", self.out("drafts", "u", "a.json"))
        self.error(ABSENT, "drafts", "--delete", "t", "p/b.json")
        self.error(USAGE, "drafts", "--delete", "t")
        self.assertEqual(2, json.loads(self.out("status"))["Backends"][0]["DraftCount"])

    def test_paths_are_exact(self):
        """Further drafts of a file have numbers, as a mount gives them."""
        names = ["x.json", "x.json.2", "x.json.3"]
        self.add(*(("v", name, "conflict", name.encode()) for name in names))
        for name in names:
            self.assertEqual(name, self.out("drafts", "v", name))
        self.out("drafts", "--delete", "v", "x.json.2")
        self.error(ABSENT, "drafts", "v", "x.json.2")
        self.out("drafts", "--delete", "v", "x.json")
        for name in ("x.json", "x.jso", "x"):
            self.error(ABSENT, "drafts", "v", name)
            self.error(ABSENT, "drafts", "--delete", "v", name)
        self.assertEqual(["x.json.3"], [draft["Path"] for draft in self.drafts("v")])


if __name__ == "__main__":
    unittest.main()
