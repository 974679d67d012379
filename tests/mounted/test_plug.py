# SPDX-License-Identifier: MIT
"""Replicas that are plugged in and out while the folders are mounted and written to: by itemctl, in
mount.conf and in the tag store's own XML, and by hand."""

import glob
import json
import os
import signal
import subprocess
import threading
import time
import unittest
from xml.etree import ElementTree

from folder import FolderTest
from harness import ITEMCTL, wait_for

XML = """<?xml version="1.0" encoding="UTF-8"?>
<!-- <schemas><schema>/not/this</schema></schemas> -->
<xml>
  <application><lucinda_db/></application>
\t<lucinda_db>
    <test><schemas><schema>/no/such</schema></schemas></test>
    <live a='>'>
      <schemas>
%s
      </schemas>
    </live>
  </lucinda_db>
  <!-- end -->
</xml>
"""


class PlugTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.more = os.path.join(self.home_dir, "disk-more")
        os.mkdir(self.more)
        self.addCleanup(self.stop_writing)
        self.writer = None
        self.done = threading.Event()
        self.wrote = {}
        self.failed = []

    def make_source(self):
        path = os.path.join(self.home_dir, "mount.conf")
        self.before = ("; what these are\n[backend folders] # two disks\n type\t=folder\n"
                       f"replicas  = {', '.join(self.roots)}  ; the disks\n\n[mount]\nquiet = no\n")
        with open(path, "w") as file:
            file.write(self.before)
        os.chmod(path, 0o640)
        return path

    # A program that writes through the mount at full speed.

    def start_writing(self):
        self.writer = threading.Thread(target=self.write_on)
        self.writer.start()

    def write_on(self):
        number = 0
        while not self.done.is_set():
            name = f"w{number % 300}.json"
            number += 1
            try:
                if number % 7 == 3 and name in self.wrote:
                    os.unlink(self.path(name))
                    del self.wrote[name]
                else:
                    self.write(name, str(number))
                    self.wrote[name] = str(number).encode()
            except OSError as error:
                self.failed.append((name, error))
                return

    def stop_writing(self):
        self.done.set()
        if self.writer:
            self.writer.join()
            self.writer = None

    def wait_for_writes(self, more=200):
        """Until so many more were made: the writer goes on, and nothing holds it up for good."""
        start = os.stat(self.dir).st_mtime_ns
        for _ in range(3):
            wait_for("a save", lambda: os.stat(self.dir).st_mtime_ns != start)
            start = os.stat(self.dir).st_mtime_ns

    def fill(self, count=2000):
        for number in range(count):
            self.direct(f"i{number}.json", str(number), mtime_ns=10**18 + number)

    def plug(self, *arguments, status=0):
        done = self.itemctl("maintain", *arguments, status=status)
        return json.loads(done.stdout) if status == 0 else done.stderr

    def listed(self):
        return [replica["path"] for replica in self.status()["replicas"]]


