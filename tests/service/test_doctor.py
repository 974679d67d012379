# SPDX-License-Identifier: MIT
"""doctor on services: what they are, rights that are missing, clocks that differ."""

import email.utils
import json
import time
import unittest

from service import ITEMCTL, SOURCE, ServiceTest, fresh_name
from engines import for_engine  # pylint: disable=wrong-import-order
from test_access import MESSAGE, Denying  # pylint: disable=wrong-import-order


class Skewed(Denying):
    """Refuses what it is told to; and its clock is ahead, by so many seconds."""

    ahead = None  # seconds

    def pass_on(self, request, body=None):
        answer = super().pass_on(request, body)
        if self.ahead is not None:
            answer.headers = {name: value for name, value in answer.headers.items() if name.lower() != "date"}
            answer.headers["Date"] = email.utils.formatdate(time.time() + self.ahead, usegmt=True)
        return answer


class Doctor(ServiceTest):
    def setUp(self):
        super().setUp()
        self.make()
        self.put(id={"S": "a"}, v={"N": "1"})
        self.proxy = Skewed(self.engine.endpoint).__enter__()
        self.addCleanup(self.proxy.__exit__, None, None, None)
        self.source = f"{SOURCE}/{self.table}"

    def doctor(self, status=0, source=None):
        done = self.run_tool([ITEMCTL, "-s", source or self.source, "doctor"], status,
                             env=self.environment(AWS_ENDPOINT_URL=self.proxy.url))
        self.report = json.loads(done.stdout)

    def found(self, level):
        return [(entry["About"], entry["Text"]) for entry in self.report["Findings"]
                if entry["Level"] == level]

    def test_all_is_well(self):
        before = self.boto.scan(TableName=self.table, ConsistentRead=True)["Items"]
        self.doctor()
        self.assertEqual([
            ("dynamodb", f"A service that speaks DynamoDB's protocol, at {self.proxy.url} (from the environment), "
             "region us-east-1."),
            (f"table {self.table}", 'Key "id" (S), plain; items do not expire; the stream is off.'),
            ("dynamodb", "Its clock and this machine's agree.")], self.found("fine"))
        self.assertEqual([], self.found("problem"))
        self.assertEqual([(f"[table {self.table}]", "stream = on"), ("[backend dynamodb]", "type = dynamodb"),
                          ("[backend dynamodb]", "region = us-east-1"),
                          ("[backend dynamodb]", f"tables = {self.table}")],
                         [(entry["Section"], entry["Line"]) for entry in self.report["Lines"]])
        self.assertEqual(before, self.boto.scan(TableName=self.table, ConsistentRead=True)["Items"])

    def test_tags_and_time_to_live(self):
        self.boto.delete_item(TableName=self.table, Key={"id": {"S": "a"}})
        self.put(id={"S": "roles_users"}, ttl={"N": "1790607695"})
        self.doctor()
        self.assertEqual(["keys = tags", "ttl = ttl", "stream = on"],
                         [entry["Line"] for entry in self.report["Lines"]
                          if entry["Section"] == f"[table {self.table}]"])

    def test_rights_to_write(self):
        self.proxy.deny("DeleteItem", self.table)
        self.doctor(status=1)
        [(about, text)] = self.found("problem")
        self.assertEqual(f"table {self.table}", about)
        self.assertIn("A right is missing: nothing can be written: ", text)
        self.assertIn(MESSAGE.format("DeleteItem"), text)

    def test_rights_to_read(self):
        self.proxy.deny("Scan", self.table)
        self.doctor(status=1)
        [(about, text)] = self.found("problem")
        self.assertEqual(f"table {self.table}", about)
        self.assertIn("A right is missing: its items cannot be read: ", text)
        self.assertIn(MESSAGE.format("Scan"), text)

    def test_rights_to_describe(self):
        self.proxy.deny("DescribeTable", self.table)
        other = fresh_name()
        self.doctor(status=1, source=SOURCE)
        self.assertIn((f"table {self.table}", "A right is missing: "),
                      [(about, text[:len("A right is missing: ")]) for about, text in self.found("problem")])
        self.assertNotIn(other, str(self.report))

    def test_rights_to_follow(self):
        self.boto.update_table(TableName=self.table, StreamSpecification={
            "StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"})
        self.doctor()
        self.assertEqual([], self.found("problem"))
        self.proxy.deny("DescribeStream")
        self.doctor(status=1)
        [(about, text)] = self.found("problem")
        self.assertEqual(f"table {self.table}", about)
        self.assertIn("A right is missing: its stream cannot be read: ", text)

    def test_rights_to_list(self):
        self.proxy.deny("ListTables")
        self.doctor(status=1, source=SOURCE)
        [(about, text)] = self.found("problem")
        self.assertEqual("tables", about)
        self.assertIn(MESSAGE.format("ListTables"), text)
        self.assertIn("Tables that are named (tables = NAME, NAME in the backend's section) need no list.", text)

    def test_clocks(self):
        for ahead, words in ((100, "seconds behind that of the service: items expire here so much too late"),
                             (-100, "seconds ahead of that of the service: items expire here so much too early")):
            with self.subTest(ahead=ahead):
                self.proxy.ahead = ahead
                self.doctor(status=1)
                [(about, text)] = self.found("problem")
                self.assertEqual("dynamodb", about)
                self.assertIn(words, text)
                seconds = int(text.split("clock is ")[1].split()[0])
                self.assertLessEqual(abs(seconds - 100), 3)

    def test_no_service(self):
        self.proxy.stop()
        self.doctor(status=1)
        [(about, text)] = self.found("problem")
        self.assertEqual("source", about)
        self.assertIn("It cannot be opened: ", text)


Doctor_dynoxide = for_engine(Doctor, "dynoxide")
del Doctor

if __name__ == "__main__":
    unittest.main()
