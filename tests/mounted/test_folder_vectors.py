# SPDX-License-Identifier: MIT
"""The tag store's own cases (tests/vectors/lucinda.json) over a folder: the file that a key has,
the bytes that a value has, what is an item and what is not."""

import json
import os
import re
import unittest

from folder import FolderTest
from harness import TESTS

with open(os.path.join(TESTS, "vectors", "lucinda.json")) as file:
    CASES = json.load(file)["cases"]


def cases(kind):
    return [case for case in CASES if case["kind"] == kind]


class Vectors(FolderTest):
    def test_keys(self):
        self.start()
        tried = 0
        for case in cases("key"):
            joined, key = "_".join(case["tags"]), case["expect"].get("key")
            # Joined, a tag with "_" is two tags, and no tag is a hidden file; a slash is a path's;
            # the client lets a newline pass at the end, against its own rule; and there are tags
            # whose order it leaves to the caller.
            if (not joined or any("_" in tag or "/" in tag for tag in case["tags"]) or
                    "\n" in (key or "") or "caller order" in case["note"]):
                continue
            tried += 1
            for old in os.listdir(self.folder):
                os.unlink(os.path.join(self.folder, old))
            with self.subTest(case["note"]):
                if key is None:
                    with self.assertRaises(OSError):
                        self.write(joined + ".json", "1")
                    self.assertEqual([], os.listdir(self.folder))
                    continue
                if len(joined) > 235:  # the mount's own names are shorter
                    self.direct(key + ".json", "1")
                else:
                    self.write(joined + ".json", "1")
                    self.assertEqual([key + ".json"], os.listdir(self.dir))
                self.assertEqual([key + ".json"], os.listdir(self.folder))
                self.assertEqual("1\n", self.itemctl_value(joined))
        self.assertGreater(tried, 17)

    def test_keys_of_itemctl(self):
        """The tags in any order; a refused one leaves no file. Tags that the client orders as its
        caller gave them have one order here."""
        for case in cases("key"):
            tags, key = case["tags"], case["expect"].get("key")
            if any("_" in tag for tag in tags) or "\n" in (key or "") or "caller" in case["note"]:
                continue
            orders = ["_".join(order) for order in (tags, tags[::-1], sorted(tags))]
            for old in os.listdir(self.folder):
                os.unlink(os.path.join(self.folder, old))
            with self.subTest(case["note"]):
                for joined in orders:
                    item = json.dumps({"-key": {"S": joined}, "n": {"N": "1"}})
                    self.itemctl("put", "users", "--item", "-", input=item,
                                 status=0 if key else 1)
                self.assertEqual([key + ".json"] if key else [], os.listdir(self.folder))
                for joined in orders if key else ():
                    found = json.loads(self.itemctl("get", "users", "-k", joined).stdout)
                    self.assertEqual({"-key": {"S": key}, "n": {"N": "1"}}, found)
                if key:
                    self.itemctl("delete", "users", "-k", orders[1])
                    self.assertEqual([], os.listdir(self.folder))

    def test_tags_are_directories(self):
        self.start()
        for case in cases("by_tag"):
            for old in os.listdir(self.folder):
                os.unlink(os.path.join(self.folder, old))
            for name in case["files"]:
                self.direct(name, "1")
            wanted = {name for name in case["expect"]["matches"] if name in self.items(case)}
            folder = os.path.join(self.mnt, ".itemfs", "tags", "users", case["tag"])
            with self.subTest(case["note"], tag=case["tag"]):
                if not re.fullmatch("[a-z0-9-]+", case["tag"]):
                    self.assertFalse(case["tag"] and os.path.isdir(folder))
                    continue
                self.assertEqual(wanted, set(os.listdir(folder)))
                for name in wanted:
                    self.assertEqual(b"1", self.bytes_of(os.path.join(folder, name)))
                found = json.loads(self.itemctl("maintain", "by-tag", case["tag"], "users").stdout)
                self.assertEqual(sorted(wanted), found["Names"])

    @staticmethod
    def items(case):
        return {name for name in case["files"] if name.endswith(".json") and
                name not in ("b_a.json", "users_roles.json", "B.json", "c_a_b.json",
                             "b_a-c.json")}

    def itemctl_value(self, key):
        found = json.loads(self.itemctl("get", "users", "-k", key).stdout)
        return found["$value"]["N"] + "\n"

    def test_values(self):
        self.start()
        for i, case in enumerate(cases("value")):
            with self.subTest(case["note"]):
                body = case["expect"]["bytes"].encode()
                self.direct(f"direct{i}.json", body)
                self.assertEqual(body, self.read(f"direct{i}.json"))
                self.write(f"mount{i}.json", body)
                self.assertEqual(body, self.direct(f"mount{i}.json"))

    def test_listings(self):
        """The client takes every name of the folder for an entry; items are those that are keys, in
        their order, with the suffix."""
        self.start()
        for case in cases("get_all") + cases("by_tag"):
            for old in os.listdir(self.folder):
                os.unlink(os.path.join(self.folder, old))
            for name in case["files"]:
                self.direct(name, "1")
            with self.subTest(case["note"]):
                self.assertEqual(self.items(case), set(os.listdir(self.dir)))

    def test_times(self):
        """Files as old as the client keeps them are as old through the mount; see test_upkeep and
        test_maintain_folders for what becomes of them."""
        for case in cases("capacity") + cases("until"):
            for name, seconds in case["entries"]:
                self.direct(name, "1", mtime_ns=seconds * 10**9)
        self.start()
        self.assertEqual(self.files(), self.shown())


if __name__ == "__main__":
    unittest.main()
