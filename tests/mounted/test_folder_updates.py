# SPDX-License-Identifier: MIT
"""Counters and lists in folders of files: exact beside programs that count in the same files under
flock, with a mount that watches and without one."""

import errno
import fcntl
import json
import os
import subprocess
import sys
import unittest

from folder import FolderTest
from harness import BIN, HERE, ITEMCTL, has_tool, unmount, wait_for

ABSENT, LOCKED = 3, 5
PROCESSES, TIMES = 16, 3
FLOCKS, FLOCK_TIMES = 4, 100

# What a program does that counts in a file: as the tag store's client, but for what it is written in.
FLOCK = """
import fcntl, os, sys
for _ in range(int(sys.argv[2])):
    fd = os.open(sys.argv[1], os.O_RDWR | os.O_APPEND)
    fcntl.flock(fd, fcntl.LOCK_EX)
    number = int(os.pread(fd, 100, 0)) + 1
    os.ftruncate(fd, 0)
    os.write(fd, b"%d" % number)
    fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)
"""


class UpdateTest(FolderTest):
    def number(self, command, key, *step):
        return json.loads(self.itemctl(command, "users", key, *step).stdout)["N"]


class Updates(UpdateTest):
    def setUp(self):
        super().setUp()
        self.direct("n.json", "5\n")
        self.direct("list.json", '{"l": [0], "n": 1.5}')
        self.start()

    def file(self, name, root=None):
        return os.path.join(root or self.db, "users", name)

    def test_a_number(self):
        inode = os.stat(self.file("n.json")).st_ino
        self.assertEqual("6", self.number("incr", "n"))
        self.assertEqual("106", self.number("incr", "n", "100"))
        self.assertEqual("9", self.number("decr", "n", "97"))
        self.assertEqual(b"9\n", self.direct("n.json"))
        self.assertEqual(inode, os.stat(self.file("n.json")).st_ino)  # who waits has this one
        self.assertSoon(b"9\n", self.read, "n.json")
        self.assertSoon(os.stat(self.file("n.json")).st_mtime_ns,
                        lambda: os.stat(self.path("n.json")).st_mtime_ns)

    def test_attributes_and_lists(self):
        self.itemctl("incr", "users", "list", "1", "--attr", "n")
        self.itemctl("append", "users", "-k", "list", "l", '"x"')
        self.itemctl("append", "users", "-k", "list", "l", "7", "--unique")
        self.assertEqual(b'{"l": [0,"x",7], "n": 2.5}', self.direct("list.json"))
        os.setxattr(self.path("list.json"), "user.itemfs.add.n", b"-2.5")
        os.setxattr(self.path("list.json"), "user.itemfs.append.l", b"[]")
        self.assertEqual(b'{"l": [0,"x",7,[]], "n": 0}', self.direct("list.json"))
        self.assertEqual(b'{"l": [0,"x",7,[]], "n": 0}', self.read("list.json"))

    def test_what_is_not_there(self):
        self.itemctl("incr", "users", "nobody", status=ABSENT)
        self.itemctl("append", "users", "-k", "nobody", "l", "1", status=ABSENT)
        self.assertEqual(["list.json", "n.json"], sorted(os.listdir(self.folder)))
        self.itemctl("incr", "users", "list", status=1)  # it has attributes, and is no number
        self.assertEqual(b'{"l": [0], "n": 1.5}', self.direct("list.json"))

    def test_what_was_written_within_a_clock_tick(self):
        for i in range(50):
            self.direct("n.json", "7")
            self.direct("n.json", "8")
            self.assertEqual(b"8", self.direct("n.json"))
            os.setxattr(self.path("n.json"), "user.itemfs.add.$value", b"1")
            self.assertEqual(b"9", self.direct("n.json"))

    def test_a_lock_that_is_kept(self):
        with open(self.file("n.json"), "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            done = self.itemctl("incr", "users", "n", status=LOCKED)
            self.assertIn("users/n.json is locked by another program", done.stderr)
            self.assertErrno(errno.EBUSY, os.setxattr, self.path("n.json"),
                             "user.itemfs.add.$value", b"1")
            self.assertEqual(b"5\n", self.direct("n.json"))
        self.assertEqual("6", self.number("incr", "n"))

    def test_the_stream_tells_of_all(self):
        os.setxattr(self.dir, "user.itemfs.stream", b"on")
        self.itemctl("incr", "users", "n")
        self.direct("n.json", "10")
        self.itemctl("incr", "users", "n")
        lines = map(json.loads, self.itemctl("changes", "users").stdout.splitlines())
        told = [(line["old_item"]["$value"]["N"], line["new_item"]["$value"]["N"]) for line in lines]
        self.assertEqual([("5", "6"), ("6", "10"), ("10", "11")], told)


class Writers(UpdateTest):
    """Programs that write without the lock."""

    def setUp(self):
        super().setUp()
        self.direct("n.json", '{"n":41,"name":"kept"}')
        self.start()

    def test_a_file_that_is_just_written(self):
        os.setxattr(self.dir, "user.itemfs.stream", b"on")
        for text in (b"", b'{"n":'):
            with open(os.path.join(self.folder, "n.json"), "wb") as file:
                file.write(text)
                file.flush()
                done = self.itemctl("incr", "users", "n", "--attr", "n", status=LOCKED)
                self.assertIn("is being written by another program", done.stderr)
                self.assertErrno(errno.EBUSY, os.setxattr, self.path("n.json"),
                                 "user.itemfs.add.n", b"1")
                self.assertEqual(b'{"n":41,"name":"kept"}', self.read("n.json"))
                file.seek(0)
                file.write(b'{"n":41,"name":"kept"}')
        self.assertEqual("42", self.number("incr", "n", "--attr", "n"))
        [line] = map(json.loads, self.itemctl("changes", "users").stdout.splitlines())
        self.assertEqual([{"N": "41"}, {"N": "42"}],
                         [line[item]["n"] for item in ("old_item", "new_item")])

    def test_who_closes_in_time_is_waited_for(self):
        with open(os.path.join(self.folder, "n.json"), "wb") as file:
            process = subprocess.Popen([ITEMCTL, "-s", self.source, "incr", "users", "n", "--attr",
                                        "n"], env=self.env(), stdout=subprocess.PIPE)
            file.write(b'{"n":9}')
        self.assertEqual({"N": "10"}, json.loads(process.communicate()[0]))
        self.assertEqual(b'{"n":10}', self.direct("n.json"))


class Killed(UpdateTest):
    """A daemon is killed in the middle of writing a file in place."""

    replicas = 2
    pages = 3

    def setUp(self):
        super().setUp()
        self.cut = os.path.join(self.home_dir, "cut")
        self.second = self.new_mount(self.source, self.name + "-mnt2", self.options)
        self.second.program = os.path.join(BIN, "itemfs_stopping")
        self.second.env = self.env() | {"ITEMFS_CUT": self.cut}

    def put(self, number):
        """All behind the number moves when it gets another digit."""
        pad = ",".join(map(str, range(10000, 10000 + 4096 * self.pages // 6))).encode()
        text = b'{"n":%d,"pad":[%s]}' % (number, pad)
        now_ns = self.now_ns()
        for root in self.roots:
            self.direct("new", text, root=root, mtime_ns=now_ns)
            os.rename(os.path.join(root, "users", "new"), os.path.join(root, "users", "n.json"))
        return text

    def kill_at(self, size, step):
        """An update through the second mount, cut when SIZE bytes are written."""
        with open(self.cut, "w") as file:
            file.write(f"{os.path.join(self.folder, 'n.json')} {size}")
        self.second.start()
        with self.assertRaises(OSError):
            os.setxattr(os.path.join(self.second.point, "users", "n.json"), "user.itemfs.add.n",
                        step)
        self.assertEqual(-9, self.second.process.wait(30))
        self.second.log.close()
        unmount(self.second.point)
        os.unlink(self.cut)

    def drafts_of_all(self):
        return sorted(body for [body] in self.state().rows("SELECT body FROM draft"))

    def assertWhole(self, before, after):
        """All of it or nothing of it is there, everywhere. (What the dead daemon was about to rename
        is there, too.)"""
        def alike():
            found = [self.files(root)["n.json"] for root in self.roots]
            return found[0] == found[1] and found[0][0] in (before, after)
        wait_for("files that are whole and alike", alike)
        self.assertSoon(self.direct("n.json"), self.read, "n.json")

    def places(self):
        """(the number, what is added, where it is cut): between pages, as it is by a kill, and
        behind all, which is before what was longer is cut off, and before its time is set."""
        whole = len(self.put(10))
        for number, step in ((9, b"1"), (10, b"-1")):
            for size in (0, 4096, 8192, whole):
                yield number, step, size

    def test_beside_a_mount(self):
        self.start()
        for number, step, size in self.places():
            with self.subTest(number=number, size=size):
                before = self.put(number)
                self.assertSoon(before, self.read, "n.json")
                self.kill_at(size, step)
                self.assertWhole(before, before.replace(b"%d" % number,
                                                        b"%d" % (number + int(step)), 1))
                self.assertEqual([], [body[:20] for body in self.drafts_of_all()])

    def test_by_the_next_itemctl(self):
        for size in (4096, 8192):
            before = self.put(9)
            self.kill_at(size, b"1")
            self.assertFalse(self.direct("n.json") in (before, before.replace(b"9", b"10", 1)))
            found = json.loads(self.itemctl("get", "users", "-k", "n").stdout)
            self.assertIn(found["n"]["N"], ("9", "10"))
            self.assertEqual({}, self.state().bodies("itemfs journal"))
        self.start()
        self.assertWhole(before, before.replace(b"9", b"10", 1))

    def test_what_others_have_written_since(self):
        before = self.put(9)
        self.kill_at(4096, b"1")
        self.direct("n.json", '{"n":12}')
        self.direct("n.json", '{"n":12}', root=self.roots[1])
        self.start()
        self.assertEqual(b'{"n":12}', self.read("n.json"))
        self.assertEqual({}, self.state().bodies("itemfs journal"))
        before = self.put(9)
        self.assertSoon(before, self.read, "n.json")
        self.mount.unmount()
        self.kill_at(4096, b"1")
        for root in self.roots:
            self.direct("n.json", "{", root=root)
        self.start()
        self.assertSoonGone(self.path("n.json"))
        self.assertEqual([before, b"{"], sorted(self.drafts_of_all(), key=len, reverse=True))


class Crowd(UpdateTest):
    """Sixteen itemctl at once, and programs that lock the file itself."""

    mounted = True

    def setUp(self):
        super().setUp()
        for root in self.roots:
            self.direct("n.json", "0", root=root, mtime_ns=10**18)
            self.direct("list.json", '{"l":[]}', root=root, mtime_ns=10**18)
        if self.mounted:
            self.start()

    def spawn(self, *command, **more):
        process = subprocess.Popen(command, env=self.env(), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, **more)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        return process

    def count(self, process):
        return self.spawn("bash", "-ec", f"""for i in $(seq {TIMES}); do
            "$0" -s "$1" incr users n
            "$0" -s "$1" append users -k list l '"{process} '$i'"'
        done""", ITEMCTL, self.source)

    def others(self):
        """Programs that count in the first replica's file, and how often in all."""
        file = os.path.join(self.folder, "n.json")
        crowd = [self.spawn(sys.executable, "-c", FLOCK, file, str(FLOCK_TIMES))
                 for _ in range(FLOCKS)]
        total = FLOCKS * FLOCK_TIMES
        if has_tool("php"):
            program = os.path.join(HERE, "php", "run.php")
            php = self.spawn("php", "-n", program, self.db, stdin=subprocess.PIPE)
            for _ in range(FLOCK_TIMES):
                php.stdin.write(json.dumps(["update", "users", ["n"], 1]) + "\n")
            php.stdin.close()
            php.stdin = None
            crowd.append(php)
            total += FLOCK_TIMES
        return crowd, total

    def test_nothing_is_lost(self):
        others, beside = self.others()
        crowd = [self.count(process) for process in range(PROCESSES)]
        for process in crowd + others:
            out, complaint = process.communicate()
            self.assertEqual((0, ""), (process.returncode, complaint), out)
            self.assertNotIn("throws", out)
        total = PROCESSES * TIMES + beside
        self.assertEqual(b"%d" % total, self.direct("n.json"))
        values = json.loads(self.direct("list.json"))["l"]
        self.assertEqual(sorted(f"{process} {i + 1}" for process in range(PROCESSES)
                                for i in range(TIMES)), sorted(values))
        self.assertEqual(str(total + 1), self.number("incr", "n"))
        if self.mounted:
            self.assertSoon(b"%d" % (total + 1), self.read, "n.json")
        self.check_replicas()

    def check_replicas(self):
        pass


class CrowdAlone(Crowd):
    """The same while nobody watches."""

    mounted = False


class CrowdOfReplicas(Crowd):
    """Two replicas; programs that lock write the first one only here."""

    replicas = 2

    def check_replicas(self):
        self.wait_alike()


if __name__ == "__main__":
    unittest.main()
