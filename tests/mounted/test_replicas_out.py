# SPDX-License-Identifier: MIT
"""A replica that fails is left out, which is told and remembered, and healed when it is there
again."""

import errno
import json
import os
import shutil
import subprocess
import time
import unittest

import disks
from harness import ITEMCTL, wait_for
from replicas import DiskTest, ReplicaTest


def setUpModule():
    disks.enter_namespace()


class OutOfUse(DiskTest):
    def test_full(self):
        self.mount_memory(self.roots[1], "400k")
        self.fill()
        ballast = os.path.join(self.roots[1], "ballast")
        self.assertNotEqual(0, subprocess.run(["dd", "if=/dev/zero", "of=" + ballast],
                                              capture_output=True).returncode)
        self.write("large.json", b'"%s"' % (b"x" * 20000))
        self.assertEqual(b'"%s"' % (b"x" * 20000), self.direct("large.json"))
        self.check_told(1, "No space left")
        self.change()
        shown = self.shown()
        os.unlink(ballast)
        self.check_healed()
        self.assertEqual(shown, self.files(self.roots[1]))

    def test_read_only(self):
        self.mount_memory(self.roots[0], "1m")
        self.fill()
        self.remount(self.roots[0], "ro")
        self.change()
        self.check_told(0, "Read-only")
        shown = self.shown()
        self.assertEqual(shown, self.files(self.roots[1]))
        self.remount(self.roots[0], "rw")
        self.check_healed()
        self.assertEqual(shown, self.files(self.roots[0]))

    def test_renamed_away(self):
        self.fill()
        for number in (0, 1):
            aside = self.roots[number] + ".aside"
            os.rename(self.roots[number], aside)
            self.change(f"r{number}")
            self.check_told(number, "mounted")
            self.change(f"s{number}")
            before = self.shown()
            os.rename(aside, self.roots[number])
            self.check_healed()
            self.assertEqual(before, self.files(self.roots[number]))

    def test_another_folder_in_its_place(self):
        """A new, empty disk is filled."""
        self.fill()
        shutil.rmtree(self.roots[1])
        self.change()
        os.mkdir(self.roots[1])
        self.check_healed()

    def test_hanging(self):
        """Saves wait for the timeout once; nothing comes late and undoes what is newer."""
        self.mount_ext4(self.roots[1])
        self.fill()
        self.freeze(self.roots[1])
        began = time.monotonic()
        self.write("k0.json", '"frozen"')
        self.assertGreater(time.monotonic() - began, 1.5)  # replica_timeout, nearly
        self.check_told(1, "within|did not|2 s|time")
        for turn in range(10):
            self.write("k0.json", b'{"turn":%d}' % turn)
            self.change(f"f{turn % 2}")
        shown = self.shown()
        self.thaw()
        self.check_healed()
        self.assertEqual(shown, self.files(self.roots[1]))

    def test_itemctl_ends_while_a_replica_hangs(self):
        """Also for who reads what it says to the end."""
        self.mount_ext4(self.roots[1])
        self.fill()
        self.freeze(self.roots[1])
        report = json.loads(self.itemctl("maintain", "health", status=1).stdout)
        self.assertEqual([self.roots[0], self.roots[1]], [r["Path"] for r in report["Replicas"]])
        self.assertEqual("ONLINE", report["Replicas"][0]["Health"])
        self.assertNotEqual("ONLINE", report["Replicas"][1]["Health"])
        self.itemctl("put", "users", "--item", "/dev/stdin",
                     input='{"-key": {"S": "k0"}, "by": {"S": "itemctl"}}')
        self.assertSoon({"by": "itemctl"}, lambda: json.loads(self.read("k0.json")))
        self.check_told(1, "within|did not|2 s|time")
        self.thaw()
        self.check_healed()

    def test_written_to_while_out(self):
        """What somebody has put there is kept as a draft; files as old as the others are not."""
        self.fill()
        aside = self.roots[1] + ".aside"
        os.rename(self.roots[1], aside)
        self.change()
        self.wait_out(1)
        self.direct("k5.json", '"mine"', aside)
        self.direct("mine.json", '"new"', aside)
        self.direct("k1.json", '"alive"', aside)
        self.direct("notes.txt", "mine", aside)
        self.direct("bad.json", "{", aside)
        os.mkdir(os.path.join(aside, "extra"))
        self.direct("e.json", "1", aside, table="extra")
        before = self.shown()
        os.rename(aside, self.roots[1])
        wait_for("all replicas in use", lambda: self.states() == [None, None])
        wait_for("the table that was made there",
                 lambda: self.has("e.json", self.roots[0], "extra"))
        self.assertEqual(before, self.shown())
        self.assertEqual({b'"mine"', b'"new"', b'"alive"', b"{"},
                         {self.draft(name)[0] for name in self.drafts()})
        self.assertEqual(b"mine", self.direct("notes.txt", root=self.roots[1]))
        self.assertEqual(b"{", self.direct("bad.json", root=self.roots[1]))
        self.assertEqual({"e.json": b"1"}, self.bodies("extra"))
        self.assertEqual(before, {name: file for name, file in self.files(self.roots[1]).items()
                                  if name not in ("notes.txt", "bad.json")})

    def test_written_to_with_old_times_while_out(self):
        """As `cp -p`, `rsync -a`, `tar x` and `mv` do: the kernel's own note tells when."""
        old = 10**18
        for root in self.roots:
            os.makedirs(os.path.join(root, "moved"))
        self.fill()
        self.write("../moved/m.json", '"known"')
        beside = os.path.join(self.home_dir, "beside")
        for table, name in (("moved", "m"), ("extra", "e")):
            os.makedirs(os.path.join(beside, table))
            self.direct(name + ".json", f'"{table}"', beside, old, table)
        aside = self.roots[1] + ".aside"
        os.rename(self.roots[1], aside)
        self.change()
        self.wait_out(1)
        self.direct("k5.json", '"mine"', aside, old)
        self.direct("mine.json", '"new"', aside, old)
        os.rename(os.path.join(aside, "moved"), os.path.join(beside, "before"))
        for table in ("moved", "extra"):
            os.rename(os.path.join(beside, table), os.path.join(aside, table))
        before = self.shown()
        os.rename(aside, self.roots[1])
        wait_for("all replicas in use", lambda: self.states() == [None, None])
        wait_for("the table that was made there",
                 lambda: self.has("e.json", self.roots[0], "extra"))
        self.wait_alike()
        self.assertEqual(before, self.shown())
        self.assertEqual({b'"mine"', b'"new"'}, {self.draft(name)[0] for name in self.drafts()})
        self.assertEqual([b'"moved"'], [self.draft(name, "moved")[0]
                                        for name in self.drafts("moved")])
        self.assertEqual({"e.json": (b'"extra"', old)}, self.shown("extra"))
        self.assertEqual({"m.json": b'"known"'}, self.bodies("moved"))

    def test_another_folder_with_files_in_its_place(self):
        """What is in it is nothing that was known, whatever its times."""
        self.fill()
        beside = os.path.join(self.home_dir, "beside")
        os.makedirs(os.path.join(beside, "users"))
        self.direct("k5.json", '"older"', beside, 10**18)
        os.rename(self.roots[1], self.roots[1] + ".aside")
        self.change()
        self.wait_out(1)
        os.rename(beside, self.roots[1])
        self.wait_healed()
        self.assertEqual([b'"older"'], [self.draft(name)[0] for name in self.drafts()])

    def test_tables_that_changed_meanwhile(self):
        for name in ("gone", "named"):
            for root in self.roots:
                os.makedirs(os.path.join(root, name))
        self.fill()
        self.write("../gone/x.json", "1")
        self.write("../named/y.json", "1")
        aside = self.roots[0] + ".aside"
        os.rename(self.roots[0], aside)
        os.unlink(os.path.join(self.mnt, "gone", "x.json"))
        os.rmdir(os.path.join(self.mnt, "gone"))
        os.rename(os.path.join(self.mnt, "named"), os.path.join(self.mnt, "called"))
        os.mkdir(os.path.join(self.mnt, "fresh"))
        self.write("../fresh/z.json", "1")
        os.rename(aside, self.roots[0])
        self.check_healed()
        for root in [*self.roots, self.mnt]:
            self.assertEqual(["called", "fresh", "users"], sorted(
                name for name in os.listdir(root) if not name.startswith(".")))
            self.assertEqual(b"1", self.direct("y.json", root=root, table="called"))
            self.assertEqual(b"1", self.direct("z.json", root=root, table="fresh"))

    def test_what_was_deleted_stays_so(self):
        """Whatever else lies in the folder of a table that was dropped; what somebody has put there
        since is a table."""
        tables = ("notes", "future", "newer")
        for table in tables:
            for root in self.roots:
                os.makedirs(os.path.join(root, table))
        self.fill()
        for table in tables:
            self.write(f"../{table}/a.json", "1")
            self.write(f"../{table}/b.json", "1")
        os.utime(os.path.join(self.mnt, "future", "a.json"), (0, 2**32))
        self.direct("notes.txt", "mine", self.roots[1], table="notes")
        aside = self.roots[1] + ".aside"
        os.rename(self.roots[1], aside)
        self.change()
        for table in tables:
            for name in ("a.json", "b.json"):
                os.unlink(os.path.join(self.mnt, table, name))
            os.rmdir(os.path.join(self.mnt, table))
        self.direct("c.json", "2", aside, 10**18, "newer")
        os.rename(aside, self.roots[1])
        wait_for("all replicas in use", lambda: self.states() == [None, None])
        wait_for("the table that was made there",
                 lambda: self.has("c.json", self.roots[0], "newer"))
        self.wait_alike()
        self.assertEqual(["newer", "notes", "users"], sorted(
            name for name in os.listdir(self.mnt) if not name.startswith(".")))
        self.assertEqual({"c.json": b"2"}, self.bodies("newer"))
        self.assertEqual({}, self.bodies("notes"))
        self.assertEqual(["notes.txt"], os.listdir(os.path.join(self.roots[1], "notes")))

    def test_written_to_while_it_is_healed(self):
        self.fill(count=0)
        source = os.path.join(self.home_dir, "many")
        os.mkdir(source)
        for number in range(2000):
            with open(os.path.join(source, f"m{number}.json"), "w") as file:
                file.write(str(number))
        os.rename(self.roots[1], self.roots[1] + ".aside")
        self.sh(f"cp -r {source}/. .")
        os.rename(self.roots[1] + ".aside", self.roots[1])
        wanted, turn = {f"m{number}.json": b"%d" % number for number in range(2000)}, 0
        while self.states()[1]:
            turn += 1
            names = f"m{turn % 2000}.json", f"w{turn % 50}.json", f"m{turn * 7 % 2000}.json"
            for name in names[:2]:
                wanted[name] = b'{"turn":%d}' % turn
                self.write(name, wanted[name])
            if turn % 3 == 0 and names[2] in wanted:
                os.unlink(self.path(names[2]))
                del wanted[names[2]]
        self.check_healed()
        self.assertEqual(wanted, self.bodies())

    def test_killed_while_it_is_healed(self):
        """What was written there until then is nobody's."""
        count = 1500
        for number in range(count):
            for root in self.roots:
                os.makedirs(os.path.join(root, "users"), exist_ok=True)
                self.direct(f"m{number}.json", "0", root, 10**18)
        self.start()
        os.rename(self.roots[1], self.roots[1] + ".aside")
        for number in range(count):
            self.direct(f"m{number}.json", f'"first {number}"')
        self.write("out.json", "1")
        self.wait_out(1)
        before = set(self.files())
        os.rename(self.roots[1] + ".aside", self.roots[1])
        folder = os.path.join(self.roots[1], "users")
        wait_for("a file that was healed", lambda: any(
            os.stat(os.path.join(folder, name)).st_size > 1 for name in os.listdir(folder)
            if not name.startswith(".")))
        self.mount.kill()
        healed = [name for name, (body, _) in self.files(self.roots[1]).items() if len(body) > 1]
        self.assertTrue(0 < len(healed) < count)
        for number in range(count):
            self.direct(f"m{number}.json", f'"second {number}"')
        self.start()
        self.check_healed()
        self.assertEqual(before, set(self.files(self.roots[1])))

    def test_itemctl_and_the_mount_agree(self):
        """What either finds is true for the other: nothing that was deleted comes back."""
        self.mount_memory(self.roots[1], "1m")
        self.fill()
        self.remount(self.roots[1], "ro")
        self.itemctl("delete", "users", "-k", "k4")
        self.check_told(1, "Read-only")
        self.remount(self.roots[1], "rw")
        self.check_healed()
        self.assertFalse(self.has("k4.json", self.roots[1]))
        self.assertErrno(errno.ENOENT, os.stat, self.path("k4.json"))
        feed = subprocess.Popen([ITEMCTL, "-s", self.source,
                                 "import", "users", "-"], stdin=subprocess.PIPE, text=True,
                                env=self.env(), stdout=subprocess.DEVNULL)
        self.remount(self.roots[1], "ro")
        self.write("k5.json", '"mount"')
        self.wait_out(1)
        self.remount(self.roots[1], "rw")
        self.wait_healed()
        feed.communicate('{"-key":{"S":"late"},"n":{"N":"1"}}\n')
        self.assertEqual(0, feed.returncode)
        self.wait_alike()
        self.assertIn("late.json", self.files(self.roots[1]))

    def test_another_mount_watches_what_was_healed(self):
        self.mount_ext4(self.roots[1])
        self.fill()
        other = self.new_mount(self.source, self.name + "-other", self.options)
        other.env = self.env()
        other.start()
        self.unmount(self.roots[1])
        self.change()
        self.wait_out(1)
        self.mount_ext4(self.roots[1])
        self.wait_healed()
        mounts = [self.mount, other]
        [healer] = [mount for mount in mounts if "is in use again" in mount.log_text()]
        mounts.remove(healer)
        self.mnt = mounts[0].point
        wait_for("the other one to use it", lambda: self.states() == [None, None])
        healer.unmount()
        self.direct("direct.json", "1", self.roots[1])
        self.assertIn("direct.json", self.shown())
        mounts[0].unmount()

    def test_all_fail(self):
        """Then nobody is out of use, and the save fails."""
        for root in self.roots:
            self.mount_memory(root, "1m")
        self.fill()
        before = self.shown()
        for root in self.roots:
            self.remount(root, "ro")
        self.assertErrno(errno.EROFS, self.write, "k0.json", '"x"')
        self.assertEqual([None, None], self.states())
        self.assertEqual(before, self.shown())
        for root in self.roots:
            self.remount(root, "rw")
        self.write("k0.json", '"y"')
        self.assertAlike()


