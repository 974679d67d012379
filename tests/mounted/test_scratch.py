# SPDX-License-Identifier: MIT
"""Scratch files: everything in a table directory that is no item."""

import errno
import os
import unittest

from harness import MountedTest, wait_for


class Scratch(MountedTest):
    def test_any_content_and_any_name(self):
        contents = {"README": b"text", "a.json~": b"{", ".a.json.swp": bytes(range(256)) * 64,
                    "4913": b"", ".a.json.Xy12ab": b'{"v": 1}', "#a.json#": b"\0", "tmp.JSON": b"x",
                    "sedAbC123": b"1", "with space": b"y", ".json": b"{", "a.json.bak": b"z"}
        for name, body in contents.items():
            self.write(name, body)
        self.assertEqual(sorted(contents), self.names())
        for name, body in contents.items():
            self.assertEqual(body, self.read(name))
            self.assertEqual(len(body), os.stat(self.path(name)).st_size)
        self.assertChanges()
        self.assertEqual({}, self.store.bodies(self.table))

    def test_persist_over_remounts(self):
        self.write("notes", b"\0\1text")
        os.utime(self.path("notes"), ns=(0, 1_000_000_000_000_000_003))
        os.chmod(self.path("notes"), 0o640)
        os.symlink("pointing nowhere", self.path(".#a.json"))
        os.mkdir(self.path(".partial"))
        self.write(".partial/part", b"kept")
        before = {name: os.lstat(self.path(name)) for name in self.names()}
        self.mount.remount()
        self.assertEqual([".#a.json", ".partial", "notes"], self.names())
        self.assertEqual(b"\0\1text", self.read("notes"))
        self.assertEqual("pointing nowhere", os.readlink(self.path(".#a.json")))
        self.assertEqual(b"kept", self.read(".partial/part"))
        for name, old in before.items():
            new = os.lstat(self.path(name))
            self.assertEqual((old.st_ino, old.st_mode, old.st_size, old.st_mtime_ns, old.st_ctime_ns),
                             (new.st_ino, new.st_mode, new.st_size, new.st_mtime_ns, new.st_ctime_ns))

    def test_partition_of_scratch_alone_stays(self):
        other = self.table + "-sorted"
        self.create(other, "--key", "c", "--sort", "d")
        folder = os.path.join(self.mnt, other)
        os.mkdir(folder + "/p1")
        with open(folder + "/p1/note.txt", "w") as file:
            file.write("kept")
        self.mount.remount()
        self.assertEqual(["p1"], os.listdir(folder))
        with open(folder + "/p1/note.txt") as file:
            self.assertEqual("kept", file.read())
        self.assertErrno(errno.ENOTEMPTY, os.rmdir, folder + "/p1")
        os.unlink(folder + "/p1/note.txt")
        os.rmdir(folder + "/p1")
        self.assertEqual([], os.listdir(folder))

    def test_hidden_directories(self):
        os.makedirs(self.path(".a/b/c"))
        self.write(".a/b/c/x.json", "no JSON, no item")
        self.assertEqual(b"no JSON, no item", self.read(".a/b/c/x.json"))
        self.assertErrno(errno.ENOTEMPTY, os.rmdir, self.path(".a"))
        os.rename(self.path(".a/b/c/x.json"), self.path("x"))
        self.sh("rm -r .a")
        self.assertEqual(["x"], self.names())
        self.assertChanges()

    def test_item_out_of_a_scratch_directory(self):
        # rsync --partial-dir and --delay-updates end like this.
        os.mkdir(self.path(".~tmp~"))
        self.write(".~tmp~/a.json", '{"v": 1}')
        self.assertChanges()
        os.rename(self.path(".~tmp~/a.json"), self.path("a.json"))
        self.assertBoth("a.json", '{"v": 1}')
        self.assertChanges("INSERT a")

    def test_visible_directories_are_refused(self):
        for name in ("sub", "sub.json"):
            with self.assertRaises(OSError) as caught:
                os.mkdir(self.path(name))
            self.assertIn(caught.exception.errno, (errno.EPERM, errno.EINVAL))
        self.assertEqual([], self.names())

    def test_large_sparse_and_rewritten(self):
        body = os.urandom(3_000_000)
        self.write("big", body)
        self.assertEqual(body, self.read("big"))
        fd = os.open(self.path("big"), os.O_RDWR)
        os.pwrite(fd, b"patch", 1_000_000)
        os.ftruncate(fd, 2_000_000)
        os.pwrite(fd, b"end", 2_100_000)
        os.close(fd)
        want = bytearray(body[:2_000_000] + bytes(100_000) + b"end")
        want[1_000_000:1_000_005] = b"patch"
        self.assertEqual(bytes(want), self.read("big"))

    def test_rename_and_remove(self):
        self.write("x", "1")
        self.write("y", "2")
        os.rename(self.path("x"), self.path("y"))
        self.assertEqual(["y"], self.names())
        self.assertEqual(b"1", self.read("y"))
        os.unlink(self.path("y"))
        self.assertErrno(errno.ENOENT, os.stat, self.path("y"))
        self.assertErrno(errno.ENOENT, os.unlink, self.path("y"))

    def test_between_tables(self):
        os.mkdir(self.dir + "-2")
        self.write("x", "1")
        os.rename(self.path("x"), self.dir + "-2/x")
        with open(self.dir + "-2/x") as file:
            self.assertEqual("1", file.read())
        self.assertEqual([], self.names())

    def test_hard_link_of_a_lock_file(self):
        # Editors and mailers lock by link(2) between scratch names.
        self.write("lock.tmp", "pid")
        try:
            os.link(self.path("lock.tmp"), self.path("lock"))
            self.assertEqual(b"pid", self.read("lock"))
        except OSError as error:
            self.assertEqual(errno.EPERM, error.errno)

    def test_exclusive_create(self):
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        os.close(os.open(self.path("lock"), flags))
        self.assertErrno(errno.EEXIST, os.open, self.path("lock"), flags)

    def test_table_with_scratch_files_only(self):
        self.write("notes", "x")
        self.assertErrno(errno.ENOTEMPTY, os.rmdir, self.dir)
        self.sh(f"rm -r {self.dir}", cwd=self.mnt)
        self.assertFalse(os.path.exists(self.dir))
        os.mkdir(self.dir)
        self.assertEqual([], self.names())

    def test_in_partitions(self):
        table = self.table + "-sorted"
        self.create(table, "--key", "c", "--sort", "d")
        top = os.path.join(self.mnt, table)
        os.mkdir(top + "/p")
        self.dir = top
        self.write("p/a.json", '{"v": 1}')
        self.write("p/.a.json.tmp", '{"v": 2}')
        self.write("top-notes", "x")
        self.assertEqual(["p", "top-notes"], self.names())
        self.assertEqual([".a.json.tmp", "a.json"], self.names(top + "/p"))
        os.rename(top + "/p/.a.json.tmp", top + "/p/a.json")
        self.assertEqual(b'{"v": 2}', self.read("p/a.json"))
        os.mkdir(top + "/.hidden")
        self.write(".hidden/x", "1")
        self.itemctl("put", table, "--item", "-",
                     input='{"c":{"S":"q"},"d":{"S":"1"}}')
        wait_for("the partition", lambda: "q" in self.names(), 1)

    def test_opened_while_removed_and_remounted(self):
        self.write("x", "1")
        with open(self.path("x"), "r+b", buffering=0) as file:
            os.unlink(self.path("x"))
            file.write(b"22")
            file.seek(0)
            self.assertEqual(b"22", file.read())
        self.assertEqual([], self.names())
        self.mount.remount()
        self.assertEqual([], self.names())


if __name__ == "__main__":
    unittest.main()
