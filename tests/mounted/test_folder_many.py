# SPDX-License-Identifier: MIT
"""Many files at once: the first mount of a folder, and what others change while nobody watches."""

import collections
import json
import os
import time
import unittest

from folder import FolderTest

MANY, YEAR_NS = 1500, 365 * 86400 * 10**9


class Many(FolderTest):
    def setUp(self):
        super().setUp()
        self.old = self.now_ns() - YEAR_NS

    def everywhere(self, name, body, mtime_ns):
        for root in self.roots:
            self.direct(name, body, root=root, mtime_ns=mtime_ns)

    def fill(self):
        for i in range(MANY):
            self.everywhere(f"k{i}.json", b'{"n":%d}' % i, self.old + i)

    def test_what_is_no_item_among_them(self):
        self.fill()
        self.everywhere("empty.json", b"", self.old)
        self.everywhere("expired.json", b'{"-ttl":%d}' % (time.time() - 9), self.old)
        shown = self.files()
        del shown["expired.json"]
        self.everywhere("b_a.json", "1", self.old)
        self.everywhere("bad.json", "{", self.old)
        self.everywhere("other.json", '{"-key":"another"}', self.old)
        for root in self.roots:
            os.symlink("k1.json", os.path.join(root, "users", "link.json"))
        self.start()
        self.assertEqual(shown, self.shown())
        self.assertEqual(4, self.status()["foreign_files"])
        self.assertEqual([b"{"] * len(self.drafts()), [self.draft(name)[0] for name in self.drafts()])
        # One that is an item now, and one that is none any more, among many others.
        self.mount.unmount()
        for i in range(MANY // 2):
            self.everywhere(f"k{i}.json", b'{"n":-%d}' % i, self.old)
        self.everywhere("bad.json", "{}", self.old)
        self.everywhere("k1.json", "}", self.old)
        shown = self.files()
        for name in ("expired.json", "b_a.json", "other.json", "link.json", "k1.json"):
            shown.pop(name, None)
        self.start()
        self.assertEqual(shown, self.shown())
        self.assertEqual(4, self.status()["foreign_files"])

    def test_unchanged_files_are_not_read(self):
        self.fill()
        self.start()
        self.mount.unmount()
        for root in self.roots:
            for i in range(MANY):
                os.utime(os.path.join(root, "users", f"k{i}.json"), ns=(0, self.old + i))
        path = os.path.join(self.folder, "k0.json")
        self.start()
        atimes = {os.stat(os.path.join(root, "users", f"k{i}.json")).st_atime_ns
                  for root in self.roots for i in range(MANY)}
        self.bytes_of(path)
        if os.stat(path).st_atime_ns == 0:
            self.skipTest("the file system does not note who reads")
        self.assertEqual({0}, atimes)
        self.assertEqual(self.files(), self.shown())

    def test_what_has_changed_meanwhile(self):
        self.fill()
        self.start()
        os.setxattr(self.dir, "user.itemfs.stream", b"on")
        self.mount.unmount()
        for i in range(0, 400):
            self.everywhere(f"k{i}.json", b'{"v":%d}' % i, self.old + 10**9 + i)
        for i in range(400, 700):
            for root in self.roots:
                os.unlink(os.path.join(root, "users", f"k{i}.json"))
        for i in range(700, 900):
            for root in self.roots:
                os.utime(os.path.join(root, "users", f"k{i}.json"), ns=(0, self.old - i))
        for i in range(600):
            self.everywhere(f"new{i}.json", b"%d" % i, self.old + i)
        self.start()
        self.assertEqual(self.files(), self.shown())
        lines = map(json.loads, self.itemctl("changes", "users").stdout.splitlines())
        self.assertEqual({"MODIFY": 400, "REMOVE": 300, "INSERT": 600},
                         collections.Counter(line["change_type"] for line in lines))
        self.assertAlike()


class ManyInReplicas(Many):
    """Two replicas that hold the same."""

    replicas = 2

    def test_what_differs_among_them(self):
        self.fill()
        self.direct("k5.json", '{"newer":1}', mtime_ns=self.old + 10**10)
        os.unlink(os.path.join(self.roots[1], "users", "k6.json"))
        self.direct("k7.json", '{"newer":2}', root=self.roots[1], mtime_ns=self.old + 10**10)
        wanted = self.files()
        wanted["k7.json"] = self.files(self.roots[1])["k7.json"]
        self.start()
        self.assertEqual(wanted, self.shown())
        self.wait_alike()
        self.assertEqual(wanted, self.files())


if __name__ == "__main__":
    unittest.main()
