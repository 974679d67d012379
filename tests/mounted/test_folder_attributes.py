# SPDX-License-Identifier: MIT
"""What a file has beside its bytes: who may read it, and what programs have noted of it, stays when
the mount replaces it, in each replica."""

import json
import os
import struct
import time
import unittest

from folder import FolderTest
from harness import ITEMCTL, wait_for

YEAR_S = 365 * 86400
ACL, DEFAULT_ACL = "system.posix_acl_access", "system.posix_acl_default"
USER_OBJECT, USER, GROUP_OBJECT, MASK, OTHER = 1, 2, 4, 0x10, 0x20
NOBODY = 0xffffffff


def acl(*entries):
    """As the kernel wants it: (tag, permissions, id)."""
    return struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", tag, permissions, number) for tag, permissions, number in entries)


FOR_ONE = acl((USER_OBJECT, 6, NOBODY), (USER, 4, 4321), (GROUP_OBJECT, 0, NOBODY),
              (MASK, 4, NOBODY), (OTHER, 0, NOBODY))


class Attributes(FolderTest):
    replicas = 2

    def setUp(self):
        super().setUp()
        try:
            for root in self.roots:
                path = os.path.join(root, "users", "ada.json")
                self.direct("ada.json", "1", root=root, mtime_ns=10**18)
                os.setxattr(path, ACL, FOR_ONE)
        except OSError as error:
            self.skipTest(f"no ACLs here: {error}")
        os.setxattr(path, "user.origin", b"the second replica's alone")

    def attributes(self, name, root):
        path = os.path.join(root, "users", name)
        return {key: os.getxattr(path, key) for key in os.listxattr(path)
                if not key.startswith("security.")}

    def kept(self):
        return [{ACL: FOR_ONE}, {ACL: FOR_ONE, "user.origin": b"the second replica's alone"}]

    def check(self, name="ada.json"):
        self.assertEqual(self.kept(), [self.attributes(name, root) for root in self.roots])
        for root in self.roots:
            found = os.stat(os.path.join(root, "users", name))
            self.assertEqual((0o640, 0), (found.st_mode & 0o7777, found.st_uid * os.geteuid()))

    def test_a_save_keeps_them(self):
        self.start()
        for text in ("2", '{"n":3}', '{"n":4}'):
            self.write("ada.json", text)
            self.assertEqual([text.encode()] * 2, [self.direct("ada.json", root=root)
                                                   for root in self.roots])
            self.check()
        self.sh("sed -i s/4/5/ ada.json")
        self.assertEqual(b'{"n":5}', self.direct("ada.json"))
        self.check()
        self.itemctl("incr", "users", "ada", "--attr", "n")
        self.assertEqual(b'{"n":6}', self.direct("ada.json"))
        self.check()

    def test_many_and_large_ones(self):
        path = os.path.join(self.folder, "ada.json")
        more = {f"user.note-{'n' * 100}-{number}": b"x" * number for number in range(12)}
        more["user.large"] = os.urandom(1500)
        try:
            for name, value in more.items():
                os.setxattr(path, name, value)
        except OSError as error:
            self.skipTest(f"no room for attributes here: {error}")
        self.start()
        self.write("ada.json", "2")
        self.assertEqual(more | {ACL: FOR_ONE}, self.attributes("ada.json", self.db))

    def test_the_folders_acl_for_new_files(self):
        """It holds for new files, as any program makes them, and for none that was there without
        it."""
        default = acl((USER_OBJECT, 6, NOBODY), (USER, 6, 77), (GROUP_OBJECT, 4, NOBODY),
                      (MASK, 6, NOBODY), (OTHER, 0, NOBODY))
        for root in self.roots:
            self.direct("plain.json", "1", root=root, mtime_ns=10**18)
            os.chmod(os.path.join(root, "users", "plain.json"), 0o604)
            os.setxattr(os.path.join(root, "users"), DEFAULT_ACL, default)
        self.start()
        self.direct("direct.json", "1")
        self.write("new.json", "1")
        self.write("plain.json", "2")
        self.write("ada.json", "2")
        self.check()
        for root in self.roots:
            self.assertEqual({}, self.attributes("plain.json", root))
            self.assertEqual(0o604, os.stat(os.path.join(root, "users", "plain.json")).st_mode
                             & 0o7777)
            self.assertEqual([ACL], list(self.attributes("new.json", root)))
        self.assertEqual(self.attributes("direct.json", self.db),
                         self.attributes("new.json", self.db))
        self.assertEqual(os.stat(os.path.join(self.folder, "direct.json")).st_mode,
                         os.stat(os.path.join(self.folder, "new.json")).st_mode)


