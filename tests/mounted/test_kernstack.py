# SPDX-License-Identifier: MIT
"""Expiry in declared tables: the published cases (tests/vectors/kernstack.json), K-11 .. K-15 of
docs/KERNSTACK.md."""

import json
import os
import time
import unittest

from harness import ROOT, MountedTest, wait_for

with open(os.path.join(ROOT, "tests", "vectors", "kernstack.json"), encoding="utf-8") as vectors:
    CASES = [case for case in json.load(vectors)["cases"] if case["kind"] == "ttl"]

TRIES = 20


class Expiry(MountedTest):
    """A stack's table, mounted: so that something sweeps."""

    def make_table(self):
        stack = os.path.join(self.place, "stack.json")
        with open(stack, "w", encoding="utf-8") as file:
            json.dump({"resources": {"tables": [{
                "name": self.table, "key_name": "conID", "key_type": "S",
                "indexes": [{"name": "by-user", "key_name": "uID", "key_type": "S"}],
                "change_stream": {"function": "f"}}]}}, file)
        self.itemctl("deploy", stack)
        wait_for("the new table", lambda: os.path.isdir(self.dir))

    def put(self, *items):
        self.itemctl("put", self.table, "--items", "-", input=json.dumps(items))

    def stored(self):
        return {key.decode() for key, in self.store.rows(
            "SELECT pk FROM item JOIN tables ON tables.id = table_id WHERE tables.name = ?",
            self.table)}

    def entries(self):
        return self.store.rows(
            "SELECT ipk FROM entry JOIN indexes ON indexes.id = index_id JOIN tables"
            " ON tables.id = indexes.table_id WHERE tables.name = ?", self.table)

    def listed(self):
        out = self.itemctl("scan", self.table).stdout
        return [json.loads(line)["conID"]["S"] for line in out.splitlines()]

    @staticmethod
    def moved(item, now):
        """ITEM as if the case's NOW were the clock's."""
        shift = int(time.time()) - now
        moved = dict(item)
        number = item.get("-ttl", {}).get("N")
        if number and abs(int(number) - now) < 10 ** 9:
            moved["-ttl"] = {"N": str(int(number) + shift)}
        return moved

    def check_stays(self, case):
        """It does, as far as can be said: what is soon to expire must be asked before."""
        for _ in range(TRIES):
            item = self.moved(case["item"], case["now"])
            expires = int(item["-ttl"]["N"]) if item.get("-ttl", {}).get("N") else None
            self.put(item)
            listed = self.listed()
            if expires and time.time() >= expires:
                continue  # the machine was too slow to tell
            self.assertEqual(["conn-1"], listed)
            if expires and expires - time.time() < 100:
                return
            # What is swept with it shows that a sweep has been.
            self.put({"conID": {"S": "gone"}, "-ttl": {"N": "1"}})
            wait_for("the sweep", lambda: "gone" not in self.stored(), 20)
            self.assertEqual({"conn-1"}, self.stored())
            return
        self.fail("no item was asked for in time")

    def check_goes(self, case):
        self.mark()
        self.put(self.moved(case["item"], case["now"]))
        self.assertEqual([], self.listed())
        wait_for("the sweep", lambda: not self.stored(), 20)
        self.assertChanges("INSERT conn-1", "REMOVE conn-1")
        records = self.store.streamed(self.table)
        self.assertEqual(("REMOVE", True), (records[-1]["change_type"], records[-1]["expired"]))
        if case.get("also", {}).get("index_entry_deleted"):
            self.assertEqual({"name": "by-user", "key": "uID"}, case["index"])
            self.assertEqual([], self.entries())
            found = self.itemctl("query", self.table, "--key-name", "uID", "-k", '{"S":"user-1"}')
            self.assertEqual("", found.stdout)

    def test_ttl_vectors(self):
        """K-11 .. K-14: only -ttl counts; it is gone at once, and swept, from indexes too."""
        self.assertEqual(9, len(CASES))
        for case in CASES:
            with self.subTest(case["note"]):
                if case["expect"]["deleted_by_sweep"]:
                    self.check_goes(case)
                else:
                    self.check_stays(case)
                    self.itemctl("delete", self.table, "-k", "conn-1", status=None)

    def test_k14_an_entry_stays_as_long_as_its_item(self):
        self.put({"conID": {"S": "a"}, "uID": {"S": "u"}, "-ttl": {"N": "4102444800"}})
        self.assertEqual([(b"u",)], self.entries())

    def test_k15_other_types_and_places_expire_nothing(self):
        values = [{"S": "1"}, {"N": "1.5"}, {"N": "0"}, {"N": "-5"}, {"NULL": True}, {"BOOL": True},
                  {"L": [{"N": "1"}]}, {"M": {"-ttl": {"N": "1"}}}]
        self.put(*({"conID": {"S": f"k{number}"}, "-ttl": value} for number, value in enumerate(values)),
                 {"conID": {"S": "inside"}, "m": {"M": {"-ttl": {"N": "1"}}}},
                 {"conID": {"S": "gone"}, "-ttl": {"N": "1"}})
        wait_for("the sweep", lambda: "gone" not in self.stored(), 20)
        self.assertEqual({*(f"k{number}" for number in range(len(values))), "inside"}, self.stored())

    def test_k16_a_file_whose_name_begins_with_a_dash(self):
        path = os.path.join(self.dir, "-ttl.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write('{"-x": "-"}')
        self.assertEqual(["-ttl"], self.listed())
        self.sh("cat ./-ttl.json; rm -- -ttl.json")
        self.assertEqual([], self.listed())


if __name__ == "__main__":
    unittest.main()
