# SPDX-License-Identifier: MIT
"""deploy and seed on services: tests/vectors/kernstack.json, with boto3 as the second client."""

import base64
import json
import os
import shutil
import sys
import tempfile
import unittest

from service import HERE, ITEMCTL, Proxy, SOURCE, ServiceTest, each_service, wait_for
from engines import for_engine  # pylint: disable=wrong-import-order
import wire  # pylint: disable=wrong-import-order

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

    def test_a_name_that_the_service_cannot_have_makes_nothing(self):
        self.declare({}, {"name": "x y"})
        self.seed_file([USER])
        self.deploy(status=1)
        self.assertIn("table x y: the service's tables have names of 3 to 255", self.complaint)
        self.assertFalse(self.is_there())
        self.declare({})
        self.deploy()
        self.assertEqual([USER], self.items())

    def test_what_cannot_be_made_drops_nothing(self):
        """A table that is to be made anew has its items until all others can be made, too."""
        self.declare({})
        self.deploy()
        self.ctl("put", self.name("users"), "--item", "-", input=json.dumps(USER))
        for other, told in (({"name": "x y"}, "have names of 3 to 255"), ({"name": "ab"}, "have names of"),
                            ({"name": self.name("second"), "indexes": [{"name": "ab", "key_name": "x"}]},
                             "index ab: the service's indexes have names of 3 to 255")):
            with self.subTest(told):
                self.declare({"key_name": "email"}, other)
                for options in (("--force", "--dry-run"), ("--force",)):
                    self.deploy(*options, status=1)
                    self.assertIn(told, self.complaint)
                self.assertEqual([USER], self.items())

    def test_described_json(self):
        self.declare({})
        self.deploy()
        self.assertEqual(self.name("users"), json.loads(self.ctl("describe", self.name("users"))[0])["TableName"])


class Filling(Proxy):
    """Says for some more answers that an index is being made, as Amazon does for minutes."""

    def __init__(self, endpoint):
        super().__init__(endpoint)
        self.left = 0

    def pass_on(self, request, body=None):
        answer = super().pass_on(request, body)
        if request.operation == "UpdateTable" and "GlobalSecondaryIndexUpdates" in request.json:
            self.left = 4
        if request.operation != "DescribeTable" or self.left == 0 or answer.status != 200:
            return answer
        self.left -= 1
        told = json.loads(answer.body)
        for index in told["Table"].get("GlobalSecondaryIndexes", ()):
            index["IndexStatus"] = "CREATING"
        return wire.json_answer(told)


class IndexesTakeTime(ServiceTest):
    def setUp(self):
        super().setUp()
        self.make()
        self.put(id={"S": "a"}, x={"S": "1"})
        self.proxy = Filling(self.engine.endpoint).__enter__()
        self.addCleanup(self.proxy.__exit__, None, None, None)

    def test_one_after_the_other(self):
        """The service takes the next index when the one before is filled."""
        stack = os.path.join(self.place, f"{self.table}.json")
        with open(stack, "w", encoding="utf-8") as file:
            json.dump({"resources": {"tables": [
                {"name": self.table, "key_name": "id", "key_type": "S",
                 "indexes": [{"key_name": "x"}, {"key_name": "y"}]}]}}, file)
        self.run_tool([ITEMCTL, "-s", SOURCE, "deploy", stack],
                      env=self.environment(AWS_ENDPOINT_URL=self.proxy.url))
        calls = [call.operation for call in self.proxy.calls()
                 if call.operation in ("DescribeTable", "UpdateTable")]
        first, second = (at for at, name in enumerate(calls) if name == "UpdateTable")
        self.assertEqual(["DescribeTable"] * 5, calls[first + 1:second])
        self.assertEqual(["DescribeTable"] * 5, calls[second + 1:second + 6])
        [found] = self.boto.query(TableName=self.table, IndexName="by-x",
                                  KeyConditionExpression="x = :x",
                                  ExpressionAttributeValues={":x": {"S": "1"}})["Items"]
        self.assertEqual({"S": "a"}, found["id"])


IndexesTakeTime_dynoxide = for_engine(IndexesTakeTime, "dynoxide")
del IndexesTakeTime

if __name__ == "__main__":
    unittest.main()
