# SPDX-License-Identifier: MIT
"""What a mount says of units consumed is what the service told it, and what it told boto3 of the
same requests."""

import collections
import errno
import json
import os
import unittest

from capacity import CapacityTest, ITEM_OPERATIONS
from engines import each_engine, for_engine  # pylint: disable=wrong-import-order

SEGMENTS = 4  # that a table is read in side by side


@each_engine
class Consumption(CapacityTest):
    def setUp(self):
        super().setUp()
        self.make()

    def work(self, directory):
        """Saves, renames, deletions, a listing, reads, a conflict."""
        for number in range(12):
            self.save(f"{directory}/k{number:02}.json", json.dumps({"pad": "x" * 700 * number}))
        self.assertEqual(12, len(os.listdir(directory)))
        self.sh("cat k03.json k11.json > /dev/null; echo '{}' > k09.json; mv k01.json k10.json;"
                "rm k02.json; cat none.json || true", cwd=directory)
        self.conflict(f"{directory}/k05.json",
                      lambda: self.put(id={"S": "k05"}, n={"S": "changed"}))

    def spread(self, units, mount):
        """What was told, as reads and as writes."""
        writes = {"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"}
        read = {name: value for name, value in units.items() if name not in writes}
        write = {name: value for name, value in units.items() if name in writes}
        self.assertEqual(read, self.of_table(mount, "consumed_read_units_total"))
        self.assertEqual(write, self.of_table(mount, "consumed_write_units_total"))
        rows = self.rows(mount)
        self.assertEqual(read, {name: row["read_units"] for name, row in rows.items()
                                if "read_units" in row})
        self.assertEqual(write, {name: row["write_units"] for name, row in rows.items()
                                 if "write_units" in row})

    def test_what_was_told_is_shown(self):
        with self.recorder() as server:
            mount = self.mounted(server)
            self.work(os.path.join(mount.point, self.table))
            sums = server.sums(self.table)
            self.assertLessEqual({"GetItem", "PutItem", "DeleteItem", "Scan"}, set(sums))
            self.spread(sums, mount)
            requests = server.requests_of(self.table)
            self.assertEqual(requests, self.of_table(mount, "item_requests_total"))
            self.assertEqual(requests, {name: row["requests"]
                                        for name, row in self.rows(mount).items()})
            for one in server.calls():
                if one.operation in ITEM_OPERATIONS:
                    self.assertEqual("TOTAL", one.json.get("ReturnConsumedCapacity"), one.body)
            mount.unmount()

    def same_write(self, operation, pad):
        if operation == "PutItem":
            return self.boto.put_item(TableName=self.table, ReturnConsumedCapacity="TOTAL",
                                      Item={"id": {"S": "v"}, "pad": {"S": pad}})
        return self.boto.update_item(
            TableName=self.table, Key={"id": {"S": "v"}}, UpdateExpression="SET #p = :p",
            ExpressionAttributeNames={"#p": "pad"}, ExpressionAttributeValues={":p": {"S": pad}}, ReturnConsumedCapacity="TOTAL")

    def test_boto3_is_told_the_same(self):
        """The same requests, made once more by boto3 on the same items."""
        with self.recorder() as server:
            for number in range(3):
                self.put(id={"S": f"k{number}"}, pad={"S": "x" * 5000 * number})
            mount = self.mounted(server)
            directory = os.path.join(mount.point, self.table)
            os.listdir(directory)
            self.sh("cat k1.json k2.json >/dev/null", cwd=directory)
            read = [(operation, units, body) for _, operation, units, body in server.told]
            self.assertLessEqual({"Scan", "GetItem"}, {operation for operation, _, _ in read})
            names = {"Scan": "scan", "GetItem": "get_item", "Query": "query"}
            for operation, units, body in read:
                again = getattr(self.boto, names[operation])(**body)
                self.assertEqual(units, again["ConsumedCapacity"]["CapacityUnits"], body)
            before = self.of_table(mount, "consumed_write_units_total")
            for size in (10, 1500, 300):  # made, replaced by a larger one, by a smaller one
                self.save(f"{directory}/w.json", json.dumps({"pad": "x" * size}))
                after = self.of_table(mount, "consumed_write_units_total")
                operation = "UpdateItem" if before else "PutItem"
                told = self.same_write(operation, "x" * size)["ConsumedCapacity"]
                self.assertEqual(told["CapacityUnits"],
                                 after[operation] - before.get(operation, 0))
                before = after
            os.unlink(f"{directory}/w.json")
            told = self.boto.delete_item(TableName=self.table, Key={"id": {"S": "v"}},
                                         ReturnConsumedCapacity="TOTAL")["ConsumedCapacity"]
            self.assertEqual(told["CapacityUnits"],
                             self.of_table(mount, "consumed_write_units_total")["DeleteItem"])
            mount.unmount()

    def test_not_told_is_not_zero(self):
        with self.recorder(silent=True) as server:
            mount = self.mounted(server)
            self.work(os.path.join(mount.point, self.table))
            self.assertEqual({}, self.of_table(mount, "consumed_read_units_total"))
            self.assertEqual({}, self.of_table(mount, "consumed_write_units_total"))
            for row in self.rows(mount).values():
                self.assertEqual({"table", "operation", "requests"}, set(row))
            self.assertEqual(server.requests_of(self.table),
                             self.of_table(mount, "item_requests_total"))
            mount.unmount()

    def test_a_service_that_refuses_to_tell(self):
        """It is asked once for each operation, a scan once in each segment, and everything works."""
        with self.recorder(refuses=True) as server:
            mount = self.mounted(server)
            self.work(os.path.join(mount.point, self.table))
            self.assertEqual({}, self.of_table(mount, "consumed_read_units_total"))
            self.assertEqual({}, self.of_table(mount, "consumed_write_units_total"))
            asked = collections.Counter(
                one.operation for one in server.calls() if b"ReturnConsumedCapacity" in one.body)
            self.assertLessEqual({"GetItem", "PutItem", "DeleteItem", "Scan"}, set(asked))
            # dynalite knows no transactions: there each tells nothing of the parameter
            asked.pop("TransactWriteItems", None)
            self.assertLessEqual(asked.pop("Scan"), SEGMENTS)
            self.assertEqual({1}, set(asked.values()), asked)
            mount.unmount()

    def test_a_bad_request_is_not_taken_for_a_refusal(self):
        with self.recorder() as server:
            bad = json.dumps({"id": {"S": "a"}, "": {"S": "x"}})
            good = json.dumps({"id": {"S": "a"}, "n": {"S": "x" * 1500}})
            failed = self.through(server, "put", self.table, "--item", "-", input=bad, status=None)
            self.through(server, "put", self.table, "--item", "-", input=good)
            puts = server.calls("PutItem")
            self.assertIn("ReturnConsumedCapacity", puts[-1].json)
            if failed.returncode:  # asked once more without, to know what was wrong
                self.assertEqual([True, False, True],
                                 ["ReturnConsumedCapacity" in one.json for one in puts])


