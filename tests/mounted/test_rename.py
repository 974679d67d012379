# SPDX-License-Identifier: MIT
"""rename in all its forms, between items, scratch files, partitions and tables."""

import ctypes
import errno
import os
import unittest

from harness import MountedTest, wait_for

NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
LIBC = ctypes.CDLL(None, use_errno=True)


def renameat2(old, new, flags):
    if LIBC.renameat2(-100, os.fsencode(old), -100, os.fsencode(new), flags):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), old)


class Rename(MountedTest):
    options = ("rename_grace=1",)

    def setUp(self):
        super().setUp()
        self.write("a.json", '{"v": "a"}')
        self.write("b.json", '{"v": "b"}')
        self.mark()

    def rename(self, old, new, flags=0):
        renameat2(self.path(old), self.path(new), flags)

    def assertUnordered(self, *wanted):
        """One transaction touched several items: their order is its own matter."""
        got = self.store.changes(self.table)[self.seen:]
        self.assertEqual(sorted(wanted), sorted(got))
        self.assertChanges(*got)

    def test_to_a_free_name(self):
        mtime = os.stat(self.path("a.json")).st_mtime_ns
        self.rename("a.json", "c.json")
        self.assertEqual(["b.json", "c.json"], self.names())
        self.assertBoth("c.json", '{"v": "a"}')
        self.assertEqual(mtime, os.stat(self.path("c.json")).st_mtime_ns)
        self.assertErrno(errno.ENOENT, os.stat, self.path("a.json"))
        self.assertUnordered("REMOVE a", "INSERT c")

    def test_over_an_item(self):
        self.rename("a.json", "b.json")
        self.assertEqual(["b.json"], self.names())
        self.assertBoth("b.json", '{"v": "a"}')
        self.assertUnordered("REMOVE a", "MODIFY b")

    def test_noreplace(self):
        self.assertErrno(errno.EEXIST, self.rename, "a.json", "b.json", NOREPLACE)
        self.assertBoth("a.json", '{"v": "a"}')
        self.assertBoth("b.json", '{"v": "b"}')
        self.assertChanges()
        self.rename("a.json", "c.json", NOREPLACE)
        self.assertUnordered("REMOVE a", "INSERT c")

    def test_exchange(self):
        self.rename("a.json", "b.json", EXCHANGE)
        self.assertBoth("a.json", '{"v": "b"}')
        self.assertBoth("b.json", '{"v": "a"}')
        self.assertUnordered("MODIFY a", "MODIFY b")

    def test_exchange_with_nothing(self):
        self.assertErrno(errno.ENOENT, self.rename, "a.json", "c.json", EXCHANGE)
        self.assertChanges()

    def test_exchange_with_scratch(self):
        # An editor's atomic save: the new text in, the old text out.
        self.write("tmp", '{"v": "new"}')
        self.rename("tmp", "a.json", EXCHANGE)
        self.assertBoth("a.json", '{"v": "new"}')
        self.assertEqual(b'{"v": "a"}', self.read("tmp"))
        self.assertChanges("MODIFY a")

    def test_exchange_with_invalid_scratch(self):
        self.write("tmp", "{")
        self.assertErrno(errno.EINVAL, self.rename, "tmp", "a.json", EXCHANGE)
        self.assertBoth("a.json", '{"v": "a"}')
        self.assertEqual(b"{", self.read("tmp"))
        self.assertChanges()

    def test_whiteout_is_refused(self):
        self.assertErrno(errno.EINVAL, self.rename, "a.json", "c.json", WHITEOUT)

    def test_onto_itself(self):
        self.rename("a.json", "a.json")
        self.assertBoth("a.json", '{"v": "a"}')
        self.assertChanges()

    def test_of_what_is_not_there(self):
        self.assertErrno(errno.ENOENT, self.rename, "x.json", "c.json")
        self.assertErrno(errno.ENOENT, self.rename, "x", "a.json")
        self.assertChanges()

    def test_to_a_bad_name(self):
        self.assertErrno(errno.EINVAL, self.rename, "a.json", "%zz.json")
        self.assertBoth("a.json", '{"v": "a"}')
        self.assertChanges()

    def test_invalid_scratch_to_a_new_item(self):
        self.write("tmp", '{"v": 1,}')
        self.assertErrno(errno.EINVAL, self.rename, "tmp", "c.json")
        text, reason = self.draft("c.json")
        self.assertEqual(b'{"v": 1,}', text)
        self.assertIn("line 1, column 9", reason)
        self.assertEqual(b'{"v": 1,}', self.read("tmp"))
        self.assertChanges()

    def test_scratch_onto_an_item_keeps_ttl(self):
        os.setxattr(self.path("a.json"), "user.itemfs.ttl", b"4102444800")
        self.mark()
        self.write("tmp", '{"v": "new"}')
        self.rename("tmp", "a.json")
        self.assertEqual(b"4102444800", os.getxattr(self.path("a.json"), "user.itemfs.ttl"))
        self.assertIn(b'"v": "new"', self.read("a.json"))
        self.assertEqual(["a.json", "b.json"], self.names())
        self.assertChanges("MODIFY a")

    def test_scratch_to_a_new_item(self):
        self.write("tmp", '{"v": "new"}')
        os.utime(self.path("tmp"), ns=(0, 1_000_000_000_000_000_007))
        self.rename("tmp", "c.json")
        self.assertBoth("c.json", '{"v": "new"}')
        self.assertEqual(1_000_000_000_000_000_007, os.stat(self.path("c.json")).st_mtime_ns)
        self.assertChanges("INSERT c")

    def test_item_to_scratch_waits_for_its_successor(self):
        self.rename("a.json", "a.json~")
        self.assertErrno(errno.ENOENT, os.stat, self.path("a.json"))
        self.assertNotIn("a.json", self.names())
        self.assertChanges()  # within the grace period
        self.write("a.json", '{"v": "new"}')
        self.assertBoth("a.json", '{"v": "new"}')
        self.assertEqual(b'{"v": "a"}', self.read("a.json~"))
        self.assertChanges("MODIFY a")

    def test_item_to_scratch_without_a_successor(self):
        self.rename("a.json", "a.json~")
        wait_for("the deletion", lambda: self.store.body(self.table, "a") is None, 10)
        self.assertChanges("REMOVE a")
        self.assertEqual(b'{"v": "a"}', self.read("a.json~"))

    def test_scratch_to_scratch(self):
        self.write("x", "1")
        self.write("y", "2")
        self.rename("x", "y")
        self.assertEqual(["a.json", "b.json", "y"], self.names())
        self.assertEqual(b"1", self.read("y"))
        self.assertChanges()

    def other_table(self):
        other = self.table + "-2"
        os.mkdir(os.path.join(self.mnt, other))
        return other

    def test_between_tables(self):
        other = self.other_table()
        os.setxattr(self.path("a.json"), "user.itemfs.ttl", b"4102444800")
        self.mark()
        self.rename("a.json", f"../{other}/z.json")
        self.assertEqual(b"4102444800",
                         os.getxattr(self.path(f"../{other}/z.json"), "user.itemfs.ttl"))
        self.assertChanges("REMOVE a")
        self.assertChanges("INSERT z", table=other)

    def test_between_tables_replacing(self):
        other = self.other_table()
        self.write(f"../{other}/z.json", '{"v": "z"}')
        self.rename("a.json", f"../{other}/z.json")
        self.assertStored("z", '{"v": "a"}', table=other)
        self.assertChanges("REMOVE a")
        self.assertChanges("INSERT z", "MODIFY z", table=other)

    def test_between_tables_exchange(self):
        other = self.other_table()
        self.write(f"../{other}/z.json", '{"v": "z"}')
        self.rename("a.json", f"../{other}/z.json", EXCHANGE)
        self.assertStored("z", '{"v": "a"}', table=other)
        self.assertBoth("a.json", '{"v": "z"}')

    def test_between_tables_into_another_key(self):
        other = self.table + "-plain"
        self.create(other, "--key", "id")
        self.write("x.json", '{"id": "me", "key": "x"}')
        self.rename("x.json", f"../{other}/y.json")
        body = self.store.body(other, "y")
        self.assertIn(b'"id": "y"', body)

    def test_between_partitions(self):
        table = self.table + "-sorted"
        self.create(table, "--key", "c", "--sort", "d")
        top = os.path.join(self.mnt, table)
        for partition in ("p", "q"):
            os.mkdir(f"{top}/{partition}")
        with open(f"{top}/p/1.json", "w") as file:
            file.write('{"c": "p", "d": "1", "v": 1}')
        os.rename(f"{top}/p/1.json", f"{top}/q/2.json")
        self.assertEqual({"q/2": b'{"c": "q", "d": "2", "v": 1}'}, self.store.bodies(table))
        got = self.store.changes(table)
        self.assertEqual(["INSERT p/1", "INSERT q/2", "REMOVE p/1"], sorted(got))

    def test_hard_links(self):
        # Between items: refused. To a scratch name: a copy, as an editor's backup wants it.
        self.assertErrno(errno.EPERM, os.link, self.path("a.json"), self.path("c.json"))
        os.link(self.path("a.json"), self.path("a.json.bak"))
        self.assertEqual(b'{"v": "a"}', self.read("a.json.bak"))
        self.write("a.json", '{"v": "new"}')
        self.assertEqual(b'{"v": "a"}', self.read("a.json.bak"))
        self.assertEqual(1, os.stat(self.path("a.json")).st_nlink)
        self.assertChanges("MODIFY a")

    def test_key_follows_the_name(self):
        self.rename("a.json", "c.json")
        self.assertEqual(b'{"key":{"S":"c"}}', os.getxattr(self.path("c.json"), "user.itemfs.key"))
        fd = os.open(self.path("c.json"), os.O_RDONLY)
        self.rename("c.json", "d.json")
        self.assertEqual(b'{"key":{"S":"d"}}', os.getxattr(fd, "user.itemfs.key"))
        os.close(fd)


if __name__ == "__main__":
    unittest.main()
