# SPDX-License-Identifier: MIT
"""stat, times, inode numbers, owners and modes, extended attributes, statfs."""

import errno
import json
import os
import stat
import time
import unittest

from harness import MountedTest, wait_for

A = "user.itemfs."


class Times(MountedTest):
    def test_save_sets_the_time(self):
        before = time.time_ns()
        self.write("a.json", "{}")
        found = os.stat(self.path("a.json"))
        self.assertTrue(before - 20_000_000 <= found.st_mtime_ns <= time.time_ns())
        self.assertGreaterEqual(found.st_ctime_ns, found.st_mtime_ns - 20_000_000)

    def test_time_is_right_at_once_and_stays(self):
        fd = os.open(self.path("a.json"), os.O_CREAT | os.O_WRONLY)
        os.write(fd, b"{}")
        os.close(fd)
        at_once = os.stat(self.path("a.json"))
        self.read("a.json")
        os.listdir(self.dir)
        self.assertEqual(at_once.st_mtime_ns, os.stat(self.path("a.json")).st_mtime_ns)
        self.assertEqual(at_once.st_ctime_ns, os.stat(self.path("a.json")).st_ctime_ns)
        self.mount.remount()
        self.assertEqual(at_once.st_mtime_ns, os.stat(self.path("a.json")).st_mtime_ns)
        self.assertEqual(at_once.st_ctime_ns, os.stat(self.path("a.json")).st_ctime_ns)

    def test_times_can_be_set(self):
        self.write("a.json", "{}")
        self.mark()
        os.utime(self.path("a.json"), ns=(0, 0))
        self.assertEqual(0, int(os.stat(self.path("a.json")).st_mtime))
        for value in (1, 981173106123456789, 4_102_444_800_000_000_000, -1_000_000_000):
            os.utime(self.path("a.json"), ns=(value, value))
            self.assertEqual(value, os.stat(self.path("a.json")).st_mtime_ns)
        self.mount.remount()
        self.assertEqual(-1_000_000_000, os.stat(self.path("a.json")).st_mtime_ns)
        self.assertChanges()

    def test_times_beyond_what_is_kept(self):
        """The nearest that is kept is set: 64 bits of nanoseconds are from 1677 to 2262."""
        self.write("a.json", "{}")
        for seconds, kept in ((2**40, 9223372036), (10413792000, 9223372036), (-2**40, -9223372036),
                              (9223372035, 9223372035)):
            for name in ("a.json", "b.txt"):
                self.write(name, "{}")
                os.utime(self.path(name), (0, seconds))
                self.assertEqual(kept * 10**9, os.stat(self.path(name)).st_mtime_ns)
        self.mount.remount()
        for name in ("a.json", "b.txt"):
            self.assertEqual(9223372035 * 10**9, os.stat(self.path(name)).st_mtime_ns)

    def test_change_elsewhere_gives_a_new_time(self):
        self.write("a.json", "{}")
        os.utime(self.path("a.json"), ns=(0, 1_000_000_000))
        self.itemctl("put", self.table, "--item", "-", input='{"key":{"S":"a"},"x":{"N":"1"}}')
        wait_for("a new time", lambda: os.stat(self.path("a.json")).st_mtime > 1_500_000_000, 1)

    def test_ctime_moves_with_changes_only(self):
        self.write("a.json", "{}")
        first = os.stat(self.path("a.json")).st_ctime_ns
        self.read("a.json")
        os.listxattr(self.path("a.json"))
        self.assertEqual(first, os.stat(self.path("a.json")).st_ctime_ns)
        os.utime(self.path("a.json"), ns=(5, 5))
        second = os.stat(self.path("a.json")).st_ctime_ns
        self.assertGreater(second, first)
        self.write("a.json", '{"n": 1}')
        self.assertGreater(os.stat(self.path("a.json")).st_ctime_ns, second)

    def test_directory_times(self):
        self.write("a.json", "{}")

        def times():
            found = os.stat(self.dir)
            return found.st_mtime_ns, found.st_ctime_ns
        first = times()
        self.read("a.json")
        self.names()
        self.write("a.json", '{"n": 1}')  # an item's text is not the directory's matter
        self.assertEqual(first[0], times()[0])
        self.write("b.json", "{}")
        second = times()
        self.assertGreater(second[0], first[0])
        os.unlink(self.path("b.json"))
        third = times()
        self.assertGreater(third[0], second[0])
        self.names()
        self.assertEqual(third, times())
        self.mount.remount()
        self.assertEqual(third, times())

    def test_scratch_files_in_directory_times(self):
        first = os.stat(self.dir).st_mtime_ns
        self.write("notes", "x")
        second = os.stat(self.dir).st_mtime_ns
        self.assertGreater(second, first)

    def test_root_times_survive(self):
        before = os.stat(self.mnt)
        self.mount.remount()
        after = os.stat(self.mnt)
        self.assertEqual((before.st_mtime_ns, before.st_ctime_ns),
                         (after.st_mtime_ns, after.st_ctime_ns))


