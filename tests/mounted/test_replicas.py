# SPDX-License-Identifier: MIT
"""Folders with replicas, mounted: all hold the same, and what others do to one of them is settled."""

import errno
import fcntl
import json
import os
import shutil
import subprocess
import threading
import time
import unittest

import disks
from harness import wait_for
from replicas import ReplicaTest

YEAR_NS = 365 * 86400 * 10**9


def setUpModule():
    disks.enter_namespace()


class Alike(ReplicaTest):
    """What is done on the mount is done in all."""

    replicas = 3

    def setUp(self):
        super().setUp()
        self.start()

    def test_saves_and_deletes(self):
        body = b'{"a" :  1.50, "b":"\\u00e9\\/"}\n'
        for number in range(20):
            self.write(f"k{number}.json", body * (number % 3 == 0) or b"%d" % number)
            self.assertAlike()
        for number in range(0, 20, 2):
            os.unlink(self.path(f"k{number}.json"))
            self.assertAlike()
        self.assertEqual(10, len(self.files()))

    def test_touches(self):
        self.write("ada.json", "1")
        for time_ns in (123456789 * 10**9 + 5, 10**9, 4102444800 * 10**9 + 999999999):
            os.utime(self.path("ada.json"), ns=(time_ns, time_ns))
            self.assertEqual({"ada.json": (b"1", time_ns)}, self.files())
            self.assertAlike()

    def test_renames_and_exchanges(self):
        self.write("a.json", "1")
        self.write("b.json", "2")
        os.rename(self.path("a.json"), self.path("c.json"))
        self.assertAlike()
        os.rename(self.path("c.json"), self.path("b.json"))
        self.assertEqual({"b.json": b"1"}, self.bodies())
        self.assertAlike()
        self.write("a.json", "3")
        self.sh("mv --exchange a.json b.json" if self.exchanges() else
                "mv a.json t.json; mv b.json a.json; mv t.json b.json")
        self.assertEqual({"a.json": b"1", "b.json": b"3"}, self.bodies())
        self.assertAlike()

    def exchanges(self):
        done = subprocess.run(["mv", "--help"], capture_output=True, text=True, check=True)
        return "--exchange" in done.stdout

    def test_tables(self):
        os.mkdir(os.path.join(self.mnt, "more"))
        self.assertEqual([True] * 3, [os.path.isdir(f"{root}/more") for root in self.roots])
        self.write("../more/x.json", "1")
        os.rename(os.path.join(self.mnt, "more"), os.path.join(self.mnt, "less"))
        for root in self.roots:
            self.assertEqual({"less", "users"}, set(os.listdir(root)))
            self.assertEqual(b"1", self.direct("x.json", root=root, table="less"))
        os.unlink(os.path.join(self.mnt, "less", "x.json"))
        os.rmdir(os.path.join(self.mnt, "less"))
        self.assertEqual([["users"]] * 3, [os.listdir(root) for root in self.roots])

    def test_editors_and_tools(self):
        self.write("ada.json", '{"v":1}\n')
        self.sh("sed -i s/1/2/ ada.json")
        self.assertAlike()
        source = os.path.join(self.home_dir, "source")
        os.mkdir(source)
        for number in range(20):
            with open(os.path.join(source, f"r{number}.json"), "w") as file:
                file.write(str(number))
            os.utime(os.path.join(source, f"r{number}.json"), (0, 10**9 + number))
        self.sh(f"rsync -rt {source}/ .")
        self.assertEqual(21, len(self.files()))
        self.assertAlike()

    def test_side_by_side(self):
        def work(number):
            for turn in range(20):
                self.write(f"s{number}-{turn % 4}.json", b"%d" % turn)
                if turn % 5 == 4:
                    os.unlink(self.path(f"s{number}-{turn % 4}.json"))

        workers = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.assertAlike()

    def test_itemctl_beside_the_mount(self):
        self.itemctl("put", "users", "--item", "-", input='{"-key":{"S":"eve"},"n":{"N":"1"}}')
        self.assertEqual({"n": 1}, json.loads(self.read("eve.json")))
        self.assertAlike()
        self.itemctl("delete", "users", "-k", "eve")
        self.assertEqual({}, self.files())
        self.assertAlike()

    def test_what_has_expired_goes_everywhere(self):
        self.write("gone.json", '{"-ttl":%d}' % (time.time() - 10))
        wait_for("the sweep", lambda: [os.listdir(f"{root}/users") for root in self.roots]
                 == [[], [], []])


