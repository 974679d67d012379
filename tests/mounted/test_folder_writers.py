# SPDX-License-Identifier: MIT
"""Programs that are at work on a file when a save, a removal or a rename of it comes: they are
waited for, what they have done counts first, and nothing of theirs is overwritten unseen."""

import ctypes
import errno
import fcntl
import json
import os
import select
import subprocess
import threading
import time
import unittest

from folder import FolderTest
from harness import ITEMCTL, PATIENCE, has_tool, wait_for

FAILED, LOCKED = 1, 5
IN_OPEN = 0x20  # of inotify
OLD, THEIRS = b'{"v":0}', b'{"v":"theirs"}'


class WriterTest(FolderTest):
    def setUp(self):
        super().setUp()
        for root in self.roots:
            self.direct("ada.json", OLD, root=root, mtime_ns=10**18)
            self.direct("bob.json", b"7", root=root, mtime_ns=10**18)
        self.start()

    def file(self, name, root=None):
        return os.path.join(root or self.db, "users", name)

    def writer(self, name="ada.json", data=THEIRS, root=None):
        """A program that has written DATA, and keeps the file open."""
        fd = os.open(self.file(name, root), os.O_RDWR | os.O_CREAT, 0o644)
        open_fds = [fd]
        self.addCleanup(lambda: [os.close(fd) for fd in open_fds])
        if data is not None:
            os.ftruncate(fd, 0)
            os.write(fd, data)
        return open_fds

    @staticmethod
    def close(open_fds):
        os.close(open_fds.pop())

    def edit(self, name="ada.json"):
        """A save of what was read before: to be called when it is time."""
        file = open(self.path(name), "r+b", buffering=0)
        file.read()
        file.write(b" ")
        return file.close

    def watch_opens(self):
        """What can be read as soon as somebody opens the file."""
        libc = ctypes.CDLL(None, use_errno=True)
        watch = libc.inotify_init1(os.O_CLOEXEC)
        self.addCleanup(os.close, watch)
        self.assertGreater(libc.inotify_add_watch(watch, self.file("ada.json").encode(), IN_OPEN), 0)
        return watch

    def begin(self, function):
        """FUNCTION in a thread, until the daemon has the file open: it waits then. Gives what it
        fails with, once the thread is joined."""
        failed = []

        def run():
            try:
                function()
            except OSError as error:
                failed.append(errno.errorcode[error.errno])
        thread = threading.Thread(target=run)
        opened = self.watch_opens()
        thread.start()
        self.assertTrue(select.select([opened], [], [], PATIENCE)[0], "the daemon looks at the file")

        def end():
            thread.join()
            return failed
        return end

    def draft_bodies(self):
        return {self.draft(name)[0] for name in self.drafts()}

    def assertTheirs(self, *drafts):
        """What the program has written is there, what was refused is a draft."""
        self.assertEqual(THEIRS, self.direct("ada.json"))
        self.assertSoon(THEIRS, self.read, "ada.json")
        self.assertSoon(set(drafts), self.draft_bodies)


