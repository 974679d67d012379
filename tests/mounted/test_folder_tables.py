# SPDX-License-Identifier: MIT
"""Which folders are tables, and what becomes of a table whose folder is replaced, moved away, or on
another disk."""

import ctypes
import errno
import json
import os
import shutil
import signal
import unittest

import disks
from folder import FolderTest
from harness import wait_for


def setUpModule():
    disks.enter_namespace()


class Layout(FolderTest):
    def test_a_file_beside_tables(self):
        """It makes no table of what holds tables; nothing is lost for it."""
        os.mkdir(os.path.join(self.db, "orders"))
        self.direct("o.json", "1", table="orders")
        self.direct("ada.json", "1")
        self.start()
        self.assertErrno(errno.EINVAL, self.write, "bad.json", "{")
        self.mount.unmount()
        self.direct("package.json", "{}", table=".")
        for _ in range(2):
            self.start()
            self.assertEqual(["orders", "users"], sorted(os.listdir(self.mnt)))
            self.assertEqual(["ada.json"], os.listdir(self.dir))
            self.assertEqual([b"{"], [self.draft(name)[0] for name in self.drafts()])
            self.assertRegex(self.mount.log_text(), "holds tables: a file .*no item")
            self.mount.unmount()
        self.mount.source = self.configure("layout = table")
        with self.assertRaisesRegex(AssertionError, "held tables, as orders.*layout = tables"):
            self.mount.start()
        self.mount.source = self.configure("layout = tables")
        self.start()
        self.assertEqual([b"{"], [self.draft(name)[0] for name in self.drafts()])

    def test_a_table_whose_last_file_goes(self):
        """It is a table still, with what is no file of it."""
        self.roots = [self.folder]
        self.direct("ada.json", "1")
        self.mount.source = self.folder
        self.start()
        self.assertErrno(errno.EINVAL, self.write, "bad.json", "{")
        os.mkdir(os.path.join(self.folder, "sub"))
        os.unlink(self.path("ada.json"))
        self.mount.unmount()
        self.start()
        self.assertEqual(["users"], os.listdir(self.mnt))
        self.assertEqual([], os.listdir(self.dir))
        self.assertEqual([b"{"], [self.draft(name)[0] for name in self.drafts()])
        self.mount.unmount()
        self.mount.source = self.configure("layout = tables")
        with self.assertRaisesRegex(AssertionError, "was the table users itself.*layout = table"):
            self.mount.start()

    def configure(self, setting):
        path = os.path.join(self.home_dir, "mount.conf")
        with open(path, "w") as file:
            file.write(f"[backend folders]\ntype = folder\npath = {self.roots[0]}\n{setting}\n")
        return path


