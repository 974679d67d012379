# SPDX-License-Identifier: MIT
"""Listings of tables with a sort key: the service has no list of partitions, so a listing scans the
table for them, once."""

import collections
import ctypes
import os
import unittest

from capacity import CapacityTest
from engines import for_engine, fresh_name  # pylint: disable=wrong-import-order

PARTITIONS = 1500  # several pages of a listing
SYS_GETDENTS64 = 217
LIBC = ctypes.CDLL(None, use_errno=True)


class Stream:
    """A directory that is listed step by step: a call of getdents64 each."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        self.names = []

    def step(self):
        """False at the end."""
        room = ctypes.create_string_buffer(4096)
        size = LIBC.syscall(SYS_GETDENTS64, self.fd, room, len(room))
        if size < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        at = 0
        while at < size:
            length = int.from_bytes(room.raw[at + 16:at + 18], "little")
            self.names.append(room.raw[at + 19:at + length].split(b"\0")[0].decode())
            at += length
        return size > 0

    def close(self):
        os.close(self.fd)
        return sorted(name for name in self.names if name not in (".", ".."))


class Partitions(CapacityTest):
    def make_sorted(self):
        """Another table of the same partitions."""
        self.table = fresh_name()
        self.addCleanup(self.forget, self.table)
        self.make(sort=("day", "S"))
        for start in range(0, PARTITIONS, 25):
            self.boto.batch_write_item(RequestItems={self.table: [
                {"PutRequest": {"Item": {"id": {"S": f"p{number:04}"}, "day": {"S": "d"}}}}
                for number in range(start, start + 25)]})
        return self.table

    def scans(self, server):
        return dict(collections.Counter(one.json["TableName"] for one in server.calls("Scan")))

    def list_in_turn(self, *paths):
        streams = [Stream(path) for path in paths]
        going = list(streams)
        while going:
            going = [stream for stream in going if stream.step()]
        return [stream.close() for stream in streams]

    def test_listings_side_by_side_scan_once_each(self):
        names = [f"p{number:04}" for number in range(PARTITIONS)]
        tables = [self.make_sorted() for _ in range(3)]
        with self.recorder() as server:
            mount = self.mounted(server)
            paths = [os.path.join(mount.point, table) for table in tables]
            self.assertEqual([names] * 3, self.list_in_turn(*paths))
            self.assertEqual(dict.fromkeys(tables, 1), self.scans(server))
            # of the same table too; and each listing shows what was there when it began
            self.boto.delete_item(TableName=tables[0], Key={"id": {"S": "p1400"},
                                                            "day": {"S": "d"}})
            names.remove("p1400")
            self.assertEqual([names] * 2, self.list_in_turn(paths[0], paths[0]))
            self.assertLessEqual(self.scans(server)[tables[0]], 3)
            mount.unmount()

    def test_a_listing_that_was_given_up_holds_up_no_other(self):
        table = self.make_sorted()
        with self.recorder() as server:
            mount = self.mounted(server)
            path = os.path.join(mount.point, table)
            given_up = Stream(path)
            given_up.step()
            given_up.close()
            for scans in (2, 3):
                self.assertEqual(PARTITIONS, len(self.list_in_turn(path)[0]))
                self.assertEqual({table: scans}, self.scans(server))
            mount.unmount()


Partitions_dynoxide = for_engine(Partitions, "dynoxide")
del Partitions, CapacityTest


if __name__ == "__main__":
    unittest.main()
