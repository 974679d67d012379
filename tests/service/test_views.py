# SPDX-License-Identifier: MIT
"""Views and maintenance of a service's tables, verified with boto3."""

import json
import os
import unittest

from service import ITEMCTL, MountedServiceTest, PlaceTest, ServiceTest, each_service, fresh_name, wait_for

DAY = 86400


def links(folder):
    return {name: os.readlink(os.path.join(folder, name)) for name in os.listdir(folder)}


class IndexTest(MountedServiceTest):
    projection = "ALL"

    def make(self, **more):  # pylint: disable=arguments-differ
        index = [{"IndexName": "by-city",
                  "KeySchema": [{"AttributeName": "city", "KeyType": "HASH"},
                                {"AttributeName": "n", "KeyType": "RANGE"}],
                  "Projection": {"ProjectionType": self.projection}}]
        self.boto.create_table(
            TableName=self.table, BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"},
                                  {"AttributeName": "city", "AttributeType": "S"},
                                  {"AttributeName": "n", "AttributeType": "N"}],
            GlobalSecondaryIndexes=index)
        wait_for("the table", lambda: self.boto.describe_table(TableName=self.table)
                 ["Table"]["TableStatus"] == "ACTIVE", 60)

    def view(self, *parts):
        return os.path.join(self.mount.point, ".itemfs", "index", self.table, *parts)

    def check_links(self):
        for number in range(5):
            self.put(id={"S": f"k{number}"}, n={"N": str(number)},
                     city={"S": "Paris" if number % 2 else "Rome/Lazio"}, more={"S": "x"})
        self.put(id={"S": "without"})
        self.assertEqual(["Paris", "Rome%2FLazio"], sorted(os.listdir(self.view("by-city"))))
        # The listing is the index's, which may lag; the links say what is.
        wait_for("the index", lambda: len(os.listdir(self.view("by-city", "Paris"))) == 2)
        self.assertEqual({f"{n},k{n}.json": f"../../../../../{self.table}/k{n}.json"
                          for n in (1, 3)}, links(self.view("by-city", "Paris")))
        self.boto.delete_item(TableName=self.table, Key={"id": {"S": "k1"}})
        self.assertFalse(os.path.lexists(self.view("by-city", "Paris", "1,k1.json")))
        self.write("k3.json", '{"city": "Oslo", "n": 3}')
        self.assertFalse(os.path.lexists(self.view("by-city", "Paris", "3,k3.json")))
        with open(self.view("by-city", "Oslo", "3,k3.json")) as file:
            self.assertEqual({"id": "k3", "city": "Oslo", "n": 3}, json.load(file))


@each_service
class Indexes(IndexTest):
    def test_links(self):
        self.check_links()


@each_service
class KeysOnly(IndexTest):
    """An index that has no more than keys; what it gives is no item, and no item's version."""

    projection = "KEYS_ONLY"

    def test_links(self):
        self.check_links()
        self.put(id={"S": "a"}, n={"N": "1"}, city={"S": "Bern"}, more={"S": "x"})
        before = os.stat(self.path("a.json")).st_mtime_ns
        wait_for("the index", lambda: os.listdir(self.view("by-city", "Bern")))
        self.itemctl("query", self.table, "--index", "by-city", "-k", "Bern")
        self.mount.remount()
        self.assertEqual(before, os.stat(self.path("a.json")).st_mtime_ns)


