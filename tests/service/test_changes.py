# SPDX-License-Identifier: MIT
"""A service's changes as a file that is followed, and by itemctl changes --follow."""

import errno
import os
import signal
import unittest

from service import ITEMCTL, Proxy, SOURCE, ServiceTest, wait_for
from engines import each_engine, for_engine  # pylint: disable=wrong-import-order
from follow import Follower, described, is_opening

STREAM = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
FAST = "stream_poll=0.1"


class ChangesTest(ServiceTest):
    """A table `id` (S) with a stream, and a mount of the engine behind a proxy."""

    def setUp(self):
        super().setUp()
        self.proxy = self.enterContext(Proxy(self.engine.endpoint))
        self.make(StreamSpecification=STREAM)
        self.mount = self.new_mount(SOURCE, f"mnt-{self.table}", (FAST, "cache_ttl=0"))
        self.mount.env = self.environment(AWS_ENDPOINT_URL=self.proxy.url)
        self.mount.start()
        self.file = f"{self.mount.point}/.itemfs/changes/{self.table}.jsonl"

    def lines(self):
        with open(self.file, encoding="utf-8") as file:
            return file.read().splitlines()

    def wait_lines(self, *wanted):
        """A service may tell of a change later than it was made."""
        wait_for(str(wanted), lambda: described(self.lines()) == list(wanted))

    def delete(self, name):
        self.boto.delete_item(TableName=self.table, Key={"id": {"S": name}})

    def follow(self, *command):
        return Follower(self, list(command), env=self.environment(AWS_ENDPOINT_URL=self.proxy.url))

    def followers(self):
        """What follows: the file, and the stream without a mount."""
        return (self.follow("tail", "-n", "+1", "-f", "-s", "0.1", self.file),
                self.follow(ITEMCTL, "-s", SOURCE, "changes", self.table, "--follow"))


@each_engine
class Changes(ChangesTest):
    def setUp(self):
        if self.engine.name == "dynalite":
            self.skipTest("dynalite has no streams")
        super().setUp()

    def test_followed(self):
        self.put(id={"S": "a"}, n={"N": "1"})
        followers = self.followers()
        for follower in followers:
            self.assertEqual(["INSERT a"], described(follower.wait(1)))
        self.put(id={"S": "a"}, n={"N": "2"})
        self.delete("a")
        want = ["INSERT a", "MODIFY a", "REMOVE a"]
        for follower in followers:
            self.assertEqual(want, described(follower.wait(3)))
        self.wait_lines(*want)
        self.assertEqual(self.lines(), followers[0].lines)
        self.assertEqual(self.lines(), followers[1].lines)
        for follower in followers:
            self.assertTrue(follower.none())
        followers[1].process.send_signal(signal.SIGINT)
        self.assertEqual((-signal.SIGINT, ""), followers[1].ended()[:2])
        self.mount.terminate()

    def test_saved_by_the_mount(self):
        wait_for("the table", lambda: os.path.isdir(f"{self.mount.point}/{self.table}"))
        with open(f"{self.mount.point}/{self.table}/b.json", "w", encoding="utf-8") as file:
            file.write("{}")
        self.wait_lines("INSERT b")
        self.mount.terminate()

    def test_dropped(self):
        self.put(id={"S": "a"})
        followers = self.followers()
        for follower in followers:
            follower.wait(1)
        self.forget(self.table)
        status, said, lines = followers[0].ended()
        self.assertEqual((1, ["INSERT a"]), (status, described(lines)))
        # With the table the engine forgets what it had of changes: nobody knows that it was all.
        self.assertRegex(said, "Stale file handle|Input/output error")
        status, said, lines = followers[1].ended()
        self.assertEqual((1, ["INSERT a"]), (status, described(lines)))
        self.assertEqual(f"itemctl: table {self.table} was dropped", said.splitlines()[-1])
        self.assertErrno(errno.ENOENT, self.lines)
        self.mount.terminate()


class Without(ChangesTest):
    def test_no_streams(self):
        """Engines without them say so where somebody asks."""
        with self.assertRaises(OSError) as caught:
            self.lines()
        self.assertEqual(errno.EOPNOTSUPP, caught.exception.errno)
        self.assertIn(self.table, self.mount.log_text())
        self.mount.terminate()


class Faults(ChangesTest):
    def test_not_to_be_read_for_a_while(self):
        """Who opens is told; who follows goes on when it can be read again."""
        self.put(id={"S": "a"})
        followers = self.followers()[:1]
        followers[0].wait(1)
        self.proxy.fault("GetRecords|GetShardIterator|DescribeStream", "reset")
        self.put(id={"S": "b"})
        with self.assertRaises(OSError) as caught:
            self.lines()
        self.assertIn(caught.exception.errno, (errno.EHOSTUNREACH, errno.EIO, errno.ETIMEDOUT))
        self.assertIsNone(followers[0].process.poll())
        self.proxy.heal()
        self.assertEqual(["INSERT a", "INSERT b"], described(followers[0].wait(2)))
        self.wait_lines("INSERT a", "INSERT b")
        self.mount.terminate()

    def test_records_that_are_gone(self):
        self.put(id={"S": "a"})
        followers = self.followers()
        for follower in followers:
            follower.wait(1)
        self.proxy.fault("GetRecords", "trimmed")
        status, said, lines = followers[0].ended()
        self.assertEqual((1, ["INSERT a"]), (status, described(lines)))
        self.assertIn("Input/output error", said)
        self.assertIn("gone before they could be read", followers[1].process.stderr.readline())
        self.proxy.heal()
        self.wait_lines("INSERT a")
        self.mount.terminate()

    def test_open_that_waits(self):
        self.put(id={"S": "a"})
        wait_for("the table", lambda: os.path.isdir(f"{self.mount.point}/{self.table}"))
        self.proxy.fault("GetRecords", "hold")
        cats = [self.follow("cat", self.file) for _ in range(30)]
        for cat in cats:
            wait_for("its open", lambda pid=cat.process.pid: is_opening(pid))
        self.assertIn(self.table, os.listdir(self.mount.point))  # others are served
        cats[0].process.send_signal(signal.SIGINT)
        self.assertEqual((-signal.SIGINT, "", []), cats[0].ended())
        self.mount.terminate()
        for cat in cats[1:]:
            self.assertEqual(1, cat.ended()[0])
        self.proxy.heal()

    def test_itemctl_that_waits(self):
        self.proxy.fault("GetRecords", "hold")
        itemctl = self.follow(ITEMCTL, "-s", SOURCE, "changes", self.table, "--follow")
        wait_for("its request", lambda: self.proxy.held)
        itemctl.process.send_signal(signal.SIGTERM)
        self.assertEqual((-signal.SIGTERM, "", []), itemctl.ended())
        self.proxy.heal()
        self.mount.terminate()


Without_dynalite = for_engine(Without, "dynalite")
Faults_dynoxide = for_engine(Faults, "dynoxide")
del ChangesTest, Changes, Without, Faults  # pylint: disable=undefined-variable

if __name__ == "__main__":
    unittest.main()
