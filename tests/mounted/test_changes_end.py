# SPDX-License-Identifier: MIT
"""Followers of change streams when something ends: the table, the mount, the disk, a day, a call."""

import contextlib
import errno
import json
import os
import select
import signal
import sqlite3
import subprocess
import threading
import time
import unittest

from follow import Follower, described, fill, is_opening
from harness import BIN, ITEMCTL, LONG, PlaceTest, wait_for
from store import Store

HOUR = 3600


class EndTest(PlaceTest):
    """A store and a mount for each test, with a table t."""

    program = os.path.join(BIN, "itemfs")
    options = ()
    more_environment = {}  # of the daemon

    def setUp(self):
        self.dir = os.path.join(self.place, self.id().split(".")[-1])
        os.mkdir(self.dir)
        self.db = os.path.join(self.dir, "items.db")
        self.store = Store(self.db, ITEMCTL, self.environment())
        self.mount = self.new_mount(self.db, os.path.join(self.dir, "mnt"), self.options,
                                    program=self.program)
        self.mount.env = self.environment(**self.more_environment)
        self.mnt = self.mount.point
        self.mount.start()
        os.mkdir(self.mnt + "/t")
        self.file = self.mnt + "/.itemfs/changes/t.jsonl"

    def save(self, *names, table="t"):
        for name in names:
            with open(f"{self.mnt}/{table}/{name}.json", "w") as file:
                file.write("{}")

    def lines(self):
        with open(self.file) as file:
            return file.read().splitlines()

    def follow(self, *command):
        return Follower(self, list(command))

    def tail(self):
        return self.follow("tail", "-n", "+1", "-f", "-s", "0.1", self.file)

    def open(self):
        fd = os.open(self.file, os.O_RDONLY)
        self.addCleanup(os.close, fd)
        return fd

    def itemctl(self, *arguments, **more):
        return self.run_tool([ITEMCTL, "-s", self.db, *arguments], **more)

    def assertEnds(self, fd, number, *want):
        """FD, from where it stands: these changes, then that error, and it stays so."""
        data = b""
        with self.assertRaises(OSError) as caught:
            while piece := os.read(fd, 1000):
                data += piece
        self.assertEqual(number, caught.exception.errno)
        self.assertEqual(list(want), described(data.decode().splitlines()))
        self.assertErrno(number, os.read, fd, 1000)
        self.assertEqual(os.lseek(fd, 0, os.SEEK_CUR) + 1, os.fstat(fd).st_size)


