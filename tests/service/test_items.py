# SPDX-License-Identifier: MIT
"""itemctl on a DynamoDB-compatible service: tables, items, queries, verified with boto3."""

import json
import os
import unittest

from service import ITEMCTL, SOURCE, ServiceTest, each_service, wait_for

# Everything that JSON tools lose: 38 digits, sets, nested binary, empties, odd names.
RICH = {
    "id": {"S": "rich"},
    "digits": {"N": "12345678901234567890123456789012345678"},
    "tiny": {"N": "-0.00000000000000000000000000000000012345"},
    "ss": {"SS": ["a", "b"]}, "ns": {"NS": ["1", "2.5"]}, "bs": {"BS": ["AA==", "/w=="]},
    "map": {"M": {"b": {"B": "AP8="}, "empty": {"M": {}}, "list": {"L": []}, "null": {"NULL": True}}},
    "list": {"L": [{"S": ""}, {"BOOL": False}, {"L": [{"N": "0"}]}]},
    "size": {"S": "a reserved word"}, "a.b": {"S": "dot"}, "a-b": {"S": "dash"},
    "#x": {"S": "hash"}, ":y": {"S": "colon"}, 'quo"te': {"S": "quote"}, "ünï": {"S": "ö"},
    "$B": {"S": "no binary"}, "nul": {"S": "a\u0000b"},
}


