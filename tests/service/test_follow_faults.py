# SPDX-License-Identifier: MIT
"""Mounts that follow streams, and what goes wrong: a daemon that is stopped for a while, streams that
tell little, no descriptors left, clocks that jump."""

import errno
import json
import os
import resource
import signal
import time
import unittest

from following import FollowTest
from harness import BIN  # pylint: disable=wrong-import-order
from service import wait_for
from follow import Follower, described, is_opening  # pylint: disable=wrong-import-order
import engines

SILENCE = 11  # seconds after which a stream that was not read counts no more


class Faults(FollowTest):
    """With a mount of its own for each test."""

    options = ("cache_ttl=0", "stream_poll=0.1")
    program = os.path.join(BIN, "itemfs")
    more = {}

    @classmethod
    def new_follower(cls, place, options=None, **more):
        return None  # made by setUp

    @classmethod
    def tearDownClass(cls):
        pass

    def setUp(self):
        make = super().new_follower.__func__
        type(self).mount = make(type(self), "mnt-" + self.id().rsplit(".", 1)[-1],
                                program=self.program, **self.more)
        super().setUp()
        self.addCleanup(self.mount.rescue)

    def names(self):
        return sorted(os.listdir(self.dir))

    def lines_of_file(self):
        with open(f"{self.mount.point}/.itemfs/changes/{self.table}.jsonl",
                  encoding="utf-8") as file:
            return described(file.read().splitlines())


class Stopped(Faults):
    def know(self):
        """Three items and an absent one, which the mount and the kernel know."""
        for name in "abc":
            self.put(id={"S": name}, n={"N": "1"})
        wait_for("the records", lambda: self.stream()["changes"] == 3)
        self.assertEqual(["a.json", "b.json", "c.json"], self.names())
        for name in self.names():
            self.assertEqual(1, self.read(name)["n"])
        self.assertFalse(os.path.exists(os.path.join(self.dir, "d.json")))

    def change(self):
        self.put(id={"S": "a"}, n={"N": "1000"})
        self.boto.delete_item(TableName=self.table, Key={"id": {"S": "b"}})
        self.put(id={"S": "d"}, n={"N": "2"})

    def assertNew(self):
        self.assertEqual(1000, self.read("a.json")["n"])
        self.assertFalse(os.path.exists(os.path.join(self.dir, "b.json")))
        self.assertEqual(1, self.read("c.json")["n"])
        self.assertEqual(2, self.read("d.json")["n"])
        self.assertEqual(["a.json", "c.json", "d.json"], self.names())

    def stop_for(self, seconds):
        self.mount.process.send_signal(signal.SIGSTOP)
        self.change()
        time.sleep(seconds)

    def go_on(self):
        self.mount.process.send_signal(signal.SIGCONT)

    def test_for_longer_than_a_stream_may_be_silent(self):
        """What was changed meanwhile shows at once, though the stream does not tell yet."""
        self.know()
        path = os.path.join(self.dir, "a.json")
        size = os.stat(path).st_size
        self.proxy.fault("GetRecords", "hold")
        self.stop_for(SILENCE)
        later = Follower(self, ["stat", "-c", "%s", path])
        wait_for("its question", lambda: is_opening(later.process.pid))
        self.go_on()
        self.assertEqual([str(size + 3)], later.wait(1))
        self.assertNew()
        self.proxy.heal()
        self.await_followed()
        self.put(id={"S": "a"}, n={"N": "3"})
        wait_for("the change", lambda: self.read("a.json")["n"] == 3)
        self.assertEqual(2, self.mount.log_text().count("changes are followed"))
        self.mount.unmount()

    def test_until_records_were_gone(self):
        self.know()
        self.proxy.fault("GetRecords", "trimmed", times=1)
        self.stop_for(SILENCE)
        self.go_on()
        self.assertNew()
        self.await_followed()
        self.put(id={"S": "a"}, n={"N": "3"})
        wait_for("the change", lambda: self.read("a.json")["n"] == 3)
        self.mount.unmount()

    def test_for_a_moment(self):
        """The stream tells."""
        self.know()
        self.stop_for(1)
        self.go_on()
        wait_for("the records", lambda: self.stream()["changes"] == 6)
        self.assertNew()
        self.mount.unmount()