class Dropped(EndTest):
    def test_dropped_elsewhere(self):
        self.save("a")
        tail, fd, epoll = self.tail(), self.open(), select.epoll()
        self.addCleanup(epoll.close)
        tail.wait(1)
        self.assertEqual(1, os.read(fd, 9999).count(b"\n"))
        epoll.register(fd, select.EPOLLIN)
        self.assertEqual([], epoll.poll(0))
        with contextlib.closing(sqlite3.connect(self.db)) as db, db:  # the last change and the end
            db.execute("INSERT INTO change(table_id, kind, pk, sk, change, time, origin, streamed,"
                       " expired, new) SELECT id, 0, 'last', '', 1, ?, 0, 1, 0, '{}' FROM tables"
                       " WHERE name = 't'", (time.time_ns(),))
        self.itemctl("drop", "t", "--force")
        wait_for("the end", lambda: epoll.poll(20) == [(fd, select.EPOLLIN | select.EPOLLERR)])
        self.assertEnds(fd, errno.ESTALE, "INSERT last")
        status, said, lines = tail.ended()
        self.assertEqual(["INSERT a", "INSERT last"], described(lines))
        self.assertEqual(1, status)
        self.assertIn("Stale file handle", said)
        self.assertErrno(errno.ENOENT, os.stat, self.file)
        self.assertEqual([], os.listdir(os.path.dirname(self.file)))
        self.assertIn("the table was dropped", self.mount.log_text())
        self.mount.terminate()

    def test_dropped_by_this_mount(self):
        tail, fd = self.tail(), self.open()
        self.save("a")
        os.unlink(self.mnt + "/t/a.json")
        os.rmdir(self.mnt + "/t")
        self.assertEqual(["INSERT a", "REMOVE a"], described(tail.ended()[2]))
        wait_for("the end", lambda: self.has_ended(fd))
        os.lseek(fd, 0, os.SEEK_SET)
        self.assertEnds(fd, errno.ESTALE, "INSERT a", "REMOVE a")
        self.mount.terminate()

    @staticmethod
    def has_ended(fd):
        try:
            os.pread(fd, 1, 1 << 40)
            return False
        except OSError:
            return True

    def test_made_anew(self):
        """A table of the same name is another one, also for those who open its file."""
        self.save("a")
        old, tail = self.open(), self.tail()
        tail.wait(1)
        self.itemctl("drop", "t", "--force")
        self.itemctl("create", "t", "--key", "id:N")
        wait_for("the new table", lambda: os.path.exists(self.mnt + "/t/1.json") or
                 self.itemctl("put", "t", "--item", "-", input='{"id":{"N":"1"}}'))
        wait_for("its file", lambda: described(self.lines()) == ["INSERT 1"])
        self.assertEnds(old, errno.ESTALE, "INSERT a")
        self.assertEqual(1, tail.ended()[0])
        new = self.open()
        self.assertEqual(["INSERT 1"], described(os.read(new, 9999).decode().splitlines()))
        self.mount.terminate()

    def test_renamed(self):
        """Whoever follows a table goes on with it under its new name; the old one is free."""
        self.save("a")
        fd, tail = self.open(), self.tail()
        tail.wait(1)
        os.rename(self.mnt + "/t", self.mnt + "/u")
        self.save("b", table="u")
        self.assertEqual(["INSERT a", "INSERT b"], described(tail.wait(2)))
        self.assertErrno(errno.ENOENT, os.stat, self.file)
        os.mkdir(self.mnt + "/t")
        self.assertEqual([], self.lines())
        self.save("c")
        self.assertEqual(["INSERT c"], described(self.lines()))
        self.assertEqual(["INSERT a", "INSERT b"],
                         described(os.read(fd, 9999).decode().splitlines()))
        self.file = self.file.replace("t.jsonl", "u.jsonl")
        self.assertEqual(["INSERT a", "INSERT b"], described(self.lines()))
        tail.stop()
        self.mount.terminate()

    def test_number_keys(self):
        self.itemctl("create", "n", "--key", "id:N")
        self.file = wait_for("the table", lambda: os.path.exists(self.mnt + "/n") and
                             self.mnt + "/.itemfs/changes/n.jsonl")
        for turn in range(20):
            fd = self.open()
            self.itemctl("put", "n", "--item", "-", input='{"id":{"N":"%d"}}' % turn)
            self.itemctl("drop", "n", "--force")
            wait_for("the end", lambda: self.has_ended(fd))
            self.assertEnds(fd, errno.ESTALE, f"INSERT {turn}")
            self.itemctl("create", "n", "--key", "id:N")
            wait_for("the table", lambda: os.path.exists(self.mnt + "/n"))
        self.mount.terminate()

    def test_at_any_moment(self):
        """Tables come and go while programs open, poll, read and close their file."""
        stop, seen, wrong = threading.Event(), set(), []

        def use():
            try:
                fd = os.open(self.file, os.O_RDONLY)
            except OSError as error:
                return error.errno
            try:
                poller = select.poll()
                poller.register(fd, select.POLLIN)
                for _ in range(3):
                    poller.poll(20)
                    data = os.read(fd, 1 << 16)
                    if data and not data.endswith(b"}\n"):
                        wrong.append(data)
                return 0
            except OSError as error:
                return error.errno
            finally:
                os.close(fd)

        def go_on():
            while not stop.is_set():
                seen.add(use())

        threads = [threading.Thread(target=go_on) for _ in range(6)]
        self.addCleanup(lambda: [thread.join() for thread in threads])
        self.addCleanup(stop.set)
        for thread in threads:
            thread.start()
        for turn in range(20 if not LONG else 500):
            wait_for("the new table", lambda name=f"k{turn}": self.try_save(name))
            killed = self.follow("cat", self.file)
            killed.process.kill()
            self.itemctl("drop", "t", "--force")
            self.itemctl("create", "t", "--key", "key")
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual([], wrong)
        self.assertLessEqual(seen, {0, errno.ESTALE, errno.ENOENT})
        wait_for("the new table", lambda: self.try_save("last"))
        self.assertEqual(["INSERT last"], described(self.lines()))
        self.mount.terminate()

    def try_save(self, name):
        """False where the mount has still the old table, or none."""
        try:
            self.save(name)
            return True
        except OSError as error:
            self.assertIn(error.errno, (errno.ENOENT, errno.ESTALE))
            return False


