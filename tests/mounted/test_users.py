# SPDX-License-Identifier: MIT
"""What users of such filesystems hit, one test a point, numbered as the project's list of them.

Points 1 to 15; the rest is in test_users_more.py. A point that needs a network is not here.
"""

import errno
import mmap
import os
import signal
import subprocess
import threading
import unittest

from harness import MountedTest, wait_for
from terminal import interact

FAR = b"4102444800"


class Users(MountedTest):
    def test_users_01_vim_files_are_no_items(self):
        self.write("a.json", '{"v": 1}\n')
        self.mark()
        # While the file is open in vim a swap file lies beside it; the shell looks at both.
        interact(["vim.basic", "-c", "preserve", "a.json"],
                 [("preserved", f":!ls -A > {self.place}/listing\r"), ("ENTER", "\r:wq\r")],
                 self.dir, self.environment())
        with open(self.place + "/listing") as file:
            self.assertIn(".a.json.swp", file.read())
        for name in ("4913", "a.json~", ".a.json.swp", ".a.json.swx", "#a.json#", "a.json.orig"):
            self.write(name, b"not JSON")
        self.assertEqual(["a"], sorted(self.store.bodies(self.table)))
        self.assertChanges()

    def test_users_02_sed_in_place(self):
        self.write("a.json", '{"v": 1}')
        self.sh("sed -i s/1/2/ a.json")
        self.assertBoth("a.json", '{"v": 2}')
        self.assertEqual(["a.json"], self.names())
        self.assertChanges("INSERT a", "MODIFY a")

    def test_users_03_rsync_temporary_times_rename(self):
        # The very steps of rsync, in its order.
        self.write("a.json", '{"v": 1}')
        self.mark()
        tmp = self.path(".a.json.Qw3rTy")
        fd = os.open(tmp, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        os.write(fd, b'{"v": 2}')
        os.close(fd)
        os.utime(tmp, ns=(0, 1_600_000_000_123_456_789))
        os.chmod(tmp, 0o644)
        os.rename(tmp, self.path("a.json"))
        self.assertBoth("a.json", '{"v": 2}')
        self.assertEqual(1_600_000_000_123_456_789, os.stat(self.path("a.json")).st_mtime_ns)
        self.assertChanges("MODIFY a")

    def test_users_04_content_after_time_set_behind_a_rename(self):
        for number in range(50):
            body = b'{"v": "%s"}' % (b"x" * number * 90)
            self.write("tmp", body)
            os.rename(self.path("tmp"), self.path("a.json"))
            os.utime(self.path("a.json"), ns=(0, 1_000_000_000 + number))
            self.assertBoth("a.json", body)
            self.assertEqual(1_000_000_000 + number, os.stat(self.path("a.json")).st_mtime_ns)

    def test_users_05_times_survive_a_restore(self):
        source = os.path.join(self.place, "source-05")
        os.mkdir(source)
        for number in range(5):
            with open(f"{source}/k{number}.json", "w") as file:
                file.write(str(number))
            os.utime(f"{source}/k{number}.json", ns=(0, 1_500_000_000_000_000_000 + number))
        self.run_tool(["rsync", "-a", source + "/", self.dir + "/"])
        self.mount.remount()
        again = self.run_tool(["rsync", "-ain", source + "/", self.dir + "/"]).stdout
        self.assertEqual([], [line for line in again.splitlines() if not line.startswith(".d")])

    def test_users_06_time_right_at_once_and_later(self):
        self.write("a.json", '{"v": 1}')
        at_once = os.stat(self.path("a.json")).st_mtime_ns
        self.read("a.json")
        os.listdir(self.dir)
        self.itemctl("get", self.table, "-k", "a")
        self.write("b.json", "{}")
        self.assertEqual(at_once, os.stat(self.path("a.json")).st_mtime_ns)
        self.mount.remount()
        self.assertEqual(at_once, os.stat(self.path("a.json")).st_mtime_ns)

    def test_users_07_ttl_survives_replace_by_rename(self):
        self.write("a.json", '{"v": 1}')
        os.setxattr(self.path("a.json"), "user.itemfs.ttl", FAR)
        for script in ("sed -i s/1/2/ a.json", "perl -i -pe s/2/3/ a.json",
                       "jq .v=5 a.json > t && mv t a.json", "echo '{\"v\": 6}' > t; mv -f t a.json",
                       "vim.basic -Nes -u NONE -c 'set writebackup' -c 's/6/7/' -c wq a.json"):
            self.sh(script)
            self.assertEqual(FAR, os.getxattr(self.path("a.json"), "user.itemfs.ttl"), script)

    def test_users_08_one_save_for_many_closes(self):
        fd = os.open(self.path("a.json"), os.O_CREAT | os.O_WRONLY)
        os.write(fd, b'{"v":')
        pid = os.fork()
        if pid == 0:  # a child that inherits the descriptor, and ends
            os.close(fd)
            os._exit(0)
        os.waitpid(pid, 0)
        os.write(fd, b" 1}")
        second = os.dup(fd)
        os.close(fd)
        os.close(second)
        self.assertBoth("a.json", '{"v": 1}')
        self.assertEqual([], self.drafts())
        self.assertChanges("INSERT a")

    def test_users_09_release_without_flush(self):
        self.write("a.json", b'{"v": 1}')
        fd = os.open(self.path("a.json"), os.O_RDWR)
        memory = mmap.mmap(fd, 8)
        os.close(fd)  # the last flush
        memory[6:7] = b"2"
        memory.close()  # the release
        wait_for("the save", lambda: self.store.body(self.table, "a") == b'{"v": 2}', 5)

    def test_users_10_errors_surface_and_the_old_stays(self):
        self.write("a.json", '{"v": 1}')
        self.mark()
        fd = os.open(self.path("a.json"), os.O_WRONLY | os.O_TRUNC)
        os.write(fd, b"{")
        self.assertErrno(errno.EINVAL, os.fsync, fd)
        try:
            os.close(fd)
        except OSError as error:  # it may say so again
            self.assertEqual(errno.EINVAL, error.errno)
        self.assertErrno(errno.EINVAL, self.write, "a.json", "{")
        done = self.run_tool(["cp", "/dev/stdin", self.path("a.json")], status=1, input="{")
        self.assertIn("Invalid argument", done.stderr)
        self.assertBoth("a.json", '{"v": 1}')
        self.assertChanges()

    def test_users_11_fsync_works_for_vim(self):
        # vim gives E667 when fsync fails; that it reaches the disk is test_crash's matter.
        self.write("a.json", '{"v": 1}\n')
        status, output = interact(["vim.basic", "-c", "set fsync", "-c", "s/1/2/", "-c", "wq",
                                   "a.json"], [], self.dir, self.environment())
        self.assertEqual(0, status)
        self.assertNotIn("E667", output)
        self.assertBoth("a.json", '{"v": 2}\n')

    def test_users_12_grown_elsewhere_is_read_to_its_end(self):
        self.write("a.json", '{"v": 1}')
        self.read("a.json")
        held = open(self.path("a.json"), "rb", buffering=0)
        self.itemctl("put", self.table, "--item", "-",
                     input='{"key":{"S":"a"},"v":{"S":"%s"}}' % ("y" * 20_000))
        wait_for("the long text", lambda: len(self.read("a.json")) > 20_000, 1)
        self.assertEqual(len(self.read("a.json")), os.stat(self.path("a.json")).st_size)
        held.close()

    def test_users_13_unreachable_is_not_deleted(self):
        # Each read of the store file fails for a while, as on a medium that went away: an error,
        # never "no such item" and never an empty read.
        self.write("a.json", '{"v": 1}')
        self.mount.remount()
        tracer = subprocess.Popen(
            ["strace", "-f", "-p", str(self.mount.process.pid), "-o", self.place + "/inject",
             "-e", "trace=pread64", "-e", "inject=pread64:error=EIO"],
            stderr=subprocess.PIPE, text=True)
        self.assertIn("attached", tracer.stderr.readline())
        answers = []
        try:
            for function in (self.read, lambda name: os.stat(self.path(name)).st_size,
                             lambda name: os.listdir(self.dir)) * 2:
                try:
                    answers.append(function("a.json"))
                except OSError as error:
                    answers.append(error.errno)
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.communicate()
        failures = {errno.EIO, errno.EUCLEAN}
        self.assertTrue(failures & set(filter(lambda answer: isinstance(answer, int), answers)))
        self.assertLessEqual({str(answer) for answer in answers},
                             {*map(str, failures), str(b'{"v": 1}'), "8", "['a.json']"})
        self.assertBoth("a.json", '{"v": 1}')

    def test_users_14_partial_listing_makes_no_negative_entries(self):
        for number in range(3000):
            self.write(f"k{number:04}.json", "{}")
        self.mount.remount()
        fd = os.open(self.dir, os.O_RDONLY | os.O_DIRECTORY)
        with os.scandir(fd) as entries:
            for _ in range(5):
                next(entries)
            for name in ("k2999.json", "k1500.json", "k0001.json"):
                self.assertTrue(os.path.exists(self.path(name)))
        os.close(fd)
        self.assertEqual(3000, len(self.names()))

    def test_users_15_key_after_rename_and_stale_inode(self):
        self.write("a.json", '{"v": 1}')
        fd = os.open(self.path("a.json"), os.O_RDONLY)
        os.rename(self.path("a.json"), self.path("b.json"))
        self.assertIn(b'"b"', os.getxattr(fd, "user.itemfs.key"))
        self.assertIn(b'"b"', os.getxattr(self.path("b.json"), "user.itemfs.key"))
        os.close(fd)
        # One mount holds the inode, the other replaces the item: a new open finds the new one.
        second = self.new_mount(self.db, "second-15").start()
        there = os.path.join(second.point, self.table, "b.json")
        with open(self.path("b.json")):
            os.unlink(there)
            with open(there, "w") as file:
                file.write('{"v": "new"}')
            wait_for("the new item", lambda: os.path.exists(self.path("b.json"))
                     and self.read("b.json") == b'{"v": "new"}', 1)
        # Without a moment in which a path that always names an item is "not there".
        missing = []
        stop = threading.Event()

        def looker():
            while not stop.is_set():
                try:
                    os.stat(self.path("b.json"))
                    self.read("b.json")
                except OSError as error:
                    missing.append(error.errno)
        thread = threading.Thread(target=looker)
        thread.start()
        for number in range(100):
            with open(there + ".tmp", "w") as file:
                file.write(f'{{"v": {number}}}')
            os.rename(there + ".tmp", there)
        stop.set()
        thread.join()
        self.assertEqual([], missing)
        second.unmount()


if __name__ == "__main__":
    unittest.main()
