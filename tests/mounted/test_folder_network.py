# SPDX-License-Identifier: MIT
"""Folders on disks that others than this machine's programs write: nothing tells of their changes,
so the folder is looked through again and again. The disk is a mount of a store of its own, which is
one by its type; what is written into that store behind its back is what another machine writes."""

import json
import os
import unittest

from folder import FolderTest
from harness import ITEMCTL, wait_for


class NetworkTest(FolderTest):
    def make_root(self, root):
        os.makedirs(root)
        self.disk = self.new_mount(root + ".db", os.path.relpath(root, self.place))
        self.disk.env = self.env()
        self.disk.start()
        os.mkdir(os.path.join(root, "users"))

    def make_source(self):
        """Each replica is the folder of one table: on the disk's root there are no files."""
        path = os.path.join(self.home_dir, "mount.conf")
        with open(path, "w") as file:
            file.write("[backend folders]\ntype = folder\nlayout = table\nreplicas = "
                       f"{', '.join(os.path.join(root, 'users') for root in self.roots)}\n")
        return path

    def end(self):
        super().end()
        self.disk.unmount()

    def elsewhere(self, *arguments, **more):
        """On another machine."""
        return self.run_tool([ITEMCTL, "-s", self.disk.source, *arguments], env=self.env(), **more)

    def put(self, key, number):
        self.elsewhere("put", "users", "--item", "-",
                       input=json.dumps({"key": {"S": key}, "n": {"N": str(number)}}))

    def stored(self, key):
        return json.loads(self.elsewhere("get", "users", "-k", key).stdout)


class Network(NetworkTest):
    def test_changes_elsewhere_are_seen(self):
        self.put("ada", 1)
        self.start()
        self.assertEqual({"n": 1}, json.loads(self.read("ada.json")))
        with open(self.path("ada.json")) as before:
            self.put("ada", 2222)
            self.assertSoon({"n": 2222}, lambda: json.loads(self.read("ada.json")))
            self.assertEqual({"n": 1}, json.loads(before.read()))
        self.put("bob", 3)
        self.assertSoon(["ada.json", "bob.json"], lambda: sorted(os.listdir(self.dir)))
        self.elsewhere("delete", "users", "-k", "ada")
        self.assertSoonGone(self.path("ada.json"))
        self.assertEqual(["bob.json"], os.listdir(self.dir))

    def test_nothing_is_looked_at_and_the_kernel_is_told(self):
        """Also of what nobody asks for: somebody waits for the change."""
        self.put("ada", 1)
        self.start()
        os.setxattr(self.dir, "user.itemfs.stream", b"on")
        self.read("ada.json")
        self.put("ada", 2)
        wait_for("the change", lambda: [
            json.loads(line)["change_type"]
            for line in self.itemctl("changes", "users").stdout.splitlines()] == ["MODIFY"])

    def test_what_is_saved_is_there(self):
        self.start()
        self.write("ada.json", '{"n":1}')
        self.assertEqual({"n": {"N": "1"}, "key": {"S": "ada"}}, self.stored("ada"))
        self.write("ada.json", '{"n":2}')
        self.write("bob.json", '{"n":3}')
        os.rename(self.path("bob.json"), self.path("eve.json"))
        self.sh("sed -i s/2/4/ ada.json")
        os.utime(self.path("eve.json"), ns=(5, 5 * 10**9))
        self.assertEqual({"n": {"N": "4"}, "key": {"S": "ada"}}, self.stored("ada"))
        self.assertEqual({"n": {"N": "3"}, "key": {"S": "eve"}}, self.stored("eve"))
        os.unlink(self.path("ada.json"))
        self.assertEqual({"eve.json": (b'{"n":3}', 5 * 10**9)}, self.files())
        self.assertEqual(self.files(), self.shown())

    def test_a_save_against_a_newer_file_is_refused(self):
        """Before a save the file is looked at, however long ago the folder was looked through."""
        self.put("ada", 1)
        self.start()
        fd = os.open(self.path("ada.json"), os.O_RDWR)
        os.read(fd, 100)
        os.pwrite(fd, b'{"n":5}', 0)
        os.ftruncate(fd, 7)
        self.put("ada", 222)
        os.stat(os.path.join(self.folder, "ada.json"))
        wait_for("the disk's own kernel", lambda: b"222" in self.direct("ada.json"))
        with self.assertRaises(OSError):
            os.close(fd)
        self.assertEqual({"n": {"N": "222"}, "key": {"S": "ada"}}, self.stored("ada"))
        self.assertEqual([b'{"n":5}'], [self.draft(name)[0] for name in self.drafts()])


class OneOfTwo(NetworkTest):
    """The second replica is on this machine."""

    replicas = 2

    def make_root(self, root):
        if root == self.roots[0]:
            super().make_root(root)
        else:
            os.makedirs(os.path.join(root, "users"))

    def alike(self):
        wait_for("replicas that are alike",
                 lambda: {name: body for name, (body, _) in self.files(self.roots[0]).items()} ==
                 {name: body for name, (body, _) in self.files(self.roots[1]).items()} ==
                 {name: body for name, (body, _) in self.shown().items()})

    def test_both_have_it(self):
        self.put("ada", 1)
        self.start()
        self.alike()
        self.assertEqual({"n": 1}, json.loads(self.direct("ada.json", root=self.roots[1])))
        self.write("bob.json", '{"n":2}')
        self.assertEqual({"n": {"N": "2"}, "key": {"S": "bob"}}, self.stored("bob"))
        self.assertEqual(b'{"n":2}', self.direct("bob.json", root=self.roots[1]))
        self.put("bob", 33)
        self.assertSoon({"n": 33}, lambda: json.loads(self.read("bob.json")))
        self.alike()
        self.direct("bob.json", '{"n":444}', root=self.roots[1])
        self.assertSoon({"n": 444}, lambda: json.loads(self.read("bob.json")))
        self.alike()
        self.assertEqual({"n": {"N": "444"}, "key": {"S": "bob"}}, self.stored("bob"))
        for root in self.roots:
            os.unlink(os.path.join(root, "users", "ada.json"))
        self.assertSoonGone(self.path("ada.json"))


if __name__ == "__main__":
    unittest.main()
