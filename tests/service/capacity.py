# SPDX-License-Identifier: MIT
"""What the tests of capacity share: a recorder of what an engine tells of units, and what a mount
or itemctl behind it says."""

import collections
import dataclasses
import errno
import json
import os
import re

from service import ServiceTest, SOURCE, wait_for
from harness import ITEMCTL  # pylint: disable=wrong-import-order
from scripted import Scripted  # pylint: disable=wrong-import-order
import wire  # pylint: disable=wrong-import-order

ITEM_OPERATIONS = {"GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "Scan", "BatchWriteItem",
                   "TransactWriteItems"}
SAMPLE = re.compile(r'itemfs_(\w+)\{backend="(\w+)",table="([^"]*)",operation="(\w+)"\} (\S+)')


class Recorder(Scripted):
    """In front of an engine: keeps what it told of units, and may keep that from the client
    (SILENT), as well as how large its tables are (UNCOUNTED)."""

    def __init__(self, engine, silent=False, refuses=False, uncounted=False, **more):
        super().__init__(engine, **more)
        self.silent, self.refuses, self.uncounted = silent, refuses, uncounted
        self.told = []  # (table, operation, units, the request's body)

    def reply(self, request):
        body = request.json if request.header("x-amz-target") else {}
        if self.refuses and "ReturnConsumedCapacity" in body:
            return wire.error_answer("ValidationException", "no such parameter")
        answer = super().reply(request)
        found = json.loads(answer.body)
        if self.uncounted and request.operation == "DescribeTable":
            found["Table"].update(ItemCount=0, TableSizeBytes=0)
            return dataclasses.replace(answer, body=json.dumps(found).encode(), crc="right")
        consumed = found.pop("ConsumedCapacity", None) or []
        with self.lock:
            for entry in consumed if isinstance(consumed, list) else [consumed]:
                if isinstance(entry, dict) and {"TableName", "CapacityUnits"} <= set(entry):
                    self.told.append((entry["TableName"], request.operation,
                                      entry["CapacityUnits"], body))
        if (self.silent or self.refuses) and consumed:
            return dataclasses.replace(answer, body=json.dumps(found).encode(), crc="right")
        return answer

    def units(self, table, operation=None):
        """All that was told of a table, in order."""
        with self.lock:
            return [units for name, one, units, _ in self.told
                    if name == table and operation in (None, one)]

    def sums(self, table):
        found = collections.Counter()
        with self.lock:
            for name, operation, units, _ in self.told:
                if name == table:
                    found[operation] += units
        return dict(found)

    def requests_of(self, table):
        """How many requests for items of the table came, by operation."""
        return dict(collections.Counter(
            one.operation for one in self.calls()
            if one.operation in ITEM_OPERATIONS and f'"{table}"'.encode() in one.body))


class CapacityTest(ServiceTest):
    def environment(self, **more):
        return {**super().environment(), **more}

    def estimate(self, *arguments, source=SOURCE):
        return json.loads(self.itemctl("estimate", *arguments, source=source).stdout)

    def recorder(self, **more):
        return Recorder(self.engine.endpoint, **more)

    def wait_active(self, table):
        wait_for("the table", lambda: self.boto.describe_table(TableName=table)
                 ["Table"]["TableStatus"] == "ACTIVE", 60)

    def mounted(self, server, *options, source=SOURCE):
        mount = self.new_mount(source, f"mnt-{self.table}", ("cache_ttl=0", *options))
        mount.env = self.environment(AWS_ENDPOINT_URL=server.url)
        self.addCleanup(mount.rescue)
        return mount.start()

    def through(self, server, *arguments, **more):
        """itemctl by way of the server."""
        return self.itemctl(*arguments, env=self.environment(AWS_ENDPOINT_URL=server.url), **more)

    # pylint: disable-next=arguments-differ
    def itemctl(self, *arguments, status=0, source=SOURCE, **more):
        return self.run_tool([ITEMCTL, "-s", source, *arguments], status, **more)

    def save(self, path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def metrics(self, mount):
        """{metric: {(table, operation): value}} of what is told by table and operation."""
        found = collections.defaultdict(dict)
        with open(os.path.join(mount.point, ".itemfs", "metrics"), encoding="utf-8") as file:
            for line in file:
                if match := SAMPLE.fullmatch(line.rstrip("\n")):
                    self.assertEqual("dynamodb", match[2])
                    found[match[1]][match[3], match[4]] = float(match[5])
        return found

    def of_table(self, mount, metric):
        found = self.metrics(mount)[metric]
        return {operation: value for (table, operation), value in found.items()
                if table == self.table}

    def rows(self, mount):
        """{operation: row} of status.json."""
        with open(os.path.join(mount.point, ".itemfs", "status.json"), encoding="utf-8") as file:
            [backend] = json.load(file)["backends"]
        return {row["operation"]: row for row in backend.get("consumed", [])
                if row["table"] == self.table}

    def conflict(self, path, change):
        """A save of what was read before CHANGE."""
        fd = os.open(path, os.O_RDWR)
        os.read(fd, 100_000)
        change()
        os.ftruncate(fd, 0)
        os.pwrite(fd, b'{"pad": "mine"}', 0)
        self.assertErrno(errno.ESTALE, os.close, fd)