class Unmounted(DiskTest):
    replicas = 3

    def test_the_folder_below(self):
        """It is empty, is not taken for the disk, and is not filled."""
        for number in range(2):
            self.mount_ext4(self.roots[number])
        self.fill()
        for number in (1, 0):
            self.unmount(self.roots[number])
            self.change(f"u{number}")
            self.check_told(number, "mounted")
            before = self.shown()
            self.pass_by()
            self.assertEqual([], os.listdir(self.roots[number]))
            self.mount.kill()  # it is remembered
            self.mount.start()
            self.assertTrue(self.states()[number])
            self.assertEqual(before, self.shown())
            self.change(f"v{number}")
            self.pass_by()
            self.assertEqual([], os.listdir(self.roots[number]))
            before = self.shown()
            self.mount_ext4(self.roots[number])
            self.check_healed()
            self.assertEqual(before, self.files(self.roots[number]))

    def pass_by(self):
        """Whoever heals has looked at the first two since: the third one was healed after them."""
        os.rename(self.roots[2], self.roots[2] + ".aside")
        self.write("passed.json", b"%d" % self.now_ns())
        self.wait_out(2)
        os.rename(self.roots[2] + ".aside", self.roots[2])
        wait_for("the third one", lambda: self.states()[2] is None)
        os.unlink(self.path("passed.json"))


