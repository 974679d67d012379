# SPDX-License-Identifier: MIT
"""A mounted folder of files: what programs do on the mount is in the files, and what others do to
the files is seen through the mount: at once in listings and under names that are looked up, and
within 200 ms by what was known already (open, stat, names that were not there)."""

import errno
import json
import os
import shutil
import time
import unittest

from folder import FolderTest
from harness import has_tool, wait_for

YEAR_NS = 365 * 86400 * 10**9


class ExistingFiles(FolderTest):
    def test_files_are_items(self):
        old = self.now_ns() - 5 * YEAR_NS
        bodies = {"ada.json": b'{"name":"ada"}', "a_b.json": b"5", "list.json": b'["\\/"]',
                  "empty.json": b"", "10.json": b' {"x" : 1.500e3 }\n\n'}
        for name, body in bodies.items():
            self.direct(name, body, mtime_ns=old + len(name))
        self.start()
        self.assertEqual({name: (body, old + len(name)) for name, body in bodies.items()},
                         self.shown())
        self.assertEqual(["users"], [n for n in os.listdir(self.mnt)])
        self.itemctl("get", "users", "-k", "b_a")  # in any order
        self.assertEqual({"-key": {"S": "ada"}, "name": {"S": "ada"}},
                         json.loads(self.itemctl("get", "users", "-k", "ada").stdout))

    def test_one_tables_folder(self):
        self.direct("ada.json", "1")
        self.source = self.folder
        self.mount.source = self.folder
        self.start()
        self.assertEqual(["users"], os.listdir(self.mnt))
        self.write("bob.json", "2")
        self.assertEqual({"ada.json", "bob.json"}, set(os.listdir(self.folder)))
        with self.assertRaises(OSError):
            os.mkdir(os.path.join(self.mnt, "other"))

    def test_other_rules_later(self):
        names = ["A_b.json", "Order-17.json", "b_a.json", "john.doe.json", "ok.json"]
        for name in names:
            self.direct(name, "1")
        self.start()
        self.assertEqual(["ok.json"], os.listdir(self.dir))
        self.mount.unmount()
        FolderTest.sections = "[table users]\nkeys = plain"
        self.addCleanup(setattr, FolderTest, "sections", "")
        self.mount.source = self.source = self.make_source()
        self.start()
        self.assertEqual(names, sorted(os.listdir(self.dir)))
        self.assertEqual(b"1", self.read("Order-17.json"))
        self.assertEqual(0, self.status()["foreign_files"])

    def test_what_is_no_item(self):
        self.direct("ok.json", "1")
        self.direct("b_a.json", "1")
        self.direct("Upper.json", "1")
        self.direct("key.json", '{"-key":"other"}', mtime_ns=self.now_ns() - YEAR_NS)
        self.direct("note.txt", "no item's name")
        self.direct(".hidden.json", "1")
        os.symlink("/etc/passwd", os.path.join(self.folder, "link.json"))
        os.mkdir(os.path.join(self.folder, "dir.json"))
        self.direct("bad.json", b'{"a":\n 1,}', mtime_ns=self.now_ns() - YEAR_NS)
        before = sorted(os.listdir(self.folder))
        self.start()
        self.assertEqual(["ok.json"], os.listdir(self.dir))
        self.assertEqual(["bad.json"], self.drafts())
        body, reason = self.draft("bad.json")
        self.assertEqual(b'{"a":\n 1,}', body)
        self.assertIn("line 2, column 4", reason)
        self.assertEqual(before, sorted(os.listdir(self.folder)))
        log = self.mount.log_text()
        for name, why in (("b_a", "tags are not in order"), ("Upper", "is no tag"),
                          ("link", "no regular file"), ("dir", "no regular file"),
                          ("key", '"-key" in it is not the key'), ("bad", "line 2, column 4")):
            self.assertRegex(log, f"users/{name}.json is no item: .*{why}")
        self.assertEqual(6, self.status()["foreign_files"])
        # Once: not again at the next start.
        self.mount.remount()
        self.assertEqual(["bad.json"], self.drafts())
        self.assertEqual(log.count("is no item"), self.mount.log_text().count("is no item"))

    def test_saving_over_what_is_no_item(self):
        self.direct("bad.json", b"{", mtime_ns=self.now_ns() - YEAR_NS)
        self.direct("key.json", b'{"-key":"other"}', mtime_ns=self.now_ns() - YEAR_NS)
        os.mkdir(os.path.join(self.folder, "dir.json"))
        os.mkfifo(os.path.join(self.folder, "fifo.json"))
        os.symlink("nowhere", os.path.join(self.folder, "link.json"))
        with open(os.path.join(self.folder, "large.json"), "wb") as file:
            file.truncate(17 << 20)
        self.start()
        self.write("bad.json", "1")
        self.write("key.json", "2")
        self.assertEqual(b"1", self.direct("bad.json"))
        self.assertEqual(b"2", self.direct("key.json"))
        bodies = {self.draft(name)[0] for name in self.drafts()}
        self.assertEqual({b"{", b'{"-key":"other"}'}, bodies)
        for name in ("dir", "fifo", "link"):
            self.assertErrno(errno.EINVAL, self.write, name + ".json", "3")
        self.assertIn("is no regular file", self.draft("dir.json")[1])
        self.assertErrno(errno.EFBIG, self.write, "large.json", "3")
        self.assertTrue(os.path.isdir(os.path.join(self.folder, "dir.json")))
        self.assertEqual(17 << 20, os.path.getsize(os.path.join(self.folder, "large.json")))
        self.assertEqual("nowhere", os.readlink(os.path.join(self.folder, "link.json")))

    def test_the_state_database_may_go(self):
        self.start()
        for i in range(20):
            self.write(f"k{i}.json", '{"n":%d}' % i)
        before = self.files()
        self.mount.unmount()
        shutil.rmtree(os.path.join(self.home_dir, "state"))
        self.start()
        self.assertEqual(before, self.shown())
        self.assertEqual(before, self.files())

    def test_an_empty_folder_where_items_were(self):
        self.start()
        self.write("ada.json", "1")
        self.mount.unmount()
        aside = self.db + ".aside"
        os.rename(self.db, aside)
        os.mkdir(self.db)
        with self.assertRaisesRegex(AssertionError, "is empty, and held items.*mounted"):
            self.mount.start()
        os.rmdir(self.db)
        os.rename(aside, self.db)
        self.start()
        self.assertEqual(b"1", self.read("ada.json"))