class PlugIn(PlugTest):
    def test_nothing_is_missed(self):
        self.fill()
        self.start()
        self.start_writing()
        self.wait_for_writes()
        told = self.plug("plug-in", self.more)
        self.assertEqual((self.more, False, 0), (told["Path"], told["DryRun"], told["Left"]))
        self.assertGreaterEqual(told["Files"], 2000)
        self.wait_for_writes()
        self.stop_writing()
        self.assertEqual([], self.failed)
        self.assertEqual(self.files(), self.files(self.more))
        self.assertEqual(self.wrote, {name: body for name, (body, _) in self.files(self.more).items()
                                      if name.startswith("w")})
        self.assertEqual(10**18 + 5, self.files(self.more)["i5.json"][1])
        self.assertEqual([self.db, self.more], self.listed())

    def test_the_configuration_changes_in_its_place(self):
        self.direct("ada.json", "1")
        self.start()
        self.plug("plug-in", self.more)
        after = self.before.replace(self.db, f"{self.db}, {self.more}")
        self.assertEqual(after.encode(), self.bytes_of(self.source))
        self.assertEqual(0o640, os.stat(self.source).st_mode & 0o7777)
        self.assertEqual([], glob.glob(self.source + ".*"))
        self.write("bob.json", "2")
        self.assertEqual(self.files(), self.files(self.more))
        self.assertEqual({"ada.json", "bob.json"}, set(self.files()))
        self.mount.unmount()
        self.start()  # with the state database that it had
        self.assertEqual([self.db, self.more], self.listed())
        self.assertEqual(1, len({os.path.realpath(path) for path in
                                 glob.glob(os.path.join(self.home_dir, "state/itemfs/folder-*.db"))}))

    def test_a_copy(self):
        """With its times or without; what differs in a byte is none."""
        self.fill(20)
        self.start()
        os.rmdir(self.more)
        self.sh(f"cp -r {self.db} {self.more}")
        self.direct("i7.json", "8", self.more)
        self.assertIn("users/i7.json", self.plug("plug-in", self.more, status=4))
        self.direct("i7.json", "7", self.more)
        self.plug("plug-in", self.more)
        self.assertEqual(self.files(), self.files(self.more))
        self.assertEqual(self.files(), self.shown())
        self.assertEqual([], self.drafts())

    def test_what_cannot_be_plugged_in(self):
        self.start()
        before = self.bytes_of(self.source)
        self.plug("plug-in", os.path.join(self.home_dir, "none"), status=3)
        self.assertIn("is a replica already", self.plug("plug-in", self.db + "/", status=4))
        os.symlink(self.db, os.path.join(self.home_dir, "link"))
        self.plug("plug-in", os.path.join(self.home_dir, "link"), status=4)
        self.assertIn("not beside each other", self.plug("plug-in", self.folder, status=1))
        self.plug("plug-in", self.source, status=1)  # no folder
        os.mkdir(os.path.join(self.more, "users"))
        self.direct("other.json", "1", root=self.more)
        self.assertIn("users/other.json", self.plug("plug-in", self.more, status=4))
        self.assertEqual(b"1", self.direct("other.json", root=self.more))
        os.rename(os.path.join(self.more, "users"), os.path.join(self.more, "foreign"))
        self.assertIn("foreign", self.plug("plug-in", self.more, status=4))
        self.assertEqual(before, self.bytes_of(self.source))
        self.assertEqual([self.db], self.listed())

    def test_a_copy_is_no_obstacle(self):
        self.direct("ada.json", "1", mtime_ns=10**18)
        os.mkdir(os.path.join(self.more, "users"))
        self.direct("ada.json", "1", mtime_ns=10**18, root=self.more)
        self.start()
        self.plug("plug-in", self.more)
        self.assertEqual(self.files(), self.files(self.more))

    def test_dry_run(self):
        self.fill(10)
        self.start()
        told = self.plug("plug-in", self.more, "--dry-run")
        self.assertEqual({"Path": self.more, "DryRun": True, "Items": 10, "Files": 0, "Left": 0},
                         told)
        self.assertEqual([], os.listdir(self.more))
        self.assertEqual(self.before.encode(), self.bytes_of(self.source))

    def test_killed_at_any_moment(self):
        self.fill(1500)
        self.start()
        self.start_writing()
        begun = time.monotonic()
        self.itemctl("maintain", "plug-in", self.more, "--dry-run")
        least = time.monotonic() - begun
        for turn in range(12):
            process = subprocess.Popen([ITEMCTL, "-s", self.source, "maintain", "plug-in",
                                        self.more], env=self.env(), stderr=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL)
            time.sleep(least * (0.3 + 0.25 * turn))
            process.kill()
            process.wait()
            text = self.bytes_of(self.source).decode()
            self.assertIn(text, (self.before,
                                 self.before.replace(self.db, f"{self.db}, {self.more}")))
            if text != self.before:
                break
        if self.bytes_of(self.source).decode() == self.before:
            self.plug("plug-in", self.more)
        wait_for("the replica in use", lambda: [True, True] == [
            replica["in_use"] for replica in self.status()["replicas"]])
        self.stop_writing()
        self.assertEqual([], self.failed)
        self.assertEqual(self.files(), self.files(self.more))

    def test_a_list_that_is_edited(self):
        self.fill(50)
        os.mkdir(os.path.join(self.more, "users"))
        self.direct("old.json", "of another time", root=self.more)
        self.start()
        with open(self.source, "w") as file:
            file.write(self.before.replace(self.db, f"{self.db}, {self.more}"))
        self.write("new.json", "1")
        wait_for("the replica in use", lambda: [True, True] == [
            replica["in_use"] for replica in self.status()["replicas"]])
        wait_for("equal folders", lambda: {n: f[0] for n, f in self.files().items()} ==
                 {n: f[0] for n, f in self.files(self.more).items() if n != "old.json"})
        with open(self.source, "w") as file:
            file.write("[backend")
        self.write("newer.json", "1")  # what says nothing changes nothing
        self.assertEqual(b"1", self.direct("newer.json", root=self.more))
        with open(self.source, "w") as file:
            file.write(self.before)
        self.write("newest.json", "1")
        self.assertEqual([self.db], self.listed())
        self.assertFalse(os.path.exists(os.path.join(self.more, "users", "newest.json")))


