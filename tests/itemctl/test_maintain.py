# SPDX-License-Identifier: MIT
"""maintain: the tag store's own cases, and what only itemctl does: dry runs, counts, JSON."""

import contextlib
import json
import os
import re
import sqlite3
import subprocess
import time
import unittest

from ctl import ABSENT, FAILED, ROOT, USAGE, CtlTest, typed

NS = 10 ** 9


def vectors(kind):
    with open(os.path.join(ROOT, "tests", "vectors", "lucinda.json")) as file:
        return [case for case in json.load(file)["cases"] if case["kind"] == kind]


def key_of(name):
    """The key that the file NAME of a table of tag keys stands for; None: it is no item's."""
    tags = name.removesuffix(".json").split("_")
    return "_".join(tags) if name.endswith(".json") and name[0] != "." else None


class MaintainTest(CtlTest):
    def setUp(self):
        super().setUp()
        self.out("create", "t")

    def age(self, table, key, mtime):
        """Sets an item's mtime (seconds) behind itemctl's back, which has no word for it."""
        with contextlib.closing(sqlite3.connect(self.store, timeout=30)) as db:
            changed = db.execute("UPDATE item SET mtime = ? WHERE pk = ? AND table_id ="
                                 " (SELECT id FROM tables WHERE name = ?)",
                                 (int(mtime * NS), key, table)).rowcount
            db.commit()
        self.assertEqual(1, changed)

    def fill(self, entries, table="t"):
        """ENTRIES are (file name, mtime)."""
        self.put(table, *(typed(key={"S": key_of(name)}) for name, _ in entries))
        for name, mtime in entries:
            self.age(table, "_".join(sorted(key_of(name).split("_"))), mtime)

    def maintain(self, *arguments):
        return json.loads(self.out("maintain", *arguments))

    def names(self, *arguments):
        document = self.maintain(*arguments)
        self.assertEqual(len(document["Names"]), document["Count"])
        return document["Names"]

    def empty(self, table="t"):
        self.maintain("delete-all", table)
        self.assertEqual(0, self.count(table))


class Vectors(MaintainTest):
    def test_get_all(self):
        for case in vectors("get_all"):
            files = [name for name in case["files"] if key_of(name)]
            with self.subTest(files=files):
                self.fill([(name, 1) for name in files])
                # What is no item's name is none here: "__test__".
                expect = [name for name in case["expect"]["listing"] if key_of(name)]
                self.assertEqual(expect, self.names("get-all", "t"))
                self.assertEqual(len(expect), self.maintain("capacity", "t")["Capacity"])
                self.empty()

    def test_by_tag(self):
        for case in vectors("by_tag"):
            # One order of the same tags is an item's name; the client takes ".*" for a pattern.
            expect = sorted({"_".join(sorted(key_of(name).split("_"))) + ".json"
                             for name in case["expect"]["matches"] if key_of(name)})
            if case["tag"] == ".*":
                expect = []
            with self.subTest(tag=case["tag"]):
                files = [name for name in case["files"] if key_of(name)]
                self.put("t", *(typed(key={"S": key_of(name)}) for name in files))
                self.assertEqual(expect, self.names("by-tag", case["tag"], "t"))
                self.assertEqual(
                    {"TableName": "t", "DryRun": True, "Items": self.count("t"),
                     "Deleted": len(expect), "Changed": 0},
                    self.maintain("delete-by-tag", case["tag"], "t", "--dry-run"))
                before = self.count("t")
                self.maintain("delete-by-tag", case["tag"], "t")
                self.assertEqual(before - len(expect), self.count("t"))
                self.assertEqual([], self.names("by-tag", case["tag"], "t"))
                self.empty()

    def test_capacity(self):
        for case in vectors("capacity"):
            entries = case["entries"]
            with self.subTest(note=case["note"]):
                self.fill(entries)
                arguments = ("delete-by-capacity", str(case["min"]), str(case["max"]), "t")
                deleted = case["expect"]["deleted"]
                self.assertEqual(deleted, self.maintain(*arguments, "--dry-run")["Deleted"])
                self.assertEqual(len(entries), self.count("t"))
                self.assertEqual({"TableName": "t", "DryRun": False, "Items": len(entries),
                                  "Deleted": deleted, "Changed": 0}, self.maintain(*arguments))
                # As many as the client deletes, always the oldest: what it leaves may depend on
                # the order in which it reads the directory.
                newest = sorted(entries, key=lambda entry: -entry[1])[:len(entries) - deleted]
                left = self.names("get-all", "t")
                self.assertEqual(sorted(name for name, _ in newest), left)
                if case["note"] != "ten descending":
                    self.assertEqual(sorted(case["expect"]["left"]), left)
                self.empty()

    def test_until(self):
        for case in vectors("until"):
            with self.subTest(cutoff=case["cutoff"]):
                for _ in range(20):  # until it happens within one second
                    now = int(time.time())
                    self.fill([(name, now - 1000 + mtime - case["cutoff"])
                               for name, mtime in case["entries"]])
                    begun = int(time.time())
                    shifted = str(1000 + begun - now)
                    dry = self.maintain("delete-until", shifted, "t", "--dry-run")
                    if int(time.time()) == begun:
                        done = self.maintain("delete-until", shifted, "t")
                        if int(time.time()) == begun:
                            break
                    self.empty()
                else:
                    self.fail("not twice within one second")
                self.assertEqual(case["expect"]["deleted"], dry["Deleted"])
                self.assertEqual(case["expect"]["deleted"], done["Deleted"])
                self.assertEqual(case["expect"]["left"], self.names("get-all", "t"))
                self.empty()