class Mount(EndTest):
    def test_told_to_end(self):
        self.save("a")
        tails, fd, epoll = [self.tail() for _ in range(5)], self.open(), select.epoll()
        self.addCleanup(epoll.close)
        self.assertEqual(1, os.read(fd, 9999).count(b"\n"))
        epoll.register(fd, select.EPOLLIN)
        for tail in tails:
            tail.wait(1)
        self.mount.terminate()
        for tail in tails:
            status, said, lines = tail.ended()
            self.assertEqual((0, ["INSERT a"]), (status, described(lines)))
            self.assertIn("not connected", said)
        self.assertTrue(epoll.poll(20)[0][1] & select.EPOLLERR)
        self.assertErrno(errno.ENOTCONN, os.read, fd, 10)

    def test_unmounted(self):
        tail = self.tail()
        self.save("a")
        tail.wait(1)
        done = self.run_tool(["fusermount3", "-u", self.mnt], status=1)
        self.assertIn("busy", done.stderr)
        self.save("b")
        self.assertEqual(["INSERT a", "INSERT b"], described(tail.wait(2)))
        tail.stop()
        self.mount.unmount()

    def test_unmounted_lazily(self):
        """Whoever has the file open goes on; when he is done, so is the daemon."""
        tail = self.tail()
        self.save("a")
        tail.wait(1)
        self.run_tool(["fusermount3", "-uz", self.mnt])
        self.itemctl("put", "t", "--item", "-", input='{"key":{"S":"b"}}')
        self.assertEqual(["INSERT a", "INSERT b"], described(tail.wait(2)))
        self.assertIsNone(self.mount.process.poll())
        tail.stop()
        self.mount.ended()

    def test_told_to_end_while_one_opens(self):
        fill(self.db, "t", 30_000, 3000)
        cat = self.follow("wc", "-l", self.file)
        wait_for("its open", lambda: is_opening(cat.process.pid) or cat.process.poll() is not None)
        self.mount.terminate()
        cat.ended()

    def test_daemon_killed(self):
        tail = self.tail()
        self.save("a")
        tail.wait(1)
        self.mount.kill()
        self.assertIn("no files remaining", tail.ended()[1])


