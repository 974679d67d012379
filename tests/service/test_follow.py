# SPDX-License-Identifier: MIT
"""Mounts that follow the streams of a service's tables: caches without cache_ttl, invalidated by
what boto3 and another mount change."""

import json
import os
import random
import unittest

from service import wait_for
from following import FollowTest
import engines

class Followed(FollowTest):
    def test_changes_are_seen(self):
        """By open, stat, ls, and where a name was absent; nothing is asked for in between."""
        self.put(id={"S": "a"}, n={"N": "1"})
        self.assertFalse(os.path.exists(os.path.join(self.dir, "b.json")))
        wait_for("the first item", lambda: os.listdir(self.dir) == ["a.json"])
        self.assertEqual({"id": "a", "n": 1}, self.read("a.json"))
        size = os.stat(os.path.join(self.dir, "a.json")).st_size
        self.put(id={"S": "a"}, n={"N": "1000"})
        wait_for("the new text", lambda: self.read("a.json")["n"] == 1000)
        self.assertEqual(size + 3, os.stat(os.path.join(self.dir, "a.json")).st_size)
        self.put(id={"S": "b"}, n={"N": "2"})
        wait_for("the new name", lambda: os.path.exists(os.path.join(self.dir, "b.json")))
        wait_for("both in the listing", lambda: sorted(os.listdir(self.dir)) == ["a.json", "b.json"])
        self.boto.delete_item(TableName=self.table, Key={"id": {"S": "a"}})
        wait_for("the name's end", lambda: not os.path.exists(os.path.join(self.dir, "a.json")))
        wait_for("the listing", lambda: os.listdir(self.dir) == ["b.json"])

    def test_nothing_is_asked_for_meanwhile(self):
        for number in range(20):
            self.put(id={"S": f"k{number}"}, n={"N": str(number)})
        wait_for("all items", lambda: len(os.listdir(self.dir)) == 20)
        wait_for("all records", lambda: self.stream()["changes"] == 20)
        for name in os.listdir(self.dir):
            self.read(name)
        before = self.requests()
        for _ in range(3):
            for name in os.listdir(self.dir):
                self.read(name)
        self.assertEqual(before, self.requests())

    def requests(self):
        """Of items; those for streams go on."""
        return sum(len(self.proxy.calls(operation))
                   for operation in ("GetItem", "Scan", "Query", "BatchGetItem"))

    def test_own_saves_are_no_changes(self):
        path = os.path.join(self.dir, "a.json")
        for number in range(5):
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"n": number}, file)
        number = os.stat(path).st_ino
        wait_for("all records", lambda: self.stream()["changes"] == 5)
        self.assertEqual({"id": "a", "n": 4}, self.read("a.json"))
        self.assertEqual(number, os.stat(path).st_ino)
        with open(path, "r+", encoding="utf-8") as file:  # an editor that has it open all the time
            for text in ('{"n": 70}', '{"n": 71}', '{"n": 72}'):
                file.seek(0)
                file.truncate()
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
                count = self.stream()["changes"]
                wait_for("the record", lambda count=count: self.stream()["changes"] >= min(count, 8))
        self.assertEqual({"n": {"N": "72"}, "id": {"S": "a"}}, self.item(id={"S": "a"}))

    def test_change_attributes(self):
        path = os.path.join(self.dir, "a.json")
        self.put(id={"S": "a"}, n={"N": "1"})
        wait_for("the item", lambda: os.path.exists(path))
        self.put(id={"S": "a"}, n={"N": "2"})
        wait_for("the change", lambda: self.read("a.json")["n"] == 2 and
                 "user.itemfs.change_id" in os.listxattr(path))
        told = {name: os.getxattr(path, "user.itemfs.change_" + name).decode()
                for name in ("id", "type", "time")}
        records = self.lines("changes", self.table)
        self.assertEqual(records[-1]["change_id"], told["id"])
        self.assertEqual(("MODIFY", records[-1]["time"]), (told["type"], told["time"]))

    def test_random_changes(self):
        """Through boto3 and this mount; in the end nothing stale is left."""
        count = int(os.environ.get("ITEMFS_CHANGES", "400"))
        chance = random.Random(7)
        for number in range(count):
            name = f"k{chance.randrange(40)}"
            how = chance.random()
            if how < 0.5:
                self.put(id={"S": name}, n={"N": str(number)})
            elif how < 0.7:
                self.boto.delete_item(TableName=self.table, Key={"id": {"S": name}})
            elif how < 0.85:
                try:
                    self.read(name + ".json")
                except FileNotFoundError:
                    pass
            elif how < 0.95:
                os.listdir(self.dir)
            else:
                with open(os.path.join(self.dir, f"own{chance.randrange(5)}.json"), "w",
                          encoding="utf-8") as file:
                    json.dump({"n": number}, file)
        self.put(id={"S": "last"}, n={"N": "1"})
        wait_for("the last change", lambda: os.path.exists(os.path.join(self.dir, "last.json")))
        wait_for("the listing", lambda: "last.json" in os.listdir(self.dir))
        truth = {}
        for page in self.boto.get_paginator("scan").paginate(TableName=self.table):
            truth.update({item["id"]["S"] + ".json": int(item["n"]["N"]) for item in page["Items"]})

        def stale():
            names = os.listdir(self.dir)
            if sorted(names) != sorted(truth):
                return True
            return {name: self.read(name)["n"] for name in names} != truth
        wait_for("nothing to be stale", lambda: not stale())

    def test_stream_switched_off(self):
        if self.engine.name == "moto":
            self.skipTest("moto does not switch a stream off")
        self.put(id={"S": "a"}, n={"N": "1"})
        wait_for("the item", lambda: os.path.exists(os.path.join(self.dir, "a.json")))
        os.setxattr(self.dir, "user.itemfs.stream", b"disabled")
        wait_for("the end of following", lambda: not self.stream()["followed"])
        self.assertEqual("the stream is off", self.stream()["reason"])
        os.setxattr(self.dir, "user.itemfs.stream", b"enabled")
        self.await_followed()
        self.put(id={"S": "a"}, n={"N": "2"})
        wait_for("the change", lambda: self.read("a.json")["n"] == 2)

    def test_records_that_are_gone(self):
        """Nothing that counted before counts after that."""
        path = os.path.join(self.dir, "a.json")
        self.put(id={"S": "a"}, n={"N": "1"})
        wait_for("the item", lambda: os.path.exists(path))
        wait_for("its record", lambda: self.stream()["changes"] == 1)
        self.read("a.json")
        before = self.requests()
        self.proxy.fault("GetRecords", "trimmed")
        wait_for("the loss", lambda: not self.stream()["followed"])
        self.proxy.heal()
        self.await_followed()
        wait_for("a new look", lambda: self.read("a.json") and self.requests() > before)

    def test_partitions_come_and_go(self):
        table = engines.fresh_name()
        self.addCleanup(self.forget, table)
        mine, self.table = self.table, table
        self.make(sort=("day", "N"), StreamSpecification={
            "StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"})
        top = os.path.join(self.mount.point, table)
        wait_for("the new table", lambda: os.path.isdir(top), 30)
        self.await_followed()
        self.assertEqual([], os.listdir(top))
        self.put(id={"S": "c"}, day={"N": "5"}, n={"N": "1"})
        wait_for("the partition", lambda: os.listdir(top) == ["c"])
        self.assertEqual(["5.json"], os.listdir(os.path.join(top, "c")))
        self.put(id={"S": "c"}, day={"N": "6"}, n={"N": "1"})
        wait_for("an item more", lambda: sorted(os.listdir(os.path.join(top, "c"))) ==
                 ["5.json", "6.json"])
        for day in "56":
            self.boto.delete_item(TableName=table, Key={"id": {"S": "c"}, "day": {"N": day}})
        wait_for("its end", lambda: os.listdir(top) == [])
        wait_for("its name's end", lambda: not os.path.exists(os.path.join(top, "c")))
        self.forget(table)
        self.table = mine

    def test_another_mount(self):
        """What one saves the other sees."""
        other = self.new_follower("other-" + self.table)
        theirs = os.path.join(other.point, self.table, "a.json")
        wait_for("the table", lambda: os.path.isdir(os.path.dirname(theirs)), 30)
        self.await_followed(other)
        self.assertFalse(os.path.exists(theirs))
        for number in range(3):
            with open(os.path.join(self.dir, "a.json"), "w", encoding="utf-8") as file:
                json.dump({"n": number}, file)

            def seen(number=number):
                with open(theirs, encoding="utf-8") as file:
                    return json.load(file)["n"] == number
            wait_for("the name", lambda: os.path.exists(theirs))
            wait_for("the text", seen)
        os.unlink(theirs)
        wait_for("its end here", lambda: not os.path.exists(os.path.join(self.dir, "a.json")))
        other.unmount()

    def test_changed_while_it_is_open(self):
        """The path leads to what there is now; what is open stays as it was, also where a listing
        comes by."""
        path = os.path.join(self.dir, "a.json")
        for number, change in enumerate((self.put, self.remove)):
            self.put(id={"S": "a"}, n={"N": "1"})
            wait_for("the item", lambda: self.read_or_none("a.json") == {"id": "a", "n": 1})
            wait_for("its record", lambda: self.stream()["changes"] == 2 * number + 1)
            with open(path, "r+", encoding="utf-8") as file:
                change(id={"S": "a"}, n={"N": "2"})
                wait_for("the record", lambda: self.stream()["changes"] == 2 * number + 2)
                there = [] if change == self.remove else ["a.json"]
                wait_for("the listing", lambda: os.listdir(self.dir) == there)
                new = {"id": "a", "n": 2} if there else None
                wait_for("the path", lambda: self.read_or_none("a.json") == new)
                self.assertEqual({"id": "a", "n": 1}, json.load(file))
            self.assertEqual(new, self.read_or_none("a.json"))

    def remove(self, id, n):
        del n
        self.boto.delete_item(TableName=self.table, Key={"id": id})

    def test_switched_off_and_on_elsewhere(self):
        """The mount is told by nobody, and does not go on as if nothing had changed meanwhile."""
        if self.engine.name == "moto":
            self.skipTest("moto does not switch a stream off")
        self.put(id={"S": "a"}, n={"N": "1"})
        wait_for("the item", lambda: self.read_or_none("a.json") == {"id": "a", "n": 1})
        self.boto.update_table(TableName=self.table, StreamSpecification={"StreamEnabled": False})
        wait_for("the end of following", lambda: not self.stream()["followed"])
        self.assertEqual("the stream is off", self.stream()["reason"])
        self.put(id={"S": "a"}, n={"N": "2"})
        self.assertEqual({"id": "a", "n": 2}, self.read("a.json"))
        self.boto.update_table(TableName=self.table, StreamSpecification={
            "StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"})
        self.await_followed()
        self.assertEqual({"id": "a", "n": 2}, self.read("a.json"))
        self.boto.update_table(TableName=self.table, StreamSpecification={"StreamEnabled": False})
        self.put(id={"S": "a"}, n={"N": "3"})
        self.boto.update_table(TableName=self.table, StreamSpecification={
            "StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"})
        wait_for("what was changed without a record", lambda: self.read("a.json")["n"] == 3)

    def make_sorted(self):
        """Another table, with partitions: its directory."""
        table, mine = engines.fresh_name(), self.table
        self.addCleanup(setattr, self, "table", mine)
        self.addCleanup(self.forget, table)
        self.table = table
        self.make(sort=("day", "N"), StreamSpecification={
            "StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"})
        top = os.path.join(self.mount.point, table)
        wait_for("the new table", lambda: os.path.isdir(top), 30)
        self.await_followed()
        return top

    def test_partition_that_somebody_is_in(self):
        """It comes back, under its name and in the listing, while a program stands in it."""
        top = self.make_sorted()
        partition = os.path.join(top, "c")
        self.put(id={"S": "c"}, day={"N": "5"}, n={"N": "1"})
        wait_for("the partition", lambda: os.path.exists(os.path.join(partition, "5.json")))
        stands_in_it = os.open(partition, os.O_RDONLY | os.O_DIRECTORY)
        self.addCleanup(os.close, stands_in_it)
        self.boto.delete_item(TableName=self.table, Key={"id": {"S": "c"}, "day": {"N": "5"}})
        wait_for("its end", lambda: os.listdir(top) == [])
        wait_for("its name's end", lambda: not os.path.exists(partition))
        wait_for("both records", lambda: self.stream()["changes"] == 2)
        self.assertEqual([], os.listdir(top))
        self.assertFalse(os.path.exists(partition))
        self.put(id={"S": "c"}, day={"N": "6"}, n={"N": "1"})
        wait_for("the record", lambda: self.stream()["changes"] == 3)
        wait_for("its name", lambda: os.path.exists(partition))
        wait_for("its listing", lambda: os.listdir(top) == ["c"])

    def test_partition_that_goes_while_it_is_listed(self):
        top = self.make_sorted()
        partition = os.path.join(top, "c")
        self.put(id={"S": "c"}, day={"N": "5"}, n={"N": "1"})
        wait_for("the partition", lambda: os.path.exists(os.path.join(partition, "5.json")))
        with os.scandir(partition) as listed:
            self.assertEqual("5.json", next(listed).name)
            self.boto.delete_item(TableName=self.table, Key={"id": {"S": "c"}, "day": {"N": "5"}})
            wait_for("the record", lambda: self.stream()["changes"] == 2)
            self.assertEqual([], list(listed))
        wait_for("its end", lambda: not os.path.exists(partition))

    def test_told_not_to_follow(self):
        other = self.new_follower("alone-" + self.table, options=("follow=off", "cache_ttl=0"))
        self.assertEqual([], self.status(other)["streams"])
        self.put(id={"S": "a"}, n={"N": "1"})
        self.assertTrue(os.path.exists(os.path.join(other.point, self.table, "a.json")))
        other.unmount()

    def test_service_that_is_gone(self):
        """What counted as long as the stream was heard of is asked for anew."""
        self.put(id={"S": "a"}, n={"N": "1"})
        wait_for("the item", lambda: self.read_or_none("a.json") == {"id": "a", "n": 1})
        self.proxy.fault("GetRecords", "error-500")
        wait_for("the end of following", lambda: not self.stream()["followed"], 60)
        self.put(id={"S": "a"}, n={"N": "2"})
        self.assertEqual({"id": "a", "n": 2}, self.read("a.json"))
        self.proxy.heal()
        self.await_followed()
        self.put(id={"S": "a"}, n={"N": "3"})
        wait_for("the change", lambda: self.read("a.json")["n"] == 3)

    def read_or_none(self, name):
        try:
            return self.read(name)
        except FileNotFoundError:
            return None


for NAME in ("dynoxide", "moto"):
    MADE = engines.for_engine(Followed, NAME)
    globals()[MADE.__name__] = MADE
del MADE, FollowTest, Followed

if __name__ == "__main__":
    unittest.main()