class OthersWrite(ReplicaTest):
    """Programs that write the replicas themselves."""

    def setUp(self):
        super().setUp()
        self.direct("ada.json", '{"v":0}', self.roots[0])
        self.direct("ada.json", '{"v":0}', self.roots[1])
        self.start()
        self.wait_alike()

    def test_one_after_another(self):
        for number in range(1, 30):
            body = b'{"v":%d}' % number
            for root in self.roots:
                self.direct("ada.json", body, root)
                self.assertSoon(body, self.read, "ada.json")
        self.wait_alike()
        for root in self.roots:
            self.remove("ada.json", root)
        self.assertEqual([], os.listdir(self.dir))
        self.assertEqual([], self.drafts())
        self.assertEqual([None, None], self.states())

    def test_only_one(self):
        for number, root in enumerate(self.roots):
            self.direct("ada.json", b'{"v":%d}' % (5 + number), root)
            self.assertSoon(b'{"v":%d}' % (5 + number), self.read, "ada.json")
            self.wait_alike()
        self.assertEqual([], self.drafts())  # what was there before is no loser

    def test_a_new_file_in_one(self):
        old = self.now_ns() - YEAR_NS
        self.direct("new.json", "7", self.roots[1], mtime_ns=old)
        self.assertEqual(b"7", self.read("new.json"))
        self.wait_alike()
        self.assertEqual((b"7", old), self.files()["new.json"])

    def test_a_save_ends_the_difference(self):
        self.direct("new.json", "7", self.roots[1])
        self.write("new.json", "8")
        self.assertAlike()
        self.assertEqual(b"8", self.direct("new.json"))

    def test_two_at_once(self):
        """The newest wins, the other becomes a draft."""
        now = self.now_ns()
        self.mount.unmount()
        self.direct("ada.json", '{"v":"older"}', self.roots[0], mtime_ns=now - 10**9)
        self.direct("ada.json", '{"v":"newer"}', self.roots[1], mtime_ns=now)
        self.start()
        self.assertEqual(b'{"v":"newer"}', self.read("ada.json"))
        self.wait_alike()
        self.assertEqual([b'{"v":"older"}'], [self.draft(name)[0] for name in self.drafts()])
        self.assertIn("replica", self.draft(self.drafts()[0])[1])

    def test_a_time_beyond_what_is_kept_is_the_newest(self):
        self.direct("ada.json", '"later"', self.roots[1])
        os.utime(os.path.join(self.roots[1], "users", "ada.json"), (0, 10413792000))  # 2300
        self.assertSoon(b'"later"', self.read, "ada.json")
        wait_for("its copy", lambda: self.direct("ada.json") == b'"later"')
        self.assertEqual([9223372036, 10413792000],
                         [int(os.stat(os.path.join(root, "users", "ada.json")).st_mtime)
                          for root in self.roots])

    def test_a_time_that_is_yet_to_come(self):
        """What is written after it counts, though its time is an earlier one."""
        for root in self.roots:
            os.utime(self.path("ada.json"), (1, 2**32))
            self.wait_alike()
            self.direct("ada.json", '{"v":"in %d"}' % self.roots.index(root), root)
            self.assertSoon(b'{"v":"in %d"}' % self.roots.index(root), self.read, "ada.json")
            wait_for("its copies", lambda: len({body["ada.json"] for body in map(self.files,
                                                                                self.roots)}) == 1)
            self.assertEqual(b'{"v":"in %d"}' % self.roots.index(root), self.read("ada.json"))

    def test_a_stale_one_does_not_win(self):
        """A replica that missed a change while nothing was mounted: the row's file is newer."""
        now = self.now_ns()
        self.mount.unmount()
        self.direct("ada.json", '{"v":"old"}', self.roots[1], mtime_ns=now - YEAR_NS)
        self.start()
        self.assertEqual(b'{"v":0}', self.read("ada.json"))
        self.wait_alike()
        self.assertEqual([b'{"v":"old"}'], [self.draft(name)[0] for name in self.drafts()])

    def test_absence_in_one_is_no_deletion(self):
        for root in self.roots:
            before = self.files()
            self.remove("ada.json", root)
            self.assertEqual(b'{"v":0}', self.read("ada.json"))
            self.wait_alike()
            self.assertEqual(before, self.files())
        self.mount.unmount()
        self.remove("ada.json", self.roots[0])
        self.start()
        self.assertEqual(b'{"v":0}', self.read("ada.json"))
        self.wait_alike()

    def test_a_folder_missing_in_one_is_no_deletion(self):
        for number in range(10):
            self.write(f"k{number}.json", "1")
        before = self.files()
        shutil.rmtree(os.path.join(self.roots[1], "users"))
        self.assertEqual(before, self.shown())
        self.wait_alike()
        self.assertEqual(before, self.files())
        self.assertEqual([None, None], self.states())

    def test_a_folder_made_in_one(self):
        os.mkdir(os.path.join(self.roots[1], "more"))
        self.direct("x.json", "1", self.roots[1], table="more")
        self.assertEqual({"x.json": b"1"}, self.bodies("more"))
        wait_for("the copy", lambda: self.has("x.json", self.roots[0], "more"))
        shutil.rmtree(os.path.join(self.roots[0], "more"))
        shutil.rmtree(os.path.join(self.roots[1], "more"))
        self.assertEqual(["users"], os.listdir(self.mnt))

    def test_no_json_in_one(self):
        """The others have the item."""
        self.direct("ada.json", '{"v":', self.roots[0])
        self.assertEqual(b'{"v":0}', self.read("ada.json"))
        self.wait_alike()
        self.assertEqual([b'{"v":'], [self.draft(name)[0] for name in self.drafts()])

    def test_no_json_in_all(self):
        for root in self.roots:
            self.direct("ada.json", '{"v":', root)
        self.assertSoonGone(self.path("ada.json"))
        self.assertEqual([b'{"v":'], [self.draft(name)[0] for name in self.drafts()])
        for root in self.roots:
            self.direct("ada.json", "1", root)
        self.assertSoon(b"1", self.read, "ada.json")

    def test_streams_tell_once(self):
        os.setxattr(self.dir, "user.itemfs.stream", b"on")
        for root in self.roots:
            self.direct("ada.json", '{"v":1}', root)
            self.assertSoon(b'{"v":1}', self.read, "ada.json")
        self.wait_alike()
        for root in self.roots:
            self.remove("ada.json", root)
            os.listdir(self.dir)
        lines = self.itemctl("changes", "users").stdout.splitlines()
        told = [(line["change_type"], line["keys"]["-key"]["S"]) for line in map(json.loads, lines)]
        self.assertEqual([("MODIFY", "ada"), ("REMOVE", "ada")], told)