class Answers(CapacityTest):
    """Odd answers: some are of the scripted server, all others of an engine."""

    def setUp(self):
        super().setUp()
        self.make()

    def test_a_failed_condition_that_tells(self):
        with self.recorder() as server:
            mount = self.mounted(server)
            server.error("PutItem", "ConditionalCheckFailedException", "no", fields={
                "ConsumedCapacity": {"TableName": self.table, "CapacityUnits": 3.0}})
            self.assertErrno(errno.ESTALE, self.save,
                             os.path.join(mount.point, self.table, "a.json"), "{}")
            self.assertEqual({"PutItem": 3}, self.of_table(mount, "consumed_write_units_total"))
            self.assertEqual(3, self.rows(mount)["PutItem"]["write_units"])
            mount.unmount()

    def test_odd_units(self):
        """What is no number counts as not told, and harms nothing."""
        for consumed in (None, [], {}, 5, "5", {"TableName": self.table},
                         {"TableName": self.table, "CapacityUnits": -1},
                         {"TableName": self.table, "CapacityUnits": "7"},
                         {"TableName": self.table, "CapacityUnits": 1e300},
                         {"TableName": "another", "CapacityUnits": 7}):
            with self.subTest(consumed=consumed), self.recorder() as server:
                server.answer("Scan", {"Items": [{"id": {"S": "a"}}], "Count": 1, "ScannedCount": 1,
                                       "ConsumedCapacity": consumed})
                got = self.through(server, "scan", self.table).stdout
                self.assertEqual({"id": {"S": "a"}}, json.loads(got))

    def test_units_without_a_table(self):
        with self.recorder() as server:
            mount = self.mounted(server)
            server.answer("Scan", {"Items": [], "Count": 0, "ScannedCount": 0,
                                   "ConsumedCapacity": {"CapacityUnits": 2.5}})
            self.assertEqual([], os.listdir(os.path.join(mount.point, self.table)))
            rest = sum(server.units(self.table, "Scan"))
            self.assertEqual(2.5 + rest, self.of_table(mount, "consumed_read_units_total")["Scan"])
            mount.unmount()

    def test_a_transaction_that_had_been_applied(self):
        """Then the service tells of reads."""
        self.put(id={"S": "a"})
        with self.recorder() as server:
            mount = self.mounted(server)
            directory = os.path.join(mount.point, self.table)
            server.answer("TransactWriteItems", {"ConsumedCapacity": [
                {"TableName": self.table, "CapacityUnits": 2.0, "ReadCapacityUnits": 2.0}]})
            os.rename(f"{directory}/a.json", f"{directory}/b.json")
            self.assertEqual({"TransactWriteItems": 2}, {
                operation: units for operation, units
                in self.of_table(mount, "consumed_read_units_total").items()
                if operation.startswith("T")})
            self.assertNotIn("write_units", self.rows(mount)["TransactWriteItems"])
            mount.unmount()


# One engine: the odd answers are the scripted server's. It must have transactions.
MADE = for_engine(Answers, "dynoxide")
globals()[MADE.__name__] = MADE
del Answers, CapacityTest, MADE


if __name__ == "__main__":
    unittest.main()