class Views(FollowTest):
    """Streams that tell less than both items."""

    def view(self, kind):
        table, mine = engines.fresh_name(), self.table
        self.addCleanup(setattr, self, "table", mine)
        self.addCleanup(self.forget, table)
        self.table = table
        self.make(StreamSpecification={"StreamEnabled": True, "StreamViewType": kind})
        self.dir = os.path.join(self.mount.point, table)
        wait_for("the new table", lambda: os.path.isdir(self.dir), 30)
        self.await_followed()

    def attributes(self, name):
        path = os.path.join(self.dir, name)
        return {one.rpartition("_")[2]: os.getxattr(path, one).decode()
                for one in os.listxattr(path) if one.startswith("user.itemfs.change_")}

    def records(self):
        with open(f"{self.mount.point}/.itemfs/changes/{self.table}.jsonl",
                  encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def go_through(self, kind):
        """A change of each kind is seen; the records, as the file has them."""
        self.view(kind)
        self.assertFalse(os.path.exists(os.path.join(self.dir, "a.json")))
        self.put(id={"S": "a"}, n={"N": "1"})
        wait_for("the item", lambda: self.names() == ["a.json"] and self.read("a.json")["n"] == 1)
        self.put(id={"S": "a"}, n={"N": "2"})
        wait_for("the new item", lambda: self.read("a.json")["n"] == 2)
        wait_for("the records", lambda: self.stream()["changes"] == 2)
        told = self.attributes("a.json")
        records = self.records()
        self.boto.delete_item(TableName=self.table, Key={"id": {"S": "a"}})
        wait_for("its record", lambda: self.stream()["changes"] == 3)
        wait_for("its end", lambda: self.names() == [])
        wait_for("its name's end", lambda: not os.path.exists(os.path.join(self.dir, "a.json")))
        return told, records

    def names(self):
        return sorted(os.listdir(self.dir))

    def test_keys_only(self):
        told, records = self.go_through("KEYS_ONLY")
        self.assertEqual({}, told)  # nobody says that it was the last change that made it
        self.assertEqual([("INSERT", False, False), ("MODIFY", False, False)],
                         [(one["change_type"], "old_item" in one, "new_item" in one)
                          for one in records])

    def test_new_image(self):
        told, records = self.go_through("NEW_IMAGE")
        self.assertEqual({"id": records[1]["change_id"], "type": "MODIFY",
                          "time": records[1]["time"]}, told)
        self.assertEqual([(None, "1"), (None, "2")], self.numbers(records))

    def test_old_image(self):
        told, records = self.go_through("OLD_IMAGE")
        self.assertEqual({}, told)
        self.assertEqual([(None, None), ("1", None)], self.numbers(records))

    @staticmethod
    def numbers(records):
        return [tuple(one[name]["n"]["N"] if name in one else None
                      for name in ("old_item", "new_item")) for one in records]

    def test_own_saves(self):
        """They are taken for changes made elsewhere, and turn out to be none."""
        self.view("KEYS_ONLY")
        path = os.path.join(self.dir, "a.json")
        for number in range(3):
            with open(path, "w", encoding="utf-8") as file:
                file.write('{"n": %d}' % number)
        number = os.stat(path).st_ino
        wait_for("the records", lambda: self.stream()["changes"] == 3)
        self.assertEqual({"id": "a", "n": 2}, self.read("a.json"))
        self.assertEqual(number, os.stat(path).st_ino)


class SwitchedOff(Faults):
    options = ("cache_ttl=0", "stream_poll=1")

    def setUp(self):
        super().setUp()
        self.addCleanup(self.mount.unmount)
        self.place_in = os.open(self.dir, os.O_RDONLY | os.O_DIRECTORY)
        self.addCleanup(os.close, self.place_in)
        self.put(id={"S": "a"}, n={"N": "1"})
        wait_for("its record", lambda: self.stream()["changes"] == 1)
        self.assertEqual(1, self.number())

    def number(self):
        """As who stands in the directory sees it: nothing asks for the table."""
        with open("a.json", encoding="utf-8", opener=lambda name, flags:
                  os.open(name, flags, dir_fd=self.place_in)) as file:
            return json.load(file)["n"]

    def switch(self, enabled):
        more = {"StreamViewType": "NEW_AND_OLD_IMAGES"} if enabled else {}
        self.boto.update_table(TableName=self.table,
                               StreamSpecification={"StreamEnabled": enabled, **more})

    def test_elsewhere(self):
        """Also where the service does not end the stream's shards, what was known does not count for
        much longer."""
        self.switch(False)
        self.put(id={"S": "a"}, n={"N": "2"})
        wait_for("what was changed", lambda: self.number() == 2, SILENCE)
        self.assertEqual("the stream is off", self.stream()["reason"])

    def test_and_on_again(self):
        self.switch(False)
        self.put(id={"S": "a"}, n={"N": "2"})
        self.switch(True)
        wait_for("what was changed", lambda: self.number() == 2, SILENCE)
        self.await_followed()
        self.put(id={"S": "a"}, n={"N": "3"})
        wait_for("the change", lambda: self.number() == 3)


class Descriptors(Faults):
    def test_none_is_left(self):
        """Following ends, nothing stale is shown; it goes on when there are some."""
        self.put(id={"S": "a"}, n={"N": "1"})
        wait_for("the item", lambda: self.names() == ["a.json"] and self.read("a.json")["n"] == 1)
        pid = self.mount.process.pid
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, hard))
        self.proxy.fault("*", "close", times=30, optional=True)  # a new connection for each call
        with self.assertRaises(OSError) as caught:
            self.lines_of_file()
        self.assertEqual(errno.EMFILE, caught.exception.errno)
        wait_for("the end of following", lambda: not self.stream()["followed"])
        self.put(id={"S": "a"}, n={"N": "2"})
        with self.assertRaises(OSError):
            self.read("a.json")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
        self.assertEqual(2, self.read("a.json")["n"])
        self.await_followed()
        self.assertEqual(["INSERT a", "MODIFY a"], self.lines_of_file())
        self.put(id={"S": "a"}, n={"N": "3"})
        wait_for("the change", lambda: self.read("a.json")["n"] == 3)
        self.mount.unmount()