@each_service
class Maintenance(ServiceTest):
    """Tables of tag keys, as a mount.conf says."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.names = [fresh_name() for _ in range(2)]
        cls.conf = os.path.join(cls.place, "mount.conf")
        with open(cls.conf, "w") as file:
            file.write("[backend aws]\ntype = dynamodb\nregion = us-east-1\n"
                       f"[table {cls.names[0]}]\nkeys = tags\n"
                       f"[table {cls.names[1]}]\nkeys = tags\nkeep_min = 2\nkeep_max = 4\n")

    def setUp(self):
        self.table = self.names[0]
        self.addCleanup(self.forget, self.table)
        self.make()

    def maintain(self, *arguments):
        return json.loads(self.itemctl("maintain", *arguments).stdout)

    def itemctl(self, *arguments, status=0, **more):
        return self.run_tool([ITEMCTL, "-s", self.conf, *arguments], status, **more)

    def keys(self):
        pages = self.boto.get_paginator("scan").paginate(TableName=self.table, ConsistentRead=True)
        return sorted(item["id"]["S"] for page in pages for item in page["Items"])

    def mounted(self, **options):
        mount = self.new_mount(self.conf, fresh_name(), [f"{k}={v}" for k, v in options.items()])
        mount.env = PlaceTest.environment.__func__(type(self), **self.engine.environment())
        return mount.start()

    def test_commands(self):
        for number in range(60):
            self.put(id={"S": f"a_n-{number}" if number % 3 else f"b_n-{number}"})
        self.assertEqual(60, self.maintain("capacity", self.table)["Capacity"])
        names = self.maintain("by-tag", "b", self.table)["Names"]
        self.assertEqual([f"b_n-{n}.json" for n in range(0, 60, 3)],
                         sorted(names, key=lambda name: int(name[4:-5])))
        self.assertEqual(20, self.maintain("delete-by-tag", "b", self.table, "--dry-run")["Deleted"])
        self.assertEqual(60, len(self.keys()))
        self.assertEqual({"TableName": self.table, "DryRun": False, "Items": 60, "Deleted": 20,
                          "Changed": 0}, self.maintain("delete-by-tag", "b", self.table))
        self.assertEqual(40, len([key for key in self.keys() if key.startswith("a_")]))
        self.assertEqual(40, self.maintain("delete-all", self.table)["Deleted"])
        self.assertEqual([], self.keys())

    def test_times_are_those_of_this_host(self):
        """Nobody else knows when an item was modified: until it was seen, it is new."""
        for number in range(6):
            self.put(id={"S": f"k-{number}"})
        self.assertEqual(0, self.maintain("delete-until", "60", self.table)["Deleted"])
        mount = self.mounted(cache_ttl=0)
        for number in range(4):
            age = 1000 - number
            os.utime(os.path.join(mount.point, self.table, f"k-{number}.json"),
                     (os.stat(self.conf).st_mtime - age,) * 2)
        mount.unmount()
        self.assertEqual(4, self.maintain("delete-until", "60", self.table, "--dry-run")["Deleted"])
        self.assertEqual(3, self.maintain("delete-by-capacity", "3", "6", self.table)["Deleted"])
        self.assertEqual(["k-3", "k-4", "k-5"], self.keys())
        self.assertEqual(1, self.maintain("delete-until", "60", self.table)["Deleted"])
        self.assertEqual(["k-4", "k-5"], self.keys())

    def test_drop(self):
        self.put(id={"S": "a"})
        self.assertEqual(1, self.maintain("drop", self.table, "--dry-run")["Items"])
        self.maintain("drop", self.table)
        with self.assertRaises(self.boto.exceptions.ResourceNotFoundException):
            self.boto.describe_table(TableName=self.table)

    def test_views_of_tags(self):
        for key in ("a_b", "b", "a/x_b"):
            self.put(id={"S": key})
        mount = self.mounted(cache_ttl=0)
        folder = os.path.join(mount.point, ".itemfs", "tags", self.table)
        self.assertEqual(["a", "a%2Fx", "b"], sorted(os.listdir(folder)))
        self.assertEqual({name: f"../../../../{self.table}/{name}"
                          for name in ("a_b.json", "b.json", "a%2Fx_b.json")},
                         links(os.path.join(folder, "b")))
        self.boto.delete_item(TableName=self.table, Key={"id": {"S": "b"}})
        self.assertFalse(os.path.lexists(os.path.join(folder, "b", "b.json")))
        self.assertEqual(2, len(os.listdir(os.path.join(folder, "b"))))
        mount.unmount()

    def test_a_mount_keeps(self):
        self.table = self.names[1]
        self.addCleanup(self.forget, self.table)
        self.make()
        for number in range(7):
            self.put(id={"S": f"k-{number}"})
        mount = self.mounted(cache_ttl=0)
        wait_for("the deletion", lambda: len(self.keys()) == 3)

        def deleted():
            with open(os.path.join(mount.point, ".itemfs", "status.json")) as file:
                return next(state["deleted"] for state in json.load(file)["upkeep"]
                            if state["table"] == self.table)
        wait_for("the count", lambda: deleted() == 4) # told when the whole of it is done
        mount.unmount()


if __name__ == "__main__":
    unittest.main()
