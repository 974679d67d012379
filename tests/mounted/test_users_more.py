# SPDX-License-Identifier: MIT
"""What users of such filesystems hit, points 16 to 28 of the list (see test_users.py)."""

import errno
import json
import os
import sqlite3
import subprocess
import threading
import unittest

from harness import ITEMFS, MountedTest, is_mounted, wait_for


class Users(MountedTest):
    def many(self, count):
        for number in range(count):
            self.write(f"k{number:05}.json", "{}")

    def test_users_16_offsets_while_entries_go(self):
        self.many(3000)
        # rm -r reads the directory while it removes: with index offsets half would stay.
        self.sh(f"rm -r {self.dir}", cwd=self.mnt)
        self.assertFalse(os.path.exists(self.dir))
        os.mkdir(self.dir)
        self.many(1000)
        seen = []
        with os.scandir(self.dir) as entries:
            for entry in entries:
                seen.append(entry.name)
                if len(seen) % 2:
                    os.unlink(entry.path)
        self.assertEqual(1000, len(set(seen)))
        self.assertEqual(len(seen), len(set(seen)))
        self.assertEqual(500, len(self.names()))

    def test_users_17_huge_directories(self):
        # Far beyond one page of the store and the size where others gave errors.
        lines = "".join('{"key":{"S":"n%06d"},"v":{"N":"%d"}}\n' % (n, n) for n in range(30_000))
        self.itemctl("put", self.table, "--items", "-", input=lines)
        self.mount.remount()
        fd = os.open(self.dir, os.O_RDONLY | os.O_DIRECTORY)
        os.close(fd)
        self.assertEqual(30_000, len(self.names()))
        self.assertEqual(30_000, int(self.sh("ls -l | grep -c json").stdout))
        self.assertEqual(30_000, int(self.sh("grep -rh '\"v\"' . | wc -l").stdout))

    def test_users_18_no_hidden_leftovers(self):
        self.write("a.json", '{"v": 1}')
        self.write("notes", "scratch")
        held = [open(self.path(name), "rb", buffering=0) for name in ("a.json", "notes")]
        os.unlink(self.path("a.json"))
        os.unlink(self.path("notes"))
        self.assertEqual([], self.names())
        self.assertEqual([b'{"v": 1}', b"scratch"], [file.read() for file in held])
        for file in held:
            file.close()
        self.assertEqual([], self.names())
        self.assertEqual([], self.store.rows("SELECT name FROM scratch WHERE name LIKE '.fuse%'"))

    def test_users_19_names(self):
        table = self.table + "-plain"
        self.create(table, "--key", "id")
        keys = ["a/b", "..", ".", "\0", "caf\u00e9", "cafe\u0301", "n" * 300, "%", "a\nb"]
        for key in keys:
            self.itemctl("put", table, "--item", "-", input=json.dumps({"id": {"S": key}}))
        folder = os.path.join(self.mnt, table)
        wait_for("all items", lambda: os.path.isdir(folder) and len(os.listdir(folder)) == 9, 1)
        found = {json.loads(os.getxattr(f"{folder}/{name}", "user.itemfs.key"))["id"]["S"]
                 for name in os.listdir(folder)}
        self.assertEqual(set(keys), found)
        out = os.path.join(self.place, "out-19")
        self.run_tool(["cp", "-r", folder, out])  # every name is a legal one elsewhere
        self.assertEqual(sorted(os.listdir(folder)), sorted(os.listdir(out)))

    def test_users_20_no_ambiguous_keys(self):
        table = self.table + "-sorted"
        self.create(table, "--key", "p", "--sort", "s")
        for partition, sort in (("a_b", "c"), ("a", "b_c"), ("x.json", "y.json"), ("x", "y")):
            self.itemctl("put", table, "--item", "-",
                         input=json.dumps({"p": {"S": partition}, "s": {"S": sort}}))
        folder = os.path.join(self.mnt, table)
        wait_for("all partitions", lambda: os.path.isdir(folder) and len(os.listdir(folder)) == 4, 1)
        self.assertEqual(["y.json.json"], os.listdir(folder + "/x.json"))
        self.assertEqual(["y.json"], os.listdir(folder + "/x"))
        self.assertEqual(["c.json"], os.listdir(folder + "/a_b"))
        self.assertEqual(["b_c.json"], os.listdir(folder + "/a"))

    def test_users_21_numbers_are_exact(self):
        digits = "12345678901234567890123456789012345678"
        table = self.table + "-numbers"
        self.create(table, "--key", "n:N")
        self.itemctl("put", table, "--item", "-",
                     input=f'{{"n":{{"N":"{digits}"}},"v":{{"N":"0.1234567890123456789"}}}}')
        path = os.path.join(self.mnt, table, digits + ".json")
        wait_for("the item", lambda: os.path.exists(path), 1)
        with open(path) as file:
            self.assertIn("0.1234567890123456789", file.read())
        os.unlink(path)  # a key that went through a float could not be deleted
        self.assertIsNone(self.store.body(table, digits))
        self.assertEqual([], os.listdir(os.path.dirname(path)))

    def test_users_22_types_survive(self):
        item = {"key": {"S": "a"}, "bin": {"M": {"x": {"B": "AAEC/w=="}}}, "ss": {"SS": ["b", "a"]},
                "ns": {"NS": ["3", "1"]}, "bs": {"BS": ["AA==", "/w=="]}, "em": {"M": {}},
                "es": {"S": ""}, "el": {"L": []}, "null": {"NULL": True},
                "deep": {"L": [{"M": {"s": {"SS": ["q"]}, "b": {"B": "AA=="}}}]},
                "dollar": {"M": {"$B": {"S": "no binary"}}}}
        self.itemctl("put", self.table, "--item", "-", input=json.dumps(item))
        wait_for("the item", lambda: os.path.exists(self.path("a.json")), 1)
        # Through an editor's hands and back.
        self.sh("jq . a.json > tmp && mv tmp b.json")
        got = json.loads(self.itemctl("get", self.table, "-k", "b").stdout)
        for value in (item, got):
            for name in ("ss", "ns", "bs"):
                value[name][name.upper()].sort()
        item["key"]["S"] = "b"
        self.assertEqual(item, got)

    def test_users_23_too_large_is_never_half_saved(self):
        self.write("a.json", '{"v": 1}')
        self.mark()
        big = b'{"pad": "' + b"b" * (17 << 20) + b'"}'
        with open(self.place + "/big", "wb") as file:
            file.write(big)
        done = self.sh(f"cp {self.place}/big a.json", status=1)
        self.assertIn("File too large", done.stderr)
        self.assertBoth("a.json", '{"v": 1}')
        done = self.sh(f"cp {self.place}/big new.json", status=1)
        self.assertFalse(os.path.exists(self.path("new.json")))
        self.assertChanges()

    def test_users_24_statfs_capability_and_bounded_caches(self):
        found = os.statvfs(self.mnt)
        self.assertTrue(found.f_blocks and found.f_bfree and found.f_bavail and found.f_files)
        # Asked on each write: not ours, and not an error that a write would stumble over.
        self.write("a.json", "{}")
        with self.assertRaises(OSError) as caught:
            os.getxattr(self.path("a.json"), "security.capability")
        self.assertIn(caught.exception.errno, (errno.EOPNOTSUPP, errno.ENODATA))

    def test_users_25_operations(self):
        # Background start with a true exit status, SIGTERM drains; more in test_operations.py.
        point = os.path.join(self.place, "mnt-25")
        os.mkdir(point)
        db = os.path.join(self.place, "db-25.db")
        self.run_tool([ITEMFS, db, point])
        self.addCleanup(subprocess.run, ["fusermount3", "-u", "-z", point], capture_output=True)
        os.mkdir(point + "/t")
        fd = os.open(point + "/t/a.json", os.O_CREAT | os.O_WRONLY)
        os.write(fd, b'{"v": 1}')
        self.run_tool(["pkill", "-TERM", "-f", f"^{ITEMFS} {db} {point}$"])
        wait_for("the unmount", lambda: not is_mounted(point))
        try:
            os.close(fd)
        except OSError:
            pass

        def saved():
            with sqlite3.connect(f"file:{db}?mode=ro", uri=True) as connection:
                return connection.execute("SELECT body FROM item").fetchall() == [('{"v": 1}',)]
        wait_for("the save", saved)
        self.assertNotEqual(0, self.run_tool([ITEMFS, db, point + "/absent"], None).returncode)

    def test_users_26_database_is_never_locked(self):
        # Another program holds the write lock for a while, again and again: saves wait for it.
        stop = threading.Event()

        def blocker():
            db = sqlite3.connect(self.db, timeout=60, isolation_level=None)
            while not stop.is_set():
                db.execute("BEGIN IMMEDIATE")
                stop.wait(0.05)
                db.execute("ROLLBACK")
                stop.wait(0.002)
            db.close()
        threads = [threading.Thread(target=blocker) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for number in range(30):
                self.write("a.json", f'{{"v": {number}}}')
                self.itemctl("get", self.table, "-k", "a")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertBoth("a.json", '{"v": 29}')
        with open(self.mount.log_path) as file:
            self.assertNotIn("locked", file.read())

    def test_users_27_deleting_trees(self):
        self.many(2000)
        self.sh(f"rm -r {self.dir}", cwd=self.mnt)
        self.assertFalse(os.path.exists(self.dir))
        self.assertEqual(0, self.store.rows(
            "SELECT count(*) FROM item JOIN tables ON tables.id = table_id WHERE name = ?",
            self.table)[0][0])
        os.mkdir(self.dir)
        self.assertEqual([], self.names())

    def test_users_28_renames_do_not_confuse_caches(self):
        self.write("a.json", '{"was": "a"}')
        self.write("b.json", '{"was": "b"}')
        for _ in range(10):
            self.assertEqual((b'{"was": "a"}', b'{"was": "b"}'),
                             (self.read("a.json"), self.read("b.json")))
            os.rename(self.path("a.json"), self.path("c.json"))
            os.rename(self.path("b.json"), self.path("a.json"))
            os.rename(self.path("c.json"), self.path("b.json"))
            self.assertEqual((b'{"was": "b"}', b'{"was": "a"}'),
                             (self.read("a.json"), self.read("b.json")))
            os.rename(self.path("b.json"), self.path("c.json"))
            os.rename(self.path("a.json"), self.path("b.json"))
            os.rename(self.path("c.json"), self.path("a.json"))
        held = open(self.path("a.json"), "rb", buffering=0)
        other = self.dir + "-moved"
        os.rename(self.dir, other)
        os.mkdir(self.dir)
        self.write("a.json", '{"was": "new"}')
        self.assertEqual(b'{"was": "a"}', held.read())
        held.close()
        with open(other + "/a.json", "rb") as file:
            self.assertEqual(b'{"was": "a"}', file.read())
        self.assertEqual(b'{"was": "new"}', self.read("a.json"))


if __name__ == "__main__":
    unittest.main()
