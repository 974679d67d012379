# SPDX-License-Identifier: MIT
"""When a save commits, what it refuses, who sees it, and what conflicts."""

import ctypes
import errno
import mmap
import os
import subprocess
import sys
import unittest

from harness import MountedTest, wait_for

OLD = b'{"v": 1}\n'


class Saves(MountedTest):
    def setUp(self):
        super().setUp()
        self.write("a.json", OLD)
        self.mark()

    def open(self, name, flags, mode=0o644):
        fd = os.open(self.path(name), flags, mode)
        self.addCleanup(self.close_quietly, fd)
        return fd

    @staticmethod
    def close_quietly(fd):
        try:
            os.close(fd)
        except OSError:
            pass

    def test_new_empty_file_is_an_item(self):
        self.write("b.json", b"")
        wait_for("the item", lambda: self.store.body(self.table, "b") == b"", 5)
        self.assertBoth("b.json", b"")
        self.assertChanges("INSERT b")

    def test_emptied_item_stays(self):
        self.sh(": > a.json", status=None)
        wait_for("the old text", lambda: self.read("a.json") == OLD, 5)
        self.assertBoth("a.json", OLD)
        self.assertChanges()

    def test_emptied_by_fsync_is_refused(self):
        fd = self.open("a.json", os.O_WRONLY | os.O_TRUNC)
        self.assertErrno(errno.EINVAL, os.fsync, fd)
        self.close_quietly(fd)
        wait_for("the old text", lambda: self.read("a.json") == OLD, 5)
        self.assertChanges()

    def test_empty_replacement_is_refused(self):
        self.write("tmp", b"")
        self.assertErrno(errno.EINVAL, os.rename, self.path("tmp"), self.path("a.json"))
        self.assertBoth("a.json", OLD)
        self.assertChanges()

    def test_fsync_commits_and_close_adds_nothing(self):
        fd = self.open("a.json", os.O_WRONLY | os.O_TRUNC)
        os.write(fd, b'{"v": 2}')
        os.fsync(fd)
        self.assertStored("a", b'{"v": 2}')
        os.close(fd)
        self.assertChanges("MODIFY a")

    def test_each_fsync_is_a_save(self):
        fd = self.open("a.json", os.O_WRONLY | os.O_TRUNC)
        for number in range(3):
            os.pwrite(fd, b'{"v": %d}' % number, 0)
            os.fsync(fd)
            self.assertStored("a", b'{"v": %d}' % number)
        os.close(fd)
        self.assertChanges("MODIFY a", "MODIFY a", "MODIFY a")

    def test_nothing_reaches_the_store_before_the_save(self):
        fd = self.open("a.json", os.O_WRONLY | os.O_TRUNC)
        os.write(fd, b'{"v": 2}')
        self.assertStored("a", OLD)
        os.close(fd)
        self.assertBoth("a.json", b'{"v": 2}')
        self.assertChanges("MODIFY a")

    def test_others_here_see_what_is_being_written(self):
        fd = self.open("a.json", os.O_WRONLY | os.O_TRUNC)
        os.write(fd, b'{"v": 22}')
        self.assertEqual(9, os.stat(self.path("a.json")).st_size)
        self.assertEqual(b'{"v": 22}', self.read("a.json"))
        os.close(fd)

    def test_open_for_writing_without_a_write(self):
        for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND):
            os.close(self.open("a.json", flags))
        self.assertBoth("a.json", OLD)
        self.assertChanges()

    def test_duplicate_descriptors(self):
        # The first close flushes half a document: the save is decided by what comes after.
        fd = self.open("a.json", os.O_WRONLY | os.O_TRUNC)
        second = os.dup(fd)
        os.write(fd, b'{"v":')
        self.close_quietly(fd)
        os.write(second, b" 2}")
        os.close(second)
        self.assertBoth("a.json", b'{"v": 2}')
        self.assertChanges("MODIFY a")
        self.assertEqual([], self.drafts())

    def test_release_without_flush(self):
        # A shared mapping outlives its descriptor: what it wrote last comes with the release.
        fd = self.open("a.json", os.O_RDWR)
        memory = mmap.mmap(fd, len(OLD))
        os.close(fd)
        memory[:len(OLD)] = OLD.replace(b"1", b"7")
        memory.flush()
        memory.close()
        wait_for("the save", lambda: self.store.body(self.table, "a") == b'{"v": 7}\n', 5)
        self.assertBoth("a.json", b'{"v": 7}\n')

    def test_shared_mapping_synchronised(self):
        fd = self.open("a.json", os.O_RDWR)
        with mmap.mmap(fd, len(OLD)) as memory:
            memory[6:7] = b"8"
            memory.flush()
            os.fsync(fd)
        os.close(fd)
        self.assertBoth("a.json", OLD.replace(b"1", b"8"))

    def test_writes_at_offsets_and_holes(self):
        fd = self.open("b.json", os.O_RDWR | os.O_CREAT)
        os.pwrite(fd, b"}", 1000)
        os.pwrite(fd, b"{", 0)
        self.assertEqual(b"{" + b"\0" * 999 + b"}", os.pread(fd, 2000, 0))
        os.pwrite(fd, b" " * 999, 1)
        os.close(fd)
        self.assertBoth("b.json", b"{" + b" " * 999 + b"}")

    def test_ftruncate_then_write(self):
        fd = self.open("a.json", os.O_RDWR)
        os.ftruncate(fd, 0)
        os.write(fd, b"{}")
        os.close(fd)
        self.assertBoth("a.json", b"{}")
        self.assertChanges("MODIFY a")

    def test_fallocate_and_copy_file_range(self):
        fd = self.open("b.json", os.O_RDWR | os.O_CREAT)
        source = self.open("a.json", os.O_RDONLY)
        libc = ctypes.CDLL(None, use_errno=True)
        got = libc.copy_file_range(source, None, fd, None, len(OLD), 0)
        if got < 0:
            self.assertIn(ctypes.get_errno(), (errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV))
            os.write(fd, OLD)
        os.close(fd)
        self.assertBoth("b.json", OLD)

    def test_failed_save_shows_at_close_fsync_and_rename(self):
        fd = self.open("a.json", os.O_WRONLY | os.O_TRUNC)
        os.write(fd, b"{")
        self.assertErrno(errno.EINVAL, os.fsync, fd)
        self.close_quietly(fd)
        self.assertErrno(errno.EINVAL, self.write, "a.json", b"{")
        self.write("tmp", b"{")
        self.assertErrno(errno.EINVAL, os.rename, self.path("tmp"), self.path("a.json"))
        self.assertBoth("a.json", OLD)
        self.assertChanges()

    def test_correction_after_a_refused_fsync(self):
        fd = self.open("a.json", os.O_WRONLY | os.O_TRUNC)
        os.write(fd, b"{")
        self.assertErrno(errno.EINVAL, os.fsync, fd)
        os.write(fd, b"}")
        os.fsync(fd)
        os.close(fd)
        self.assertBoth("a.json", b"{}")
        self.assertEqual([], self.drafts())
        self.assertChanges("MODIFY a")

    def test_times_set_while_writing(self):
        fd = self.open("a.json", os.O_WRONLY | os.O_TRUNC)
        os.write(fd, b"{}")
        os.utime(fd, ns=(1, 1_000_000_000_000_000_001))
        os.close(fd)
        self.assertBoth("a.json", b"{}")
        self.assertEqual(1_000_000_000_000_000_001, os.stat(self.path("a.json")).st_mtime_ns)
        self.assertChanges("MODIFY a")