class OneTable(DiskTest):
    def test_the_first_is_not_mounted(self):
        """An empty folder does not make tables' folders of the others."""
        self.mount_ext4(self.db)
        for root in self.roots:
            for number in range(3):
                self.direct(f"k{number}.json", f"{number}", root, 10**18, table=".")
        self.start()
        self.dir = os.path.join(self.mnt, "disk0")
        self.assertErrno(errno.EINVAL, self.write, "bad.json", "{")
        before = self.shown("disk0")
        self.mount.unmount()
        self.unmount(self.db)
        self.start()
        self.assertEqual(["disk0"], os.listdir(self.mnt))
        self.assertEqual(before, self.shown("disk0"))
        self.assertEqual([b"{"], [self.draft(name, "disk0")[0] for name in self.drafts("disk0")])
        self.assertErrno(errno.EOPNOTSUPP, os.mkdir, os.path.join(self.mnt, "other"))
        self.assertEqual([], os.listdir(self.db))
        self.assertRegex(self.wait_out(0), "not mounted")


class Alone(DiskTest):
    replicas = 1

    def test_the_folder_below(self):
        """What is in it is not what the disk held: nothing is dropped for it."""
        self.mount_ext4(self.db)
        self.fill()
        self.assertErrno(errno.EINVAL, self.write, "bad.json", "{")
        self.mount.unmount()
        self.unmount(self.db)
        os.mkdir(os.path.join(self.db, "lost"))
        for _ in range(2):
            with self.assertRaisesRegex(AssertionError, "its disk is not mounted on .*delete"):
                self.mount.start()
        self.assertIn("not mounted", self.itemctl("scan", "users", status=1).stderr)
        self.mount_ext4(self.db)
        self.start()
        self.assertEqual({f"k{number}.json": b"%d" % number for number in range(10)}, self.bodies())
        self.assertEqual([b"{"], [self.draft(name)[0] for name in self.drafts()])


