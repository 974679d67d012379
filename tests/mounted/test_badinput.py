# SPDX-License-Identifier: MIT
"""What must not bring the daemon down: large and deep bodies, damaged stores, a full disk."""

import errno
import os
import shutil
import sqlite3
import subprocess
import unittest

from harness import MountedTest, PlaceTest, unmount, wait_for

MIB = 1 << 20


class TooLarge(MountedTest):
    def alive(self):
        self.write("alive.json", '{"v": 1}')
        self.assertBoth("alive.json", '{"v": 1}')

    def stream(self, name, mebibytes):
        """Writes a valid body of that size piece by piece; the first error ends it."""
        fd = os.open(self.path(name), os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        try:
            os.write(fd, b'{"pad": "')
            for _ in range(mebibytes):
                os.write(fd, b"x" * MIB)
            os.write(fd, b'"}')
        except OSError:
            try:
                os.close(fd)
            except OSError:
                pass
            raise
        os.close(fd)

    def test_100_mb(self):
        self.write("a.json", '{"v": 1}')
        self.assertErrno(errno.EFBIG, self.stream, "a.json", 100)
        wait_for("the old text", lambda: self.read("a.json") == b'{"v": 1}', 5)
        self.assertBoth("a.json", '{"v": 1}')
        self.assertErrno(errno.EFBIG, self.stream, "new.json", 100)
        self.assertIsNone(self.store.body(self.table, "new"))
        self.alive()

    def test_just_over_and_just_under(self):
        self.write("a.json", b"[" + b" " * (16 * MIB - 2) + b"]")
        self.assertEqual(16 * MIB, os.stat(self.path("a.json")).st_size)
        self.assertErrno(errno.EFBIG, self.write, "b.json", b"[" + b" " * (16 * MIB - 1) + b"]")
        self.assertFalse(os.path.exists(self.path("b.json")))
        self.alive()

    def test_far_offsets(self):
        self.write("b.json", "{}")
        fd = os.open(self.path("a.json"), os.O_CREAT | os.O_WRONLY)
        for offset in (100 * MIB, 1 << 40, (1 << 62)):
            self.assertErrno(errno.EFBIG, os.pwrite, fd, b"}", offset)
        self.assertErrno(errno.EFBIG, os.ftruncate, fd, 1 << 40)
        try:
            os.close(fd)
        except OSError as error:
            self.assertEqual(errno.EFBIG, error.errno)
        self.assertErrno(errno.EFBIG, os.truncate, self.path("b.json"), 1 << 40)
        self.assertBoth("b.json", "{}")
        self.alive()

    def test_large_by_rename(self):
        self.write("a.json", '{"v": 1}')
        try:
            self.stream("tmp", 20)
            self.assertErrno(errno.EFBIG, os.rename, self.path("tmp"), self.path("a.json"))
        except OSError as error:
            self.assertEqual(errno.EFBIG, error.errno)  # refused as a scratch file already
        self.assertBoth("a.json", '{"v": 1}')
        self.alive()

    def test_deep_nesting(self):
        for opening, closing in (("[", "]"), ('{"a":', "}")):
            for end in (closing * 10_000, ""):
                self.assertErrno(errno.EINVAL, self.write, "a.json", opening * 10_000 + "1" + end)
        self.assertErrno(errno.EINVAL, self.write, "a.json", "[" * MIB)
        self.assertEqual([], self.names())
        self.alive()

    def test_many_members_and_long_names(self):
        body = "{" + ",".join(f'"k{n}":{n}' for n in range(100_000)) + "}"
        self.write("a.json", body)
        self.assertBoth("a.json", body)
        body = '{"' + "n" * MIB + '": 1}'
        self.write("b.json", body)
        self.assertBoth("b.json", body)
        self.alive()

    def test_every_file_of_nonsense(self):
        for number in range(60):
            body = os.urandom(number * 50 + 1)
            with self.assertRaises(OSError):
                self.write("a.json", b"\xff" + body)
        self.assertEqual([], self.names())
        self.alive()


class SmallLimit(MountedTest):
    options = ("max_item_size=1M",)

    def test_limit_is_configured(self):
        self.write("a.json", b"[" + b" " * (MIB - 2) + b"]")
        self.assertErrno(errno.EFBIG, self.write, "b.json", b"[" + b" " * MIB + b"]")


class Damaged(PlaceTest):
    """Pages of the store are overwritten: errors for what was there, no crash, no wrong data."""

    def setUp(self):
        self.db = os.path.join(self.place, self.id().split(".")[-1] + ".db")
        self.mount = self.new_mount(self.db, "mnt-" + self.id().split(".")[-1])
        self.mount.start()
        os.mkdir(self.mount.point + "/t")
        for number in range(500):
            with open(f"{self.mount.point}/t/k{number}.json", "w") as file:
                file.write('{"v": %d, "pad": "%s"}' % (number, "q" * 500))
        self.mount.unmount()

    def damage(self, offset, data):
        with open(self.db, "r+b") as file:
            file.seek(offset)
            file.write(data)

    def look_at_everything(self):
        """Every item is right or an error; the daemon lives through it."""
        right = wrong = failed = 0
        for number in range(500):
            try:
                with open(f"{self.mount.point}/t/k{number}.json") as file:
                    text = file.read()
                good = text == '{"v": %d, "pad": "%s"}' % (number, "q" * 500)
                right, wrong = right + good, wrong + (not good)
            except OSError:
                failed += 1
        for script in ("ls -l", "grep -r nothing", "find"):
            subprocess.run(f"{script} {self.mount.point} >/dev/null 2>&1", shell=True, timeout=60)
        self.assertEqual(0, wrong)
        return right, failed

    def try_mount(self):
        """True when it mounts; otherwise it has ended by itself with a message."""
        try:
            self.mount.start()
            return True
        except AssertionError as error:
            self.assertIn("before it mounted", str(error))
            text = self.mount.log_text()
            self.assertIn(os.path.basename(self.db), text)
            self.assertNotIn("Sanitizer", text)
            return False

    def test_pages_of_items(self):
        size = os.path.getsize(self.db)
        for page in range(size // 4096 // 2, size // 4096, 3):
            self.damage(page * 4096, b"\xa5" * 4096)
        if self.try_mount():
            right, failed = self.look_at_everything()
            self.assertGreater(failed, 0)
            self.assertEqual(500, right + failed)
            self.mount.unmount()

    def test_header(self):
        self.damage(0, b"\0" * 100)
        self.assertFalse(self.try_mount())

    def test_schema_page(self):
        self.damage(100, b"\xa5" * 3000)
        if self.try_mount():
            self.look_at_everything()
            self.mount.unmount()

    def test_cut_short(self):
        with open(self.db, "r+b") as file:
            file.truncate(os.path.getsize(self.db) // 2)
        if self.try_mount():
            self.look_at_everything()
            self.mount.unmount()

    def test_while_mounted(self):
        self.mount.start()
        os.listdir(self.mount.point + "/t")
        with open(self.db, "r+b") as file:
            file.truncate(20 * 4096)
        self.look_at_everything()
        self.mount.unmount()


@unittest.skipUnless(os.getuid() == 0, "only root can mount a small filesystem")
class FullDisk(PlaceTest):
    def setUp(self):
        self.small = os.path.join(self.place, self.id().split(".")[-1])
        os.mkdir(self.small)
        self.run_tool(["mount", "-t", "tmpfs", "-o", "size=3m", "none", self.small])
        self.addCleanup(subprocess.run, ["umount", "-l", self.small])
        self.mount = self.new_mount(self.small + "/items.db", "mnt-" + self.id().split(".")[-1])
        self.mount.start()
        os.mkdir(self.mount.point + "/t")

    def save(self, name, body):
        fd = os.open(f"{self.mount.point}/t/{name}", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        try:
            os.write(fd, body)
        finally:
            os.close(fd)

    def read(self, name):
        with open(f"{self.mount.point}/t/{name}", "rb") as file:
            return file.read()

    def test_full_disk(self):
        body = b'{"pad": "' + b"f" * 60_000 + b'"}'
        self.save("first.json", b'{"v": 1}')
        kept = 0
        with self.assertRaises(OSError) as caught:
            for kept in range(200):
                self.save(f"k{kept}.json", body)
        self.assertEqual(errno.ENOSPC, caught.exception.errno)
        self.assertGreater(kept, 5)
        # Everything that was acknowledged is there, before and after a remount.
        for turn in range(2):
            self.assertEqual(b'{"v": 1}', self.read("first.json"))
            for number in range(kept):
                self.assertEqual(body, self.read(f"k{number}.json"))
            self.assertFalse(os.path.exists(f"{self.mount.point}/t/k{kept}.json"))
            if turn == 0:
                self.mount.remount()
        # With room again, saving works again, without a remount.
        self.run_tool(["mount", "-o", "remount,size=20m", self.small])
        self.save("after.json", body)
        self.assertEqual(body, self.read("after.json"))
        self.mount.unmount()

    def test_scratch_on_a_full_disk(self):
        # What could not be stored is no file, and must not become an empty item.
        filler = self.fill()
        with self.assertRaises(OSError) as caught:
            self.save("tmp", b"1" * 60_000)
        self.assertEqual(errno.ENOSPC, caught.exception.errno)
        os.unlink(filler)
        path = f"{self.mount.point}/t"
        wait_for("the draft", lambda: os.path.isdir(f"{self.mount.point}/.itemfs/drafts/t")
                 and os.listdir(f"{self.mount.point}/.itemfs/drafts/t") == ["tmp"])
        with self.assertRaises(FileNotFoundError):
            os.rename(path + "/tmp", path + "/new.json")
        self.assertEqual([], os.listdir(path))
        self.mount.unmount()

    def fill(self):
        """Leaves no room; the file to remove."""
        fd = os.open(self.small + "/filler", os.O_CREAT | os.O_WRONLY)
        try:
            while True:
                os.write(fd, b"\0" * 4096)
        except OSError:
            os.close(fd)
        return self.small + "/filler"

    def test_full_disk_at_the_start(self):
        self.mount.unmount()
        self.fill()
        try:
            self.mount.start()
        except AssertionError as error:
            self.assertIn("before it mounted", str(error))
            self.assertNotIn("Sanitizer", self.mount.log_text())
            return
        self.assertEqual([], os.listdir(self.mount.point + "/t"))
        self.mount.unmount()


class MovedStore(PlaceTest):
    """The store's file is taken away, or another one is put in its place, under a mount."""

    def setUp(self):
        place = os.path.join(self.place, self.id().split(".")[-1])
        os.mkdir(place)
        self.db = os.path.join(place, "items.db")
        self.mount = self.new_mount(self.db, "mnt-" + os.path.basename(place))
        self.mount.start()
        os.mkdir(self.mount.point + "/t")

    def nothing_is_acknowledged(self):
        path = self.mount.point + "/t/b.json"
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT)
        except OSError as error:  # where it was noticed before, or had to be looked at
            self.assertEqual(errno.EIO, error.errno)
        else:
            os.write(fd, b"2")
            self.assertErrno(errno.EIO, os.fsync, fd)
            self.assertErrno(errno.EIO, os.close, fd)
        self.assertIn("was removed or replaced", self.mount.log_text())
        unmount(self.mount.point)
        self.assertEqual(0, self.mount.process.wait(20))

    def test_removed(self):
        for suffix in ("", "-wal", "-shm"):
            os.unlink(self.db + suffix)
        self.nothing_is_acknowledged()

    def test_log_removed(self):
        os.unlink(self.db + "-wal")
        self.nothing_is_acknowledged()

    def test_replaced(self):
        copy = self.db + ".new"
        with sqlite3.connect(self.db) as store, sqlite3.connect(copy) as other:
            store.backup(other)
        os.rename(copy, self.db)
        self.nothing_is_acknowledged()


class ReadOnlyFile(PlaceTest):
    def test_store_file_of_mode_0444(self):
        # Root may write it all the same: what counts is one clear outcome and unharmed data.
        db = os.path.join(self.place, "items.db")
        mount = self.new_mount(db, "mnt")
        mount.start()
        os.mkdir(mount.point + "/t")
        with open(mount.point + "/t/a.json", "w") as file:
            file.write("5")
        mount.unmount()
        os.chmod(db, 0o444)
        before = shutil.copy(db, db + ".copy")
        for options in ([], ["ro"]):
            again = self.new_mount(db, "again", options)
            try:
                again.start()
            except AssertionError as error:
                self.assertIn("before it mounted", str(error))
                continue
            with open(again.point + "/t/a.json") as file:
                self.assertEqual("5", file.read())
            again.unmount()
        self.assertTrue(os.path.exists(before))


if __name__ == "__main__":
    unittest.main()