class Replaced(FolderTest, disks.Disks):
    def setUp(self):
        super().setUp()
        self.direct("ada.json", '{"v":0}')
        self.start()

    def test_a_tables_folder_that_is_replaced(self):
        """By two renames, before anybody has looked, or by one that exchanges them."""
        beside = os.path.join(self.home_dir, "beside")
        libc = ctypes.CDLL(None, use_errno=True)
        for turn in range(4):
            os.makedirs(os.path.join(beside, "users"))
            self.direct(f"new{turn}.json", f"{turn}", beside)
            if turn % 2:
                self.mount.process.send_signal(signal.SIGSTOP)
                os.rename(self.folder, beside + ".before")
                os.rename(os.path.join(beside, "users"), self.folder)
                self.mount.process.send_signal(signal.SIGCONT)
                shutil.rmtree(beside + ".before")
            else:
                self.assertEqual(0, libc.renameat2(
                    -100, os.path.join(beside, "users").encode(), -100, self.folder.encode(), 2))
            self.assertSoon([f"new{turn}.json"], os.listdir, self.dir)
            self.assertEqual(b"%d" % turn, self.read(f"new{turn}.json"))
            self.direct("more.json", "1")
            self.assertEqual({"more.json", f"new{turn}.json"}, set(os.listdir(self.dir)))
            shutil.rmtree(beside)
        with open(f"/proc/{self.mount.process.pid}/fdinfo/{self.inotify()}") as file:
            self.assertEqual(2, sum(line.startswith("inotify") for line in file))

    def test_a_tables_folder_that_is_gone_for_a_moment(self):
        """It is the same table, with all that is no file of it; meanwhile there is none."""
        os.setxattr(self.dir, "user.itemfs.stream", b"enabled")
        self.write("notes.txt", "scratch")
        self.write("timed.json", "1")
        os.setxattr(self.path("timed.json"), "user.itemfs.ttl", b"4102444800")
        beside = os.path.join(self.home_dir, "beside")
        for _ in range(3):
            os.rename(self.folder, beside)
            self.assertSoonGone(self.dir)
            self.assertEqual([], os.listdir(self.mnt))
            self.assertErrno(errno.ENOENT, self.read, "ada.json")
            os.rename(beside, self.folder)
            self.assertSoon(b'{"v":0}', self.read, "ada.json")
            self.assertEqual({"ada.json", "notes.txt", "timed.json"}, set(os.listdir(self.dir)))
        self.assertEqual(b"enabled", os.getxattr(self.dir, "user.itemfs.stream"))
        self.assertEqual(b"4102444800", os.getxattr(self.path("timed.json"), "user.itemfs.ttl"))
        os.rename(self.folder, beside)
        wait_for("its end", lambda: "users is gone: so is the table" in self.mount.log_text())
        os.rename(beside, self.folder)
        self.assertSoon(b'{"v":0}', self.read, "ada.json")
        self.assertEqual(["ada.json", "timed.json"], sorted(os.listdir(self.dir)))
        os.rename(self.folder, beside)
        self.assertSoonGone(self.dir)
        os.mkdir(self.dir)  # another one, at once
        self.assertEqual([], os.listdir(self.dir))
        self.write("bob.json", "1")
        self.assertEqual({"bob.json"}, set(self.files()))

    def test_a_disk_mounted_over_a_tables_folder(self):
        self.mount_memory(self.folder, "1m")
        self.assertSoon([], os.listdir, self.dir)
        self.direct("bob.json", "2")
        self.assertEqual(["bob.json"], os.listdir(self.dir))
        self.unmount(self.folder)
        self.assertSoon(["ada.json"], os.listdir, self.dir)
        self.direct("cyd.json", "3")
        self.assertEqual(["ada.json", "cyd.json"], sorted(os.listdir(self.dir)))

    def test_another_folder_in_its_place(self):
        """It was not restored whole: what is missing in it was not removed."""
        os.mkdir(os.path.join(self.mnt, "orders"))
        self.write("../orders/o.json", "1")
        self.write("../orders/notes.txt", "scratch")
        self.mount.unmount()
        os.rename(self.db, self.db + ".before")
        shutil.copytree(os.path.join(self.db + ".before", "users"), self.folder)
        for _ in range(2):
            self.start()
            self.assertEqual(["users"], os.listdir(self.mnt))
            self.assertEqual(b'{"v":0}', self.read("ada.json"))
            self.assertRegex(self.mount.log_text(), "orders is missing, and .* is not the folder")
            self.assertEqual(["users"], json.loads(self.itemctl("tables", "--json").stdout)["TableNames"])
            self.mount.unmount()
        os.rename(os.path.join(self.db + ".before", "orders"), os.path.join(self.db, "orders"))
        self.start()
        self.assertEqual({"o.json", "notes.txt"}, set(os.listdir(os.path.join(self.mnt, "orders"))))
        self.mount.unmount()
        shutil.rmtree(os.path.join(self.db, "orders"))
        self.start()
        wait_for("its end", lambda: "orders is gone: so is the table" in self.mount.log_text())

    def inotify(self):
        folder = f"/proc/{self.mount.process.pid}/fd"
        return next(fd for fd in os.listdir(folder)
                    if os.readlink(os.path.join(folder, fd)) == "anon_inode:inotify")


if __name__ == "__main__":
    unittest.main()
