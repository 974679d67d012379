# SPDX-License-Identifier: MIT
"""Starch's sessions in a service, seen through a mount and by boto3: profile = starch."""

import base64
import json
import os
import subprocess
import unittest

from service import ITEMCTL, Proxy, ServiceTest, each_service, wait_for
from engines import for_engine, fresh_name  # pylint: disable=wrong-import-order
from harness import PlaceTest  # pylint: disable=wrong-import-order
from sessions import EXPIRATION, FAR, KEY, Sessions, cases  # pylint: disable=wrong-import-order

CONFIG = """[mount]
cache_ttl = {cache_ttl}
stream_poll = 0.1
[backend service]
type = dynamodb
region = us-east-1
[table {table}]
profile = starch
{more}
"""


def to_boto(item):
    """Typed JSON as boto3 wants it: binary as bytes."""
    return {name: {kind: base64.b64decode(value) if kind == "B" else value
                   for kind, value in typed.items()} for name, typed in item.items()}


def from_boto(item):
    return {name: {kind: base64.b64encode(value).decode() if kind == "B" else value
                   for kind, value in typed.items()} for name, typed in item.items()}


def write_config(path, table, cache_ttl="0", more=""):
    with open(path, "w", encoding="utf-8") as file:
        file.write(CONFIG.format(table=table, cache_ttl=cache_ttl, more=more))


class SessionsTest(ServiceTest):
    """A mount of one table, which `create --profile` has made."""

    more = ""
    cache_ttl = "0"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.shared = fresh_name()
        cls.addClassCleanup(cls.forget, cls, cls.shared)
        cls.source = os.path.join(cls.place, "mount.conf")
        write_config(cls.source, cls.shared, cls.cache_ttl, cls.more)
        env = PlaceTest.environment.__func__(cls, **cls.engine.environment())
        subprocess.run([ITEMCTL, "-s", cls.source, "create", cls.shared, "--profile", "starch"], env=env,
                       check=True)
        cls.mount = cls.new_mount(cls.source, "mnt")
        cls.mount.env = env
        cls.mount.start()

    @classmethod
    def tearDownClass(cls):
        cls.mount.unmount()

    def setUp(self):
        self.mount.alive()
        self.table = self.shared
        self.dir = os.path.join(self.mount.point, self.table)

    def itemctl(self, *arguments, status=0, **more):
        return self.run_tool([ITEMCTL, "-s", self.source, *arguments], status, **more)

    def path(self, name):
        return os.path.join(self.dir, name)

    def names(self):
        return sorted(os.listdir(self.dir))

    def write(self, name, text, flags=os.O_CREAT | os.O_TRUNC):
        fd = os.open(self.path(name), os.O_WRONLY | flags, 0o644)
        try:
            os.write(fd, text.encode())
        except OSError:
            os.close(fd)
            raise
        os.close(fd)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def drafts(self):
        folder = os.path.join(self.mount.point, ".itemfs", "drafts", self.table)
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []

    def put_stored(self, item):
        self.boto.put_item(TableName=self.table, Item=to_boto(item))

    def stored(self, key):
        item = self.item(**{KEY: {"S": key}})
        return from_boto(item) if item else None


@each_service
class Service(Sessions, SessionsTest):
    def test_the_table(self):
        """As the store makes its own."""
        table = self.boto.describe_table(TableName=self.table)["Table"]
        for case in cases("table"):
            if case["args"]:
                continue
            expect = case["expect"]
            units = table["ProvisionedThroughput"]
            self.assertEqual((expect["ReadCapacityUnits"], expect["WriteCapacityUnits"]),
                             (units["ReadCapacityUnits"], units["WriteCapacityUnits"]))
            self.assertEqual([{"AttributeName": KEY, "KeyType": "HASH"}], table["KeySchema"])
            self.assertEqual([{"AttributeName": KEY, "AttributeType": "S"}], table["AttributeDefinitions"])

    def test_overrides(self):
        name = fresh_name()
        self.addCleanup(self.forget, name)
        self.itemctl("create", name, "--profile", "starch", "--read-units", "5")
        units = self.boto.describe_table(TableName=name)["Table"]["ProvisionedThroughput"]
        self.assertEqual((5, 10), (units["ReadCapacityUnits"], units["WriteCapacityUnits"]))

    def test_boto_is_seen_at_once(self):
        name = self.put("x", a={"S": "__UNDEF__"})
        self.assertEqual({"a": None}, self.session(name))
        self.put("x", a={"S": "__EMPTY__"})
        self.assertEqual({"a": ""}, self.session(name))
        self.boto.delete_item(TableName=self.table, Key={KEY: {"S": self.key("x")}})
        self.assertFalse(os.path.exists(self.path(name)))