class Maintain(MaintainTest):
    def test_names_are_in_the_order_of_their_bytes(self):
        keys = ["a", "a-b", "a-", "a-b-c", "a b", "a!", "ab", "a.b", "a.json", "b", "a-b c", "A",
                "ä", "a(", "a-b-", "a,"]
        self.put("t", *(typed(key={"S": key}) for key in keys))
        self.assertEqual(sorted((key + ".json" for key in keys), key=str.encode),
                         self.names("get-all", "t"))

    def test_names_of_other_tables(self):
        self.out("create", "s", "--key", "c", "--sort", "n:N")
        self.put("s", typed(c={"S": "x/y"}, n={"N": "10"}), typed(c={"S": "x/y"}, n={"N": "-1.50"}),
                 typed(c={"S": "b"}, n={"N": "3"}))
        self.assertEqual(["b/3.json", "x%2Fy/-1.5.json", "x%2Fy/10.json"],
                         self.names("get-all", "s"))
        self.assertEqual("the keys of table s are not made of tags",
                         self.error(FAILED, "maintain", "by-tag", "b", "s"))
        self.assertEqual("the keys of table s are not made of tags",
                         self.error(FAILED, "maintain", "delete-by-tag", "b", "s"))
        self.assertEqual(3, self.count("s"))
        self.assertEqual(3, self.maintain("delete-all", "s")["Deleted"])
        self.assertEqual([], self.names("get-all", "s"))
        self.assertSound()

    def test_deletions_are_changes(self):
        self.put("t", typed(key={"S": "a_b"}, n={"N": "1"}), typed(key={"S": "b"}))
        self.maintain("delete-by-tag", "a", "t")
        last = json.loads(self.lines("changes", "t")[-1])
        self.assertEqual(("REMOVE", {"key": {"S": "a_b"}}, {"key": {"S": "a_b"}, "n": {"N": "1"}}),
                         (last["change_type"], last["keys"], last["old_item"]))

    def test_expired_items_do_not_count(self):
        self.put("t", typed(key={"S": "a"}, **{"-ttl": {"N": "1"}}), typed(key={"S": "b"}))
        self.assertEqual(["b.json"], self.names("get-all", "t"))
        self.assertEqual(1, self.maintain("capacity", "t")["Capacity"])

    def test_drop(self):
        self.put("t", typed(key={"S": "a"}))
        self.assertEqual({"TableName": "t", "DryRun": True, "Items": 1},
                         self.maintain("drop", "t", "--dry-run"))
        self.assertEqual(1, self.count("t"))
        self.assertEqual({"TableName": "t", "DryRun": False}, self.maintain("drop", "t"))
        self.assertEqual({"TableNames": []}, json.loads(self.out("tables")))

    def test_the_only_table_need_not_be_named(self):
        self.put("t", typed(key={"S": "a"}))
        self.assertEqual("t", self.maintain("capacity")["TableName"])
        self.assertEqual(["a.json"], self.names("by-tag", "a"))
        self.out("create", "u")
        self.assertEqual(f"which table? {self.store} has several",
                         self.error(USAGE, "maintain", "delete-all"))
        self.assertEqual(1, self.count("t"))
        self.out("drop", "u")
        self.maintain("drop")
        self.assertEqual(f"which table? {self.store} has none",
                         self.error(USAGE, "maintain", "capacity"))

    def test_bad_usage(self):
        for arguments, message in (
                (("nothing",), "there is no maintain nothing"),
                (("capacity", "t", "x"), "maintain capacity takes 0 values and a table"),
                (("by-tag",), "maintain by-tag takes 1 values and a table"),
                (("by-tag", "a_b", "t"), '"a_b" is no tag: "_" joins tags'),
                (("delete-until", "-1", "t"), 'SECONDS is a whole number from 0, not "-1"'),
                (("delete-until", "1.5", "t"), 'SECONDS is a whole number from 0, not "1.5"'),
                (("delete-by-capacity", "2", "1", "t"), "MIN is more than MAX"),
                (("delete-by-capacity", "1", "x", "t"),
                 'MAX is a whole number from 0, not "x"')):
            with self.subTest(arguments=arguments):
                separated = ("--", *arguments)
                self.assertEqual(message, self.error(USAGE, "maintain", *separated))
        self.assertEqual('there is no table "u"', self.error(ABSENT, "maintain", "get-all", "u"))

    def test_for_people(self):
        self.put("t", typed(key={"S": "a\x1b"}), typed(key={"S": "b"}))
        self.assertEqual("a%1B.json\r\nb.json\r\n".replace("\r", ""),
                         self.on_terminal("maintain", "get-all", "t"))
        self.assertEqual("2\n", self.on_terminal("maintain", "capacity", "t"))
        self.assertEqual("1 of 2 items would be deleted\n",
                         self.on_terminal("maintain", "delete-by-tag", "b", "t", "--dry-run"))
        self.assertEqual("2 of 2 items deleted\n", self.on_terminal("maintain", "delete-all", "t"))
        self.assertEqual("the table would be dropped, with 0 items\n",
                         self.on_terminal("maintain", "drop", "t", "--dry-run"))
        self.assertEqual("", self.on_terminal("maintain", "drop", "t"))

    def test_progress(self):
        self.put("t", *(typed(key={"S": f"k-{n}"}) for n in range(30)))
        master, slave = os.openpty()
        process = self.start("maintain", "delete-all", "t", stdin=slave, stderr=slave,
                             stdout=subprocess.PIPE)
        os.close(slave)
        shown = b""
        with contextlib.suppress(OSError):
            while piece := os.read(master, 65536):
                shown += piece
        os.close(master)
        self.assertEqual(30, json.loads(process.stdout.read())["Deleted"])
        process.stdout.close()
        self.assertEqual(0, process.wait())
        self.assertTrue(re.match(rb"\r\[#{30}\] 100 %  30 items deleted\x1b\[K", shown), shown)
        self.assertTrue(shown.endswith(b"\r\x1b[K"), shown)

    def test_what_is_saved_meanwhile_stays(self):
        """While the store is locked, itemctl has judged all items and waits to delete them."""
        self.fill([(f"k-{n}.json", 1000 + n) for n in range(5)])
        with contextlib.closing(sqlite3.connect(self.store, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            process = self.start("maintain", "delete-until", "3600", "t", stdout=subprocess.PIPE)
            self.wait_until_it_waits(process)
            db.execute("UPDATE item SET mtime = ? WHERE pk = 'k-1'", (time.time_ns(),))
            db.execute("UPDATE item SET version = version + 1000 WHERE pk = 'k-3'")
            db.execute("COMMIT")
        document = json.loads(process.communicate(timeout=60)[0])
        self.assertEqual(0, process.returncode)
        self.assertEqual((5, 3, 2), (document["Items"], document["Deleted"], document["Changed"]))
        self.assertEqual([(b"k-1",), (b"k-3",)], self.rows("SELECT CAST(pk AS BLOB) FROM item"))

    def wait_until_it_waits(self, process):
        """For a lock: it looks again and again, and sleeps in between."""
        end, first = time.monotonic() + 60, None
        while time.monotonic() < end:
            with open(f"/proc/{process.pid}/status") as status:
                text = status.read()
            slept = int(re.search(r"voluntary_ctxt_switches:\s+(\d+)", text)[1])
            if "itemctl" in text.split("\n", 1)[0]:
                first = slept if first is None else first
                if slept > first + 30:
                    return
            time.sleep(0.001)
        self.fail("it did not wait for the lock")


if __name__ == "__main__":
    unittest.main()
