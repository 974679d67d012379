# SPDX-License-Identifier: MIT
"""What tests of mounted folders share: folders of files, a mount of them, and the files themselves
as a second look, with the state database for what is no file.
"""

import contextlib
import errno
import glob
import json
import os
import re
import signal
import subprocess
import time
import unittest

from harness import ITEMCTL, PlaceTest, wait_for
from store import Store


class FolderTest(PlaceTest):
    """Each test has its own folder of tables (`self.db`, with the table `users`) and mount."""

    replicas = 1
    config = ""  # what [backend] says besides its replicas
    sections = ""
    options = ()

    def setUp(self):
        self.name = re.sub(r"[^a-z0-9]+", "-", self.id().split(".")[-1].removeprefix("test_"))[:40]
        self.home_dir = os.path.join(self.place, self.name)
        self.roots = [os.path.join(self.home_dir, f"disk{i}") for i in range(self.replicas)]
        for root in self.roots:
            self.make_root(root)
        self.db = self.roots[0]
        self.folder = os.path.join(self.db, "users")
        self.source = self.make_source()
        self.mount = self.new_mount(self.source, self.name + "-mnt", self.options)
        self.mount.env = self.env()
        self.mnt = self.mount.point
        self.dir = os.path.join(self.mnt, "users")
        self.addCleanup(self.end)

    def make_root(self, root):
        os.makedirs(os.path.join(root, "users"))

    def make_source(self):
        if self.replicas == 1 and not self.config and not self.sections:
            return self.db
        path = os.path.join(self.home_dir, "mount.conf")
        with open(path, "w") as file:
            file.write("[backend folders]\ntype = folder\n"
                       f"replicas = {', '.join(self.roots)}\n{self.config}\n{self.sections}\n")
        return path

    def env(self):
        return self.environment() | {"XDG_STATE_HOME": os.path.join(self.home_dir, "state")}

    def end(self):
        if not self.mount.process:
            return
        if self.mount.process.poll() is None:
            self.mount.unmount()
        elif self.mount.process.returncode not in (0, 1, -signal.SIGKILL):
            self.mount.alive()  # it is not

    def start(self):
        self.mount.start()
        return self

    def state(self):
        """The state database, through Python's own SQLite."""
        [path] = glob.glob(os.path.join(self.home_dir, "state", "itemfs", "folder-*.db"))
        return Store(path, ITEMCTL, self.env())

    def itemctl(self, *arguments, status=0, **more):
        return self.run_tool([ITEMCTL, "-s", self.source, *arguments], status, env=self.env(), **more)

    def status(self):
        with open(os.path.join(self.mnt, ".itemfs", "status.json")) as file:
            return json.load(file)["backends"][0]

    # Files in the table's folder, as another program writes them, and through the mount.

    def direct(self, name, data=None, root=None, mtime_ns=None, table="users"):
        """Writes it as PHP does (open with O_TRUNC, one write, close); without DATA reads it."""
        path = os.path.join(root or self.db, table, name)
        if data is None:
            return self.bytes_of(path)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.write(fd, data if isinstance(data, bytes) else data.encode())
        os.close(fd)
        if mtime_ns is not None:
            os.utime(path, ns=(mtime_ns, mtime_ns))
        return data

    @staticmethod
    def bytes_of(path):
        with open(path, "rb") as file:
            return file.read()

    def path(self, name):
        return os.path.join(self.dir, name)

    def read(self, name):
        return self.bytes_of(self.path(name))

    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())

    def drafts(self, table="users"):
        folder = os.path.join(self.mnt, ".itemfs", "drafts", table)
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []

    def draft(self, name, table="users"):
        path = os.path.join(self.mnt, ".itemfs", "drafts", table, name)
        return self.bytes_of(path), os.getxattr(path, "user.itemfs.error").decode()

    def files(self, root=None, table="users"):
        """Name -> (bytes, mtime) of everything in the table's folder, but what goes meanwhile."""
        folder = os.path.join(root or self.db, table)
        found = {}
        for name in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):
                path = os.path.join(folder, name)
                found[name] = self.bytes_of(path), os.stat(path).st_mtime_ns
        return found

    def shown(self, table="users"):
        """The same through the mount."""
        return self.files(self.mnt, table)

    def assertAlike(self):
        """Every replica holds the same files with the same times, and the mount shows them."""
        wanted = self.files()
        for root in self.roots[1:]:
            self.assertEqual(wanted, self.files(root))
        self.assertEqual(wanted, self.shown())

    def wait_alike(self):
        def alike():
            try:
                return all(self.files(root) == self.files() for root in self.roots[1:])
            except FileNotFoundError:
                return False
        wait_for("replicas that are alike", alike)
        self.assertSoon(self.files(), self.shown)
        self.assertAlike()

    def assertSoon(self, wanted, function, *arguments):
        """What others have done to the files is told to the kernel within 200 ms. How long a busy
        machine takes is no matter here."""
        found = []

        def shown():
            try:
                found[:] = [function(*arguments)]
            except OSError as error:
                found[:] = [os.strerror(error.errno)]
            return found[0] == wanted
        try:
            wait_for("what others have done", shown)
        except AssertionError:
            self.assertEqual(wanted, *found)

    def assertSoonGone(self, path):
        self.assertSoon(os.strerror(errno.ENOENT), os.stat, path)

    @staticmethod
    def now_ns():
        return time.time_ns()


class OverFolder:
    """Before a MountedTest in a class's bases: its tables are folders. `self.db` is the state
    database, which has what the store has elsewhere; `assertStored` looks into the file, too."""

    replicas = 1

    @classmethod
    def make_source(cls):
        cls.roots = [os.path.join(cls.place, f"disk{i}") for i in range(cls.replicas)]
        for root in cls.roots:
            os.mkdir(root)
        cls.source = os.path.join(cls.place, "mount.conf")
        sections = (cls.config or "").replace("[backend s]\npath = {store}\n", "")
        for name in unittest.TestLoader().getTestCaseNames(cls):
            if f"[table {cls.table_of(name)}]" not in sections:
                sections += f"[table {cls.table_of(name)}]\ntag_rule = any\n"
        cls.config = None
        with open(cls.source, "w") as file:
            file.write("[backend folders]\ntype = folder\n"
                       f"replicas = {', '.join(cls.roots)}\n{sections}")
        subprocess.run([ITEMCTL, "-s", cls.source, "tables"], env=cls.environment(), check=True,
                       stdout=subprocess.DEVNULL)
        [cls.db] = glob.glob(os.path.join(cls.home, "state", "itemfs", "folder-*.db"))

    def make_table(self):
        before = time.time_ns()
        self.create(self.table, "--key", "key", "--keys", "tags", "--stream", "on")
        wait_for("the root's time", lambda: os.stat(self.mnt).st_mtime_ns > before)

    def assertStored(self, name, body, table=None):
        super().assertStored(name, body, table)
        body = body if isinstance(body, bytes) else body.encode()
        name = name.removesuffix(".json") + ".json"
        for root in self.roots:
            with open(os.path.join(root, table or self.table, name), "rb") as file:
                self.assertEqual(body, file.read())