class InodeNumbers(MountedTest):
    def test_stable_over_remounts_and_writes(self):
        for i in range(50):
            self.write(f"k{i}.json", "{}")
        self.write("notes", "x")

        def numbers():
            found = {entry.name: entry.inode() for entry in os.scandir(self.dir)}
            self.assertEqual(found, {name: os.stat(self.path(name)).st_ino for name in found})
            found["/"] = os.stat(self.dir).st_ino
            found["//"] = os.stat(self.mnt).st_ino
            return found
        first = numbers()
        self.assertEqual(len(first), len(set(first.values())))
        self.mount.remount()
        self.assertEqual(first, numbers())
        for i in range(50):
            self.write(f"k{i}.json", '{"n": 1}')
        self.assertEqual(first, numbers())
        self.mount.remount()
        self.assertEqual(first, numbers())

    def test_root_is_one(self):
        self.assertEqual(1, os.stat(self.mnt).st_ino)

    def test_links_and_types(self):
        self.write("a.json", "{}")
        found = os.stat(self.path("a.json"))
        self.assertTrue(stat.S_ISREG(found.st_mode))
        self.assertEqual(1, found.st_nlink)
        self.assertTrue(stat.S_ISDIR(os.stat(self.dir).st_mode))


class Modes(MountedTest):
    options = ("uid=1234", "gid=2345", "umask=027")

    def setUp(self):
        super().setUp()
        self.write("a.json", "{}")

    def test_owner_and_mode_come_from_the_options(self):
        found = os.stat(self.path("a.json"))
        self.assertEqual((1234, 2345, 0o100640), (found.st_uid, found.st_gid, found.st_mode))
        found = os.stat(self.dir)
        self.assertEqual((1234, 2345, 0o40750), (found.st_uid, found.st_gid, found.st_mode))

    def test_what_changes_nothing_succeeds(self):
        os.chmod(self.path("a.json"), 0o640)
        os.chown(self.path("a.json"), 1234, 2345)
        os.chown(self.path("a.json"), -1, -1)

    def test_what_changes_something_is_refused(self):
        self.assertErrno(errno.EPERM, os.chmod, self.path("a.json"), 0o600)
        self.assertErrno(errno.EPERM, os.chown, self.path("a.json"), 0, -1)
        self.assertErrno(errno.EPERM, os.chown, self.path("a.json"), -1, 0)
        self.assertErrno(errno.EPERM, os.chmod, self.dir, 0o700)
        found = os.stat(self.path("a.json"))
        self.assertEqual((1234, 2345, 0o100640), (found.st_uid, found.st_gid, found.st_mode))

    def test_scratch_files_keep_theirs(self):
        self.write("notes", "x")
        os.chmod(self.path("notes"), 0o600)
        os.chown(self.path("notes"), 5, 6)
        found = os.stat(self.path("notes"))
        self.assertEqual((5, 6, 0o100600), (found.st_uid, found.st_gid, found.st_mode))
        self.mount.remount()
        found = os.stat(self.path("notes"))
        self.assertEqual((5, 6, 0o100600), (found.st_uid, found.st_gid, found.st_mode))

    def test_device_nodes_and_fifos_are_refused(self):
        self.assertErrno(errno.EPERM, os.mkfifo, self.path("fifo"))
        self.assertErrno(errno.EPERM, os.mkfifo, self.path("fifo.json"))

    def test_symlink_over_an_item_name_is_refused(self):
        self.assertErrno(errno.EPERM, os.symlink, "x", self.path("link.json"))
        os.symlink("target", self.path("link"))
        self.assertEqual("target", os.readlink(self.path("link")))


