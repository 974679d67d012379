# SPDX-License-Identifier: MIT
"""What looking through a table and copying it consumes, request by request."""

import collections
import os
import tempfile
import unittest

from capacity import CapacityTest, ITEM_OPERATIONS
from engines import for_engine  # pylint: disable=wrong-import-order

PARTITIONS, ITEMS = 40, 3
BIG = 100_000  # bytes of a body that is not handed to the kernel beforehand


class Backup(CapacityTest):
    def fill_sorted(self, sizes=(3000,) * ITEMS):
        self.make(sort=("day", "S"))
        for number in range(PARTITIONS):
            for day, size in enumerate(sizes):
                self.put(id={"S": f"p{number:02}"}, day={"S": f"d{day}"}, pad={"S": "x" * size})

    def asked(self, server):
        """How many requests for items came since the last call, by operation; for Query those of
        the partition that was asked about most."""
        calls = [one for one in server.calls() if one.operation in ITEM_OPERATIONS]
        calls, self.seen = calls[self.seen:], len(calls)
        found = collections.Counter(one.operation for one in calls if one.operation != "Query")
        asked = collections.Counter(str(one.json["ExpressionAttributeValues"][":p"])
                                    for one in calls if one.operation == "Query")
        if asked:
            found["Query"] = max(asked.values())
        return dict(found)

    def mount_it(self, server, ttl, *options):
        self.seen = 0
        mount = self.mounted(server, f"cache_ttl={ttl}", *options)
        directory = os.path.join(mount.point, self.table)
        os.stat(directory)
        return mount, directory

    def copy(self, directory):
        out = tempfile.mkdtemp(dir=self.place)
        self.sh(f"rsync -a ./ {out}", cwd=directory)
        return out

    def copied(self, out):
        return sum(len(files) for _, _, files in os.walk(out))

    def test_within_cache_ttl_each_partition_is_asked_for_once(self):
        self.fill_sorted()
        with self.recorder() as server:
            mount, directory = self.mount_it(server, 600)
            self.sh("ls -l > /dev/null", cwd=directory)
            self.assertEqual({"Scan": 1}, self.asked(server))
            self.sh(f"test $(grep -rl xxx . | wc -l) = {PARTITIONS * ITEMS}", cwd=directory)
            self.assertEqual({"Query": 1}, self.asked(server))
            self.sh("ls -lR > /dev/null; find . -size +1 > /dev/null", cwd=directory)
            self.assertEqual(PARTITIONS * ITEMS, self.copied(self.copy(directory)))
            self.assertEqual({}, self.asked(server))
            mount.unmount()

    def test_a_copy_alone(self):
        """By a mount for reading, with bodies that are not handed to the kernel before."""
        self.fill_sorted((3000, BIG))
        with self.recorder() as server:
            mount, directory = self.mount_it(server, 600, "ro")
            self.assertEqual(PARTITIONS * 2, self.copied(self.copy(directory)))
            got = self.asked(server)
            self.assertEqual(1, got.pop("Query"))
            self.assertLessEqual(got.pop("Scan"), 1 + PARTITIONS * BIG / 500_000)
            self.assertEqual({}, got)
            mount.unmount()

    def consumed(self, *options):
        """Units that a copy consumes, and how many items it has got by themselves."""
        with self.recorder() as server:
            mount, directory = self.mount_it(server, *options)
            self.copy(directory)
            got = sum(server.units(self.table)), len(server.calls("GetItem"))
            mount.unmount()
        return got

    def check_estimate(self, items):
        """A copy comes to what was said, one unit a request more at most: within the cache's time
        and room, and without them."""
        told = self.estimate(self.table)
        within, beyond = told["Backup"], told["BackupBeyondCache"]
        units, got = self.consumed(600)
        self.assertEqual(0, got)
        least, most = (within.get("ReadUnits"),) * 2 if "ReadUnits" in within else (
            within["ReadUnitsAtLeast"], within["ReadUnitsUpTo"])
        self.assertTrue(least - 1 <= units <= most + told["Listing"]["Requests"] + 1,
                        (units, within))
        for options in ((0.2,), (600, "cache_size=64K")):
            units, got = self.consumed(*options)
            self.assertLessEqual(got, items)
            self.assertLessEqual(units, beyond["ReadUnitsUpTo"] + told["Listing"]["Requests"] + 1)
        units, got = self.consumed(0)  # asks more often than that
        self.assertGreaterEqual(got, items)
        self.assertGreaterEqual(units, beyond["ReadUnitsAtLeast"] - 1)

    def test_the_estimate_of_partitions_with_one_item(self):
        self.fill_sorted((3000,))
        self.check_estimate(PARTITIONS)

    def test_the_estimate_of_larger_partitions(self):
        self.fill_sorted((3000, 500, 9000))
        self.check_estimate(PARTITIONS * 3)

    def test_the_estimate_of_a_table_with_one_key(self):
        self.make()
        for number in range(PARTITIONS):
            self.put(id={"S": f"p{number:02}"}, pad={"S": "x" * 3000})
        self.check_estimate(PARTITIONS)

    def test_with_cache_ttl_0_the_newest_is_shown(self):
        """Also of partitions that came and went; and a lookup asks once."""
        self.fill_sorted((10,))
        with self.recorder() as server:
            mount, directory = self.mount_it(server, 0)
            self.assertTrue(os.path.isdir(f"{directory}/p01"))  # a lookup and its attributes
            self.assertEqual({"Query": 2}, self.asked(server))
            self.assertEqual(PARTITIONS, len(os.listdir(directory)))
            self.boto.delete_item(TableName=self.table,
                                  Key={"id": {"S": "p01"}, "day": {"S": "d0"}})
            self.assertFalse(os.path.exists(f"{directory}/p01"))
            self.put(id={"S": "p01"}, day={"S": "d7"})
            self.assertEqual(["d7.json"], os.listdir(f"{directory}/p01"))
            self.put(id={"S": "p01"}, day={"S": "d8"})
            self.assertEqual(["d7.json", "d8.json"], sorted(os.listdir(f"{directory}/p01")))
            mount.unmount()

    def test_a_partition_that_was_listed_empty_is_not_there(self):
        self.fill_sorted((10,))
        with self.recorder() as server:
            mount, directory = self.mount_it(server, 600)
            self.assertEqual(PARTITIONS, len(os.listdir(directory)))
            self.boto.delete_item(TableName=self.table,
                                  Key={"id": {"S": "p01"}, "day": {"S": "d0"}})
            fd = os.open(f"{directory}/p01", os.O_RDONLY)
            self.assertEqual([], os.listdir(fd))
            os.close(fd)
            self.assertFalse(os.path.exists(f"{directory}/p01"))
            mount.unmount()

    def test_own_changes_move_a_partitions_time(self):
        """Though it is not asked about."""
        self.fill_sorted((10,))
        with self.recorder() as server:
            mount, directory = self.mount_it(server, 600)
            self.assertEqual(PARTITIONS, len(os.listdir(directory)))
            before = os.stat(f"{directory}/p01").st_mtime_ns
            self.save(f"{directory}/p01/new.json", "{}")
            self.assertLess(before, os.stat(f"{directory}/p01").st_mtime_ns)
            os.unlink(f"{directory}/p01/new.json")
            os.unlink(f"{directory}/p01/d0.json")
            self.assertEqual([], os.listdir(f"{directory}/p01"))
            os.rmdir(f"{directory}/p01")
            self.assertFalse(os.path.exists(f"{directory}/p01"))
            mount.unmount()


Backup_dynoxide = for_engine(Backup, "dynoxide")
del Backup, CapacityTest


if __name__ == "__main__":
    unittest.main()
