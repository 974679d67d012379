# SPDX-License-Identifier: MIT
"""Starting, stopping and what goes wrong then: exit statuses and one clear message each."""

import errno
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import unittest

from harness import DEAD, ITEMCTL, ITEMFS, Mount, PlaceTest, is_mounted, unmount, wait_for
from store import Store


class Starting(PlaceTest):
    def setUp(self):
        name = self.id().split(".")[-1]
        self.dir = os.path.join(self.place, name)
        self.mnt = os.path.join(self.dir, "mnt")
        self.db = os.path.join(self.dir, "items.db")
        os.makedirs(self.mnt)
        self.addCleanup(self.unmount)

    def unmount(self):
        while is_mounted(self.mnt):
            subprocess.run(["fusermount3", "-u", "-z", self.mnt], capture_output=True)

    def itemfs(self, *arguments, status=0, **more):
        return self.run_tool([ITEMFS, *arguments], status, cwd=more.pop("cwd", self.dir), **more)

    def fails(self, *arguments, says, cwd=None):
        """A start that must fail: non-zero, one line on standard error with SAYS, no mount."""
        done = self.itemfs(*arguments, status=None, cwd=cwd or self.dir)
        self.assertNotEqual(0, done.returncode, done.stderr)
        self.assertNotIn("Sanitizer", done.stderr)
        self.assertEqual(1, len(done.stderr.strip().splitlines()), done.stderr)
        self.assertRegex(done.stderr, says)
        self.assertFalse(is_mounted(self.mnt))
        return done

    def daemon(self):
        """The process that serves the mount; its threads and helpers have other names or parents."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
                with open(f"/proc/{pid}/comm") as file:
                    name = file.read().strip()
            except OSError:
                continue
            if (os.fsencode(ITEMFS) in words and os.fsencode(self.mnt) in words
                    and name == "itemfs"):
                return int(pid)
        return None

    def daemon_gone(self):
        wait_for("the daemon's end", lambda: self.daemon() is None)

    def table(self):
        os.mkdir(self.mnt + "/t")
        with open(self.mnt + "/t/a.json", "w") as file:
            file.write('{"v": 1}')

    def test_background_start_is_up_when_the_command_ends(self):
        self.itemfs(self.db, self.mnt)
        self.assertTrue(is_mounted(self.mnt))
        self.table()
        self.assertEqual(["a.json"], os.listdir(self.mnt + "/t"))
        unmount(self.mnt)
        self.daemon_gone()
        self.assertEqual(0o600, os.stat(self.db).st_mode & 0o777)

    def test_background_start_lets_go_of_its_terminal(self):
        # A reader of its output gets the end of file: no descriptor was kept.
        done = subprocess.run(f"{ITEMFS} {self.db} {self.mnt} | cat; echo ${{PIPESTATUS[0]}}",
                              shell=True, executable="/bin/bash", capture_output=True, text=True,
                              env=self.environment(), timeout=30)
        self.assertEqual("0\n", done.stdout)

    def test_relative_paths(self):
        self.itemfs("items.db", "mnt")
        self.table()
        self.unmount()
        self.daemon_gone()
        self.assertEqual(b'{"v": 1}', Store(self.db, ITEMCTL, {}).body("t", "a"))

    def test_version_and_help(self):
        for option in ("-V", "--version"):
            self.assertRegex(self.itemfs(option).stdout, r"itemfs \d+\.\d+")
        for option in ("-h", "--help"):
            text = self.itemfs(option).stdout
            self.assertIn("SOURCE", text)
            self.assertIn("MOUNTPOINT", text)

    def test_usage_errors(self):
        for arguments in ((), (self.db,), ("--nonsense", self.db, self.mnt),
                          (self.db, self.mnt, "third")):
            done = self.itemfs(*arguments, status=None)
            self.assertNotEqual(0, done.returncode)
            self.assertTrue(done.stderr)
        self.assertFalse(os.path.exists(self.db))

    def test_a_store_that_is_not_there(self):
        self.fails("items", self.mnt, says="items: there is no such file; a new store is named FILE.db")
        self.assertFalse(os.path.exists(self.dir + "/items"))

    def test_remount(self):
        self.fails(self.db, self.mnt, "-o", "remount,ro", says="cannot be remounted: umount it")

    def test_bad_options(self):
        for option in ("nonsense", "uid=abc", "umask=9", "cache_size=much", "cache_size="):
            with self.subTest(option=option):
                done = self.itemfs(self.db, self.mnt, "-o", option, status=None)
                self.assertNotEqual(0, done.returncode)
                self.assertIn(option.split("=")[0], done.stderr)
                self.assertFalse(is_mounted(self.mnt))

    def test_busy_mount_point(self):
        self.itemfs(self.db, self.mnt)
        done = self.itemfs(self.db, self.mnt, status=None)
        self.assertNotEqual(0, done.returncode)
        self.assertEqual(1, len(done.stderr.strip().splitlines()), done.stderr)
        self.assertRegex(done.stderr, "mnt.*(mounted|busy|in use)")
        self.table()  # the first is as before

    def test_what_the_mount_would_hide(self):
        folder = os.path.join(self.dir, "folder")
        inside = os.path.join(folder, "users", "inside")
        os.makedirs(inside)
        link = os.path.join(self.dir, "link")
        os.symlink(folder, link)
        with open(os.path.join(folder, "mount.conf"), "w") as file:
            file.write("[backend s]\ntype = sqlite\npath = /nowhere/x.db\n")
        for source, point, says in (
                (f"{folder}/items.db", folder, "store in .*folder would be hidden"),
                (f"{folder}/items.db", link, "store in .*folder would be hidden"),
                (f"{inside}/items.db", folder, "store in .*inside would be hidden"),
                (f"{folder}/mount.conf", folder, "mount.conf would be hidden"),
                (folder, folder, "folder would be hidden"), (link, folder, "would be hidden"),
                (f"{folder}/users", folder, "folder .*users would be hidden"),
                (folder, inside, "inside: it lies in .*folder")):
            with self.subTest(source=source, point=point):
                self.fails(source, point, says=says)
                self.assertFalse(is_mounted(point))
        self.assertEqual(["mount.conf", "users"], sorted(os.listdir(folder)))

    def test_missing_directory(self):
        self.fails(self.db, self.dir + "/nowhere", says="nowhere.*([Nn]o such|not exist|missing)")

    def test_mount_point_is_a_file(self):
        path = self.dir + "/file"
        open(path, "w").close()
        self.fails(self.db, path, says="file.*([Nn]ot a directory|no directory)")

    def test_bad_configuration(self):
        for number, (text, says) in enumerate((
                ("[mount]\ncache_size = 5M\nnonsense = 1\n", r"conf:3.*nonsense"),
                ("[mount]\n\numask = 9\n", r"conf:3"),
                ("[nonsense]\nx = 1\n", r"conf:\d"),
                ("[mount]\nno equals sign\n", r"conf:2"),
                ("[backend s]\ntype = magic\npath = x.db\n", r"conf:2.*magic"),
                ("[backend s]\ntype = sqlite\npath = x.db\n[table t]\nbackend = other\n", "other"))):
            with self.subTest(text=text):
                path = os.path.join(self.dir, f"c{number}.conf")
                with open(path, "w") as file:
                    file.write(text)
                self.fails(path, self.mnt, says=says)
        self.fails(self.dir + "/absent.conf", self.mnt, says="absent.conf")

    def test_configuration_file(self):
        with open(self.dir + "/mount.conf", "w") as file:
            file.write("; a comment\n[mount]\numask = 077\n[backend s]\ntype = sqlite\n"
                       "path = below.db\n")
        self.itemfs("mount.conf", self.mnt)
        self.table()
        self.assertEqual(0o100600, os.stat(self.mnt + "/t/a.json").st_mode)
        self.assertTrue(os.path.exists(self.dir + "/below.db"))

    def test_unreadable_stores(self):
        with open(self.dir + "/text.db", "w") as file:
            file.write("This is no database. " * 500)
        db = sqlite3.connect(self.dir + "/foreign.db")
        db.execute("CREATE TABLE other(x)")
        db.commit()
        db.close()
        self.fails("text.db", self.mnt, says="text.db")
        self.fails("foreign.db", self.mnt, says="foreign.db.*another")
        self.fails("no/where.db", self.mnt, says="no/where.db")
        with open(self.dir + "/foreign.db", "rb") as file:
            self.assertIn(b"CREATE TABLE other", file.read())

    def test_store_of_a_newer_version(self):
        self.itemfs(self.db, self.mnt)
        self.table()
        self.unmount()
        self.daemon_gone()
        db = sqlite3.connect(self.db)
        db.execute("PRAGMA user_version = 999")
        db.close()
        self.fails(self.db, self.mnt, says="items.db.*(newer|999|version|format)")

    def test_store_without_rights(self):
        if os.getuid() != 0:
            self.skipTest("only root can become somebody else")
        self.itemfs(self.db, self.mnt)
        self.unmount()
        self.daemon_gone()
        done = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", ITEMCTL, "-s", self.db,
                               "tables"], capture_output=True, text=True, env=self.environment())
        self.assertEqual(1, done.returncode)
        self.assertRegex(done.stderr, "items.db")

    def test_dead_mount_is_mounted_over(self):
        self.itemfs(self.db, self.mnt)
        self.table()
        os.kill(self.daemon(), signal.SIGKILL)
        self.daemon_gone()
        try:  # dead, or already cleared away; in no case an item
            self.assertEqual([], os.listdir(self.mnt))
        except OSError as error:
            self.assertIn(error.errno, DEAD)
        self.itemfs(self.db, self.mnt)
        with open(self.mnt + "/t/a.json") as file:
            self.assertEqual('{"v": 1}', file.read())
        unmount(self.mnt)
        self.daemon_gone()
        self.assertFalse(is_mounted(self.mnt))  # the dead one is gone too

    def test_dead_mount_of_an_ordinary_user(self):
        if os.getuid() != 0:
            self.skipTest("only root can become somebody else")
        mode = os.stat("/dev/fuse").st_mode & 0o777
        os.chmod("/dev/fuse", 0o666)  # as udev makes it
        self.addCleanup(os.chmod, "/dev/fuse", mode)
        for path in (self.place, self.dir):
            os.chmod(path, 0o755)
        os.chown(self.mnt, 65534, 65534)
        db = os.path.join(self.mnt + ".home", "items.db")
        os.mkdir(os.path.dirname(db))
        os.chown(os.path.dirname(db), 65534, 65534)
        start = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                 ITEMFS, db, self.mnt]
        self.run_tool(start, cwd=self.dir)
        os.kill(self.daemon(), signal.SIGKILL)
        self.daemon_gone()
        self.run_tool(start, cwd=self.dir)
        self.assertTrue(is_mounted(self.mnt))
        unmount(self.mnt)
        self.daemon_gone()
        self.assertFalse(is_mounted(self.mnt))

    def signalled(self, number):
        """A dirty open file is saved, the mount goes, the daemon ends."""
        self.itemfs(self.db, self.mnt)
        self.table()
        fd = os.open(self.mnt + "/t/a.json", os.O_WRONLY | os.O_TRUNC)
        os.write(fd, b'{"dirty": 1}')
        listing = os.scandir(self.mnt + "/t")
        next(listing)
        os.kill(self.daemon(), number)
        wait_for("the unmount", lambda: not is_mounted(self.mnt))
        self.daemon_gone()
        try:
            os.close(fd)
        except OSError:
            pass
        return Store(self.db, ITEMCTL, {}).body("t", "a")

    def test_sigterm_saves_and_unmounts(self):
        self.assertEqual(b'{"dirty": 1}', self.signalled(signal.SIGTERM))

    def test_sigterm_with_files_and_directories_open(self):
        mount = self.new_mount(self.db, os.path.basename(self.mnt) + "-open")
        mount.start()
        os.mkdir(mount.point + "/t")
        paths = [f"{mount.point}/t/{name}" for name in ("a.json", "b.json", "scratch")]
        files = [open(path, "w") for path in paths]
        files += [open(mount.point + "/.itemfs/status.json")]
        with os.scandir(mount.point + "/t") as entries:
            next(entries)
            mount.process.send_signal(signal.SIGTERM)
            mount.ended()  # without a leak
        for file in files:
            try:
                file.close()
            except OSError:
                pass

    def test_sigint_saves_and_unmounts(self):
        self.assertEqual(b'{"dirty": 1}', self.signalled(signal.SIGINT))

    def test_sigterm_keeps_an_invalid_text_as_draft(self):
        self.itemfs(self.db, self.mnt)
        self.table()
        fd = os.open(self.mnt + "/t/a.json", os.O_WRONLY | os.O_TRUNC)
        os.write(fd, b'{"half": ')
        os.kill(self.daemon(), signal.SIGTERM)
        self.daemon_gone()
        try:
            os.close(fd)
        except OSError:
            pass
        self.assertEqual(b'{"v": 1}', Store(self.db, ITEMCTL, {}).body("t", "a"))
        self.itemfs(self.db, self.mnt)
        with open(self.mnt + "/.itemfs/drafts/t/a.json", "rb") as file:
            self.assertEqual(b'{"half": ', file.read())

    def test_sighup_does_no_harm(self):
        self.itemfs(self.db, self.mnt)
        self.table()
        os.kill(self.daemon(), signal.SIGHUP)
        wait_for("either a mount or an end",
                 lambda: is_mounted(self.mnt) or self.daemon() is None)
        self.assertEqual(b'{"v": 1}', Store(self.db, ITEMCTL, {}).body("t", "a"))

    def test_mount_helper(self):
        """As mount(8) calls it: SOURCE DIR -o OPTIONS, options of fstab among them."""
        helper = os.path.join(os.path.dirname(ITEMFS), "mount.itemfs")
        link = os.path.join(self.dir, "mount.itemfs")
        if not os.path.exists(helper):
            os.symlink(ITEMFS, link)
            helper = link
        self.run_tool([helper, self.db, self.mnt, "-o",
                       "rw,nosuid,nodev,noatime,_netdev,nofail,x-systemd.automount,umask=077"])
        self.table()
        self.assertEqual(0o100600, os.stat(self.mnt + "/t/a.json").st_mode)
        with open("/proc/self/mountinfo", errors="surrogateescape") as info:
            line = next(line for line in info if f" {self.mnt} " in line)
        self.assertIn("nosuid", line)
        self.assertIn("noatime", line)
        self.assertRegex(line, r" - fuse\.itemfs ")

    def test_mount_command(self):
        if os.getuid() != 0 or os.path.exists("/sbin/mount.itemfs"):
            self.skipTest("needs root, and /sbin/mount.itemfs free to be made for the test")
        os.symlink(ITEMFS, "/sbin/mount.itemfs")
        self.addCleanup(os.unlink, "/sbin/mount.itemfs")
        self.run_tool(["mount", "-t", "itemfs", self.db, self.mnt, "-o", "ro"], status=None)
        self.assertFalse(is_mounted(self.mnt))  # ro of an absent store
        self.run_tool(["mount", "-t", "itemfs", "-o", "uid=5", self.db, self.mnt])
        self.table()
        self.assertEqual(5, os.stat(self.mnt + "/t/a.json").st_uid)
        self.run_tool(["umount", self.mnt])
        self.daemon_gone()
        table = os.path.join(self.dir, "fstab")
        with open(table, "w") as file:
            file.write(f"{self.db} {self.mnt} itemfs ro,noauto,nofail 0 0\n")
        self.run_tool(["mount", "-T", table, self.mnt])
        self.assertErrno(errno.EROFS, os.mkdir, self.mnt + "/new")
        self.run_tool(["umount", self.mnt])

    def test_cmake_install(self):
        build = os.environ.get("ITEMFS_BUILD", os.path.dirname(os.path.dirname(ITEMFS)))
        root = os.path.join(self.dir, "root")
        self.run_tool(["cmake", "--install", build], env=self.environment(DESTDIR=root))
        found = {os.path.relpath(os.path.join(folder, name), root)
                 for folder, _, files in os.walk(root) for name in files}
        for name in ("bin/itemfs", "bin/itemctl", "mount.itemfs", "itemfs.1", "itemctl.1",
                     "mount.conf.5", "mount.conf.example", "docs/FOLDERS.md", "docs/PROFILES.md"):
            self.assertTrue(any(path.endswith(name) or path.endswith(name + ".gz")
                                for path in found), f"{name} is not installed: {sorted(found)}")
        shutil.rmtree(root)

    def test_other_users(self):
        if os.getuid() != 0:
            self.skipTest("only root can become somebody else")
        os.chmod(self.place, 0o755)
        self.itemfs(self.db, self.mnt)
        self.table()
        as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "cat",
                     self.mnt + "/t/a.json"]
        self.assertNotEqual(0, self.run_tool(as_nobody, status=None).returncode)
        self.unmount()
        self.daemon_gone()
        self.itemfs(self.db, self.mnt, "-o", "allow_other")
        self.assertEqual('{"v": 1}', self.run_tool(as_nobody).stdout)
        write = as_nobody[:-2] + ["sh", "-c", f"echo 5 > {self.mnt}/t/a.json"]
        self.assertNotEqual(0, self.run_tool(write, status=None).returncode)  # 0644 root

    def test_two_mounts_of_one_store(self):
        other = self.dir + "/other"
        os.mkdir(other)
        self.itemfs(self.db, self.mnt)
        self.itemfs(self.db, other)
        self.addCleanup(subprocess.run, ["fusermount3", "-u", "-z", other])
        self.table()
        wait_for("the item on the other mount", lambda: os.path.exists(other + "/t/a.json"), 1)


class Options(PlaceTest):
    def test_an_unknown_option_makes_no_store(self):
        point, store = os.path.join(self.place, "mnt"), os.path.join(self.place, "new.db")
        os.mkdir(point)
        done = self.run_tool([ITEMFS, store, point, "-o", "bogus=1"], 1)
        self.assertIn("an option is known neither here nor to FUSE", done.stderr)
        self.assertEqual({"home", "mnt"}, set(os.listdir(self.place)))


class Detached(PlaceTest):
    """umount -l takes a mount from its place, where somebody works in it: it lives on."""

    def test_its_end_leaves_the_next_mount_alone(self):
        for name in ("plain", "with a blank"):
            with self.subTest(name):
                point = os.path.join(self.place, name)
                os.mkdir(point)
                first = Mount(point + ".first.db", point, log=point + ".1").start()
                self.addCleanup(first.rescue)
                os.mkdir(point + "/one")
                inside = os.open(point + "/one", os.O_RDONLY)
                self.run_tool(["fusermount3", "-u", "-z", point])
                second = Mount(point + ".second.db", point, log=point + ".2").start()
                self.addCleanup(second.rescue)
                first.terminate()
                self.assertErrno(errno.ENOTCONN, os.listdir, inside)
                os.close(inside)
                os.mkdir(point + "/two")
                self.assertTrue(is_mounted(point))
                second.unmount()


class ReadOnly(PlaceTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.db = os.path.join(cls.place, "items.db")
        first = cls.new_mount(cls.db, "first")
        first.start()
        os.mkdir(first.point + "/t")
        for number in range(20):
            with open(f"{first.point}/t/k{number}.json", "w") as file:
                file.write(f'{{"v": {number}}}')
        with open(first.point + "/t/notes", "w") as file:
            file.write("scratch")
        first.unmount()
        cls.mount = cls.new_mount(cls.db, "mnt", ["ro"])
        cls.mount.start()
        cls.mnt = cls.mount.point

    @classmethod
    def tearDownClass(cls):
        cls.mount.unmount()

    def test_reads(self):
        for number in range(20):
            for _ in range(3):
                with open(f"{self.mnt}/t/k{number}.json") as file:
                    self.assertEqual(f'{{"v": {number}}}', file.read())
        self.assertEqual(21, len(os.listdir(self.mnt + "/t")))
        self.assertEqual(20, self.run_tool(["grep", "-rlc", '"v"', self.mnt]).stdout.count("\n"))

    def test_every_change_is_refused(self):
        path = self.mnt + "/t/k1.json"
        for function, arguments in (
                (os.open, (path, os.O_WRONLY)), (os.open, (path, os.O_RDWR | os.O_TRUNC)),
                (os.open, (self.mnt + "/t/new.json", os.O_CREAT | os.O_WRONLY)),
                (os.truncate, (path, 0)), (os.unlink, (path,)), (os.mkdir, (self.mnt + "/x",)),
                (os.rmdir, (self.mnt + "/t",)), (os.rename, (path, self.mnt + "/t/z.json")),
                (os.utime, (path, (1, 1))), (os.chmod, (path, 0o600)),
                (os.setxattr, (path, "user.itemfs.ttl", b"4102444800")),
                (os.symlink, ("x", self.mnt + "/t/link")), (os.link, (path, self.mnt + "/t/l"))):
            with self.subTest(call=function.__name__):
                self.assertErrno(errno.EROFS, function, *arguments)

    def test_changes_made_elsewhere_are_seen(self):
        for number in range(5):
            self.run_tool([ITEMCTL, "-s", self.db, "put", "t", "--item", "-"], text=True,
                          input=json.dumps({"key": {"S": "new"}, "n": {"N": str(number)}}))

            def seen():
                try:
                    with open(self.mnt + "/t/new.json") as file:
                        return json.load(file).get("n") == number
                except FileNotFoundError:
                    return False
            wait_for("the change", seen, 1)
        self.run_tool([ITEMCTL, "-s", self.db, "delete", "t", "-k", "new"])
        wait_for("the removal", lambda: not os.path.exists(self.mnt + "/t/new.json"), 1)

    def test_store_file_without_write_permission(self):
        copy = os.path.join(self.place, "copy.db")
        folder = os.path.join(self.place, "frozen")
        os.mkdir(folder)
        self.run_tool(["sqlite3", self.db, f".backup {copy}"])
        if os.getuid() != 0:
            self.skipTest("only root can mount a read-only filesystem")
        self.run_tool(["mount", "-t", "tmpfs", "none", folder])
        shutil.copy(copy, folder + "/items.db")
        self.addCleanup(subprocess.run, ["umount", "-l", folder])
        self.run_tool(["mount", "-o", "remount,ro", folder])
        point = os.path.join(self.place, "frozen-mnt")
        os.mkdir(point)
        done = self.run_tool([ITEMFS, folder + "/items.db", point], status=None)
        self.assertNotEqual(0, done.returncode)
        self.assertRegex(done.stderr, "items.db")
        mount = self.new_mount(folder + "/items.db", "frozen-mnt", ["ro"])
        mount.start()
        with open(point + "/t/k3.json") as file:
            self.assertEqual('{"v": 3}', file.read())
        mount.unmount()


if __name__ == "__main__":
    unittest.main()