class Quiet(MountedTest):
    options = ("quiet",)

    def test_mode_and_owner_are_ignored(self):
        self.write("a.json", "{}")
        before = os.stat(self.path("a.json"))
        os.chmod(self.path("a.json"), 0o600)
        os.chown(self.path("a.json"), 5, 6)
        after = os.stat(self.path("a.json"))
        self.assertEqual((before.st_uid, before.st_gid, before.st_mode),
                         (after.st_uid, after.st_gid, after.st_mode))

    def test_install(self):
        # It sets 0600 first and the mode wanted then: without "quiet" the first is an error.
        self.write("a.json", '{"v": 1}')
        with open(self.place + "/a.json", "w") as file:
            file.write('{"v": 2}')
        self.mark()
        self.sh(f"install -m 640 {self.place}/a.json .")
        self.assertBoth("a.json", '{"v": 2}')
        self.assertChanges("REMOVE a", "INSERT a")  # it unlinks the target itself

    def test_restores_of_any_mode(self):
        source = self.place + "/private.json"
        with open(source, "w") as file:
            file.write("5")
        os.chmod(source, 0o600)
        self.sh(f"cp -a {source} .; rsync -a {source} b.json; tar -C {self.place} -c private.json"
                " | tar -x")
        self.assertEqual(["b.json", "private.json"], self.names())

    def test_default_mode(self):
        self.write("a.json", "{}")
        self.assertEqual(0o100644, os.stat(self.path("a.json")).st_mode)
        self.assertEqual(0o40755, os.stat(self.dir).st_mode)
        self.assertEqual(os.getuid(), os.stat(self.path("a.json")).st_uid)


