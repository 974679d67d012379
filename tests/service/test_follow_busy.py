# SPDX-License-Identifier: MIT
"""Names that change each time while they are asked for, as a scripted server has it: what was there
is shown, and nothing counts on it."""

import json
import os
import unittest

from service import PlaceTest, SOURCE, wait_for
from scripted import Scripted  # pylint: disable=wrong-import-order
from streams import Streams  # pylint: disable=wrong-import-order
import engines


class Sorted(Streams):
    """With the sort key s (S)."""

    def DescribeTable(self, body):
        found = super().DescribeTable(body)
        found["Table"]["KeySchema"].append({"AttributeName": "s", "KeyType": "RANGE"})
        found["Table"]["AttributeDefinitions"].append({"AttributeName": "s", "AttributeType": "S"})
        return found


class Busy(PlaceTest):
    def serve(self, table_class):
        self.server = self.enterContext(Scripted())
        self.table = table_class(self.server)
        self.addCleanup(self.table.check)
        self.shard = self.table.on().shard()
        self.mount = self.new_mount(SOURCE, "mnt-" + self.id().rsplit(".", 1)[-1],
                                    ("cache_ttl=0", "stream_poll=0.2"))
        self.mount.env = self.environment(**{**engines.KEYS, "AWS_ENDPOINT_URL": self.server.url})
        self.mount.start()
        self.dir = os.path.join(self.mount.point, "items")
        wait_for("the stream to be followed", lambda: self.stream()["followed"])
        self.asked = 0

    def stream(self):
        with open(os.path.join(self.mount.point, ".itemfs/status.json"), encoding="utf-8") as file:
            return next(iter(json.load(file)["streams"]), {"followed": False})

    def change(self, **more):
        """One more change of ada, of which the mount has heard. Its number."""
        self.asked += 1
        count = self.stream()["changes"]
        self.table.put(self.shard, "ada", self.asked - 1 or None, self.asked, **more)
        wait_for("the record", lambda: self.stream()["changes"] == count + 1)
        return self.asked

    def test_item(self):
        self.serve(Streams)
        self.server.answer("GetItem", lambda _request: {"Item": {
            "id": {"S": "ada"}, "n": {"N": str(self.change())}}}, times=None)
        path = os.path.join(self.dir, "ada.json")
        with open(path, encoding="utf-8") as file:
            self.assertEqual({"id": "ada", "n": self.asked}, json.load(file))
        seen = self.asked
        self.assertGreater(seen, 1)
        with open(path, encoding="utf-8") as file:  # it was not kept
            self.assertEqual({"id": "ada", "n": self.asked}, json.load(file))
        self.assertGreater(self.asked, seen)
        self.mount.unmount()

    def test_absent_item(self):
        self.serve(Streams)
        self.server.answer("GetItem", lambda _request: self.change() and {}, times=None)
        for _ in range(2):
            asked = self.asked
            self.assertFalse(os.path.exists(os.path.join(self.dir, "ada.json")))
            self.assertGreater(self.asked, asked)
        self.mount.unmount()

    def test_partition(self):
        self.serve(Sorted)

        def items(_request):
            keys = {"id": {"S": "ada"}, "s": {"S": f"s{self.asked + 1}"}}
            self.change(dynamodb={"Keys": keys, "NewImage": {**keys, "n": {"N": "1"}}})
            return {"Count": 1, "ScannedCount": 1, "Items": [keys]}
        self.server.answer("Query", items, times=None)
        self.assertTrue(os.path.isdir(os.path.join(self.dir, "ada")))
        self.assertGreater(self.asked, 0)
        self.mount.unmount()


if __name__ == "__main__":
    unittest.main()
