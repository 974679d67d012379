# SPDX-License-Identifier: MIT
"""Tables: made, listed, changed, deleted; their time to live."""

import time

import behaviour
import engines
from behaviour import index, key_schema

IN_USE, NOT_FOUND = "ResourceInUseException", "ResourceNotFoundException"
INVALID = "ValidationException"


@engines.each_engine
class Tables(behaviour.Behaviour):
    def test_create(self):
        name = engines.fresh_name()
        made = self.db.create_table(
            TableName=name, BillingMode="PAY_PER_REQUEST", KeySchema=key_schema("pk"),
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}])
        self.holds("a new table is", "CREATING", made["TableDescription"]["TableStatus"])
        self.wait_active(name)
        found = self.db.describe_table(TableName=name)["Table"]
        self.holds("a new table becomes", "ACTIVE", found["TableStatus"])
        self.assertEqual(key_schema("pk"), found["KeySchema"])
        self.holds("billing mode", "PAY_PER_REQUEST",
                   found.get("BillingModeSummary", {}).get("BillingMode"))
        self.holds("a table twice", IN_USE, self.outcome(self.table_named, name))
        self.holds("a new table has an ARN", True, found.get("TableArn", "").endswith(f"table/{name}"))

    def table_named(self, name, **more):
        return self.db.create_table(**{
            "TableName": name, "BillingMode": "PAY_PER_REQUEST", "KeySchema": key_schema("pk"),
            "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}], **more})

    def test_bad_tables(self):
        definition = {"AttributeName": "pk", "AttributeType": "S"}
        request = {"TableName": engines.fresh_name(), "BillingMode": "PAY_PER_REQUEST",
                   "KeySchema": key_schema("pk"), "AttributeDefinitions": [definition]}
        self.all_hold("tables refused", [
            (what, INVALID, self.engine.call("CreateTable", {**request, **more}).error or "ok")
            for what, more in {
                "name of 2 characters": {"TableName": "ab"},
                "name of 256 characters": {"TableName": "n" * 256},
                "name with a slash": {"TableName": "a/b"},
                "key that is not defined": {"KeySchema": key_schema("other")},
                "attribute that no key uses": {"AttributeDefinitions": [
                    definition, {"AttributeName": "other", "AttributeType": "S"}]},
                "BOOL as key": {"AttributeDefinitions": [
                    {"AttributeName": "pk", "AttributeType": "BOOL"}]}}.items()])
        self.holds("table name of 255 characters", "ok", self.outcome(
            self.table_named, (engines.fresh_name() + "n" * 255)[:255]))

    def test_tables_that_are_not_there(self):
        name = engines.fresh_name()
        key = {"pk": {"S": "a"}}
        found = []
        for call, more in ((self.db.describe_table, {}), (self.db.delete_table, {}),
                           (self.db.get_item, {"Key": key}), (self.db.put_item, {"Item": key}),
                           (self.db.delete_item, {"Key": key}), (self.db.scan, {}),
                           (self.db.update_item, {"Key": key}),
                           (self.db.describe_time_to_live, {})):
            found.append((call.__name__, NOT_FOUND, self.outcome(call, TableName=name, **more)))
        self.all_hold("without the table", found)

    def test_list(self):
        """Pages; other tests' tables come and go between ours."""
        names = sorted(engines.fresh_name("list") for _ in range(5))
        for name in names:
            self.table_named(name)
        found, start, sizes = [], {"ExclusiveStartTableName": "list-"}, []
        while True:
            page = self.db.list_tables(Limit=2, **start)
            sizes.append(len(page["TableNames"]))
            found += page["TableNames"]
            if "LastEvaluatedTableName" not in page or found[-1] >= "m":
                break
            start = {"ExclusiveStartTableName": page["LastEvaluatedTableName"]}
        self.holds("ListTables from a name that is not there", 5,
                   len([name for name in found if name in names]))
        self.assertTrue(all(size <= 2 for size in sizes), sizes)
        reply = self.engine.call("ListTables", {"Limit": 101})
        self.holds("ListTables with Limit 101", INVALID, reply.error or "ok")

    def test_delete(self):
        name = self.table()
        gone = self.db.delete_table(TableName=name)
        self.holds("a table being deleted is", "DELETING", gone["TableDescription"]["TableStatus"])
        self.db.get_waiter("table_not_exists").wait(
            TableName=name, WaiterConfig={"Delay": 0.02, "MaxAttempts": 1500})
        self.holds("a table deleted, made again", "ok", self.outcome(self.table_named, name))

    def test_deletion_protection(self):
        name = engines.fresh_name()
        self.table_named(name, DeletionProtectionEnabled=True)
        self.wait_active(name)
        self.holds("delete of a protected table", INVALID,
                   self.outcome(self.db.delete_table, TableName=name))

    def test_new_index(self):
        name = self.table()
        self.put(name, "a", s={"S": "x"})
        self.put(name, "b")
        change = {"TableName": name, "AttributeDefinitions": [
            {"AttributeName": attribute, "AttributeType": "S"} for attribute in ("pk", "s")],
                  "GlobalSecondaryIndexUpdates": [{"Create": index("by-s", "s")}]}
        got = self.outcome(self.db.update_table, **change)
        self.holds("a new index for an on-demand table", "ok", got)
        if got != "ok":
            return
        end = time.monotonic() + behaviour.ACTIVE_SECONDS
        while True:
            found = self.db.describe_table(TableName=name)["Table"]
            states = [found["TableStatus"]] + [one["IndexStatus"] for one
                                               in found.get("GlobalSecondaryIndexes", [])]
            if set(states) == {"ACTIVE"} or time.monotonic() > end:
                break
        self.assertEqual({"ACTIVE"}, set(states))
        got = self.result(self.db.query, TableName=name, IndexName="by-s",
                          KeyConditionExpression="#s = :x", ExpressionAttributeNames={"#s": "s"},
                          ExpressionAttributeValues={":x": {"S": "x"}})
        self.holds("a new index holds what was there", ["a"],
                   [item["pk"]["S"] for item in got["Items"]]
                   if not isinstance(got, behaviour.Failed) else got)


@engines.each_engine
class TimeToLive(behaviour.Behaviour):
    def set_ttl(self, table, attribute="ttl", on=True):
        return self.db.update_time_to_live(TableName=table, TimeToLiveSpecification={
            "AttributeName": attribute, "Enabled": on})

    def described(self, table):
        found = self.db.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
        return [found.get("TimeToLiveStatus"), found.get("AttributeName")]

    def test_on_and_off(self):
        table = self.table()
        self.holds("time to live at first", ["DISABLED", None], self.result(self.described, table))
        got = self.outcome(self.set_ttl, table)
        self.holds("time to live set", "ok", got)
        if got != "ok":
            return
        self.holds("time to live described", ["ENABLED", "ttl"], self.result(self.described, table))
        self.holds("time to live set again", INVALID, self.outcome(self.set_ttl, table))
        self.holds("time to live on another attribute", INVALID,
                   self.outcome(self.set_ttl, table, "other"))
        self.holds("time to live off", "ok", self.outcome(self.set_ttl, table, on=False))

    def test_expired_items_stay(self):
        """For up to two days, and here for ever: hiding them is the client's matter."""
        table = self.table()
        self.outcome(self.set_ttl, table)
        self.put(table, ttl={"N": "1000000000"})
        self.holds("an expired item is still there", True, bool(self.get(table)))
        self.assertEqual(1, self.db.scan(TableName=table)["Count"])


class Dynalite(behaviour.Behaviour):
    def test_creating_takes_its_time(self):
        """With table_ms a table is not usable at once: for tests of waiting."""
        with engines.engine("dynalite", table_ms=300) as it:
            self.db, self.engine = it.client(), it
            name = self.table(wait=False)
            self.assertEqual("CREATING",
                             self.db.describe_table(TableName=name)["Table"]["TableStatus"])
            self.assertEqual("ResourceNotFoundException", self.outcome(self.put, name))
            self.assertEqual(IN_USE, self.outcome(self.db.delete_table, TableName=name))
            self.wait_active(name)
            self.put(name)

    @classmethod
    def setUpClass(cls):
        pass