class ExtendedAttributes(MountedTest):
    def setUp(self):
        super().setUp()
        self.write("a.json", '{"n": 1}')

    def get(self, name, path=None):
        return os.getxattr(path or self.path("a.json"), A + name).decode()

    def test_list(self):
        want = {A + name for name in ("key", "change_id", "change_type", "change_time", "sequence")}
        self.assertEqual(want, set(os.listxattr(self.path("a.json"))))
        os.setxattr(self.path("a.json"), A + "ttl", b"4102444800")
        self.assertEqual(want | {A + "ttl"}, set(os.listxattr(self.path("a.json"))))
        for name in os.listxattr(self.path("a.json")):
            self.assertTrue(os.getxattr(self.path("a.json"), name))

    def test_values(self):
        self.assertEqual({"key": {"S": "a"}}, json.loads(self.get("key")))
        self.assertEqual("INSERT", self.get("change_type"))
        self.assertRegex(self.get("change_id"), "^[0-9a-f]{32}$")
        self.assertRegex(self.get("sequence"), "^[0-9]+$")
        first = self.get("change_id"), int(self.get("sequence"))
        self.write("a.json", '{"n": 2}')
        self.assertEqual("MODIFY", self.get("change_type"))
        self.assertNotEqual(first[0], self.get("change_id"))
        self.assertGreater(int(self.get("sequence")), first[1])

    def test_table(self):
        described = json.loads(self.get("table", self.dir))
        self.assertEqual(self.table, described["TableName"])
        self.assertEqual("-ttl", self.get("ttl_attribute", self.dir))
        self.assertEqual("enabled", self.get("stream", self.dir))
        self.assertEqual({A + "table", A + "ttl_attribute", A + "stream"},
                         set(os.listxattr(self.dir)))

    def test_stream_can_be_switched(self):
        os.setxattr(self.dir, A + "stream", b"disabled")
        self.assertEqual("disabled", self.get("stream", self.dir))
        self.write("b.json", "{}")
        self.assertEqual([1, 0], [record["streamed"] for record in self.store.records(self.table)])
        os.setxattr(self.dir, A + "stream", b"enabled")
        self.assertErrno(errno.EINVAL, os.setxattr, self.dir, A + "stream", b"maybe")
        self.assertEqual("enabled", self.get("stream", self.dir))

    def test_derived_ones_are_accepted_and_ignored(self):
        before = {name: os.getxattr(self.path("a.json"), name)
                  for name in os.listxattr(self.path("a.json"))}
        for name in before:
            os.setxattr(self.path("a.json"), name, b"whatever")
            os.removexattr(self.path("a.json"), name)
        self.assertEqual(before, {name: os.getxattr(self.path("a.json"), name)
                                  for name in os.listxattr(self.path("a.json"))})
        self.assertChanges("INSERT a")

    def test_foreign_names_are_not_supported(self):
        for name in ("user.other", "user.itemfs.unknown", "security.capability",
                     "system.posix_acl_access", "trusted.x"):
            with self.subTest(name=name):
                with self.assertRaises(OSError) as caught:
                    os.getxattr(self.path("a.json"), name)
                self.assertIn(caught.exception.errno, (errno.EOPNOTSUPP, errno.ENODATA))
        self.assertErrno(errno.EOPNOTSUPP, os.setxattr, self.path("a.json"), "user.other", b"x")

    def test_small_buffers(self):
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        path, name = os.fsencode(self.path("a.json")), (A + "key").encode()
        size = libc.getxattr(path, name, None, 0)
        self.assertEqual(len(self.get("key")), size)
        buffer = ctypes.create_string_buffer(size)
        self.assertEqual(-1, libc.getxattr(path, name, buffer, size - 1))
        self.assertEqual(errno.ERANGE, ctypes.get_errno())
        self.assertEqual(-1, libc.listxattr(path, buffer, 3))
        self.assertEqual(errno.ERANGE, ctypes.get_errno())

    def test_getfattr_prints_them(self):
        text = self.sh("getfattr -d -m- a.json").stdout
        self.assertIn('user.itemfs.change_type="INSERT"', text)

    def test_cp_carries_them(self):
        os.setxattr(self.path("a.json"), A + "ttl", b"4102444800")
        self.sh("cp -a a.json b.json")
        self.assertEqual(b"4102444800", os.getxattr(self.path("b.json"), A + "ttl"))
        self.assertEqual({"key": {"S": "b"}}, json.loads(self.get("key", self.path("b.json"))))
        out = os.path.join(self.place, "kept.json")
        self.sh(f"cp -a --preserve=xattr a.json {out}; cp -a --preserve=xattr {out} c.json")
        self.assertEqual(b"4102444800", os.getxattr(self.path("c.json"), A + "ttl"))

    def test_scratch_files_have_none(self):
        self.write("notes", "x")
        self.assertEqual([], os.listxattr(self.path("notes")))


class Space(MountedTest):
    def test_statfs(self):
        found = os.statvfs(self.mnt)
        below = os.statvfs(self.place)
        self.assertGreater(found.f_blocks, 0)
        self.assertGreater(found.f_bavail, 0)
        self.assertGreaterEqual(found.f_namemax, 255)
        self.assertGreater(found.f_files, 0)
        self.assertLess(abs(found.f_blocks * found.f_frsize - below.f_blocks * below.f_frsize),
                        below.f_blocks * below.f_frsize // 10)
        self.assertNotIn(" 0 ", self.run_tool(["df", "--output=size", self.mnt]).stdout)

    def test_open_flags_and_locks(self):
        import fcntl
        self.write("a.json", "{}")
        with open(self.path("a.json")) as one, open(self.path("a.json")) as two:
            fcntl.flock(one, fcntl.LOCK_EX)
            self.assertErrno(errno.EWOULDBLOCK, fcntl.flock, two, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(one, fcntl.LOCK_UN)
            fcntl.flock(two, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with open(self.path("a.json")) as file:
            self.assertErrno(errno.ENOTTY, fcntl.ioctl, file, 0x5401)  # TCGETS


if __name__ == "__main__":
    unittest.main()