class Handles(MountedTest):
    """Programs that hold an item open while it is replaced, renamed or removed."""

    def setUp(self):
        super().setUp()
        self.write("a.json", OLD)
        self.mark()

    def test_reader_of_a_removed_item(self):
        with open(self.path("a.json"), "rb", buffering=0) as file:
            os.unlink(self.path("a.json"))
            self.assertEqual(OLD, file.read())
            self.assertEqual(len(OLD), os.fstat(file.fileno()).st_size)
            self.assertEqual([], self.names())  # no .fuse_hidden file either
        self.assertChanges("REMOVE a")

    def test_reader_of_a_replaced_item_keeps_its_text(self):
        with open(self.path("a.json"), "rb", buffering=0) as file:
            self.write("tmp", b'{"v": "a longer text"}')
            os.rename(self.path("tmp"), self.path("a.json"))
            self.assertIn(file.read(), (OLD, b'{"v": "a longer text"}'))
            self.assertEqual(b'{"v": "a longer text"}', self.read("a.json"))

    def test_late_close_after_removal_saves_nothing(self):
        fd = os.open(self.path("a.json"), os.O_WRONLY | os.O_TRUNC)
        os.write(fd, b'{"late": 1}')
        os.unlink(self.path("a.json"))
        self.write("a.json", b'{"new": 1}')
        try:
            os.close(fd)
        except OSError as error:
            self.assertEqual(errno.ESTALE, error.errno)
        self.assertBoth("a.json", b'{"new": 1}')
        self.assertChanges("REMOVE a", "INSERT a")

    def test_late_close_without_a_successor_saves_nothing(self):
        fd = os.open(self.path("a.json"), os.O_WRONLY | os.O_TRUNC)
        os.write(fd, b'{"late": 1}')
        os.unlink(self.path("a.json"))
        try:
            os.close(fd)
        except OSError as error:
            self.assertEqual(errno.ESTALE, error.errno)
        self.assertEqual([], self.names())
        self.assertChanges("REMOVE a")

    def test_handle_follows_a_rename(self):
        fd = os.open(self.path("a.json"), os.O_RDWR)
        os.rename(self.path("a.json"), self.path("b.json"))
        os.pwrite(fd, b'{"v": 5}\n', 0)
        os.close(fd)
        self.assertEqual(["b.json"], self.names())
        self.assertBoth("b.json", b'{"v": 5}\n')

    def test_handle_follows_a_rename_into_another_table(self):
        other = self.dir + "-2"
        os.mkdir(other)
        fd = os.open(self.path("a.json"), os.O_RDWR)
        os.rename(self.path("a.json"), other + "/b.json")
        os.pwrite(fd, b'{"v": 6}\n', 0)
        os.close(fd)
        self.assertEqual([], self.names())
        self.assertStored("b", b'{"v": 6}\n', table=os.path.basename(other))

    def test_removed_scratch_file_stays_readable(self):
        self.write("notes", b"text")
        with open(self.path("notes"), "rb", buffering=0) as file:
            os.unlink(self.path("notes"))
            self.assertEqual(b"text", file.read())
        self.assertEqual(["a.json"], self.names())