class Clocks(Faults):
    """The mount's wall clock jumps, as after it was set."""

    program = os.path.join(BIN, "itemfs_shifted")

    def setUp(self):
        self.shift_file = os.path.join(self.place, "shift-" + self.id().rsplit(".", 1)[-1])
        self.shift(0)
        self.more = {"ITEMFS_SHIFT": self.shift_file}
        super().setUp()

    def shift(self, hours):
        with open(self.shift_file + ".new", "w", encoding="utf-8") as file:
            file.write(str(int(hours * 3600)))
        os.rename(self.shift_file + ".new", self.shift_file)

    def test_that_jump(self):
        number = 0
        for hours in (0, 1, -30, 50, 0):
            self.shift(hours)
            for _ in range(2):
                number += 1
                self.put(id={"S": "a"}, n={"N": str(number)})
                wait_for("the change", lambda: self.names() == ["a.json"] and
                         self.read("a.json")["n"] == number)
                wait_for("its record", lambda: self.stream()["changes"] == number)
        self.assertNotIn("not followed", self.mount.log_text())
        self.assertEqual(["INSERT a", *["MODIFY a"] * (number - 1)], self.lines_of_file())
        self.mount.unmount()

    def test_that_jump_while_the_file_is_open(self):
        """Who has it open reads on, and misses nothing."""
        self.put(id={"S": "a"}, n={"N": "0"})
        with open(f"{self.mount.point}/.itemfs/changes/{self.table}.jsonl",
                  encoding="utf-8") as file:
            found = []
            for number, hours in enumerate((0, 1, -30, 20, 0)):
                self.shift(hours)
                self.put(id={"S": "a"}, n={"N": str(number + 1)})

                def read(count=number + 2):
                    found.extend(described(file.read().splitlines()))
                    return len(found) == count
                wait_for("the record", read)
        self.assertEqual(["INSERT a", *["MODIFY a"] * 5], found)
        wait_for("all of it", lambda: self.lines_of_file() == found)
        self.mount.unmount()


for CASE in (Stopped, Views, SwitchedOff, Descriptors, Clocks):
    for NAME in ("dynoxide",) if CASE is SwitchedOff else ("dynoxide", "moto"):
        MADE = engines.for_engine(CASE, NAME)
        globals()[MADE.__name__] = MADE
del CASE, MADE, FollowTest, Faults, Stopped, Views, SwitchedOff, Descriptors, Clocks

if __name__ == "__main__":
    unittest.main()