class OthersWrite(FolderTest):
    def setUp(self):
        super().setUp()
        self.direct("ada.json", '{"v":0}')
        self.start()

    def size(self, name):
        return os.stat(self.path(name)).st_size

    def test_the_next_listing_sees_it(self):
        for i in range(100):
            body = b'{"v":%d}' % (i % 10)  # the same size again and again, within a clock tick
            self.direct("ada.json", body)
            self.assertSoon(body, self.read, "ada.json")
            self.direct(f"new{i}.json", b"1" * (i + 1))
            self.assertIn(f"new{i}.json", os.listdir(self.dir))
            self.assertSoon(b"1" * (i + 1), self.read, f"new{i}.json")
            os.unlink(os.path.join(self.folder, f"new{i}.json"))
            self.assertSoonGone(self.path(f"new{i}.json"))
            self.assertEqual(["ada.json"], os.listdir(self.dir))

    def test_the_kernel_is_told(self):
        for i in range(50):
            self.assertErrno(errno.ENOENT, os.stat, self.path("new.json"))
            self.direct("new.json", b"1" * (i + 1))
            self.assertSoon(i + 1, self.size, "new.json")
            self.direct("new.json", b"1" * (i + 2))
            self.assertSoon(i + 2, self.size, "new.json")
            os.unlink(os.path.join(self.folder, "new.json"))
            self.assertSoonGone(self.path("new.json"))

    def requests(self, name):
        with open(os.path.join(self.mnt, ".itemfs", "metrics")) as file:
            [line] = [line for line in file if f'op="{name}"' in line]
        return int(line.split()[-1])

    def test_the_kernel_answers_by_itself(self):
        for i in range(100):
            self.direct(f"k{i}.json", "1")
        self.shown()
        before = [self.requests(name) for name in ("lookup", "getattr")]
        for _ in range(10):
            for i in range(100):
                self.size(f"k{i}.json")
        after = [self.requests(name) for name in ("lookup", "getattr")]
        self.assertLess(sum(after) - sum(before), 50)  # of 1000: those for status files, and waiting

    def test_renames_and_times(self):
        for i in range(20):
            os.rename(os.path.join(self.folder, "ada.json"), os.path.join(self.folder, "bob.json"))
            self.assertEqual(["bob.json"], os.listdir(self.dir))
            os.rename(os.path.join(self.folder, "bob.json"), os.path.join(self.folder, "ada.json"))
            self.assertSoon(b'{"v":0}', self.read, "ada.json")
            os.utime(os.path.join(self.folder, "ada.json"), ns=(i, 10**9 + i))
            self.assertSoon(10**9 + i, lambda: os.stat(self.path("ada.json")).st_mtime_ns)
        self.direct("tmp", '{"v":7}')
        os.rename(os.path.join(self.folder, "tmp"), os.path.join(self.folder, "ada.json"))
        self.assertSoon(b'{"v":7}', self.read, "ada.json")

    def test_links(self):
        """As `ln`, `cp -al`, and who writes a temporary file and links it."""
        beside = os.path.join(self.home_dir, "beside.json")
        with open(beside, "w") as file:
            file.write('{"v":"linked"}')
        for name in ("bob.json", "cyd.json"):
            os.link(beside, os.path.join(self.folder, name))
            self.assertIn(name, os.listdir(self.dir))
            self.assertEqual(b'{"v":"linked"}', self.read(name))
        with open(os.path.join(self.folder, "dan.json"), "w") as file:
            self.assertNotIn("dan.json", os.listdir(self.dir))
            file.write('{"v":"closed"}')
        self.assertEqual(b'{"v":"closed"}', self.read("dan.json"))

    def test_another_file_of_the_same_size_and_time(self):
        """As `rsync -c` and `cp -p`, with mv."""
        for old in (True, False):
            if not old:
                self.write("ada.json", '{"v":0}')
                time.sleep(0.5)  # as one who is not quick
            path = os.path.join(self.folder, "ada.json")
            mtime_ns = 10**18 if old else os.stat(path).st_mtime_ns
            os.utime(path, ns=(0, mtime_ns))
            self.assertSoon(mtime_ns, lambda: os.stat(self.path("ada.json")).st_mtime_ns)
            self.direct("tmp", '{"v":9}', mtime_ns=mtime_ns)
            os.rename(os.path.join(self.folder, "tmp"), path)
            self.assertSoon(b'{"v":9}', self.read, "ada.json")

    def test_times_beyond_what_is_kept(self):
        """They are shown as the nearest that is kept; files have them, and are not touched."""
        now = 10413792000  # 2300
        for seconds, kept in ((now, 9223372036), (9223372036, 9223372036), (-2**31, -2**31)):
            os.utime(os.path.join(self.folder, "ada.json"), (0, seconds))
            self.assertSoon(kept * 10**9, lambda: os.stat(self.path("ada.json")).st_mtime_ns)
            self.assertEqual(seconds, int(os.stat(os.path.join(self.folder, "ada.json")).st_mtime))
        os.utime(self.path("ada.json"), (0, now))
        for path in (os.path.join(self.folder, "ada.json"), self.path("ada.json")):
            self.assertEqual(9223372036 * 10**9, os.stat(path).st_mtime_ns)
        self.mount.unmount()
        self.direct("ada.json", '{"v":8}')  # of the same size
        os.utime(os.path.join(self.folder, "ada.json"), (0, now))
        self.start()
        self.assertEqual(b'{"v":8}', self.read("ada.json"))

    def test_tables_come_and_go(self):
        for _ in range(5):
            os.mkdir(os.path.join(self.db, "more"))
            self.assertEqual(["more", "users"], sorted(os.listdir(self.mnt)))
            self.direct("x.json", "1", table="more")
            self.assertSoon(b"1", self.bytes_of, os.path.join(self.mnt, "more", "x.json"))
            shutil.rmtree(os.path.join(self.db, "more"))
            self.assertSoonGone(os.path.join(self.mnt, "more"))
            self.assertEqual(["users"], os.listdir(self.mnt))

    def test_a_copied_table(self):
        for i in range(200):
            self.direct(f"k{i}.json", b"%d" % i)
        shutil.copytree(self.folder, os.path.join(self.db, "copy"))
        self.assertEqual(self.files(), self.shown())
        self.assertEqual({n: b for n, (b, _) in self.files(table="copy").items()},
                         {n: b for n, (b, _) in self.shown("copy").items()})

    def test_half_a_file_is_never_shown(self):
        fd = os.open(os.path.join(self.folder, "ada.json"), os.O_WRONLY | os.O_TRUNC)
        new = os.open(os.path.join(self.folder, "new.json"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for part, shown in ((b"12", b'{"v":0}'), (b"34", b'{"v":0}')):
            os.write(fd, part)
            os.write(new, part)
            self.assertEqual(shown, self.read("ada.json"))
            self.assertEqual(["ada.json"], os.listdir(self.dir))
            done = self.itemctl("get", "users", "-k", "ada")
            self.assertEqual({"N": "0"}, json.loads(done.stdout)["v"])
        os.close(fd)
        os.close(new)
        self.assertSoon(b"1234", self.read, "ada.json")
        self.assertSoon(b"1234", self.read, "new.json")

    def test_no_json_takes_the_item_away(self):
        self.direct("ada.json", '{"v":')
        self.assertSoonGone(self.path("ada.json"))
        self.assertEqual(b'{"v":', self.draft("ada.json")[0])
        self.direct("ada.json", '{"v":3}')
        self.assertSoon(b'{"v":3}', self.read, "ada.json")
        self.assertEqual(0, self.status()["foreign_files"])

    def test_an_open_file_stays_what_it_was(self):
        with open(self.path("ada.json"), "rb") as file:
            self.direct("ada.json", '{"v":1111}')
            self.assertEqual(b'{"v":0}', file.read())
        self.assertSoon(b'{"v":1111}', self.read, "ada.json")

    def test_a_save_against_a_newer_file_is_refused(self):
        fd = os.open(self.path("ada.json"), os.O_RDWR)
        os.read(fd, 100)
        os.write(fd, b" ")
        self.direct("ada.json", '{"v":2}')
        with self.assertRaises(OSError):
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        self.assertSoon(b'{"v":2}', self.read, "ada.json")
        self.assertEqual(b'{"v":2}', self.direct("ada.json"))
        self.assertEqual([b'{"v":0} '], [self.draft(name)[0] for name in self.drafts()])

    def test_streams_tell_of_others(self):
        os.setxattr(self.dir, "user.itemfs.stream", b"on")
        self.direct("ada.json", '{"v":1}')
        self.write("bob.json", "1")
        os.unlink(os.path.join(self.folder, "ada.json"))
        lines = self.itemctl("changes", "users").stdout.splitlines()
        told = [(line["change_type"], line["keys"]["-key"]["S"]) for line in map(json.loads, lines)]
        self.assertEqual([("MODIFY", "ada"), ("INSERT", "bob"), ("REMOVE", "ada")], told)

    def test_itemctl_beside_the_mount(self):
        self.itemctl("put", "users", "--item", "-", input='{"-key":{"S":"eve"},"n":{"N":"1"}}')
        self.assertEqual({"n": 1}, json.loads(self.direct("eve.json")))
        self.assertEqual({"n": 1}, json.loads(self.read("eve.json")))
        self.itemctl("delete", "users", "-k", "eve")
        self.assertFalse(os.path.exists(os.path.join(self.folder, "eve.json")))
        self.assertSoonGone(self.path("eve.json"))


class WithoutAMount(FolderTest):
    """itemctl alone: each command looks at the files."""

    def test_itemctl_sees_files(self):
        self.direct("ada.json", "1")
        self.assertEqual(1, len(self.itemctl("scan", "users").stdout.splitlines()))
        self.direct("ada.json", "2")
        self.assertEqual({"N": "2"},
                         json.loads(self.itemctl("get", "users", "-k", "ada").stdout)["$value"])
        self.direct("bob.json", "3")
        self.assertEqual(2, len(self.itemctl("scan", "users").stdout.splitlines()))
        os.unlink(os.path.join(self.folder, "ada.json"))
        self.itemctl("get", "users", "-k", "ada", status=3)
        self.itemctl("create", "more")
        self.assertTrue(os.path.isdir(os.path.join(self.db, "more")))
        self.itemctl("drop", "more")
        self.assertFalse(os.path.isdir(os.path.join(self.db, "more")))


class Saving(FolderTest):
    def setUp(self):
        super().setUp()
        self.start()

    def check_same(self):
        self.assertEqual({n: v for n, v in self.files().items()}, self.shown())

    def test_bytes_and_times(self):
        body = b'{"a" :  1.50, "b":"\\u00e9\\/"}\n'
        self.write("ada.json", body)
        self.assertEqual(body, self.direct("ada.json"))
        os.utime(self.path("ada.json"), ns=(1, 123456789 * 10**9 + 5))
        self.assertEqual(123456789 * 10**9 + 5,
                         os.stat(os.path.join(self.folder, "ada.json")).st_mtime_ns)
        self.check_same()

    def test_a_file_keeps_its_mode(self):
        self.direct("ada.json", "1")
        os.chmod(os.path.join(self.folder, "ada.json"), 0o660)
        inode = os.stat(os.path.join(self.folder, "ada.json")).st_ino
        self.write("ada.json", "2")
        found = os.stat(os.path.join(self.folder, "ada.json"))
        self.assertEqual(0o660, found.st_mode & 0o777)
        self.assertNotEqual(inode, found.st_ino)  # another file: who reads the old one goes on

    def test_renames_and_removals(self):
        self.write("a.json", "1")
        self.write("b.json", "2")
        os.rename(self.path("a.json"), self.path("c.json"))
        self.assertEqual({"b.json": b"2", "c.json": b"1"},
                         {n: b for n, (b, _) in self.files().items()})
        os.rename(self.path("c.json"), self.path("b.json"))
        self.assertEqual({"b.json": b"1"}, {n: b for n, (b, _) in self.files().items()})
        os.unlink(self.path("b.json"))
        self.assertEqual({}, self.files())
        os.mkdir(os.path.join(self.mnt, "more"))
        self.assertTrue(os.path.isdir(os.path.join(self.db, "more")))
        os.rmdir(os.path.join(self.mnt, "more"))
        self.assertFalse(os.path.isdir(os.path.join(self.db, "more")))

    def test_a_folder_with_others_files_is_not_removed(self):
        os.mkdir(os.path.join(self.mnt, "more"))
        self.direct("README", "mine", table="more")
        self.assertErrno(errno.ENOTEMPTY, os.rmdir, os.path.join(self.mnt, "more"))
        self.assertEqual(b"mine", self.direct("README", table="more"))

    def test_names_of_255_bytes_in_the_folder(self):
        name = "a" * 250 + ".json"
        self.direct(name, "1")
        self.assertEqual(1, len(os.listdir(self.dir)))
        done = self.itemctl("get", "users", "-k", "a" * 250)
        self.assertEqual({"N": "1"}, json.loads(done.stdout)["$value"])

    def test_editors_and_tools(self):
        self.write("ada.json", '{"v":1}\n')
        self.sh("sed -i s/1/2/ ada.json")
        self.assertEqual(b'{"v":2}\n', self.direct("ada.json"))
        if has_tool("vim"):
            self.sh("vim -N -u NONE -es -c '%s/2/3/' -c wq ada.json")
            self.assertEqual(b'{"v":3}\n', self.direct("ada.json"))
        source = os.path.join(self.home_dir, "source")
        os.mkdir(source)
        for i in range(20):
            with open(os.path.join(source, f"r{i}.json"), "w") as file:
                file.write(str(i))
            os.utime(os.path.join(source, f"r{i}.json"), ns=(0, (10**9 + i) * 10**9))
        self.sh(f"rsync -rt {source}/ .")
        for i in range(20):
            self.assertEqual(b"%d" % i, self.direct(f"r{i}.json"))
            self.assertEqual((10**9 + i) * 10**9, self.files()[f"r{i}.json"][1])
        self.assertEqual("", self.sh(f"rsync -rtniO {source}/ .").stdout)
        self.assertEqual([], [n for n in os.listdir(self.folder) if n.startswith(".")])
        self.check_same()

    def test_bodies_that_name_another_key(self):
        self.write("ada.json", '{ "-key": "bob", "n": 1 }')
        self.assertEqual(b'{ "-key": "ada", "n": 1 }', self.direct("ada.json"))
        self.check_same()

    def test_expired_items_go_with_their_files(self):
        self.write("gone.json", '{"-ttl":%d}' % (time.time() - 10))
        self.write("stays.json", '{"-ttl":%d}' % (time.time() + 1000))
        self.assertEqual(["stays.json"], os.listdir(self.dir))
        wait_for("the sweep", lambda: os.listdir(self.folder) == ["stays.json"])

    def test_no_json_is_refused_and_the_file_stays(self):
        self.write("ada.json", "1")
        with self.assertRaises(OSError):
            self.write("ada.json", "{")
        self.assertEqual(b"1", self.direct("ada.json"))


if __name__ == "__main__":
    unittest.main()
