# SPDX-License-Identifier: MIT
"""What the tests of the engines' behaviour share.

A test says what DynamoDB does, and holds() compares that with what the engine did; where an engine
is known to do otherwise, differences.py says what it does instead. So a later version that behaves
differently, for better or worse, fails until that table is brought up to date.

ITEMFS_RECORD names a file to which all comparisons are appended, a JSON object a line.
"""

import json
import os
import unittest

import differences
import engines

ACTIVE_SECONDS = 30


class Failed:
    """An error in place of a result; equal to nothing, shown by its name."""

    def __init__(self, name, response):
        self.name, self.response = name, response

    def __repr__(self):
        return self.name

    def get(self, *_):
        return self


class Behaviour(unittest.TestCase):
    maxDiff = 2000
    engine = None  # set by engines.each_engine

    @classmethod
    def setUpClass(cls):
        cls.db = cls.engine.client(max_pool_connections=16)

    def holds(self, feature, aws, got):
        """FEATURE: a short text; AWS: what DynamoDB does; GOT: what the engine did."""
        got = repr(got) if isinstance(got, Failed) else got
        known = differences.DIFFERENCES.get(feature, {})
        self.assertEqual(known.get("aws", aws), aws, f"differences.py: {feature}")
        expected = known.get(self.engine.name, aws)
        if os.environ.get("ITEMFS_RECORD"):
            with open(os.environ["ITEMFS_RECORD"], "a") as file:
                print(json.dumps([feature, self.engine.name, aws, got]), file=file)
        if expected == differences.NOT_ALWAYS:
            return
        with self.subTest(feature):
            self.assertEqual(expected, got, f"{self.engine.name}, {feature}: DynamoDB does {aws!r}, "
                             f"differences.py expects {expected!r}")

    def all_hold(self, feature, cases):
        """CASES: (name, what DynamoDB does, what the engine did). What counts is what deviates."""
        self.holds(feature, {}, {name: repr(got) if isinstance(got, Failed) else got
                                 for name, aws, got in cases if got != aws})

    def outcome(self, function, *arguments, **more):
        """"ok" or the name of the error that the call of a client comes to."""
        found = self.result(function, *arguments, **more)
        return found.name if isinstance(found, Failed) else "ok"

    def result(self, function, *arguments, **more):
        """What the call of a client gives, or Failed."""
        import botocore.exceptions
        try:
            return function(*arguments, **more)
        except botocore.exceptions.ClientError as error:
            return Failed(error.response["Error"]["Code"], error.response)
        except botocore.exceptions.HTTPClientError as error:
            return Failed(f"no answer: {type(error).__name__}", {})

    # Tables.

    def table(self, key="S", sort=None, wait=True, **more):
        """A new table with the partition key "pk" and, with SORT (a type), the sort key "sk"."""
        name = engines.fresh_name()
        attributes = more.pop("attributes", {})
        kinds = {"pk": key, **({"sk": sort} if sort else {}), **attributes}
        self.db.create_table(
            TableName=name, BillingMode="PAY_PER_REQUEST", KeySchema=key_schema("pk", sort and "sk"),
            AttributeDefinitions=[{"AttributeName": attribute, "AttributeType": kind}
                                  for attribute, kind in kinds.items()], **more)
        if wait:
            self.wait_active(name)
        return name

    def wait_active(self, name):
        self.db.get_waiter("table_exists").wait(
            TableName=name, WaiterConfig={"Delay": 0.02, "MaxAttempts": 50 * ACTIVE_SECONDS})

    # Items: {"pk": {"S": "a"}, ...} of attribute values.

    def put(self, table, pk="a", **attributes):
        item = {"pk": {"S": pk}, **attributes}
        self.db.put_item(TableName=table, Item=item)
        return item

    def get(self, table, pk="a", **more):
        return self.db.get_item(TableName=table, Key={"pk": {"S": pk}}, ConsistentRead=True,
                                **more).get("Item")

    def update(self, table, expression, names=None, values=None, pk="a", **more):
        if names:
            more["ExpressionAttributeNames"] = names
        if values:
            more["ExpressionAttributeValues"] = values
        return self.db.update_item(TableName=table, Key={"pk": {"S": pk}},
                                   UpdateExpression=expression, **more)


def key_schema(partition, sort=None):
    schema = [{"AttributeName": partition, "KeyType": "HASH"}]
    return schema + ([{"AttributeName": sort, "KeyType": "RANGE"}] if sort else [])


def index(name, partition, sort=None, projection="ALL"):
    return {"IndexName": name, "KeySchema": key_schema(partition, sort),
            "Projection": {"ProjectionType": projection}}


def pages(call, **arguments):
    """All pages of a Query or Scan, as the service cut them."""
    found = []
    while True:
        page = call(**arguments)
        found.append(page)
        if "LastEvaluatedKey" not in page:
            return found
        arguments["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def items_of(found):
    return [item for page in found for item in page["Items"]]
