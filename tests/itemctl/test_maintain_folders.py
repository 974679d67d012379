# SPDX-License-Identifier: MIT
"""maintain on folders of files, one and two replicas: the tag store's own cases again, and that
files go from all replicas, that dry runs touch none, and that what is no item stays."""

import json
import os
import shutil
import time
import unittest

import test_maintain
from ctl import CONDITION, CtlTest, typed

NS = 10 ** 9


class Folders:
    """What a test of maintain has for a store: replicas, with the table `t`."""

    replicas = 1
    tag_rule = "strict"

    def setUp(self):
        CtlTest.setUp(self)
        self.roots = [self.path(f"disk{number}") for number in range(self.replicas)]
        for root in self.roots:
            os.mkdir(root)
        self.store = self.write("mount.conf", "[backend files]\ntype = folder\n"
                                f"replicas = {', '.join(self.roots)}\n"
                                f"[table t]\ntag_rule = {self.tag_rule}\n")
        self.env["ITEMFS_SOURCE"] = self.store
        self.out("create", "t", "--key", "key", "--keys", "tags", "--stream", "on")

    def age(self, table, key, mtime):
        for root in self.roots:
            os.utime(os.path.join(root, table, key + ".json"), ns=(int(mtime * NS),) * 2)

    def files(self, table="t"):
        """Name -> (bytes, mtime) of everything in the table's folder, the same in all replicas."""
        found = []
        for root in self.roots:
            folder = os.path.join(root, table)
            found.append({})
            for name in os.listdir(folder):
                with open(os.path.join(folder, name), "rb") as file:
                    found[-1][name] = file.read(), os.fstat(file.fileno()).st_mtime_ns
        for other in found[1:]:
            self.assertEqual(found[0], other)
        return found[0]

    def count(self, table):
        return len(self.files(table))


class VectorsInAFolder(Folders, test_maintain.Vectors):
    tag_rule = "any"  # some of the cases have tags that the client itself refuses


class VectorsInTwoFolders(VectorsInAFolder):
    replicas = 2


class MaintainInAFolder(Folders, test_maintain.MaintainTest):
    def setUp(self):
        super().setUp()
        self.now = int(time.time())
        self.fill([(f"{group}_id-{number}.json", self.now - 1000 * (number + 1))
                   for number in range(4) for group in ("a", "b", "c-d")])
        for root in self.roots:  # what is no item
            for name, text in (("b_a.json", "1"), ("notes.txt", "a"), (".a.json", "1")):
                path = os.path.join(root, "t", name)
                with open(path, "w") as file:
                    file.write(text)
                os.utime(path, (1, 1))
        self.others = {"b_a.json", "notes.txt", ".a.json"}

    def items(self):
        return {name: file for name, file in self.files().items() if name not in self.others}

    def check(self, *arguments, left):
        """Its dry run changes nothing; then the items of LEFT are left as they are, in all
        replicas, and everything that is no item."""
        before = self.files()
        gone = len(before) - len(self.others) - len(left)
        dry = self.maintain(*arguments, "--dry-run")
        self.assertEqual((True, 12, gone), (dry["DryRun"], dry["Items"], dry["Deleted"]))
        self.assertEqual(before, self.files())
        done = self.maintain(*arguments)
        self.assertEqual({"TableName": "t", "DryRun": False, "Items": 12, "Deleted": gone,
                          "Changed": 0}, done)
        self.assertEqual({name: before[name] for name in self.others | set(left)}, self.files())
        self.assertEqual(sorted(left), self.names("get-all", "t"))
        self.assertEqual(len(left), self.maintain("capacity", "t")["Capacity"])

    def named(self, *groups, numbers=range(4)):
        return [f"{group}_id-{number}.json" for group in groups for number in numbers]

    def test_delete_by_tag(self):
        self.assertEqual(self.named("a"), self.names("by-tag", "a", "t"))
        self.check("delete-by-tag", "a", "t", left=self.named("b", "c-d"))
        self.assertEqual([], self.names("by-tag", "a", "t"))

    def test_delete_until(self):
        self.check("delete-until", "2500", "t", left=self.named("a", "b", "c-d", numbers=range(2)))

    def test_delete_by_capacity(self):
        self.check("delete-by-capacity", "3", "12", "t",
                   left=self.named("a", "b", "c-d", numbers=[0]))

    def test_enough_room(self):
        self.check("delete-by-capacity", "3", "13", "t", left=self.named("a", "b", "c-d"))

    def test_delete_all(self):
        self.check("delete-all", "t", left=[])

    def test_drop(self):
        """Not while there are files that are no items; then it goes from all replicas."""
        before = self.files()
        self.assertEqual({"TableName": "t", "DryRun": True, "Items": 12},
                         self.maintain("drop", "t", "--dry-run"))
        self.assertEqual(before, self.files())
        self.run_ctl("maintain", "drop", "t", status=CONDITION)
        self.assertEqual(before, self.files())
        for root in self.roots:
            for name in self.others:
                os.unlink(os.path.join(root, "t", name))
        self.assertEqual({"TableName": "t", "DryRun": False}, self.maintain("drop", "t"))
        self.assertEqual([[]] * len(self.roots), [os.listdir(root) for root in self.roots])
        self.assertEqual({"TableNames": []}, json.loads(self.out("tables")))

    def test_what_others_write_counts(self):
        """A program has written directly since itemctl has looked last."""
        self.maintain("capacity", "t")
        old, new = "a_id-3.json", "z.json"
        for root in self.roots:
            with open(os.path.join(root, "t", old), "w") as file:  # it is old no more
                file.write("2")
            os.utime(os.path.join(root, "t", old), (self.now, self.now))
            shutil.copyfile(os.path.join(root, "t", old), os.path.join(root, "t", new))
            os.utime(os.path.join(root, "t", new), (5, 5))
            os.unlink(os.path.join(root, "t", "b_id-0.json"))
        self.assertIn("z.json", self.names("get-all", "t"))
        self.assertEqual(5, self.maintain("delete-until", "3500", "t", "--dry-run")["Deleted"] + 2)
        self.maintain("delete-until", "3500", "t")
        self.assertEqual(set(self.named("a", "b", "c-d", numbers=range(3))) - {"b_id-0.json"} |
                         {old}, set(self.items()))

    def test_deletions_are_changes(self):
        self.maintain("delete-by-tag", "id-0", "t")
        told = [json.loads(line) for line in self.lines("changes", "t")[-3:]]
        self.assertEqual([("REMOVE", {"key": {"S": f"{group}_id-0"}}) for group in ("a", "b", "c-d")],
                         [(line["change_type"], line["keys"]) for line in told])

    def test_the_oldest_of_one_replica_alone(self):
        """A file that only the last replica has is an item as any."""
        path = os.path.join(self.roots[-1], "t", "z.json")
        with open(path, "w") as file:
            file.write("1")
        os.utime(path, (7, 7))
        self.assertEqual(1, self.maintain("delete-by-capacity", "12", "13", "t")["Deleted"])
        self.assertEqual(set(self.named("a", "b", "c-d")), set(self.items()))


class MaintainInTwoFolders(MaintainInAFolder):
    replicas = 2


if __name__ == "__main__":
    unittest.main()
