# SPDX-License-Identifier: MIT
"""Updates through a mount: extended attributes that add to a number and append to a list."""

import errno
import json
import multiprocessing
import os
import unittest

from harness import MountedTest, wait_for

ADD, APPEND, UNIQUE = (f"user.itemfs.{kind}." for kind in ("add", "append", "append_unique"))
PROCESSES, SUMS, VALUES = 8, 1000, 250  # each reads the whole list: that costs time


def update_many(directory, first):
    """Adds to one number; values of its own, and at last one that all others append too."""
    for _ in range(SUMS):
        os.setxattr(directory + "/n.json", ADD + "$value", b"0.1")
    for value in range(first, first + VALUES):
        os.setxattr(directory + "/l.json", UNIQUE + "$value", b"%d" % value)
    try:
        os.setxattr(directory + "/l.json", UNIQUE + "$value", b'"x"')
    except FileExistsError:
        os._exit(1)
    os._exit(0)


class Updates(MountedTest):
    def set(self, name, value, file="a.json", flags=0):
        os.setxattr(self.path(file), name, value if isinstance(value, bytes) else value.encode(),
                    flags)

    def test_numbers(self):
        self.write("a.json", '{ "n" : 1.5,\n\t"s": "\\/" }\n')
        self.set(ADD + "n", "1")
        self.assertBoth("a.json", '{ "n" : 2.5,\n\t"s": "\\/" }\n')
        self.assertErrno(errno.ERANGE, self.set, ADD + "n", "12345678901234567890123456789012345678")
        self.set(ADD + "n", "-0.5")
        self.set(ADD + "n", "12345678901234567890123456789012345678")
        self.set(ADD + "new", "-7")
        self.assertBoth("a.json", '{ "n" : 12345678901234567890123456789012345680,'
                                  '\n\t"s": "\\/",\n\t"new": -7 }\n')
        self.assertChanges("INSERT a", *["MODIFY a"] * 4)

    def test_bare_values(self):
        self.write("a.json", "5\n")
        self.set(ADD + "$value", "1")
        self.assertBoth("a.json", "6\n")
        self.write("a.json", "[1, 2]\n")
        self.set(APPEND + "$value", "3")
        self.assertBoth("a.json", "[1, 2, 3]\n")

    def test_lists(self):
        self.write("a.json", "{}")
        self.sh("setfattr -n user.itemfs.append.l -v '\"\\\"x\\\"\"' a.json")
        self.set(UNIQUE + "l", " 7 ")
        self.assertErrno(errno.EEXIST, self.set, UNIQUE + "l", "7.0")
        self.set(UNIQUE + "l", '"7"')
        self.assertBoth("a.json", '{"l": ["x",7,"7"]}')
        self.assertChanges("INSERT a", *["MODIFY a"] * 3)

    def test_refused(self):
        self.write("a.json", '{"s": "abc", "n": 1}')
        for name, value in ((ADD + "s", "1"), (ADD + "n", "x"), (ADD + "n", ""), (ADD + "key", "1"),
                            (ADD + "-ttl", "1"), (ADD + "$value", "1"), (APPEND + "s", '"b"'),
                            (UNIQUE + "s", '"b"'), (APPEND + "l", "1,2"), (APPEND + "l", "")):
            self.assertErrno(errno.EINVAL, self.set, name, value)
        self.assertErrno(errno.ENODATA, self.set, ADD + "n", "1", flags=os.XATTR_REPLACE)
        for name in ("user.itemfs.add", "user.itemfs.add.", "user.itemfs.added.n"):
            self.assertErrno(errno.EOPNOTSUPP, self.set, name, "1")
        self.assertBoth("a.json", '{"s": "abc", "n": 1}')
        self.set(ADD + "n", "1")
        self.assertErrno(errno.EINVAL, self.set, ADD + "s", "1")
        self.assertIn('"s" is of type S, and only a number (N) can be added to',
                      os.getxattr(self.path("a.json"), "user.itemfs.error").decode())
        self.assertChanges("INSERT a", "MODIFY a")

    def test_never_there(self):
        self.write("a.json", '{"n": 1}')
        self.set(ADD + "n", "1")
        self.assertEqual([], [name for name in os.listxattr(self.path("a.json")) if "add" in name])
        self.assertErrno(errno.EOPNOTSUPP, os.getxattr, self.path("a.json"), ADD + "n")
        self.assertErrno(errno.EOPNOTSUPP, os.removexattr, self.path("a.json"), ADD + "n")
        self.write("notes.txt", "{}")
        self.assertErrno(errno.EOPNOTSUPP, self.set, ADD + "n", "1", file="notes.txt")
        self.assertErrno(errno.EOPNOTSUPP, os.setxattr, self.dir, ADD + "n", b"1")

    def test_items_that_are_open(self):
        self.write("a.json", '{"n": 1}')
        with open(self.path("a.json"), "rb") as reader:
            self.assertEqual(b'{"n": 1}', reader.read())
            self.set(ADD + "n", "1")
            reader.seek(0)
            self.assertEqual(b'{"n": 1}', reader.read())  # one version for as long as it is open
        self.assertBoth("a.json", '{"n": 2}')
        fd = os.open(self.path("a.json"), os.O_WRONLY)
        try:
            os.write(fd, b'{"n": 9}')
            self.assertErrno(errno.EBUSY, self.set, ADD + "n", "1")
        finally:
            os.close(fd)
        self.assertBoth("a.json", '{"n": 9}')
        fd = os.open(self.path("a.json"), os.O_WRONLY)
        self.set(ADD + "n", "1")
        os.write(fd, b'{"n": 0}')  # of what it has not seen
        self.assertErrno(errno.ESTALE, os.close, fd)
        self.assertBoth("a.json", '{"n": 10}')
        self.assertEqual(b'{"n": 0}', self.draft("a.json")[0])

    def test_by_descriptor(self):
        self.write("a.json", '{"n": 1}')
        with open(self.path("a.json"), "rb") as reader:
            for _ in range(3):
                os.setxattr(reader.fileno(), ADD + "n", b"1")
            self.assertBoth("a.json", '{"n": 4}')
            os.unlink(self.path("a.json"))
            self.assertErrno(errno.ENOENT, os.setxattr, reader.fileno(), ADD + "n", b"1")
        self.assertChanges("INSERT a", *["MODIFY a"] * 3, "REMOVE a")

    def test_itemctl_beside(self):
        """What itemctl counts is seen here, whatever the kernel has kept."""
        self.write("a.json", '{"n": 1}')
        for number in range(2, 6):
            self.assertEqual(f'{{"n": {number - 1}}}', self.read("a.json").decode())
            told = self.itemctl("incr", self.table, "a", "--attr", "n").stdout
            self.assertEqual({"N": str(number)}, json.loads(told))
            wait_for("the new number", lambda: b"%d" % number in self.read("a.json"), 2)
        self.set(ADD + "n", "5")
        self.assertBoth("a.json", '{"n": 10}')
        self.assertChanges("INSERT a", *["MODIFY a"] * 5)

    def test_times(self):
        self.write("a.json", '{"n": 1}')
        os.utime(self.path("a.json"), ns=(1, 12345))
        ctime = os.stat(self.path("a.json")).st_ctime_ns
        self.set(ADD + "n", "1")
        after = os.stat(self.path("a.json"))
        self.assertEqual(after.st_mtime_ns, after.st_ctime_ns)
        self.assertGreater(after.st_ctime_ns, ctime)

    def test_many_processes(self):
        self.write("n.json", "0")
        self.write("l.json", "[]")
        processes = [multiprocessing.Process(target=update_many, args=(self.dir, at * VALUES))
                     for at in range(PROCESSES)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        self.assertEqual([0] + [1] * (PROCESSES - 1), sorted(p.exitcode for p in processes))
        self.assertBoth("n.json", str(PROCESSES * SUMS // 10))
        values = json.loads(self.read("l.json"))
        values.remove("x")
        self.assertEqual(list(range(PROCESSES * VALUES)), sorted(values))
        for at in range(PROCESSES):  # in the order of each
            own = [value for value in values if value // VALUES == at]
            self.assertEqual(sorted(own), own)
        self.assertBoth("l.json", self.read("l.json"))


if __name__ == "__main__":
    unittest.main()