class AtTheStart(ReplicaTest):
    def fill(self):
        self.start()
        for number in range(10):
            self.write(f"k{number}.json", b"%d" % number)
        self.before = self.shown()

    def test_missing(self):
        self.fill()
        for number in (0, 1):
            self.mount.unmount()
            os.rename(self.roots[number], self.roots[number] + ".aside")
            self.start()
            self.assertRegex(self.wait_out(number), "mounted|No such file")
            self.assertEqual(self.before, self.shown())
            os.rename(self.roots[number] + ".aside", self.roots[number])
            self.wait_healed()
            self.assertEqual(self.before, self.shown())

    def test_empty(self):
        self.fill()
        for number in (0, 1):
            self.mount.unmount()
            shutil.rmtree(self.roots[number])
            os.mkdir(self.roots[number])
            self.start()
            self.assertEqual(self.before, self.shown())
            self.wait_healed()
            self.assertEqual(self.before, self.files(self.roots[number]))

    def test_without_its_tables(self):
        """As a new disk, which holds lost+found."""
        self.fill()
        self.mount.unmount()
        shutil.rmtree(os.path.join(self.roots[0], "users"))
        os.mkdir(os.path.join(self.roots[0], "lost+found"))
        self.start()
        self.assertEqual(self.before, self.shown())
        self.wait_healed()

    def test_the_last_good_one_is_missing(self):
        """What the other holds is old: it is not taken for the state of things."""
        self.fill()
        os.rename(self.roots[0], self.roots[0] + ".aside")
        self.write("k0.json", '"newest"')
        self.wait_out(0)
        self.mount.kill()
        os.rename(self.roots[1], self.roots[1] + ".aside")
        os.rename(self.roots[0] + ".aside", self.roots[0])
        for _ in range(2):
            with self.assertRaisesRegex(AssertionError, "out of use.*is old"):
                self.mount.start()
        os.rename(self.roots[1] + ".aside", self.roots[1])
        self.start()
        self.assertEqual(b'"newest"', self.read("k0.json"))
        self.wait_healed()
        self.assertEqual(b'"newest"', self.direct("k0.json"))

    def test_none_is_there(self):
        self.fill()
        self.mount.unmount()
        for root in self.roots:
            os.rename(root, root + ".aside")
        with self.assertRaisesRegex(AssertionError, "No such file"):
            self.mount.start()
        for root in self.roots:
            os.rename(root + ".aside", root)
        self.start()
        self.assertEqual([None, None], self.states())
        self.assertEqual(self.before, self.shown())


if __name__ == "__main__":
    unittest.main()
