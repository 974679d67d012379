# SPDX-License-Identifier: MIT
"""Budgets are kept: by counts, and by a clock that may only be too slow."""

import errno
import json
import os
import time
import unittest

from capacity import CapacityTest
from engines import for_engine  # pylint: disable=wrong-import-order


class Budgets(CapacityTest):
    def setUp(self):
        super().setUp()
        self.make()

    def fill(self, count, size):
        for start in range(0, count, 25):
            self.boto.batch_write_item(RequestItems={self.table: [
                {"PutRequest": {"Item": {"id": {"S": f"{number:05}"}, "pad": {"S": "x" * size}}}}
                for number in range(start, min(count, start + 25))]})

    def config(self, text):
        path = os.path.join(self.place, f"{self.table}.conf")
        self.save(path, text.format(table=self.table))
        return path

    def timed(self, function, *arguments, **more):
        """(what it gave, how long it took: never less than that)."""
        begun = time.monotonic()
        return function(*arguments, **more), time.monotonic() - begun

    def test_reads_take_their_time(self):
        self.fill(60, 990)
        source = self.config("[backend b]\ntype = dynamodb\nregion = us-east-1\nread_units = 8\n")
        with self.recorder() as server:
            done, seconds = self.timed(self.through, server, "scan", self.table, source=source)
            self.assertEqual(60, len(done.stdout.splitlines()))
            units = server.units(self.table, "Scan")
            self.assertGreater(len(units), 1)
            # Each request but the last was paid for before the next one came.
            self.assertGreaterEqual(seconds, sum(units[:-1]) / 8)
            # And none costs more than a second's units.
            self.assertLessEqual(max(units), 8)

    def limits(self, server):
        return [one.json.get("Limit") for one in server.calls("Scan")]

    def test_a_first_page_is_as_small_as_the_others(self):
        """Of items that cost 75 units each there is one in a page, whether the service has counted
        them or not: a page of 60 would be owed for a minute."""
        self.fill(3, 300_000)
        for uncounted in (False, True):
            with self.recorder(uncounted=uncounted) as server:
                mount = self.mounted(server, "read_units=60")
                directory = os.path.join(mount.point, self.table)
                self.assertEqual(3, len(os.listdir(directory)))
                self.assertEqual({1}, set(self.limits(server)))
                self.assertGreaterEqual(len(server.units(self.table, "Scan")), 3)
                self.assertLess(max(server.units(self.table, "Scan")), 100)
                mount.unmount()

    def test_a_table_that_was_counted_begins_with_a_seconds_worth(self):
        self.fill(60, 990)
        described = self.boto.describe_table(TableName=self.table)["Table"]
        if not described["ItemCount"]:
            self.skipTest("the engine does not count")
        with self.recorder() as server:
            mount = self.mounted(server, "read_units=8")
            self.assertEqual(60, len(os.listdir(os.path.join(mount.point, self.table))))
            item_units = described["TableSizeBytes"] / described["ItemCount"] / 4096
            self.assertEqual(int(8 / item_units), self.limits(server)[0])
            mount.unmount()

    def test_a_listing_begins_with_what_the_last_one_learnt(self):
        self.fill(40, 990)
        with self.recorder(uncounted=True) as server:
            mount = self.mounted(server, "read_units=8")
            directory = os.path.join(mount.point, self.table)
            self.assertEqual(40, len(os.listdir(directory)))
            first = self.limits(server)
            self.assertEqual((1, sorted(first)), (first[0], first))
            self.assertEqual(40, len(os.listdir(directory)))
            again = self.limits(server)[len(first):]
            self.assertGreaterEqual(again[0], first[-1])
            self.assertLess(len(again), len(first))
            self.assertLessEqual(max(server.units(self.table, "Scan")), 8)
            mount.unmount()

    def test_writes_take_their_time(self):
        lines = [json.dumps({"id": {"S": f"{number:05}"}, "pad": {"S": "x" * 1500}})
                 for number in range(60)]
        source = self.config("[backend b]\ntype = dynamodb\nregion = us-east-1\n"
                             "[table {table}]\nwrite_units = 40\n")
        with self.recorder() as server:
            _, seconds = self.timed(self.through, server, "import", self.table, "-",
                                    input="\n".join(lines), source=source)
            units = server.units(self.table)
            self.assertEqual(120, sum(units))
            self.assertGreaterEqual(seconds, sum(units[:-1]) / 40)
            self.assertEqual([20, 20, 20], [len(one.json["RequestItems"][self.table])
                                            for one in server.calls("BatchWriteItem")])
        self.assertEqual(60, len(self.lines("scan", self.table)))

    def test_a_service_that_tells_nothing_is_held_to_estimates(self):
        self.fill(24, 990)
        lines = [json.dumps({"id": {"S": f"new{number}"}, "pad": {"S": "x" * 1500}})
                 for number in range(12)]
        source = self.config("[backend b]\ntype = dynamodb\nregion = us-east-1\nwrite_units = 16\n"
                             "read_units = 8\n")
        with self.recorder(silent=True) as server:
            _, seconds = self.timed(self.through, server, "import", self.table, "-",
                                    input="\n".join(lines), source=source)
            self.assertEqual([8, 4], [len(one.json["RequestItems"][self.table])
                                      for one in server.calls("BatchWriteItem")])
            self.assertGreaterEqual(seconds, 8 * 2 / 16)
            done, seconds = self.timed(self.through, server, "scan", self.table, source=source)
            self.assertEqual(36, len(done.stdout.splitlines()))
            units = server.units(self.table, "Scan")
            self.assertGreater(len(units), 1)
            self.assertGreaterEqual(seconds, sum(units[:-1]) / 8)

    def test_one_table_holds_up_no_other(self):
        """100 000 seconds are owed for one of them."""
        other = self.table + "-other"
        self.addCleanup(self.forget, other)
        self.boto.create_table(TableName=other, BillingMode="PAY_PER_REQUEST",
                               KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
                               AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}])
        self.wait_active(other)
        source = self.config("[backend b]\ntype = dynamodb\nregion = us-east-1\nread_units = 1000\n"
                             "[table {table}]\nwrite_units = 0.00001\n")
        with self.recorder() as server:
            lines = json.dumps({"id": {"S": "a"}})
            self.through(server, "put", self.table, "--item", "-", input=lines, source=source)
            mount = self.new_mount(source, f"mnt-{self.table}", ("cache_ttl=0",))
            mount.env = self.environment(AWS_ENDPOINT_URL=server.url)
            self.addCleanup(mount.rescue)
            mount.start()
            self.save(f"{mount.point}/{self.table}/first.json", "{}")  # and now it owes
            for number in range(20):
                self.save(f"{mount.point}/{other}/{number}.json", "{}")
                self.assertEqual(2, len(os.listdir(f"{mount.point}/{self.table}")))
            self.assertEqual(20, len(os.listdir(f"{mount.point}/{other}")))
            mount.unmount()