class Writers(WriterTest):
    def write_under_lock(self, save):
        """A program has the lock when SAVE comes, and writes then: what the save fails with."""
        fds = self.writer(data=None)
        fcntl.flock(fds[0], fcntl.LOCK_EX)
        end = self.begin(save)
        os.ftruncate(fds[0], 0)
        os.write(fds[0], THEIRS)
        fcntl.flock(fds[0], fcntl.LOCK_UN)
        self.close(fds)
        return end()

    def test_what_is_written_under_a_lock_counts_first(self):
        self.assertEqual(["ESTALE"], self.write_under_lock(self.edit()))
        self.assertTheirs(b'{"v":0} ')

    def test_what_is_written_under_a_lock_is_seen_before_it_goes(self):
        """Who removes or replaces does so whatever is there: then, and not what was there before."""
        os.setxattr(self.dir, "user.itemfs.stream", b"on")
        self.assertEqual([], self.write_under_lock(lambda: os.unlink(self.path("ada.json"))))
        self.direct("ada.json", OLD)
        self.assertSoon(OLD, self.read, "ada.json")
        self.assertEqual([], self.write_under_lock(
            lambda: os.rename(self.path("bob.json"), self.path("ada.json"))))
        self.assertEqual(b"7", self.direct("ada.json"))
        told = [(line["change_type"], line.get("old_item", {}).get("v"))
                for line in map(json.loads, self.itemctl("changes", "users").stdout.splitlines())
                if line["keys"]["-key"]["S"] == "ada"]
        self.assertEqual([("MODIFY", {"N": "0"}), ("REMOVE", {"S": "theirs"}), ("INSERT", None),
                          ("MODIFY", {"N": "0"}), ("MODIFY", {"S": "theirs"})], told)

    def test_what_is_still_written_is_not_overwritten(self):
        save = self.edit()
        fds = self.writer()
        self.assertErrno(errno.EBUSY, save)
        self.assertEqual(OLD, self.read("ada.json"))  # it is not closed yet
        self.assertEqual(THEIRS, self.direct("ada.json"))
        data, why = self.draft(self.drafts()[0])
        self.assertEqual(b'{"v":0} ', data)
        self.assertIn("ada.json is being written by another program", why)
        self.close(fds)
        self.assertTheirs(b'{"v":0} ')

    def test_who_closes_in_time_is_waited_for(self):
        save = self.edit()
        fds = self.writer()
        end = self.begin(save)
        self.close(fds)
        self.assertEqual(["ESTALE"], end())
        self.assertTheirs(b'{"v":0} ')

    def test_removals_and_renames(self):
        fds = self.writer()
        self.assertErrno(errno.EBUSY, os.unlink, self.path("ada.json"))
        self.assertErrno(errno.EBUSY, os.rename, self.path("ada.json"), self.path("eve.json"))
        self.assertErrno(errno.EBUSY, os.rename, self.path("bob.json"), self.path("ada.json"))
        self.assertErrno(errno.EBUSY, os.utime, self.path("ada.json"), (1, 1))
        self.assertEqual({"ada.json", "bob.json"}, set(self.files()))
        self.assertEqual(b"7", self.direct("bob.json"))
        self.close(fds)
        self.assertTheirs()

    def test_itemctl(self):
        fds = self.writer()
        item = '{"-key":{"S":"ada"},"v":{"N":"1"}}'
        done = self.itemctl("put", "users", "--item", "-", input=item, status=LOCKED)
        self.assertIn("users/ada.json is being written by another program", done.stderr)
        self.itemctl("delete", "users", "-k", "ada", status=LOCKED)
        lines = f'{item}\n{{"-key":{{"S":"eve"}},"v":{{"N":"1"}}}}\n'
        done = self.itemctl("import", "users", "-", input=lines, status=FAILED)
        self.assertIn("users/ada.json is being written by another program", done.stderr)
        self.assertEqual(THEIRS, self.direct("ada.json"))
        self.close(fds)
        self.itemctl("import", "users", "-", input=lines)  # which asks for nothing
        self.assertEqual({"v": 1}, json.loads(self.direct("ada.json")))

    def test_a_new_file(self):
        """Both make the same one."""
        fds = self.writer("new.json", b"")
        self.assertErrno(errno.EBUSY, self.write, "new.json", b"1")
        os.write(fds[0], THEIRS)
        self.assertErrno(errno.EBUSY, self.write, "new.json", b"1")
        self.close(fds)
        self.assertSoon(THEIRS, self.read, "new.json")
        self.assertEqual(THEIRS, self.direct("new.json"))

    def test_an_open_file_in_which_nothing_was_written(self):
        """Nothing of its is lost: it is replaced, when it was given the time to begin."""
        fds = self.writer(data=None)
        self.edit()()
        self.assertEqual(b'{"v":0} ', self.direct("ada.json"))
        self.assertEqual(OLD, os.pread(fds[0], 100, 0))

    def test_who_begins_in_time_counts(self):
        fds = self.writer(data=None)
        end = self.begin(self.edit())
        os.pwrite(fds[0], THEIRS, 0)
        self.close(fds)
        self.assertEqual(["ESTALE"], end())
        self.assertTheirs(b'{"v":0} ')

    def test_what_expires_under_a_lock_stays(self):
        fds = self.writer("ttl.json", b'{"-ttl":%d}' % (time.time() - 9))
        fcntl.flock(fds[0], fcntl.LOCK_EX)
        reader = os.open(self.file("ttl.json"), os.O_RDONLY)
        self.addCleanup(os.close, reader)
        self.close(fds)
        fcntl.flock(reader, fcntl.LOCK_EX)
        self.write("gone.json", '{"-ttl":%d}' % (time.time() - 9))
        wait_for("the sweep", lambda: not os.path.exists(self.file("gone.json")))
        body = b'{"-ttl":%d}' % (time.time() + 1000)
        with open(self.file("ttl.json"), "wb") as file:
            file.write(body)
        fcntl.flock(reader, fcntl.LOCK_UN)
        self.assertSoon(body, self.read, "ttl.json")