class Conflicts(MountedTest):
    """A save never overwrites what its writer could not have seen."""

    def setUp(self):
        super().setUp()
        self.write("a.json", OLD)
        self.second = self.new_mount(self.source, "second-" + self.table)
        self.second.env = self.mount.env

    def test_change_elsewhere_after_the_open(self):
        fd = os.open(self.path("a.json"), os.O_RDWR | os.O_TRUNC)
        os.write(fd, b'{"mine": 1}')
        self.itemctl("put", self.table, "--item", "-", input='{"key":{"S":"a"},"theirs":{"N":"1"}}')
        # Whether this mount has shown the change meanwhile decides between a conflict and a
        # coordinated overwrite; nothing here looked at the item since.
        got = None
        try:
            os.close(fd)
        except OSError as error:
            got = error.errno
        self.assertEqual(errno.ESTALE, got)
        self.assertIn(b"theirs", self.store.body(self.table, "a"))
        wait_for("the other's text", lambda: b"theirs" in self.read("a.json"), 1)
        body, reason = self.draft("a.json")
        self.assertEqual(b'{"mine": 1}', body)
        self.assertTrue(reason)

    def test_removal_elsewhere_after_the_open(self):
        fd = os.open(self.path("a.json"), os.O_RDWR | os.O_TRUNC)
        os.write(fd, b'{"mine": 1}')
        self.itemctl("delete", self.table, "-k", "a")
        self.assertErrno(errno.ESTALE, os.close, fd)
        self.assertIsNone(self.store.body(self.table, "a"))
        self.assertEqual(b'{"mine": 1}', self.draft("a.json")[0])

    def test_creation_elsewhere_after_the_create(self):
        fd = os.open(self.path("b.json"), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        self.itemctl("put", self.table, "--item", "-", input='{"key":{"S":"b"},"theirs":{"N":"1"}}')
        os.write(fd, b'{"mine": 1}')
        self.assertErrno(errno.ESTALE, os.close, fd)
        self.assertIn(b"theirs", self.store.body(self.table, "b"))

    def test_change_seen_before_the_open_is_no_conflict(self):
        for number in range(20):
            self.itemctl("put", self.table, "--item", "-",
                         input='{"key":{"S":"a"},"n":{"N":"%d"}}' % number)
            wait_for("the change", lambda: b'"n": %d' % number in self.read("a.json"), 1)
            self.write("a.json", b'{"mine": %d}' % number)
            self.assertStored("a", b'{"mine": %d}' % number)

    def test_processes_of_one_mount_do_not_conflict(self):
        self.sh("""for p in 1 2 3 4; do (
                     for i in {1..50}; do flock lock bash -c '
                         n=$(jq .v a.json); echo "{\\"v\\": $((n+1))}" > a.json'
                     done) & done; wait""")
        self.assertBoth("a.json", b'{"v": 201}\n')
        self.assertEqual(200, self.store.changes(self.table).count("MODIFY a"))

    def test_last_writer_of_one_mount_wins(self):
        first = os.open(self.path("a.json"), os.O_WRONLY | os.O_TRUNC)
        os.write(first, b'{"first": 1}')
        os.close(first)
        self.write("a.json", b'{"second": 2}')
        self.assertBoth("a.json", b'{"second": 2}')

    def test_two_mounts(self):
        self.second.start()
        there = os.path.join(self.second.point, self.table, "a.json")
        fd = os.open(self.path("a.json"), os.O_WRONLY | os.O_TRUNC)
        os.write(fd, b'{"here": 1}')
        with open(there, "wb") as file:
            file.write(b'{"there": 1}')
        self.assertErrno(errno.ESTALE, os.close, fd)
        self.assertStored("a", b'{"there": 1}')
        wait_for("the change", lambda: self.read("a.json") == b'{"there": 1}', 1)
        self.second.unmount()


class Bystanders(MountedTest):
    """What others do to a file that somebody is in the middle of writing."""

    def setUp(self):
        super().setUp()
        self.write("a.json", "100")
        self.mark()
        self.fd = os.open(self.path("a.json"), os.O_WRONLY | os.O_TRUNC)
        os.write(self.fd, b"12")

    def test_touch(self):
        self.sh("touch a.json")
        self.assertStored("a", "100")
        os.write(self.fd, b"34")
        os.close(self.fd)
        self.assertBoth("a.json", "1234")
        self.assertChanges("MODIFY a")

    def test_open_for_writing_and_close(self):
        os.close(os.open(self.path("a.json"), os.O_RDWR))
        self.assertStored("a", "100")
        os.write(self.fd, b"34")
        os.close(self.fd)
        self.assertBoth("a.json", "1234")
        self.assertChanges("MODIFY a")

    def test_another_writer_commits_what_there_is(self):
        other = os.open(self.path("a.json"), os.O_WRONLY)
        os.pwrite(other, b"5", 2)
        os.close(other)
        self.assertBoth("a.json", "125")
        os.write(self.fd, b"34")  # at its own offset
        os.close(self.fd)
        self.assertBoth("a.json", "1234")
        self.assertChanges("MODIFY a", "MODIFY a")

    def test_time_to_live(self):
        os.close(self.fd)
        self.write("a.json", '{"a": 2}')
        self.mark()
        fd = os.open(self.path("a.json"), os.O_WRONLY | os.O_TRUNC)
        os.write(fd, b'{"a": 3}')
        os.setxattr(self.path("a.json"), "user.itemfs.ttl", b"4102444801")
        os.write(fd, b"\n")
        os.close(fd)
        self.assertBoth("a.json", '{"a": 3, "-ttl": 4102444801}\n')
        self.assertChanges("MODIFY a")

    def test_time_to_live_of_what_is_open_and_not_written(self):
        os.close(self.fd)
        self.write("a.json", '{"a": 2}')
        fd = os.open(self.path("a.json"), os.O_WRONLY)
        self.mark()
        os.setxattr(self.path("a.json"), "user.itemfs.ttl", b"4102444801")
        self.assertBoth("a.json", '{"a": 2, "-ttl": 4102444801}')
        os.pwrite(fd, b"3", 6)  # its own text, as it has it
        os.close(fd)
        self.assertBoth("a.json", '{"a": 3}')
        self.assertChanges("MODIFY a", "MODIFY a")

    def tearDown(self):
        try:
            os.close(self.fd)
        except OSError:
            pass


class Turns(MountedTest):
    """Two programs that write the same item in turns, under a lock that they give away before they
    close. What one has written is truncated by the other before the close is heard of."""

    def setUp(self):
        super().setUp()
        self.write("n.json", "1")
        self.mark()
        # Another process, which does what it is told.
        self.other = subprocess.Popen(
            [sys.executable, "-uc", "import os, sys\n"
             "for line in sys.stdin: exec(line); print('done')"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=self.dir)
        self.mine = os.open(self.path("n.json"), os.O_RDWR | os.O_APPEND)

    def tearDown(self):
        self.other.communicate()

    def there(self, *statements):
        for statement in statements:
            self.other.stdin.write(statement + "\n")
            self.other.stdin.flush()
            self.assertEqual("done\n", self.other.stdout.readline())

    def test_closed_while_the_other_one_has_truncated(self):
        os.ftruncate(self.mine, 0)
        os.write(self.mine, b"2")
        number = os.stat(self.path("n.json")).st_ino
        self.there("fd = os.open('n.json', os.O_RDWR | os.O_APPEND)", "os.ftruncate(fd, 0)")
        self.assertStored("n", "2")
        os.close(self.mine)
        self.assertStored("n", "2")
        self.there("os.write(fd, b'3')", "os.close(fd)")
        self.assertBoth("n.json", "3")
        self.assertEqual(number, os.stat(self.path("n.json")).st_ino)
        self.assertChanges("MODIFY n", "MODIFY n")
        self.assertEqual([], self.drafts())

    def test_closed_while_the_other_one_has_written(self):
        os.ftruncate(self.mine, 0)
        os.write(self.mine, b"2")
        self.there("fd = os.open('n.json', os.O_WRONLY | os.O_TRUNC)", "os.write(fd, b'[3')")
        os.close(self.mine)
        self.assertStored("n", "2")
        self.there("os.write(fd, b', 4]')", "os.close(fd)")
        self.assertBoth("n.json", "[3, 4]")
        self.assertChanges("MODIFY n", "MODIFY n")
        self.assertEqual([], self.drafts())

    def test_of_a_new_item(self):
        fd = os.open(self.path("a.json"), os.O_CREAT | os.O_WRONLY)
        os.write(fd, b"1")
        self.there("fd = os.open('a.json', os.O_WRONLY | os.O_TRUNC)", "os.write(fd, b'2')",
                   "os.close(fd)")
        os.close(fd)
        self.assertBoth("a.json", "2")
        self.assertChanges("INSERT a", "MODIFY a")
        os.close(self.mine)

    def test_no_whole_text_is_truncated(self):
        os.ftruncate(self.mine, 0)
        os.write(self.mine, b'{"half": ')
        self.there("fd = os.open('n.json', os.O_WRONLY | os.O_TRUNC)", "os.write(fd, b'7')",
                   "os.close(fd)")
        self.assertStored("n", "7")
        os.close(self.mine)
        self.assertBoth("n.json", "7")
        self.assertChanges("MODIFY n")
        self.assertEqual([], self.drafts())

    def test_of_a_text_that_is_rewritten(self):
        os.ftruncate(self.mine, 0)
        os.write(self.mine, b'{"key": "other"}')
        self.there("fd = os.open('n.json', os.O_WRONLY | os.O_TRUNC)")
        self.assertStored("n", '{"key": "n"}')
        self.there("os.write(fd, b'7')", "os.close(fd)")
        os.close(self.mine)
        self.assertBoth("n.json", "7")
        self.assertChanges("MODIFY n", "MODIFY n")

    def test_the_other_one_ends_before_it_has_written(self):
        os.ftruncate(self.mine, 0)
        os.write(self.mine, b"2")
        self.there("fd = os.open('n.json', os.O_WRONLY | os.O_TRUNC)")
        os.close(self.mine)
        self.other.communicate()
        wait_for("the text of before", lambda: self.read("n.json") == b"2")
        self.assertStored("n", "2")
        self.assertChanges("MODIFY n")


class EmptyFiles(MountedTest):
    """Files made or emptied and not written: judged at the close that ends it, not before."""

    def test_emptying_is_refused_at_close(self):
        self.write("a.json", '{"v": 1}')
        self.mark()
        for _ in range(200):
            self.assertErrno(errno.EINVAL, self.write, "a.json", b"")
            self.assertEqual(b'{"v": 1}', self.read("a.json"))
        self.assertBoth("a.json", '{"v": 1}')
        self.assertChanges()

    def test_an_empty_new_file_is_stored_when_close_returns(self):
        for number in range(50):
            self.write(f"n{number}.json", b"")
            self.assertStored(f"n{number}", b"")
        self.assertChanges(*[f"INSERT n{number}" for number in range(50)])

    def writer(self, depth):
        """A program that writes its standard output when it is told to: (program, tell it)."""
        code = ("import os, sys\n"
                "for _ in range(%d):\n"
                "    if os.fork(): os._exit(0)\n"
                "sys.stdin.readline()\n"
                "os.write(1, b'{\"by\": \"child\"}')\n" % depth)
        return [sys.executable, "-c", code]

    def child_writes(self, name, depth):
        with open(self.path(name), "w") as file:
            child = subprocess.Popen(self.writer(depth), stdin=subprocess.PIPE, stdout=file)
            if depth:
                child.wait()
            try:
                file.close()
            except OSError as error:
                self.assertEqual(errno.EINVAL, error.errno)
                self.assertGreater(depth, 0)
        child.stdin.write(b"go\n")
        child.stdin.close()
        child.wait()
        wait_for("the save", lambda: b"child" in (self.store.body(self.table, name[0]) or b""))
        self.assertBoth(name, '{"by": "child"}')

    def test_a_child_writes_after_its_parent_has_closed(self):
        self.write("a.json", '{"v": 1, "long": "long enough to show at the end"}')
        self.mark()
        self.child_writes("a.json", 0)
        self.child_writes("b.json", 0)
        self.assertChanges("MODIFY a", "INSERT b")

    def test_a_grandchild_writes_last(self):
        # Nobody can know of it; still what it writes is what is stored, and nothing else.
        self.write("a.json", '{"v": 1, "long": "long enough to show at the end"}')
        self.mark()
        self.child_writes("a.json", 2)
        self.assertChanges("MODIFY a")


if __name__ == "__main__":
    unittest.main()
