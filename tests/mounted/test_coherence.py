# SPDX-License-Identifier: MIT
"""Changes made elsewhere, by itemctl or through a second mount, are seen here by a new open, stat
or listing within 200 ms, and whole.

This is the one test held to the clock: a change's moment is when the command that made it has
ended, or its save has returned.
"""

import json
import os
import time
import unittest

from harness import ITEMCTL, MountedTest, wait_for

DEADLINE = 0.2
SLACK = 5.0 if "tsan" in ITEMCTL else 1.0  # a sanitizer's own slowness is not the mount's


class Coherence(MountedTest):
    @classmethod
    def prepare(cls):
        cls.second = cls.new_mount(cls.db, "second")
        cls.second.env = cls.mount.env
        cls.second.start()

    @classmethod
    def tearDownClass(cls):
        cls.second.unmount()
        super().tearDownClass()

    def setUp(self):
        super().setUp()
        self.there = os.path.join(self.second.point, self.table)
        self.seen_within(lambda: os.path.isdir(self.there), "the table on the second mount")

    def seen_within(self, condition, what):
        """CONDITION comes true within the deadline from now."""
        start = time.monotonic()
        while not condition():
            late = time.monotonic() - start
            self.assertLess(late, DEADLINE * SLACK, what)
            time.sleep(0.002)

    def write_there(self, name, text):
        with open(os.path.join(self.there, name), "w") as file:
            file.write(text)

    def put(self, key, **attributes):
        item = {"key": {"S": key}} | {name: {"S": text} for name, text in attributes.items()}
        self.itemctl("put", self.table, "--item", "-", input=json.dumps(item))

    def warm(self):
        """This mount has the table's items in all its caches."""
        for name in os.listdir(self.dir):
            os.stat(self.path(name))
            self.read(name)
        self.sh("ls -l >/dev/null; cat ./* >/dev/null || true")

    def test_item_by_itemctl(self):
        self.put("a", v="old")
        self.seen_within(lambda: os.path.exists(self.path("a.json")), "a new item by stat")
        self.seen_within(lambda: self.names() == ["a.json"], "a new item by ls")
        for number in range(10):
            self.warm()
            self.put("a", v="x" * (number * 7 + 1))
            self.seen_within(lambda: f'"{"x" * (number * 7 + 1)}"'.encode() in self.read("a.json"),
                             "a change by open")
            self.assertEqual(len(self.read("a.json")), os.stat(self.path("a.json")).st_size)
        self.warm()
        self.itemctl("delete", self.table, "-k", "a")
        self.seen_within(lambda: not os.path.exists(self.path("a.json")), "a removal by stat")
        self.assertEqual([], self.names())

    def test_item_by_second_mount(self):
        for number in range(20):
            text = f'{{"v": "{"y" * (number * 5)}"}}'
            self.write_there("a.json", text)
            self.seen_within(lambda: os.path.exists(self.path("a.json"))
                             and self.read("a.json") == text.encode(), "a change by open")
            self.warm()
        os.unlink(self.there + "/a.json")
        self.seen_within(lambda: self.names() == [], "a removal by ls")
        self.seen_within(lambda: not os.path.exists(self.path("a.json")), "a removal by stat")

    def test_size_and_time(self):
        self.write_there("a.json", "{}")
        self.seen_within(lambda: os.path.exists(self.path("a.json")), "the item")
        self.warm()
        self.write_there("a.json", '{"longer": 1}')
        self.seen_within(lambda: os.stat(self.path("a.json")).st_size == 13, "the size by stat")
        os.utime(self.there + "/a.json", ns=(0, 1_234_567_890))
        self.seen_within(lambda: os.stat(self.path("a.json")).st_mtime_ns == 1_234_567_890,
                         "the time by stat")

    def test_negative_entry(self):
        self.assertFalse(os.path.exists(self.path("a.json")))
        self.assertFalse(os.path.exists(self.path("a.json")))
        self.write_there("a.json", "{}")
        self.seen_within(lambda: os.path.exists(self.path("a.json")), "an item looked for before")

    def test_negative_alias(self):
        self.assertFalse(os.path.exists(self.path("b_a.json")))
        self.write_there("a_b.json", "{}")
        self.seen_within(lambda: os.path.exists(self.path("b_a.json")), "the item's alias")

    def test_rename_there(self):
        self.write_there("a.json", '{"v": 1}')
        self.seen_within(lambda: self.names() == ["a.json"], "the item")
        self.warm()
        os.rename(self.there + "/a.json", self.there + "/b.json")
        self.seen_within(lambda: self.names() == ["b.json"], "the new name by ls")
        self.seen_within(lambda: not os.path.exists(self.path("a.json")), "the old name gone")
        self.assertEqual(b'{"v": 1}', self.read("b.json"))

    def test_tables_there(self):
        name = self.table + "-new"
        os.mkdir(os.path.join(self.second.point, name))
        self.seen_within(lambda: name in os.listdir(self.mnt), "a new table by ls")
        os.rmdir(os.path.join(self.second.point, name))
        self.seen_within(lambda: name not in os.listdir(self.mnt), "a dropped table by ls")
        self.seen_within(lambda: not os.path.exists(os.path.join(self.mnt, name)), "by stat")

    def test_table_made_anew_at_once(self):
        # Dropped and created within one look of the follower: one table, the new one.
        for turn in range(5):
            self.itemctl("drop", self.table, "--force")
            self.itemctl("create", self.table, "--key", "id")
            self.put_plain(f"t{turn}")
            for directory in (self.dir, self.there):
                self.seen_within(lambda: os.path.exists(os.path.join(directory, f"t{turn}.json")),
                                 "the new table's item")
                self.assertEqual([f"t{turn}.json"], os.listdir(directory))
                tables = os.listdir(os.path.dirname(directory))
                self.assertEqual(1, tables.count(self.table), tables)
        os.unlink(os.path.join(self.there, "t4.json"))
        os.rmdir(self.there)
        self.seen_within(lambda: self.table not in os.listdir(self.mnt), "the table goes")
        os.mkdir(self.there)
        self.seen_within(lambda: os.path.isdir(self.dir), "and comes back")
        self.write("a.json", "{}")
        self.assertEqual(1, os.listdir(self.mnt).count(self.table))

    def put_plain(self, key):
        self.itemctl("put", self.table, "--item", "-", input=json.dumps({"id": {"S": key}}))

    def test_scratch_files_there(self):
        self.write_there("notes", "one")
        self.seen_within(lambda: self.names() == ["notes"], "a scratch file by ls")
        self.assertEqual(b"one", self.read("notes"))
        self.write_there("notes", "two and more")
        self.seen_within(lambda: self.read("notes") == b"two and more", "its new text")
        os.unlink(self.there + "/notes")
        self.seen_within(lambda: not os.path.exists(self.path("notes")), "its removal")

    def test_time_to_live_there(self):
        self.write_there("a.json", "{}")
        self.seen_within(lambda: os.path.exists(self.path("a.json")), "the item")
        self.warm()
        soon = int(time.time()) + 2
        os.setxattr(self.there + "/a.json", "user.itemfs.ttl", b"%d" % soon)
        wait_for("an expiry set elsewhere", lambda: not os.path.exists(self.path("a.json")), 5)
        self.assertGreaterEqual(time.time(), soon)

    def test_many_changes_there(self):
        for number in range(200):
            self.write_there(f"k{number}.json", f'{{"v": {number}}}')
        self.seen_within(lambda: len(self.names()) == 200, "all items by ls")
        self.warm()
        self.sh("sed -i 's/}/, \"w\": 1}/' *.json", cwd=self.there)
        self.seen_within(lambda: all(b'"w": 1' in self.read(f"k{number}.json")
                                     for number in range(200)), "all changes by open")
        self.sh("rm *.json", cwd=self.there)
        self.seen_within(lambda: self.names() == [], "all removals by ls")

    def test_here_and_there_in_turns(self):
        for number in range(40):
            write, path = ((self.write, self.there + "/a.json"),
                           (self.write_there, self.path("a.json")))[number % 2]
            text = f'{{"turn": {number}}}'
            write("a.json", text)

            def seen():
                try:
                    with open(path) as file:
                        return file.read() == text
                except FileNotFoundError:
                    return False
            self.seen_within(seen, f"turn {number}")

    def items_file(self, count):
        path = os.path.join(self.place, f"{self.table}.jsonl")
        with open(path, "w") as file:
            for number in range(count):
                item = {"key": {"S": f"i{number:04}"}, "text": {"S": "old"}}
                file.write(json.dumps(item) + "\n")
        return path

    def test_changes_while_a_directory_is_being_read(self):
        # The answers to come are being made ready while a program works on the one before.
        count = 3000
        self.itemctl("put", self.table, "--items", self.items_file(count))
        self.seen_within(lambda: os.path.exists(self.path("i2999.json")), "the last item")
        changed = {}
        with os.scandir(self.dir) as entries:
            seen = [next(entries).name]
            for number in range(200, count, 200):
                while seen[-1] < f"i{number - 150:04}.json":
                    seen.append(next(entries).name)
                here, there = f"i{number:04}", f"i{number + 1:04}"
                self.write(f"{here}.json", '{"text": "changed here"}')
                self.put(there, text="changed by itemctl")
                os.unlink(self.path(f"i{number + 2:04}.json"))
                changed[f"{here}.json"] = "changed here"
                changed[f"{there}.json"] = "changed by itemctl"
                changed[f"i{number + 2:04}.json"] = None
            seen += [entry.name for entry in entries]
        self.assertEqual(sorted(set(seen)), sorted(seen))
        for number in range(count):
            name = f"i{number:04}.json"
            text = changed.get(name, "old")
            if text is None:
                self.assertFalse(os.path.exists(self.path(name)), name)
                continue
            self.assertIn(name, seen)
            self.seen_within(lambda: self.read_text(name) == text, f"{name}: {text}")
            self.assertEqual(len(self.read(name)), os.stat(self.path(name)).st_size, name)
            self.assertStored(name.removesuffix(".json"), self.read(name))

    def read_text(self, name):
        return json.loads(self.read(name))["text"]

    def test_growth_is_read_whole(self):
        # Reopening must not read only up to the size known before.
        for size in (10, 5_000, 200_000, 3, 1_000_000, 100):
            text = '{"v": "%s"}' % ("z" * size)
            self.write_there("a.json", text)
            self.seen_within(lambda: os.path.exists(self.path("a.json"))
                             and os.stat(self.path("a.json")).st_size == len(text), "the size")
            self.assertEqual(text.encode(), self.read("a.json"))


if __name__ == "__main__":
    unittest.main()
