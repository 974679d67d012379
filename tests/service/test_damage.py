# SPDX-License-Identifier: MIT
"""What the service or this host's state is, and should not be: items that are none, tables that
became others, a state database that is damaged."""

import errno
import glob
import os
import subprocess
import unittest

from service import SOURCE, MountedServiceTest, ServiceTest
from engines import for_engine  # pylint: disable=wrong-import-order
from harness import ITEMFS  # pylint: disable=wrong-import-order


class NoItems(MountedServiceTest):
    """DynamoDB refuses what moto takes."""

    def test_a_set_with_the_same_twice(self):
        self.put(id={"S": "good"})
        self.put(id={"S": "nasty"}, s={"SS": ["a", "a"]})
        told = (f"{self.table}/nasty: the service has an item that cannot be shown: line 1, column "
                "45: two elements of a set are equal")
        for command in (["scan", self.table], ["export", self.table, "out"]):
            self.assertIn(told, self.itemctl(*command, status=1).stderr)
        self.assertErrno(errno.EIO, os.listdir, self.dir)
        self.assertIn(told, os.getxattr(self.dir, "user.itemfs.error").decode())
        self.assertErrno(errno.EIO, os.stat, self.path("nasty.json"))
        self.assertEqual('{\n  "id": "good"\n}\n', self.read("good.json"))

    def test_in_a_sorted_table(self):
        self.forget(self.table)
        self.make(sort=("day", "N"))
        self.put(id={"S": "nasty"}, day={"N": "7"}, s={"SS": ["a", "a"]})
        self.assertIn(f"{self.table}/nasty/7: the service has an item that cannot be shown: ",
                      self.itemctl("scan", self.table, status=1).stderr)

    def test_a_number_that_is_none(self):
        self.put(id={"S": "nasty"}, n={"N": "1e126"})
        self.assertIn(f"{self.table}/nasty: the service has an item that cannot be shown: ",
                      self.itemctl("scan", self.table, status=1).stderr)


class AnotherTable(MountedServiceTest):
    def test_a_table_with_other_keys(self):
        """What is known of it counts for a second, or until it is found to be wrong."""
        self.write("a.json", '{"v": 1}')
        self.forget(self.table)
        self.make(key="name", kind="N")
        self.assertFalse(os.path.exists(self.path("6.json")))  # may be asked for with the old key
        self.assertErrno(errno.ENOENT, os.stat, self.path("7.json"))
        self.write("5.json", '{"v": 1}')
        self.assertEqual({"name": {"N": "5"}, "v": {"N": "1"}}, self.item(name={"N": "5"}))


class StateDatabase(ServiceTest):
    def setUp(self):
        super().setUp()
        self.make()
        self.itemctl("drafts")
        pattern = os.path.join(self.home, "state", "**", "dynamodb-????????????????.db")
        [self.state] = glob.glob(pattern, recursive=True)

    def refused(self, reason):
        told = (f"{reason}: this is the state database; it may be moved away or deleted together "
                "with its -wal and -shm: drafts, scratch files and times of change are lost with "
                "it, and no item\n")
        self.assertIn(told, self.itemctl("drafts", status=1).stderr)
        point = os.path.join(self.place, f"mnt-{self.table}")
        os.makedirs(point, exist_ok=True)
        done = subprocess.run([ITEMFS, SOURCE, point], capture_output=True, text=True, timeout=60,
                              check=False, env=self.environment())
        self.assertEqual(1, done.returncode)
        self.assertIn(told, done.stderr)

    def damage(self, at, data):
        with open(self.state, "r+b") as file:
            file.seek(at)
            file.write(data)

    def test_garbage(self):
        self.damage(0, b"\0" * 4096)
        self.refused("is not an itemfs store, nor any SQLite database")
        os.rename(self.state, self.state + ".old")
        self.itemctl("drafts")

    def test_damage(self):
        size = os.path.getsize(self.state)
        self.damage(100, b"\xff" * (size - 100 if size < 4096 else 3996))
        self.refused("")
        os.unlink(self.state)
        self.itemctl("drafts")


for NAME, CASES in {"moto": (NoItems,), "dynoxide": (AnotherTable, StateDatabase)}.items():
    for CASE in CASES:
        MADE = for_engine(CASE, NAME)
        globals()[MADE.__name__] = MADE
del NoItems, AnotherTable, StateDatabase, MountedServiceTest, ServiceTest, CASES, CASE, MADE

if __name__ == "__main__":
    unittest.main()
