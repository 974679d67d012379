# SPDX-License-Identifier: MIT
"""Tables of akka-persistence-dynamodb in services, mounted; rows put and read by boto3."""

import base64
import os
import subprocess
import sys
import unittest

from service import HERE, ITEMCTL, ServiceTest, each_service

sys.path.insert(0, os.path.join(HERE, "..", "itemctl"))

from akka_mounted import KINDS, AkkaMounted, sections  # noqa: E402  pylint: disable=wrong-import-position
from engines import fresh_name  # noqa: E402  pylint: disable=wrong-import-position
from harness import PlaceTest  # noqa: E402  pylint: disable=wrong-import-position
from akka_cases import AKKA, native  # noqa: E402  pylint: disable=wrong-import-position

BACKEND = "[mount]\ncache_ttl = 0\n[backend service]\ntype = dynamodb\nregion = us-east-1\n"


def typed(value):
    """The inverse."""
    [(kind, inner)] = value.items()
    return {kind: base64.b64encode(inner).decode() if kind == "B" else inner}


@each_service
class Akka(AkkaMounted, ServiceTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.names = {kind: f"{fresh_name()}-{kind}" for kind in KINDS}
        cls.source = os.path.join(cls.place, "mount.conf")
        cls.plain = os.path.join(cls.place, "plain.conf")
        for path, text in ((cls.source, BACKEND + sections(cls.names)), (cls.plain, BACKEND)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        cls.env = PlaceTest.environment.__func__(cls, **cls.engine.environment())
        cls.mount = cls.new_mount(cls.source, "mnt", ())
        cls.mount.env = cls.env
        cls.mnt = cls.mount.point
        cls.mount.start()
        cls.make_tables()

    @classmethod
    def tearDownClass(cls):
        cls.mount.unmount()
        for name in cls.names.values():
            cls.boto.delete_table(TableName=name)

    def setUp(self):
        self.mount.alive()

    @classmethod
    def run_ctl(cls, *words):
        done = subprocess.run([ITEMCTL, *words], capture_output=True, text=True, timeout=300,
                              env=cls.env, check=False)
        if done.returncode:
            raise AssertionError(f"{words}: {done.stderr}")
        return done.stdout

    @classmethod
    def new_table(cls, kind, words):
        if words is None:
            cls.run_ctl("-s", cls.source, "create", cls.names[kind], "--profile", KINDS[kind][0])
        else:
            cls.run_ctl("-s", cls.plain, "create", cls.names[kind], *words)

    def test_made_tables(self):
        """As the plugin's own scripts make them; a stream that tells more than they want."""
        for kind in ("journal", "snapshot", "state"):
            want = AKKA["tables"][kind.title()]
            made = self.boto.describe_table(TableName=self.names[kind])["Table"]
            kinds = {definition["AttributeName"]: definition["AttributeType"]
                     for definition in made["AttributeDefinitions"]}

            def schema(part, kinds=kinds):
                return [[key["AttributeName"], kinds[key["AttributeName"]], key["KeyType"]]
                        for key in part["KeySchema"]]
            self.assertEqual(want["key"], schema(made))
            self.assertEqual(
                {index["name"]: (index["key"], index["projection"]) for index in want["indexes"]},
                {index["IndexName"]: (schema(index), index["Projection"]["ProjectionType"])
                 for index in made.get("GlobalSecondaryIndexes", [])})
            if self.engine.name != "dynalite":  # which has no streams
                self.assertEqual("stream" in want, made.get("StreamSpecification", {}).get(
                    "StreamEnabled", False))

    def fill(self, kind, items):
        for item in items:
            self.boto.put_item(TableName=self.names[kind],
                               Item={name: native(value) for name, value in item.items()})

    def remove(self, kind, item):
        self.boto.delete_item(TableName=self.names[kind],
                              Key={name: native(item[name]) for name in ("pkey", "skey")})

    def rows(self, kind):
        pages = self.boto.get_paginator("scan").paginate(TableName=self.names[kind],
                                                         ConsistentRead=True)
        return [{name: typed(value) for name, value in item.items()}
                for page in pages for item in page["Items"]]

    def akka_of(self, kind, command, *words):
        return self.run_ctl("-s", self.source, "akka", command, self.names[kind], *words)


if __name__ == "__main__":
    unittest.main()
