# SPDX-License-Identifier: MIT
"""What a mount deletes by itself: items that are too old, or the oldest of too many."""

import json
import os
import time
import unittest

from harness import MountedTest, wait_for

DAY = 86400


class UpkeepTest(MountedTest):
    def setUp(self):
        super().setUp()
        self.began = time.time()

    def make_table(self):
        if not os.path.isdir(self.dir):
            os.mkdir(self.dir)

    def put(self, name, age):
        """An item that was modified AGE seconds ago, saved elsewhere under another name: no daemon
        sees it younger than it is."""
        scratch = self.path("." + name)
        with open(scratch, "w") as file:
            file.write('{"n": 1}')
        os.utime(scratch, (self.began - age,) * 2)
        os.rename(scratch, self.path(name))

    def state(self, table=None, mount=None):
        path = os.path.join((mount or self.mount).point, ".itemfs", "status.json")
        with open(path) as file:
            return next(state for state in json.load(file)["upkeep"]
                        if state["table"] == (table or self.table))

    def metric(self, name):
        with open(os.path.join(self.mnt, ".itemfs", "metrics")) as file:
            return next(float(line.split()[-1]) for line in file
                        if line.startswith('itemfs_upkeep_%s{table="%s"}' % (name, self.table)))


class Ages(UpkeepTest):
    config = "[backend s]\npath = {store}\n[table old-items-go]\nkeep_seconds = 86400\n" \
             "[table items-that-age-go]\nkeep_seconds = 3\n" \
             "[table what-is-saved-again-stays]\nkeep_seconds = 86400\n" \
             "[table the-kernel-is-told]\nkeep_seconds = 86400\n" \
             "[table absent]\nkeep_seconds = 5\n"

    def test_old_items_go(self):
        self.put("old.json", 2 * DAY)
        self.put("young.json", DAY // 2)
        self.write("new.json", "{}")
        # What is put into the table later is looked at within a minute: here it is told to be due.
        wait_for("the deletion", lambda: self.names() == ["new.json", "young.json"], 90)
        state = self.state()
        self.assertEqual((86400, 1, 0), (state["keep_seconds"], state["deleted"], state["changed"]))
        self.assertNotIn("keep_max", state)
        self.assertEqual(1, self.metric("deleted_items_total"))
        self.assertEqual(0, self.metric("failing"))
        last = self.store.streamed(self.table)[-1]
        self.assertEqual(("REMOVE", {"key": {"S": "old"}}, None),
                         (last["change_type"], last["keys"], last.get("expired")))

    def test_items_that_age_go(self):
        """Each at its time, without anything else happening."""
        self.write("a.json", "{}")
        wait_for("a look", lambda: self.state()["looks"])
        self.put("b.json", 1)
        wait_for("both to go", lambda: self.names() == [], 90)
        self.assertGreaterEqual(time.time(), self.began + 2)

    def test_the_kernel_is_told(self):
        """Also of what it has cached, and others have deleted nothing."""
        self.put("old.json", 2 * DAY)
        path = self.path("old.json")
        with open(path) as file:
            self.assertEqual('{"n": 1}', file.read())
            wait_for("the deletion", lambda: not os.path.exists(path), 90)
            file.seek(0)
            self.assertEqual('{"n": 1}', file.read())
        self.assertEqual([], self.names())
        self.assertIsNone(self.store.body(self.table, "old"))

    def test_absent_tables_are_no_failure(self):
        self.assertEqual(0, self.state("absent")["looks"])
        self.assertNotIn("error", self.state("absent"))


class Capacity(UpkeepTest):
    config = "[backend s]\npath = {store}\n[table the-oldest-go]\nkeep_min = 3\nkeep_max = 6\n" \
             "[table both-rules]\nkeep_seconds = 86400\nkeep_min = 1\nkeep_max = 4\n"

    def test_the_oldest_go(self):
        for number in range(5):
            self.put(f"k{number}.json", 1000 + number)
        wait_for("a look at five", lambda: self.state().get("items") == 5)
        self.assertEqual(0, self.state()["deleted"])
        self.put("k5.json", 1005)
        wait_for("the deletion", lambda: len(self.names()) == 3, 90)
        self.assertEqual(["k0.json", "k1.json", "k2.json"], self.names())
        wait_for("the state", lambda: self.state()["items"] == 3)
        self.assertEqual((3, 6, 3), tuple(self.state()[name] for name in (
            "keep_min", "keep_max", "deleted")))
        for number in range(30):
            self.write(f"n{number}.json", "{}")
        wait_for("more deletions", lambda: len(self.names()) in (3, 4, 5), 90)
        self.assertLessEqual(set(self.names()), {f"n{number}.json" for number in range(30)})

    def test_both_rules(self):
        for number in range(4):
            self.put(f"k{number}.json", 10 * DAY if number == 0 else number)
        wait_for("the old one to go", lambda: self.names() == ["k1.json", "k2.json", "k3.json"])
        self.put("k4.json", 0)
        wait_for("one to be left", lambda: self.names() == ["k4.json"])


class Several(UpkeepTest):
    """Two daemons of one store do no harm."""

    config = "[backend s]\npath = {store}\n[table two-daemons]\nkeep_min = 100\nkeep_max = 200\n"

    def test_two_daemons(self):
        other = self.new_mount(self.source, "other")
        other.env = self.environment()
        other.start()
        lines = "\n".join('{"key":{"S":"k-%04d"}}' % n for n in range(1050))
        self.itemctl("put", self.table, "--items", "-", input=lines)
        # A look that took long is followed by a rest of twenty times that.
        left = wait_for("the deletions", lambda: len(found := self.names()) < 200 and found, 300)
        self.assertGreaterEqual(len(left), 100)
        wait_for("both to have looked", lambda: all(
            self.state(mount=mount).get("items", 0) in range(100, 200)
            for mount in (self.mount, other)), 300)
        self.assertEqual(1050 - len(self.names()), sum(
            self.state(mount=mount)["deleted"] for mount in (self.mount, other)))
        other.unmount()


class ReadOnly(UpkeepTest):
    config = "[backend s]\npath = {store}\n[table t]\nkeep_seconds = 1\n"

    def test_a_read_only_mount_deletes_nothing(self):
        self.mount.unmount()
        self.itemctl("create", "t")
        self.itemctl("put", "t", "--item", "-", input='{"key":{"S":"a"}}')
        self.mount.options = ["ro"]
        self.mount.start()
        time_of = self.state("t")
        self.assertEqual((0, 0), (time_of["looks"], time_of["deleted"]))
        self.assertIn("it deletes nothing that is too old", self.mount.log_text())
        self.mount.unmount()
        self.mount.options = []
        self.mount.start()
        wait_for("the deletion", lambda: not os.listdir(os.path.join(self.mnt, "t")))

    def make_table(self):
        pass


if __name__ == "__main__":
    unittest.main()
