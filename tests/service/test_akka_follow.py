# SPDX-License-Identifier: MIT
"""Journals as the plugin's own documents make them (by boto3, with the stream that they have), on a
mount whose caches count until the stream tells of a change."""

import json
import os
import sys
import unittest

from service import HERE, PlaceTest, ServiceTest, wait_for
import engines  # pylint: disable=wrong-import-order

sys.path.insert(0, os.path.join(HERE, "..", "itemctl"))

from akka_mounted import digits  # noqa: E402  pylint: disable=wrong-import-position
from akka_cases import AKKA, COUNTER, native  # noqa: E402  pylint: disable=wrong-import-position

CONFIG = ("[mount]\ncache_ttl = 3600\nstream_poll = 0.1\n[backend b]\ntype = dynamodb\n"
          "region = us-east-1\n[table {}]\nprofile = akka-journal\n")


class AkkaFollowed(ServiceTest):
    projection = "ALL"

    def setUp(self):
        super().setUp()
        layout = AKKA["tables"]["Journal"]
        kinds = dict(pair[:2] for part in (layout, *layout["indexes"]) for pair in part["key"])

        def schema(key):
            return [{"AttributeName": name, "KeyType": role} for name, _, role in key]
        self.boto.create_table(
            TableName=self.table, KeySchema=schema(layout["key"]), BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": kind}
                                  for name, kind in kinds.items()],
            GlobalSecondaryIndexes=[{"IndexName": index["name"], "KeySchema": schema(index["key"]),
                                     "Projection": {"ProjectionType": self.projection}}
                                    for index in layout["indexes"]],
            StreamSpecification={"StreamEnabled": True, "StreamViewType": layout["stream"]})
        wait_for("the table", lambda: self.boto.describe_table(TableName=self.table)
                 ["Table"]["TableStatus"] == "ACTIVE", 60)
        config = os.path.join(self.place, self.table + ".conf")
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONFIG.format(self.table))
        self.mount = self.new_mount(config, self.table, ())
        self.mount.env = PlaceTest.environment.__func__(type(self), **self.engine.environment())
        self.mount.start()
        self.addCleanup(self.mount.unmount)
        wait_for("the stream to be followed", self.is_followed, 30)

    def is_followed(self):
        with open(os.path.join(self.mount.point, ".itemfs/status.json"), encoding="utf-8") as file:
            return any(stream["followed"] for stream in json.load(file)["streams"])

    def at(self, *parts):
        return os.path.join(self.mount.point, self.table, *parts)

    def load(self, *parts):
        with open(self.at(*parts), encoding="utf-8") as file:
            return json.load(file)

    def fill(self, *items):
        for item in items:
            self.put(**{name: native(value) for name, value in item.items()})

    def test_changes_are_seen(self):
        self.fill(*AKKA["journal"])
        first = next(row for row in AKKA["journal"] if row["sequence-nr"]["N"] == "9")
        names = [digits(n) for n in (1, 9, 10, 11, 99)]
        wait_for("all rows", lambda: os.path.isdir(self.at(COUNTER))
                 and os.listdir(self.at(COUNTER)) == names)
        self.assertEqual(1002, self.load(COUNTER, digits(9))["ordering"])
        self.fill({**first, "ordering": {"N": "5"}})
        wait_for("the change", lambda: self.load(COUNTER, digits(9))["ordering"] == 5)
        self.fill({**first, "deleted": {"BOOL": True}})
        wait_for("a soft end", lambda: not os.path.exists(self.at(COUNTER, digits(9))))
        wait_for("the listing", lambda: digits(9) not in os.listdir(self.at(COUNTER)))
        gone = AKKA["journal"][0]
        self.boto.delete_item(TableName=self.table,
                              Key={name: gone[name] for name in ("pkey", "skey")})
        wait_for("the end", lambda: not os.path.exists(self.at(COUNTER, digits(1))))
        wait_for("the listing", lambda: os.listdir(self.at(COUNTER)) == names[2:])

    def test_own_saves(self):
        os.mkdir(self.at("own-1"))
        for number in range(1, 6):
            with open(self.at("own-1", digits(1)), "w", encoding="utf-8") as file:
                file.write(json.dumps({"n": number}))
            self.assertEqual(number, self.load("own-1", digits(1))["n"])
        self.assertEqual([digits(1)], os.listdir(self.at("own-1")))
        os.unlink(self.at("own-1", digits(1)))
        self.assertFalse(os.path.exists(self.at("own-1", digits(1))))


class AkkaOfKeys(AkkaFollowed):
    """Its index has the keys of rows only: no listing is made of parts of rows."""

    projection = "KEYS_ONLY"

    def test_whole_rows(self):
        self.fill(*AKKA["journal"])
        names = {digits(n) for n in (1, 9, 10, 11, 99)}
        wait_for("all rows", lambda: os.path.isdir(self.at(COUNTER))
                 and set(os.listdir(self.at(COUNTER))) == names)
        self.assertEqual({"$B": "bTk5"}, self.load(COUNTER, digits(99))["message"])
        self.assertIn("with whole items: each listing reads all of it", self.mount.log_text())
        told = self.itemctl("akka", "events", self.table, COUNTER)
        self.assertIn("with whole rows: all of it is read", told.stderr)
        self.assertEqual([row for row in AKKA["journal"][:7] if not row["deleted"]["BOOL"]],
                         list(map(json.loads, told.stdout.splitlines())))


for NAME in ("dynoxide", "moto"):
    for CASE in (AkkaFollowed, AkkaOfKeys):
        MADE = engines.for_engine(CASE, NAME)
        globals()[MADE.__name__] = MADE
del MADE, CASE, AkkaFollowed, AkkaOfKeys

if __name__ == "__main__":
    unittest.main()
