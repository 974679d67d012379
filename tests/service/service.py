# SPDX-License-Identifier: MIT
"""What the tests of the DynamoDB backend share: an engine, itemctl on it, and boto3 as the second
client that says what is really there."""

import atexit
import functools
import json
import os
import sys
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", folder) for folder in ("mounted", "engines", "faults")]

import engines  # noqa: E402  pylint: disable=wrong-import-position
from engines import fresh_name  # noqa: E402  pylint: disable=wrong-import-position
from harness import ITEMCTL, PlaceTest, wait_for  # noqa: E402  pylint: disable=wrong-import-position
from proxy import Proxy  # noqa: E402  pylint: disable=wrong-import-position

SOURCE = "dynamodb:us-east-1"
BEHIND = ("dynoxide", "dynalite", "moto")  # Alternator: the first of them that runs here

__all__ = ["Alternator", "HoldingProxy", "ITEMCTL", "MountedServiceTest", "Proxy", "SOURCE",
           "ServiceTest", "each_service", "wait_for"]


class Alternator:
    """An engine behind the proxy that gives it Alternator's ways (faults/alternator.py). OPTIONS are
    theirs. It runs as long as this process, or until stop()."""

    name = "alternator"

    def __init__(self, **options):
        behind = [name for name in BEHIND if not engines.missing(name)]
        if not behind:
            raise unittest.SkipTest(engines.missing(BEHIND[0]))
        self.behind = engines.shared(behind[0])
        self.proxy = Proxy(self.behind.endpoint, alternator_options=options)
        self.proxy.__enter__()
        atexit.register(self.proxy.stop)
        self.endpoint = self.proxy.url

    def environment(self):
        return {**self.behind.environment(), "AWS_ENDPOINT_URL": self.endpoint}

    def client(self, service="dynamodb", **more):
        return engines.client(self.endpoint, service, **more)

    def check(self):
        self.proxy.check()


@functools.lru_cache(maxsize=None)
def shared_alternator():
    return Alternator()


def each_service(case):
    """Class decorator: as engines.each_engine, and one more class for Alternator."""
    def set_up(cls):
        cls.engine = shared_alternator()
        cls.addClassCleanup(cls.engine.check)
        super(made, cls).setUpClass()
    made = type(f"{case.__name__}_alternator", (case,),
                {"__module__": case.__module__, "setUpClass": classmethod(set_up)})
    setattr(sys.modules[case.__module__], made.__name__, made)
    engines.each_engine(case)


class HoldingProxy(Proxy):
    """Keeps back the answer to the next operation `hold`, which the engine has given, until
    `release`."""

    def __init__(self, endpoint):
        super().__init__(endpoint)
        self.hold = None
        self.given, self.release = threading.Event(), threading.Event()

    def pass_on(self, request, body=None):
        answer = super().pass_on(request, body)
        if request.operation == self.hold:
            self.hold = None
            self.given.set()
            self.release.wait(60)
        return answer


class ServiceTest(PlaceTest):
    """A subclass is made for each engine by engines.each_engine, which sets `engine`."""

    engine = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.boto = cls.engine.client()

    def environment(self, **more):  # pylint: disable=arguments-differ
        return PlaceTest.environment.__func__(type(self), **{**self.engine.environment(), **more})

    def setUp(self):
        self.table = fresh_name()
        self.addCleanup(self.forget, self.table)

    def forget(self, table):
        """It is gone, not just going, when this returns."""
        try:
            self.boto.delete_table(TableName=table)
            wait_for("the table's end", lambda: self.boto.describe_table(TableName=table) is None)
        except self.boto.exceptions.ResourceNotFoundException:
            pass

    def itemctl(self, *arguments, status=0, **more):
        return self.run_tool([ITEMCTL, "-s", SOURCE, *arguments], status, **more)

    def lines(self, *arguments):
        return [json.loads(line) for line in self.itemctl(*arguments).stdout.splitlines()]

    def create(self, *options):
        self.itemctl("create", self.table, *options)

    def make(self, key="id", kind="S", sort=None, **more):
        """A table made by boto3."""
        schema = [{"AttributeName": key, "KeyType": "HASH"}]
        definitions = [{"AttributeName": key, "AttributeType": kind}]
        if sort:
            schema.append({"AttributeName": sort[0], "KeyType": "RANGE"})
            definitions.append({"AttributeName": sort[0], "AttributeType": sort[1]})
        self.boto.create_table(TableName=self.table, KeySchema=schema,
                               AttributeDefinitions=definitions, BillingMode="PAY_PER_REQUEST",
                               **more)
        wait_for("the table", lambda: self.boto.describe_table(TableName=self.table)
                 ["Table"]["TableStatus"] == "ACTIVE", 60)

    def put(self, **item):
        self.boto.put_item(TableName=self.table, Item=item)

    def item(self, **key):
        """What boto3 gets; None: nothing."""
        return self.boto.get_item(TableName=self.table, Key=key, ConsistentRead=True).get("Item")


class MountedServiceTest(ServiceTest):
    """The same with a mount; self.dir is the directory of a table `id` (S) of its own."""

    options = ("cache_ttl=0",)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        env = PlaceTest.environment.__func__(cls, **cls.engine.environment())
        cls.mount = cls.new_mount(SOURCE, "mnt", cls.options)
        cls.mount.env = env
        cls.mount.start()

    @classmethod
    def tearDownClass(cls):
        cls.mount.unmount()

    def setUp(self):
        super().setUp()
        self.mount.alive()
        self.make()
        self.dir = os.path.join(self.mount.point, self.table)
        wait_for("the new table", lambda: os.path.isdir(self.dir))

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text, flags=os.O_CREAT | os.O_TRUNC):
        fd = os.open(self.path(name), os.O_WRONLY | flags, 0o644)
        try:
            os.write(fd, text if isinstance(text, bytes) else text.encode())
        except OSError:
            os.close(fd)
            raise
        os.close(fd)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read().decode()

    def drafts(self):
        folder = os.path.join(self.mount.point, ".itemfs", "drafts", self.table)
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []
