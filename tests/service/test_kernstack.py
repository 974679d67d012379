# SPDX-License-Identifier: MIT
"""deploy and seed on services: tests/vectors/kernstack.json, with boto3 as the second client."""

import base64
import json
import os
import shutil
import sys
import tempfile
import unittest

from service import HERE, ITEMCTL, SOURCE, ServiceTest, each_service, wait_for

sys.path.insert(0, os.path.join(HERE, "..", "itemctl"))

from kernstack_cases import DONE, USER, KernstackCases  # noqa: E402  pylint: disable=wrong-import-position


def typed(value):
    """A value of boto3's as typed JSON has it."""
    [(kind, content)] = value.items()
    if kind == "B":
        return {"B": base64.b64encode(content).decode()}
    if kind == "L":
        return {"L": [typed(element) for element in content]}
    if kind == "M":
        return {"M": {name: typed(member) for name, member in content.items()}}
    return value


@each_service
class Deployed(ServiceTest, KernstackCases):
    def setUp(self):
        super().setUp()
        self.dir = tempfile.mkdtemp(dir=self.place)
        self.addCleanup(shutil.rmtree, self.dir)
        self.made = {}
        if self.engine.name == "dynalite" and "vectors" not in self.id():
            self.skipTest("the service has neither time to live nor streams")

    def ctl(self, *arguments, status=DONE, **more):
        done = self.run_tool([ITEMCTL, "-s", SOURCE, *arguments], status, cwd=self.dir, **more)
        return done.stdout, done.stderr

    def name(self, table):
        """Tables of other tests are on the same engine."""
        if table not in self.made:
            self.made[table] = f"{self.table}-{table}"
            self.addCleanup(self.forget, self.made[table])
        return self.made[table]

    def stored(self, table):
        pages = self.boto.get_paginator("scan").paginate(TableName=table, ConsistentRead=True)
        return [{name: typed(value) for name, value in item.items()}
                for page in pages for item in page["Items"]]

    def described(self, table):
        told = self.boto.describe_table(TableName=table)["Table"]
        kinds = {entry["AttributeName"]: entry["AttributeType"]
                 for entry in told["AttributeDefinitions"]}

        def attributes(schema):
            roles = {entry["KeyType"]: entry["AttributeName"] for entry in schema}
            return [f"{roles[role]}:{kinds[roles[role]]}" for role in ("HASH", "RANGE") if role in roles]
        return {"key": attributes(told["KeySchema"]),
                "indexes": {index["IndexName"]: attributes(index["KeySchema"])
                            for index in told.get("GlobalSecondaryIndexes", ())}}

    def snapshot(self, table):
        told = self.boto.describe_table(TableName=table)["Table"]
        return (self.described(table), str(told["CreationDateTime"]), told.get("LatestStreamArn"),
                sorted(json.dumps(item, sort_keys=True) for item in self.stored(table)))

    def test_k05_a_deploy_that_fails_half_way_is_repeated(self):
        self.declare({}, {"name": self.name("second"), "indexes": [{"key_name": "x"}]})
        self.seed_file([USER])
        self.deploy()
        # As if it had ended before the second table: nothing was seeded then.
        self.boto.delete_table(TableName=self.name("second"))
        wait_for("the table's end", lambda: self.name("second") not in self.tables())
        self.boto.delete_item(TableName=self.name("users"), Key={"id": {"S": "user-1"}})
        report = self.deploy()
        self.assertEqual(["none", "make"], [entry["Action"] for entry in report["Tables"]])
        self.assertEqual([USER], self.items())

    def test_a_name_that_the_service_cannot_have_seeds_nothing(self):
        self.declare({}, {"name": "x y"})
        self.seed_file([USER])
        self.deploy(status=1)
        self.assertIn("table x y: the service's tables have names of 3 to 255", self.complaint)
        self.assertEqual([], self.items())
        self.declare({})
        self.deploy()
        self.assertEqual([USER], self.items())

    def test_described_json(self):
        self.declare({})
        self.deploy()
        self.assertEqual(self.name("users"), json.loads(self.ctl("describe", self.name("users"))[0])["TableName"])


if __name__ == "__main__":
    unittest.main()