class PlugOut(PlugTest):
    replicas = 2

    def test_nothing_is_missed(self):
        self.fill(500)
        self.start()
        self.wait_alike()
        self.start_writing()
        self.wait_for_writes()
        with open(os.path.join(self.roots[1], "users", "notes.txt"), "w") as file:
            file.write("mine")
        told = self.plug("plug-out", self.roots[1])
        self.wait_for_writes()
        self.stop_writing()
        self.assertEqual([], self.failed)
        self.assertEqual(1, told["Left"])
        self.assertGreaterEqual(told["Files"], 500)
        self.assertEqual(["notes.txt"], os.listdir(os.path.join(self.roots[1], "users")))
        self.assertEqual(self.wrote, {name: body for name, (body, _) in self.files().items()
                                      if name.startswith("w")})
        self.assertEqual(500, len([name for name in self.files() if name.startswith("i")]))
        self.assertEqual(self.before.replace(f", {self.roots[1]}", "").encode(),
                         self.bytes_of(self.source))
        self.assertEqual([self.db], self.listed())
        self.assertEqual(self.files(), self.shown())

    def test_verify_while_it_is_written(self):
        """What is just being written is no difference."""
        self.fill(500)
        self.start()
        self.wait_alike()
        self.start_writing()
        for _ in range(5):
            found = json.loads(self.itemctl("verify").stdout)
            self.assertEqual((0, [], 2), (found["Differ"], found["Differences"],
                                          found["Replicas"]))
            self.assertGreaterEqual(found["Files"], 500)
        self.stop_writing()
        self.assertEqual([], self.failed)

    def test_the_first_one_goes(self):
        self.fill(20)
        self.start()
        self.wait_alike()
        self.plug("plug-out", self.db)
        self.write("ada.json", "1")
        self.assertEqual([], os.listdir(self.db))
        self.assertEqual(self.shown(), self.files(self.roots[1]))
        self.assertEqual(21, len(self.files(self.roots[1])))
        self.plug("plug-in", self.db)
        self.assertEqual(self.files(), self.files(self.roots[1]))

    def test_what_was_written_while_it_was_out(self):
        """With an old time, before it was plugged out."""
        for root in self.roots:
            self.direct("ada.json", "1", root, 10**18)
            self.direct("bob.json", "1", root, 10**18)
            self.direct("cyd.json", "1", root, 10**18)
        self.itemctl("get", "users", "-k", "ada")
        os.rename(self.roots[1], self.roots[1] + ".aside")
        self.itemctl("delete", "users", "-k", "bob")
        os.rename(self.roots[1] + ".aside", self.roots[1])
        self.direct("mine.json", '"mine"', self.roots[1], 10**18)
        self.direct("cyd.json", "2", self.roots[1], 10**18)
        os.utime(os.path.join(self.roots[1], "users", "cyd.json"), (0, 5))
        os.utime(os.path.join(self.roots[1], "users", "ada.json"), (0, 5))
        self.plug("plug-out", self.roots[1])
        self.assertEqual([], os.listdir(self.roots[1]))
        self.start()
        self.assertEqual({"ada.json": b"1", "cyd.json": b"1"},
                         {name: body for name, (body, _) in self.shown().items()})
        self.assertEqual([b"2", b'"mine"'], [self.draft(name)[0] for name in self.drafts()])

    def test_what_cannot_be_plugged_out(self):
        self.start()
        self.assertIn("is no replica", self.plug("plug-out", self.more, status=1))
        self.plug("plug-out", self.roots[1], "--dry-run")
        self.assertEqual(self.before.encode(), self.bytes_of(self.source))
        self.plug("plug-out", self.roots[1])
        before = self.bytes_of(self.source)
        self.assertIn("the last replica", self.plug("plug-out", self.db, status=1))
        self.assertIn("is no replica", self.plug("plug-out", self.roots[1], status=1))
        self.assertEqual(before, self.bytes_of(self.source))

    def test_killed_and_repeated(self):
        self.fill(1500)
        self.start()
        self.wait_alike()
        begun = time.monotonic()
        self.itemctl("maintain", "plug-out", self.roots[1], "--dry-run")
        least = time.monotonic() - begun
        for turn in range(12):
            process = subprocess.Popen([ITEMCTL, "-s", self.source, "maintain", "plug-out",
                                        self.roots[1]], env=self.env())
            time.sleep(least * (0.3 + 0.25 * turn))
            process.send_signal(signal.SIGKILL)
            process.wait()
            out = self.bytes_of(self.source) != self.before.encode()
            if not out:
                self.assertEqual(self.files(), self.files(self.roots[1]))
            if out:
                break
        if os.listdir(self.roots[1]):
            self.plug("plug-out", self.roots[1])
        self.assertEqual([], os.listdir(self.roots[1]))
        self.assertEqual(1500, len(self.files()))
        self.assertEqual(self.before.replace(f", {self.roots[1]}", "").encode(),
                         self.bytes_of(self.source))


