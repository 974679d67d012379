# SPDX-License-Identifier: MIT
"""Mounts that follow many tables, as a scripted server has them: none of them is in another's way."""

import json
import os
import unittest

from service import PlaceTest, SOURCE, wait_for
from scripted import Scripted  # pylint: disable=wrong-import-order
from streams import ManyStreams  # pylint: disable=wrong-import-order
import engines
import wire


class Many(PlaceTest):
    def serve(self, names):
        """A mount of tables NAMES, whose streams are on and followed. (the tables, their shards)"""
        server = self.enterContext(Scripted())
        tables = ManyStreams(server, names)
        self.addCleanup(tables.check)
        shards = {name: tables[name].on().shard() for name in names}
        self.mount = self.new_mount(SOURCE, "mnt-" + self.id().rsplit(".", 1)[-1],
                                    ("cache_ttl=3600", "stream_poll=0.1"))
        self.mount.env = self.environment(**{**engines.KEYS, "AWS_ENDPOINT_URL": server.url})
        self.mount.start()
        self.wait_followed(names)
        return tables, shards

    def streams(self):
        with open(os.path.join(self.mount.point, ".itemfs/status.json"), encoding="utf-8") as file:
            return {stream["table"]: stream for stream in json.load(file)["streams"]}

    def followed(self):
        return sorted(name for name, stream in self.streams().items() if stream["followed"])

    def wait_followed(self, names):
        wait_for("the streams to be followed", lambda: self.followed() == sorted(names), 60)

    def test_one_that_hangs(self):
        tables, shards = self.serve(["one", "two"])
        tables["one"].fail("GetRecords", wire.Answer(hang=True), times=1000)
        wait_for("the end of following", lambda: self.followed() == ["two"])
        for number in range(3):
            tables["two"].put(shards["two"], "ada", number or None, number + 1)
            wait_for("the record", lambda: self.streams()["two"]["changes"] == number + 1, 5)
        self.assertEqual(["two"], self.followed())
        self.assertNotIn("table two: changes are not followed", self.mount.log_text())
        tables["one"].faults.clear()
        tables["one"].put(shards["one"], "ada", None, 1)
        self.wait_followed(["one", "two"])
        wait_for("its record", lambda: self.streams()["one"]["changes"] == 1)
        self.mount.unmount()

    def test_that_ends_while_they_hang(self):
        names = [f"t{number:02}" for number in range(20)]  # more than are read at a time
        tables, _shards = self.serve(names)
        for name in names:
            tables[name].fail("GetRecords", wire.Answer(hang=True), times=1000)
        wait_for("the end of following", lambda: not self.followed())
        self.mount.unmount()

    def test_many_that_answer_slowly(self):
        """One after the other they would take longer than a table may be silent."""
        names = [f"t{number:02}" for number in range(60)]
        tables, shards = self.serve(names)
        tables.delay = 0.3
        for number in range(3):
            for name in names:
                tables[name].put(shards[name], "ada", number or None, number + 1)
            wait_for("the records", lambda: all(stream["changes"] == number + 1
                                                for stream in self.streams().values()))
        self.assertEqual(names, self.followed())
        self.assertNotIn("changes are not followed", self.mount.log_text())
        self.mount.unmount()


if __name__ == "__main__":
    unittest.main()