class Waiting(EndTest):
    """An open that waits: the thread that fills the spool stands still in its first write."""

    def setUp(self):
        super().setUp()
        self.save("a", "b")
        trace = self.dir + "/trace"
        self.tracer = subprocess.Popen(
            ["strace", "-f", "-p", str(self.mount.process.pid), "-o", trace, "-e", "trace=pwrite64",
             "-e", "inject=pwrite64:delay_enter=600s"], stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.release)
        self.assertIn("attached", self.tracer.stderr.readline())
        self.cat = self.follow("cat", self.file)
        wait_for("the spool's first write", lambda: "INSERT" in open(trace).read())

    def release(self):
        """The thread goes on: the tracer lets go of it."""
        self.tracer.kill()
        self.tracer.wait()
        self.tracer.stderr.close()

    def test_interrupted(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            cat = self.follow("cat", self.file)
            wait_for("its open", lambda pid=cat.process.pid: is_opening(pid))
            cat.process.send_signal(number)
            self.assertEqual((-number, "", []), cat.ended())
        self.assertIsNone(self.cat.process.poll())
        self.release()
        self.assertEqual(["INSERT a", "INSERT b"], described(self.cat.ended()[2]))
        self.mount.terminate()

    def test_what_was_there_when_it_opened(self):
        """A round that was begun before is not enough."""
        self.itemctl("put", "t", "--item", "-", input='{"key":{"S":"c"}}')
        later = self.follow("cat", self.file)
        wait_for("its open", lambda: is_opening(later.process.pid))
        self.release()
        self.assertEqual(["INSERT a", "INSERT b", "INSERT c"], described(later.ended()[2]))
        self.assertEqual(0, self.cat.ended()[0])
        self.mount.terminate()

    def test_others_are_served(self):
        cats = [self.follow("cat", self.file) for _ in range(40)]  # more than there are workers
        for cat in cats:
            wait_for("its open", lambda pid=cat.process.pid: is_opening(pid))
        self.assertEqual(["a.json", "b.json"], sorted(os.listdir(self.mnt + "/t")))
        os.statvfs(self.mnt)
        self.release()
        for cat in cats:
            self.assertEqual(["INSERT a", "INSERT b"], described(cat.ended()[2]))
        self.mount.terminate()


class Lost(EndTest):
    def test_gap(self):
        """Records that went before they were read: no reader may take what follows for all."""
        self.save("a", "b")
        tail, fd = self.tail(), self.open()
        tail.wait(2)
        self.assertEqual(2, os.read(fd, 9999).count(b"\n"))
        self.mount.process.send_signal(signal.SIGSTOP)
        self.itemctl("put", "t", "--items", "-",
                     input='{"key":{"S":"c"}}\n{"key":{"S":"d"}}\n{"key":{"S":"e"}}\n')
        with contextlib.closing(sqlite3.connect(self.db)) as db, db:
            last, = db.execute("SELECT max(seq) FROM change WHERE kind = 0").fetchone()
            db.execute("DELETE FROM change WHERE seq < ?", (last,))
            db.execute("UPDATE meta SET value = ? WHERE name = 'dropped_seq'", (last - 1,))
        self.mount.process.send_signal(signal.SIGCONT)
        status, said, lines = tail.ended()
        self.assertEqual((1, ["INSERT a", "INSERT b"]), (status, described(lines)))
        self.assertIn("Input/output error", said)
        self.assertEnds(fd, errno.EIO)
        self.assertEqual(["INSERT e"], described(self.lines()))
        self.assertIn("gone before they could be read", self.mount.log_text())
        self.mount.terminate()


@unittest.skipUnless(os.getuid() == 0, "only root can mount a small filesystem")
class FullDisk(EndTest):
    def setUp(self):
        self.small = os.path.join(self.place, "small-" + self.id().split(".")[-1])
        os.mkdir(self.small)
        self.run_tool(["mount", "-t", "tmpfs", "-o", "size=1m", "none", self.small])
        self.addCleanup(subprocess.run, ["umount", "-l", self.small])
        self.options = (f"state_dir={self.small}/state",)
        super().setUp()

    def put(self, first, count):
        for number in range(first, first + count):
            with open(f"{self.mnt}/t/k{number}.json", "w") as file:
                json.dump({"pad": "p" * 100_000}, file)

    def test_full(self):
        self.put(0, 3)
        fd, tail = self.open(), self.tail()
        tail.wait(3)
        self.put(3, 10)
        status, said, lines = tail.ended()
        self.assertEqual(1, status)
        self.assertIn("No space left on device", said)
        self.assertEqual([f"INSERT k{number}" for number in range(len(lines))], described(lines))
        self.assertTrue(3 <= len(lines) < 13, len(lines))
        self.assertEnds(fd, errno.ENOSPC, *described(lines))
        self.assertErrno(errno.ENOSPC, self.lines)  # there are two now
        self.assertIn("No space left on device", self.mount.log_text())
        self.assertIn(self.small, self.mount.log_text())
        with open(self.mnt + "/t/k12.json") as file:  # the mount is as it was
            self.assertEqual({"pad": "p" * 100_000}, json.load(file))
        self.save("after")
        self.run_tool(["mount", "-o", "remount,size=10m", self.small])
        self.assertEqual([*(f"INSERT k{number}" for number in range(13)), "INSERT after"],
                         described(self.lines()))
        self.assertEqual(0o700, os.stat(self.small + "/state").st_mode & 0o777)
        self.assertEqual([], os.listdir(self.small + "/state"))
        self.mount.terminate()
        self.assertLess(int(self.sh(f"df --output=used {self.small} | tail -1").stdout), 20)

    def test_no_directory(self):
        with open(self.small + "/state", "w"):
            pass
        self.assertErrno(errno.ENOTDIR, self.lines)
        self.assertIn("(state_dir)", self.mount.log_text())
        os.unlink(self.small + "/state")
        self.assertEqual([], self.lines())
        self.mount.terminate()


class Day(EndTest):
    """The daemon's clock is put forward; what itemctl writes meanwhile has the real time."""

    program = os.path.join(BIN, "itemfs_shifted")

    def setUp(self):
        self.shift_file = os.path.join(self.place, "shift-" + self.id().split(".")[-1])
        self.shift(0)
        self.more_environment = {"ITEMFS_SHIFT": self.shift_file}
        super().setUp()

    def shift(self, hours):
        with open(self.shift_file + ".new", "w") as file:
            file.write(str(int(hours * HOUR)))
        os.rename(self.shift_file + ".new", self.shift_file)


    def test_editions(self):
        self.save("a")
        first = self.open()
        number = os.fstat(first).st_ino
        tail = self.follow("tail", "-n", "+1", "-F", "-s", "0.05", self.file)
        tail.wait(1)
        self.shift(12)
        self.save("b")
        self.assertEqual(["INSERT a", "INSERT b"], described(self.lines()))
        self.shift(24.5)  # the store drops the first record; whoever opens may see it still
        wait_for("the store's trimming", lambda: len(self.store.changes("t")) == 1)
        self.assertEqual(["INSERT a", "INSERT b"], described(self.lines()))
        self.shift(25.5)
        self.save("c")
        self.assertEqual(["INSERT b", "INSERT c"], described(self.lines()))
        second = self.open()
        self.save("d")
        want = ["INSERT b", "INSERT c", "INSERT d"]
        wait_for("the last change", lambda: self.from_start(second) == want)
        self.assertEqual(["INSERT a", *want], self.from_start(first))
        self.assertEqual(number, os.fstat(second).st_ino)
        self.assertEqual(os.fstat(second).st_size, os.stat(self.file).st_size)
        self.assertLess(os.fstat(second).st_size, os.fstat(first).st_size)
        # Whoever follows by name has not noticed.
        self.assertEqual(["INSERT a", "INSERT b", "INSERT c", "INSERT d"], described(tail.wait(4)))
        self.assertTrue(tail.none())
        self.mount.terminate()

    @staticmethod
    def from_start(fd):
        return described(os.pread(fd, 99999, 0).decode().splitlines())

    def test_too_slow(self):
        """What is two hours older than what is kept is given up, also for who has not read it."""
        self.save("a")
        slow = self.open()
        self.shift(12)
        self.save("b")
        size = len(self.lines()[0]) + 1
        self.shift(26.5)
        self.assertEqual(["INSERT b"], described(self.lines()))
        wait_for("the spool's trimming", lambda: self.is_gone(slow), seconds=90)
        self.assertErrno(errno.EIO, os.pread, slow, 99999, 0)
        self.assertErrno(errno.EIO, os.pread, slow, 1, size - 1)
        rest = os.pread(slow, 99999, size)
        self.assertEqual(["INSERT b"], described(rest.decode().splitlines()))
        self.assertEqual(1, self.mount.log_text().count("too old to be kept"))
        self.mount.terminate()

    @staticmethod
    def is_gone(fd):
        try:
            os.pread(fd, 1, 0)
            return False
        except OSError:
            return True


if __name__ == "__main__":
    unittest.main()