class Xml(PlugTest):
    """The tag store's own configuration, and one table."""

    def setUp(self):
        super().setUp()
        self.more = os.path.join(self.home_dir, "disk-more", "users")
        os.mkdir(self.more)

    def make_source(self):
        self.xml = os.path.join(self.home_dir, "app.xml")
        self.before = XML % f"        <schema>{self.roots[0]}/users</schema>"
        with open(self.xml, "w") as file:
            file.write(self.before)
        path = os.path.join(self.home_dir, "mount.conf")
        with open(path, "w") as file:
            file.write("[backend tags]\ntype = folder\nconfig = app.xml\nenvironment = live\n")
        return path

    def both(self):
        return self.files(), self.files(os.path.dirname(self.more))

    def test_in_and_out(self):
        self.fill(100)
        self.start()
        self.assertEqual(["users"], os.listdir(self.mnt))
        self.start_writing()
        self.plug("plug-in", self.more)
        self.wait_for_writes()
        self.stop_writing()
        self.assertEqual(self.both()[0], self.both()[1])
        self.assertEqual(
            XML % (f"        <schema>{self.folder}</schema>\n        <schema>{self.more}</schema>"),
            self.bytes_of(self.xml).decode())
        self.plug("plug-out", self.folder)
        self.assertEqual((XML % f"        <schema>{self.more}</schema>").encode(),
                         self.bytes_of(self.xml))
        self.assertEqual([], os.listdir(self.folder))
        self.write("last.json", "1")
        self.assertEqual(b"1", self.bytes_of(os.path.join(self.more, "last.json")))

    def test_another_program_plugs_in(self):
        """As the PHP client does: the XML is written anew, in place, by a serializer."""
        self.fill(20)
        self.start()
        tree = ElementTree.parse(self.xml)
        ElementTree.SubElement(tree.find("lucinda_db/live/schemas"), "schema").text = self.more
        tree.write(self.xml)
        self.write("ada.json", "1")
        wait_for("both in use", lambda: [True, True] == [
            replica["in_use"] for replica in self.status()["replicas"]])
        wait_for("equal folders", lambda: self.both()[0] == self.both()[1])
        self.assertEqual(21, len(self.both()[1]))


if __name__ == "__main__":
    unittest.main()