@each_service
class Settings(ServiceTest):
    """Tables that Starch itself has made, and what options change; requests are looked at."""

    def setUp(self):
        super().setUp()
        self.make(key=KEY)
        self.put(**{KEY: {"S": "s:1"}, EXPIRATION: {"N": "0"}, "a": {"S": "1"}})
        self.proxy = Proxy(self.engine.endpoint)
        self.enterContext(self.proxy)

    def mounted(self, more=""):
        source = os.path.join(self.place, self.table + ".conf")
        write_config(source, self.table, "0", more)
        mount = self.new_mount(source, self.table)
        mount.env = self.environment(AWS_ENDPOINT_URL=self.proxy.url)
        mount.start()
        self.addCleanup(mount.unmount)
        return os.path.join(mount.point, self.table)

    def requests(self, operation):
        return [request.json for request in self.proxy.requests if request.operation == operation]

    def test_a_first_read_by_consistent_reading(self):
        folder = self.mounted()
        wait_for("the first read", lambda: self.requests("GetItem"))
        self.assertEqual([{"S": "starch-store-dynamodb-initialization"}],
                         [request["Key"][KEY] for request in self.requests("GetItem")])
        with open(os.path.join(folder, "s:1.json"), encoding="utf-8") as file:
            self.assertEqual({"a": "1"}, json.load(file))
        self.assertEqual(["s:1.json"], os.listdir(folder))
        for request in self.requests("GetItem") + self.requests("Scan"):
            self.assertIs(True, request["ConsistentRead"])
        self.assertEqual([], self.requests("UpdateTimeToLive"))

    def test_settings_of_the_service_stay(self):
        """A mount switches streams on where it is told to, and nothing else."""
        folder = self.mounted()
        try:
            os.setxattr(folder, "user.itemfs.stream", b"enabled")
        except OSError:  # an engine without streams
            pass
        self.assertEqual([], self.requests("UpdateTimeToLive"))
        self.assertTrue(os.path.exists(os.path.join(folder, "s:1.json")))

    def test_switched_off(self):
        folder = self.mounted("connect_on_create = no\nconsistent_read = no")
        self.assertTrue(os.path.exists(os.path.join(folder, "s:1.json")))
        self.assertEqual(["s:1.json"], os.listdir(folder))
        self.assertEqual([{"S": "s:1"}], [request["Key"][KEY] for request in self.requests("GetItem")][:1])
        for request in self.requests("GetItem") + self.requests("Scan"):
            self.assertFalse(request.get("ConsistentRead"))


class Followed(SessionsTest):
    """A table with a stream: what boto3 changes is told, and nothing is asked for meanwhile."""

    more = "stream = on"
    cache_ttl = "3600"

    def test_changes_are_told(self):
        name = "s:told.json"
        wait_for("the stream", lambda: '"followed": true' in self.status())
        self.assertFalse(os.path.exists(self.path(name)))
        self.put_stored({KEY: {"S": "s:told"}, EXPIRATION: {"N": str(FAR)}, "a": {"S": "__SERIALIZED__:[1]"}})
        wait_for("the new session", lambda: os.path.exists(self.path(name)))
        self.assertEqual({"a": [1]}, json.loads(self.read(name)))
        self.put_stored({KEY: {"S": "s:told"}, EXPIRATION: {"N": "0"}, "a": {"S": "__UNDEF__"}})
        wait_for("the change", lambda: json.loads(self.read(name)) == {"a": None})
        self.boto.delete_item(TableName=self.table, Key={KEY: {"S": "s:told"}})
        wait_for("the end", lambda: not os.path.exists(self.path(name)))
        with open(os.path.join(self.mount.point, ".itemfs", "changes", self.table + ".jsonl"),
                  encoding="utf-8") as file:
            changes = [json.loads(line) for line in file]
        self.assertEqual(["INSERT", "MODIFY", "REMOVE"], [change["change_type"] for change in changes])
        self.assertEqual({"S": "__SERIALIZED__:[1]"}, changes[0]["new_item"]["a"])

    def status(self):
        with open(os.path.join(self.mount.point, ".itemfs", "status.json"), encoding="utf-8") as file:
            return file.read()


Followed_dynoxide = for_engine(Followed, "dynoxide")
del Followed


if __name__ == "__main__":
    unittest.main()