class Expiry(FolderTest):
    """What has a time to live goes from the replicas, whoever has written it."""

    replicas = 2

    def write_directly(self, name, data, **more):
        for root in self.roots:
            self.direct(name, data, root=root, **more)

    def test_files_that_others_write(self):
        self.start()
        os.setxattr(self.dir, "user.itemfs.stream", b"on")
        now = int(time.time())
        self.write_directly("young.json", '{"-ttl":%d}' % (now + 2))
        self.write_directly("other.json", '{"-ttl":%d}' % (now + 1000))
        self.assertEqual(["other.json", "young.json"], sorted(os.listdir(self.dir)))
        wait_for("its end", lambda: os.listdir(self.dir) == ["other.json"])
        self.assertGreaterEqual(time.time(), now + 2)
        wait_for("the sweep", lambda: [os.listdir(os.path.join(root, "users"))
                                       for root in self.roots] == [["other.json"]] * 2)
        last = json.loads(self.itemctl("changes", "users").stdout.splitlines()[-1])
        self.assertEqual(("REMOVE", {"-key": {"S": "young"}}, True),
                         (last["change_type"], last["keys"], last["expired"]))

    def test_another_time_counts(self):
        """One that others take away, or move, in the file."""
        now = int(time.time())
        for name in ("stays", "goes"):
            self.write_directly(name + ".json", '{"-ttl":%d}' % (now + 3))
        self.start()
        self.assertEqual(str(now + 3).encode(),
                         os.getxattr(self.path("stays.json"), "user.itemfs.ttl"))
        self.write_directly("stays.json", "{}")
        self.write_directly("goes.json", '{"-ttl":%d}' % (now - 1))
        wait_for("the sweep", lambda: [os.listdir(os.path.join(root, "users"))
                                       for root in self.roots] == [["stays.json"]] * 2)
        self.assertNotIn("user.itemfs.ttl", os.listxattr(self.path("stays.json")))
        wait_for("the old time", lambda: time.time() > now + 4)
        self.assertEqual(b"{}", self.read("stays.json"))
        os.setxattr(self.path("stays.json"), "user.itemfs.ttl", b"%d" % (time.time() + 2))
        wait_for("the sweep", lambda: [os.listdir(os.path.join(root, "users"))
                                       for root in self.roots] == [[]] * 2)

    def test_while_nothing_was_mounted(self):
        """Expired files are never shown, and go with the next mount."""
        self.write_directly("old.json", '{"-ttl":%d}' % (time.time() - YEAR_S), mtime_ns=10**18)
        self.write_directly("ada.json", "1")
        self.assertEqual(1, len(self.itemctl("scan", "users").stdout.splitlines()))
        self.start()
        self.assertEqual(["ada.json"], os.listdir(self.dir))
        wait_for("the sweep", lambda: [os.listdir(os.path.join(root, "users"))
                                       for root in self.roots] == [["ada.json"]] * 2)


    def test_what_was_not_meant(self):
        """Existing files have a number of seconds in it, or a date of long ago: as on DynamoDB, what
        is more than five years past never expires anything."""
        bodies = {"seconds.json": '{"-ttl":3600}', "old.json": '{"-ttl":%d}' % (time.time() - 6 * YEAR_S)}
        for name, body in bodies.items():
            self.write_directly(name, body, mtime_ns=10**18)
        self.write_directly("gone.json", '{"-ttl":%d}' % (time.time() - 4 * YEAR_S))
        self.start()
        wait_for("the sweep", lambda: not os.path.exists(os.path.join(self.roots[0], "users/gone.json")))
        bodies["saved.json"] = '{"-ttl":60}'
        self.write("saved.json", bodies["saved.json"])
        self.assertEqual(sorted(bodies), sorted(os.listdir(self.dir)))
        for root in self.roots:
            self.assertEqual(bodies, {entry.name: open(entry.path).read()
                                      for entry in os.scandir(os.path.join(root, "users"))})
        for name in "other", "-ttl":  # each time every item's expiry is found anew
            conf = os.path.join(self.home_dir, "ttl.conf")
            with open(self.source) as file, open(conf, "w") as other:
                other.write(f"{file.read()}\n[table users]\nttl = {name}\n")
            self.run_tool([ITEMCTL, "-s", conf, "get", "users", "-k", "old"], env=self.env())
            self.assertEqual(sorted(bodies), sorted(os.listdir(self.dir)))


class Changes(FolderTest):
    def attribute(self, name):
        return os.getxattr(self.path("ada.json"), "user.itemfs." + name).decode()

    def test_changes_of_others_have_ids_too(self):
        self.direct("ada.json", "1")
        self.start()
        os.setxattr(self.dir, "user.itemfs.stream", b"on")
        self.assertEqual("INSERT", self.attribute("change_type"))
        seen = [(self.attribute("change_id"), int(self.attribute("sequence")))]
        for number in range(3):
            self.direct("ada.json", str(number + 2))
            self.assertSoon(str(number + 2).encode(), self.read, "ada.json")
            self.assertEqual("MODIFY", self.attribute("change_type"))
            seen.append((self.attribute("change_id"), int(self.attribute("sequence"))))
        self.assertEqual(4, len({change for change, _ in seen}))
        self.assertEqual(sorted(number for _, number in seen), [number for _, number in seen])
        told = [json.loads(line) for line in self.itemctl("changes", "users").stdout.splitlines()]
        self.assertEqual([change for change, _ in seen[1:]], [line["change_id"] for line in told])


if __name__ == "__main__":
    unittest.main()