@unittest.skipUnless(os.geteuid() == 0 and has_tool("setpriv"), "needs root, and setpriv")
class WithoutLeases(FolderTest):
    """Nobody can tell whether a file of another user is being written."""

    def test_a_file_that_was_changed_just_now_is_given_a_second(self):
        path = os.path.join(self.folder, "n.json")
        self.direct("n.json", b"123456", mtime_ns=10**18)
        os.chown(path, 1, 1)

        def get():
            done = subprocess.run(["setpriv", "--bounding-set=-lease", ITEMCTL, "-s", self.source,
                                   "get", "users", "-k", "n"], env=self.env(), check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            return done.stdout and json.loads(done.stdout)["$value"]
        wait_for("the first look", lambda: get() == {"N": "123456"})
        with open(path, "wb", buffering=0) as file:
            written = threading.Event()

            def write():  # it stays one that was changed just now
                while not written.wait(0.05):
                    os.utime(path)
            thread = threading.Thread(target=write)
            thread.start()
            try:
                self.assertEqual({"N": "123456"}, get())  # and not empty
                file.write(b"98")
                self.assertEqual({"N": "123456"}, get())
            finally:
                written.set()
                thread.join()
            file.write(b"7654")
        wait_for("what was written", lambda: get() == {"N": "987654"})


class Replicas(WriterTest):
    replicas = 2

    def put(self, name, data, root, mtime_ns):
        """The file has that time from the beginning."""
        self.direct("new", data, root=root, mtime_ns=mtime_ns)
        os.rename(self.file("new", root), self.file(name, root))

    def test_the_second_is_being_written(self):
        save = self.edit()
        fds = self.writer(root=self.roots[1])
        self.assertErrno(errno.EBUSY, save)
        self.assertErrno(errno.EBUSY, os.unlink, self.path("ada.json"))
        self.assertEqual(THEIRS, self.direct("ada.json", root=self.roots[1]))
        self.close(fds)
        self.wait_alike()
        self.assertTheirs(b'{"v":0} ')

    def test_what_the_older_one_holds_is_kept(self):
        """Both were written, and a save comes before they are made alike."""
        for name, change in (("ada.json", lambda: self.write("ada.json", b'{"v":1}')),
                             ("bob.json", lambda: os.unlink(self.path("bob.json")))):
            self.put(name, b'{"v":"newest"}', self.roots[1], self.now_ns())
            self.put(name, THEIRS, self.roots[0], self.now_ns() - 10**10)
            self.assertSoon(b'{"v":"newest"}', self.read, name)
            change()
        for name in ("ada.json", "bob.json"):
            self.assertSoon((THEIRS, "replaced by the newer file of another replica"),
                            self.draft, name)


if __name__ == "__main__":
    unittest.main()
