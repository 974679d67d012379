# SPDX-License-Identifier: MIT
"""Tables read in segments, ahead of the reader: all of it once, never half, never backwards."""

import errno
import json
import os
import threading
import unittest

from service import HoldingProxy, ServiceTest
from engines import for_engine  # pylint: disable=wrong-import-order

CONFIG = "[mount]\ncache_ttl = {ttl}\n[backend aws]\ntype = dynamodb\nregion = us-east-1\nsegments = 3\n"


class Scans(ServiceTest):
    def setUp(self):
        super().setUp()
        self.make()
        self.proxy = HoldingProxy(self.engine.endpoint).__enter__()
        self.addCleanup(self.proxy.__exit__, None, None, None)
        self.addCleanup(self.proxy.release.set)

    def fill(self, count, size):
        """Items v00000..; the large ones make the table worth more than one segment."""
        for first in range(0, count, 25):
            self.boto.batch_write_item(RequestItems={self.table: [
                {"PutRequest": {"Item": {"id": {"S": f"v{n:05}"}, "pad": {"S": "x" * size},
                                         "n": {"N": str(n)}}}}
                for n in range(first, min(first + 25, count))]})

    def mount_it(self, ttl=600):
        config = os.path.join(self.place, self.table + ".conf")
        with open(config, "w", encoding="utf-8") as out:
            out.write(CONFIG.format(ttl=ttl))
        mount = self.new_mount(config, f"mnt-{self.table}", ())
        mount.env = self.environment(AWS_ENDPOINT_URL=self.proxy.url)
        mount.start()
        self.addCleanup(mount.unmount)
        self.addCleanup(self.proxy.heal)
        self.dir = os.path.join(mount.point, self.table)
        os.stat(self.dir)

    def scans(self):
        return [call.json for call in self.proxy.calls() if call.operation == "Scan"]

    def gets(self):
        return sum(call.operation == "GetItem" for call in self.proxy.calls())

    def number(self, name):
        with open(os.path.join(self.dir, name), encoding="utf-8") as file:
            return json.load(file)["n"]

    def test_segments_give_everything_once(self):
        self.fill(60, 350_000)  # 21 MB
        self.mount_it()
        self.assertEqual([f"v{n:05}.json" for n in range(60)], sorted(os.listdir(self.dir)))
        self.assertEqual({(0, 3), (1, 3), (2, 3)},
                         {(scan["Segment"], scan["TotalSegments"]) for scan in self.scans()})
        self.assertEqual(list(range(60)), [self.number(f"v{n:05}.json") for n in range(60)])

    def test_a_small_table_is_read_at_once(self):
        self.fill(60, 1000)
        self.mount_it()
        self.assertEqual(60, len(os.listdir(self.dir)))
        [scan] = self.scans()
        self.assertNotIn("Segment", scan)

    def test_one_segment_that_fails_fails_the_listing(self):
        self.fill(60, 350_000)
        self.mount_it()
        self.proxy.fault("Scan", "error-500", after=7)
        with self.assertRaises(OSError) as caught:
            list(os.scandir(self.dir))
        self.assertEqual(errno.EIO, caught.exception.errno)
        self.proxy.heal()
        self.assertEqual(60, len(os.listdir(self.dir)))

    def test_a_listing_that_is_given_up_reads_no_further(self):
        self.fill(2000, 20_000)  # 40 pages and more
        self.mount_it()
        with os.scandir(self.dir) as entries:
            next(entries)
        done = len(self.scans())
        self.assertEqual(2000, len(os.listdir(self.dir)))
        self.assertLess(done, (len(self.scans()) - done) * 0.6)

    def test_what_was_read_ahead_never_undoes_what_was_seen_since(self):
        self.fill(20, 100)
        self.mount_it()
        self.proxy.hold = "Scan"
        listed = []
        listing = threading.Thread(target=lambda: listed.extend(os.listdir(self.dir)))
        listing.start()
        self.assertTrue(self.proxy.given.wait(60))  # the engine has read the old items
        self.put(id={"S": "v00003"}, n={"N": "1003"})
        self.assertEqual(1003, self.number("v00003.json"))
        asked = self.gets()
        self.proxy.release.set()
        listing.join(60)
        self.assertEqual(20, len(listed))
        self.assertEqual([1003, 4], [self.number(f"v0000{n}.json") for n in (3, 4)])
        self.assertEqual(asked, self.gets())  # nor is it asked for again


Scans_dynoxide = for_engine(Scans, "dynoxide")
del Scans

if __name__ == "__main__":
    unittest.main()