class Repairs(ReplicaTest):
    """Replicas are made alike beside those who write them."""

    def setUp(self):
        super().setUp()
        for root in self.roots:
            self.direct("ada.json", '{"n":0}', root)
        self.start()
        self.wait_alike()

    def test_counting_goes_on(self):
        """A program counts in the first replica, under its lock, for longer than a grace."""
        path = os.path.join(self.roots[0], "users", "ada.json")
        for number in range(1200):
            with open(path, "r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                while os.fstat(file.fileno()).st_ino != os.stat(path).st_ino:  # replaced meanwhile
                    file = open(path, "r+")
                    fcntl.flock(file, fcntl.LOCK_EX)
                self.assertEqual({"n": number}, json.loads(file.read()))
                file.seek(0)
                file.write(json.dumps({"n": number + 1}))
                file.truncate()
                file.flush()
                fcntl.flock(file, fcntl.LOCK_UN)
                file.close()
            os.sched_yield()
            if number % 4 == 0:
                os.stat(self.path("ada.json"))
        self.wait_alike()
        self.assertEqual({"n": 1200}, json.loads(self.direct("ada.json", root=self.roots[1])))
        self.assertEqual([], self.drafts())  # what the item was is no loser
        self.assertEqual([None, None], self.states())

    def test_a_write_right_before_the_copy_was_made(self):
        """It was written a tick after what was copied, and before the copy was."""
        old = self.now_ns() - YEAR_NS
        for root in self.roots:
            self.direct("ada.json", '{"n":1}', root, mtime_ns=old)
        self.wait_alike()
        self.mount.unmount()
        self.direct("ada.json", '{"n":2}', self.roots[0], mtime_ns=old + 4_000_000)
        first, copy = (os.path.join(root, "users/ada.json") for root in self.roots)
        while os.stat(copy).st_ctime_ns <= os.stat(first).st_ctime_ns:
            os.utime(copy, ns=(old, old))
        self.start()
        self.wait_alike()
        self.assertEqual({"n": 2}, json.loads(self.direct("ada.json", root=self.roots[1])))

    def test_every_loser_has_a_draft_of_its_own(self):
        old = self.now_ns() - YEAR_NS
        self.mount.unmount()
        for number in range(1, 5):
            self.direct("ada.json", '{"lost":%d}' % number, self.roots[1], mtime_ns=old + number)
            self.start()
            self.wait_alike()
            self.mount.unmount()
        self.start()
        self.assertEqual({"ada.json", "ada.json.2", "ada.json.3", "ada.json.4"},
                         set(os.listdir(os.path.join(self.mnt, ".itemfs/drafts/users"))))
        for number in range(1, 5):
            path = f"ada.json.{number}" if number > 1 else "ada.json"
            with open(os.path.join(self.mnt, ".itemfs/drafts/users", path)) as file:
                self.assertEqual('{"lost":%d}' % number, file.read())

    def test_bytes_lost_by_a_power_failure(self):
        """A disk may have the name and the time of a save, and none of its bytes."""
        bodies = {f"k{number}.json": b'{"number":%d}' % number for number in range(40)}
        for name, body in bodies.items():
            self.write(name, body)
        before = self.files()
        self.mount.unmount()
        for number, name in enumerate(bodies):  # in one replica, or in both: the state has them
            for root in self.roots[:1 + number % 2]:
                path = os.path.join(root, "users", name)
                os.truncate(path, 0)
                os.utime(path, ns=(before[name][1],) * 2)
        self.start()
        for root in self.roots:
            self.assertSoon(before, self.files, root)
        self.assertAlike()
        self.assertEqual([], self.drafts())
        self.mount.unmount()
        shutil.rmtree(os.path.join(self.home_dir, "state"))  # then the replica that has them counts
        for name in bodies:
            path = os.path.join(self.roots[0], "users", name)
            os.truncate(path, 0)
            os.utime(path, ns=(before[name][1],) * 2)
        self.start()
        self.wait_alike()
        self.assertEqual(before, self.files())

    def test_lost_before_the_others_have_it(self):
        """The older file of a replica that was to be made like it does not come back."""
        self.direct("ada.json", '{"n":1}', self.roots[0])
        self.assertSoon(b'{"n":1}', self.read, "ada.json")
        self.remove("ada.json", self.roots[0])
        self.wait_alike()
        self.assertEqual(b'{"n":1}', self.direct("ada.json", root=self.roots[1]))
        self.assertEqual(b'{"n":1}', self.read("ada.json"))
        self.assertEqual([], self.drafts())

    def test_no_file_in_one(self):
        """What has an item's name in one replica, and is no regular file, gets another name."""
        makers = {"link": lambda path: os.symlink("ada.json", path), "fifo": os.mkfifo,
                  "folder": os.mkdir}
        for name, make in makers.items():
            for root in self.roots:
                self.direct(f"{name}.json", '{"n":1}', root)
        self.assertSoon(4, lambda: len(os.listdir(self.dir)))
        self.wait_alike()
        for name, make in makers.items():
            path = os.path.join(self.roots[1], "users", f"{name}.json")
            os.unlink(path)
            make(path)
        for name in makers:
            path = os.path.join(self.roots[1], "users", f"{name}.json")
            wait_for("the item", lambda: os.path.isfile(path) and not os.path.islink(path))
            self.assertEqual('{"n":1}', self.direct(f"{name}.json", root=self.roots[1]).decode())
            self.assertTrue(os.path.lexists(path + ".aside-1"))
            self.assertEqual(b'{"n":1}', self.read(f"{name}.json"))
        self.assertEqual("ada.json", os.readlink(
            os.path.join(self.roots[1], "users", "link.json.aside-1")))
        self.assertEqual([], self.drafts())
        self.assertEqual([None, None], self.states())


class TheSameFolder(ReplicaTest):
    """Two that are one are no two."""

    def refused(self, text, why):
        with open(self.source, "w") as file:
            file.write(text)
        with self.assertRaisesRegex(AssertionError, why):
            self.mount.start()
        self.itemctl("status", status=None)
        self.assertEqual([], os.listdir(os.path.join(self.roots[0], "users")))

    def backends(self, *lists):
        return "".join(f"[backend b{number}]\ntype = folder\nreplicas = {', '.join(paths)}\n"
                       for number, paths in enumerate(lists))

    def test_replicas(self):
        first, second = self.roots
        link = os.path.join(self.home_dir, "link")
        os.symlink(first, link)
        self.refused(self.backends([first, link]), "twice")
        self.refused(self.backends([first, first + "/../" + os.path.basename(first)]), "twice")
        self.refused(self.backends([second, first, first + "/users"]), "lies in")
        self.refused(self.backends([first + "/users", second, first]), "lies in")

    def test_bound_twice(self):
        self.need_disks()
        self.run_tool(["mount", "--bind", self.roots[0], self.roots[1]])
        self.addCleanup(self.drop, self.roots[1])
        self.refused(self.backends(self.roots), "same folder")

    def test_backends(self):
        first, second = self.roots
        link = os.path.join(self.home_dir, "link")
        os.symlink(second, link)
        self.refused(self.backends([first], [second], [link]), "b2.*b1|b1.*b2")
        self.refused(self.backends([first, second], [first]), "same folder")
        self.refused(self.backends([first + "/users"], [first]), "lies in")


if __name__ == "__main__":
    unittest.main()
