# SPDX-License-Identifier: MIT
"""Two mounts of one store change the same files within the moment in which neither has heard of the
other's change: nothing that was acknowledged is undone, and nothing is lost."""

import ctypes
import errno
import os
import unittest

from harness import MountedTest, wait_for

TURNS = 3


class TwoMounts(MountedTest):
    @classmethod
    def prepare(cls):
        cls.second = cls.new_mount(cls.db, "second")
        cls.second.env = cls.mount.env
        cls.second.start()

    @classmethod
    def tearDownClass(cls):
        cls.second.unmount()
        super().tearDownClass()

    def setUp(self):
        super().setUp()
        self.there = os.path.join(self.second.point, self.table)
        self.known = set()
        wait_for("the table on the second mount", lambda: os.path.isdir(self.there))

    def both_know(self, **files):
        """FILES (name: content) are there, and both mounts have read them."""
        for name, text in files.items():
            self.write(name.replace("_", "."), text)
            self.known.add(name.replace("_", "."))
        for directory in (self.dir, self.there):
            wait_for("the files", lambda: all(
                self.content(directory, name.replace("_", ".")) == text.encode()
                for name, text in files.items()))

    def content(self, directory, name):
        try:
            with open(os.path.join(directory, name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def agreed(self):
        """What the files of the table hold, by name, once both mounts show the same, also of the
        names that are gone."""
        def shown(directory):
            names = self.known | set(os.listdir(directory))
            return {name: self.content(directory, name) for name in names}
        wait_for("agreement", lambda: shown(self.dir) == shown(self.there))
        return {name: text for name, text in shown(self.dir).items() if text is not None}

    def outcome(self, function, *arguments):
        try:
            function(*arguments)
            return 0
        except OSError as error:
            return error.errno

    def save_there(self, name, text, flags=os.O_TRUNC):
        fd = os.open(os.path.join(self.there, name), os.O_WRONLY | flags)
        os.write(fd, text.encode())
        os.close(fd)

    def exchange(self, directory, one, other):
        libc = ctypes.CDLL(None, use_errno=True)
        paths = [os.fsencode(os.path.join(directory, name)) for name in (one, other)]
        if libc.renameat2(-100, paths[0], -100, paths[1], 2):
            raise OSError(ctypes.get_errno(), "exchange")

    def test_exchanges_of_items_with_one_scratch_file(self):
        for _ in range(TURNS):
            self.both_know(k1_json='"one"', k2_json='"two"', s='"S"')
            self.outcome(self.exchange, self.there, "k1.json", "s")
            self.outcome(self.exchange, self.dir, "k2.json", "s")
            self.assertEqual([b'"S"', b'"one"', b'"two"'], sorted(self.agreed().values()))

    def test_scratch_changed_there_becomes_an_item_here(self):
        for _ in range(TURNS):
            self.both_know(q='"old"', k_json='"k"')
            self.save_there("q", '"new"')
            self.assertEqual(0, self.outcome(os.rename, self.path("q"), self.path("k.json")))
            self.assertEqual({"k.json": b'"new"'}, self.agreed())

    def test_appends_to_one_scratch_file(self):
        for _ in range(TURNS):
            self.both_know(log="base")
            here = os.open(self.path("log"), os.O_WRONLY | os.O_APPEND)
            there = os.open(os.path.join(self.there, "log"), os.O_WRONLY | os.O_APPEND)
            os.write(here, b"+A")
            os.write(there, b"+B")
            self.assertEqual(0, self.outcome(os.close, here))
            self.assertEqual(errno.ESTALE, self.outcome(os.close, there))
            self.assertEqual({"log": b"base+A"}, self.agreed())
            self.assertEqual(["log"], self.drafts())

    def test_scratch_made_there_and_written_here_at_once(self):
        """What was read here after it was made there stays what it is when the log tells of it."""
        for turn in range(TURNS):
            self.both_know(told_json=f"{turn}")
            self.write(f"log{turn}", "A")
            there = os.open(os.path.join(self.there, f"log{turn}"), os.O_WRONLY | os.O_APPEND)
            os.write(there, b"+B")
            self.write("told.json", '"the log was read so far"')
            wait_for("the log", lambda: b"so far" in self.content(self.there, "told.json"))
            self.assertEqual(0, self.outcome(os.close, there))
            self.known.add(f"log{turn}")
            self.assertEqual(b"A+B", self.agreed()[f"log{turn}"])
        self.assertEqual([], self.drafts())

    def test_scratch_renamed_there(self):
        for _ in range(TURNS):
            self.both_know(m="M", k_json='"k"')
            os.rename(os.path.join(self.there, "m"), os.path.join(self.there, "moved"))
            self.assertEqual(0, self.outcome(os.rename, self.path("k.json"), self.path("m")))
            self.assertEqual({"m": b'"k"', "moved": b"M"}, self.agreed())
            os.unlink(self.path("m"))

    def test_close_after_a_rename_there(self):
        for _ in range(TURNS):
            self.both_know(s="old")
            fd = os.open(self.path("s"), os.O_WRONLY | os.O_TRUNC)
            os.write(fd, b"new")
            os.rename(os.path.join(self.there, "s"), os.path.join(self.there, "s2"))
            self.assertEqual(errno.ESTALE, self.outcome(os.close, fd))
            self.assertEqual({"s2": b"old"}, self.agreed())

    def test_scratch_renamed_onto_each_other(self):
        for turn in range(TURNS): # names of their own: what is told late of one is no other's
            a, b = f"a{turn}", f"b{turn}"
            self.both_know(**{a: "A", b: "B"})
            self.save_there(b, "B2")
            self.assertEqual(0, self.outcome(os.rename, self.path(a), self.path(b)))
            self.assertEqual(b"A", self.agreed()[b])
            self.assertNotIn(a, self.agreed())

    def test_deleted_there_and_here(self):
        for _ in range(TURNS):
            self.both_know(s="S")
            os.unlink(os.path.join(self.there, "s"))
            self.assertEqual(errno.ENOENT, self.outcome(os.unlink, self.path("s")))
            self.assertEqual({}, self.agreed())


if __name__ == "__main__":
    unittest.main()