@each_service
class Items(ServiceTest):
    def test_tables(self):
        self.create("--key", "customer", "--sort", "day:N", "--index", "by-status:status,day:N")
        made = self.boto.describe_table(TableName=self.table)["Table"]
        self.assertEqual([("customer", "HASH"), ("day", "RANGE")],
                         [(k["AttributeName"], k["KeyType"]) for k in made["KeySchema"]])
        self.assertIn(self.table, json.loads(self.itemctl("tables").stdout)["TableNames"])
        told = json.loads(self.itemctl("describe", self.table).stdout)
        self.assertEqual(["by-status"], [index["IndexName"] for index in told["Indexes"]])
        self.assertEqual((False, "plain"), (told["Stream"], told["Keys"]))
        self.assertFalse(made.get("StreamSpecification", {}).get("StreamEnabled"))
        self.itemctl("create", self.table, "--key", "x", status=4)
        self.itemctl("drop", self.table)
        self.itemctl("describe", self.table, status=3)

    def test_tag_keys_are_the_configurations(self):
        failed = self.itemctl("create", self.table, "--key", "id", "--keys", "tags", status=2)
        self.assertIn('a service does not keep that keys are tags: say "keys = tags" in [table '
                      f"{self.table}] of a mount.conf", failed.stderr)
        config = os.path.join(self.place, f"{self.table}.conf")
        with open(config, "w", encoding="utf-8") as out:
            out.write("[backend b]\ntype = dynamodb\nregion = us-east-1\n"
                      f"[table {self.table}]\nkeys = tags\n")
        for words in (["create", self.table, "--key", "id", "--keys", "tags"],
                      ["describe", self.table]):
            done = self.run_tool([ITEMCTL, "-s", config, *words])
        self.assertEqual("tags", json.loads(done.stdout)["Keys"])

    def test_provisioned_units(self):
        self.create("--key", "id", "--index", "by-n:n:N", "--read-units", "7", "--write-units", "3")
        made = self.boto.describe_table(TableName=self.table)["Table"]
        for one in (made, *made["GlobalSecondaryIndexes"]):
            self.assertEqual((7, 3), (one["ProvisionedThroughput"]["ReadCapacityUnits"],
                                      one["ProvisionedThroughput"]["WriteCapacityUnits"]))
        told = json.loads(self.itemctl("describe", self.table).stdout)
        self.assertEqual({"ReadCapacityUnits": 7, "WriteCapacityUnits": 3},
                         told["ProvisionedThroughput"])

    def test_units_as_they_are_used(self):
        self.create("--key", "id")
        made = self.boto.describe_table(TableName=self.table)["Table"]
        self.assertEqual("PAY_PER_REQUEST", made["BillingModeSummary"]["BillingMode"])
        self.assertNotIn("ProvisionedThroughput",
                         json.loads(self.itemctl("describe", self.table).stdout))

    def test_a_protected_table_stays(self):
        self.make(DeletionProtectionEnabled=True)
        if not self.boto.describe_table(TableName=self.table)["Table"].get(
                "DeletionProtectionEnabled"):
            self.skipTest("the engine does not protect tables")
        self.addCleanup(self.boto.update_table, TableName=self.table,
                        DeletionProtectionEnabled=False)
        for force in ([], ["--force"]):
            self.assertRegex(self.itemctl("drop", self.table, *force, status=1).stderr,
                             f"^itemctl: table {self.table}: DeleteTable: .*[Pp]rotect")
        self.assertEqual("ACTIVE", self.boto.describe_table(TableName=self.table)
                         ["Table"]["TableStatus"])

    def test_drop_refuses_what_has_items(self):
        self.make()
        self.put(id={"S": "a"})
        self.assertIn("has items", self.itemctl("drop", self.table, status=4).stderr)
        self.itemctl("drop", self.table, "--force")
        self.itemctl("describe", self.table, status=3)

    def test_everything_comes_back(self):
        self.make()
        self.itemctl("put", self.table, "--item", "-", input=json.dumps(RICH))
        [got] = self.lines("get", self.table, "-k", "rich")
        self.assertEqual(RICH, got)
        stored = self.item(id={"S": "rich"})
        self.assertEqual(RICH["digits"], stored["digits"])
        self.assertEqual({"N"}, set(stored["tiny"]))
        self.assertEqual({"1", "2.5"}, set(stored["ns"]["NS"]))
        self.assertEqual({b"\0", b"\xff"}, set(stored["bs"]["BS"]))
        self.assertEqual(b"\0\xff", stored["map"]["M"]["b"]["B"])
        for name in ("map", "list", "size", "a.b", "a-b", "#x", ":y", 'quo"te', "ünï", "$B", "nul"):
            self.assertIn(name, stored)

    def test_absent(self):
        self.make()
        self.itemctl("get", self.table, "-k", "none", status=3)
        self.itemctl("delete", self.table, "-k", "none", status=3)
        self.put(id={"S": "a"}, n={"N": "1"})
        self.itemctl("delete", self.table, "-k", "a")
        self.assertIsNone(self.item(id={"S": "a"}))

    def test_number_and_binary_keys(self):
        self.make(key="n", kind="N")
        self.itemctl("put", self.table, "--item", "-", input='{"n":{"N":"1e3"},"v":{"S":"x"}}')
        self.assertEqual({"S": "x"}, self.item(n={"N": "1000"})["v"])
        self.assertEqual({"S": "x"}, self.lines("get", self.table, "-k", "1000.0")[0]["v"])

    def test_scan_of_many(self):
        self.make()
        items = [json.dumps({"id": {"S": f"i{n:04}"}, "pad": {"S": "x" * 3000}}) for n in range(900)]
        self.itemctl("put", self.table, "--items", "-", input="\n".join(items))
        got = self.lines("scan", self.table)
        self.assertEqual([f"i{n:04}" for n in range(900)], sorted(item["id"]["S"] for item in got))
        self.assertEqual(7, len(self.lines("scan", self.table, "--limit", "7")))

    def test_queries(self):
        self.create("--key", "c", "--sort", "day:N", "--index", "by-status:status,day:N")
        for day in (1, 2, 10, 20):
            self.put(c={"S": "c7"}, day={"N": str(day)}, status={"S": "open" if day < 15 else "done"})
        self.put(c={"S": "c8"}, day={"N": "3"}, status={"S": "open"})
        days = lambda *arguments: [int(item["day"]["N"])
                                   for item in self.lines("query", self.table, *arguments)]
        self.assertEqual([1, 2, 10, 20], days("-k", "c7"))
        self.assertEqual([20, 10, 2, 1], days("-k", "c7", "--reverse"))
        self.assertEqual([2, 10], days("-k", "c7", "--sort-between", "2", "10"))
        self.assertEqual([1, 2, 3, 10], days("--index", "by-status", "-k", "open"))
        self.assertEqual([20], days("-k", "c7", "--reverse", "--limit", "1"))
        self.assertEqual([], days("-k", "nobody"))

    def test_too_large(self):
        self.make()
        item = json.dumps({"id": {"S": "big"}, "pad": {"S": "x" * 410_000}})
        failed = self.itemctl("put", self.table, "--item", "-", input=item, status=1)
        self.assertRegex(failed.stderr, f"{self.table}/big: 4100.. bytes, and the service takes 409600")
        self.assertIsNone(self.item(id={"S": "big"}))

    def test_expired_items_are_hidden(self):
        self.make()
        try:
            self.boto.update_time_to_live(TableName=self.table, TimeToLiveSpecification={
                "AttributeName": "ttl", "Enabled": True})
        except self.boto.exceptions.ClientError as error:
            self.skipTest(f"{self.engine.name}: {error}")
        self.put(id={"S": "old"}, ttl={"N": "1700000000"})
        self.put(id={"S": "ancient"}, ttl={"N": "1000"})
        self.put(id={"S": "new"}, ttl={"N": "4102444800"})
        self.put(id={"S": "text"}, ttl={"S": "1700000000"})
        self.assertEqual(["ancient", "new", "text"],
                         sorted(item["id"]["S"] for item in self.lines("scan", self.table)))
        self.itemctl("get", self.table, "-k", "old", status=3)

    def test_export_and_import(self):
        self.make()
        items = [{"id": {"S": f"i{n:03}"}, "n": {"N": str(n)}, "pad": {"S": "x" * 300}}
                 for n in range(120)]
        file, again = os.path.join(self.place, "items"), os.path.join(self.place, "again")
        with open(file, "w", encoding="utf-8") as out:
            out.write("\n".join(json.dumps(item) for item in items + [RICH]))
        told = json.loads(self.itemctl("import", self.table, file).stdout)
        self.assertEqual({"TableName": self.table, "ItemCount": 121}, told)
        self.assertEqual({"N": "7"}, self.item(id={"S": "i007"})["n"])
        self.assertEqual(121, json.loads(self.itemctl("export", self.table, again).stdout)["ItemCount"])
        with open(again, encoding="utf-8") as lines:
            got = sorted((json.loads(line) for line in lines), key=lambda item: item["id"]["S"])
        self.assertEqual(items + [RICH], got)

    def test_an_import_stops_at_a_bad_line(self):
        self.make()
        lines = '{"id":{"S":"a"}}\n{"id":{"N":"1"}}\n{"id":{"S":"b"}}\n'
        failed = self.itemctl("import", self.table, "-", input=lines, status=1)
        self.assertIn("1 line before the bad one is in the table", failed.stderr)
        self.assertIsNotNone(self.item(id={"S": "a"}))
        self.assertIsNone(self.item(id={"S": "b"}))

    def test_status_counts_nothing(self):
        self.make()
        [backend] = json.loads(self.itemctl("status").stdout)["Backends"]
        self.assertEqual(("dynamodb", "us-east-1", 0),
                         (backend["Kind"], backend["Region"], backend["DraftCount"]))
        self.assertIn({"TableName": self.table}, backend["Tables"])
        self.assertNotIn("LogPosition", backend)

    def test_chosen_tables(self):
        self.make()
        chosen = f"{SOURCE}/{self.table}"
        run = lambda source, *words, status=0: self.run_tool([ITEMCTL, "-s", source, *words], status)
        self.assertEqual([self.table], json.loads(run(chosen, "tables").stdout)["TableNames"])
        self.assertIn("there is no table none", run(f"{SOURCE}/none", "tables", status=1).stderr)
        failed = run(chosen, "create", "another", status=1)
        self.assertIn(f"another is not among those that were chosen: {self.table}", failed.stderr)
        self.assertNotIn("another", self.boto.list_tables()["TableNames"])

    def test_changes(self):
        self.make(StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"})
        if self.engine.name == "dynalite":  # it describes no stream
            self.assertIn("is off", self.itemctl("changes", self.table, status=1).stderr)
            return
        self.put(id={"S": "a"}, n={"N": "1"})
        record, = wait_for("the record", lambda: self.lines("changes", self.table))
        self.assertEqual(("INSERT", {"id": {"S": "a"}}, {"id": {"S": "a"}, "n": {"N": "1"}}),
                         (record["change_type"], record["keys"], record["new_item"]))


if __name__ == "__main__":
    unittest.main()