class Waiting(CapacityTest):
    """On an engine with transactions, whose units are those of DynamoDB."""

    def test_waiting_is_shown(self):
        """By a mount option; and a rename counts twice."""
        self.make()
        with self.recorder() as server:
            mount = self.mounted(server, "write_units=4")
            directory = os.path.join(mount.point, self.table)
            begun = time.monotonic()
            self.save(f"{directory}/a.json", json.dumps({"pad": "x" * 1500}))
            os.rename(f"{directory}/a.json", f"{directory}/b.json")
            os.unlink(f"{directory}/b.json")
            seconds = time.monotonic() - begun
            operations = ("PutItem", "TransactWriteItems", "DeleteItem")
            self.assertEqual([[2], [8], [2]],
                             [server.units(self.table, operation) for operation in operations])
            # What was consumed before the last one, but for what a second of idleness saves up.
            self.assertGreaterEqual(seconds, (2 + 8) / 4 - 1)
            waited = self.of_table(mount, "budget_wait_seconds_total")
            self.assertGreater(waited["DeleteItem"], 0)
            self.assertLessEqual(sum(waited.values()), seconds)
            self.assertEqual({0}, set(self.of_table(mount, "budget_waiting").values()))
            row = self.rows(mount)["DeleteItem"]
            self.assertEqual((0, waited["DeleteItem"]), (row["waiting"], row["waited_seconds"]))
            mount.unmount()


    def test_a_failed_condition_is_paid_for(self):
        """Nobody tells of it: the estimate stands."""
        self.make()
        with self.recorder() as server:
            mount = self.mounted(server, "write_units=2")
            directory = os.path.join(mount.point, self.table)
            server.error("PutItem", "ConditionalCheckFailedException")
            begun = time.monotonic()
            self.assertErrno(errno.ESTALE, self.save, f"{directory}/a.json",
                             json.dumps({"pad": "x" * 3900}))
            self.save(f"{directory}/b.json", "{}")
            self.assertGreaterEqual(time.monotonic() - begun, 4 / 2 - 1)
            self.assertEqual({"PutItem": 1}, self.of_table(mount, "consumed_write_units_total"))
            mount.unmount()

    def test_a_refused_request_owes_nothing(self):
        """Else the second save would wait for a year."""
        self.make()
        with self.recorder() as server:
            mount = self.mounted(server, "write_units=0.0000001")
            directory = os.path.join(mount.point, self.table)
            server.error("PutItem", "AccessDeniedException")
            self.assertErrno(errno.EACCES, self.save, f"{directory}/a.json", "{}")
            self.save(f"{directory}/b.json", "{}")
            self.assertEqual({"id": {"S": "b"}}, self.item(id={"S": "b"}))
            mount.unmount()


# Engines whose units are those of DynamoDB; moto tells the same of everything.
for NAME, CASES in {"dynoxide": (Budgets, Waiting), "dynalite": (Budgets,)}.items():
    for CASE in CASES:
        MADE = for_engine(CASE, NAME)
        globals()[MADE.__name__] = MADE
del Budgets, Waiting, CapacityTest, CASES, CASE, MADE


if __name__ == "__main__":
    unittest.main()
