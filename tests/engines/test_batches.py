# SPDX-License-Identifier: MIT
"""Batches: their limits, their partial answers; and transactions."""

import behaviour
import engines

NOT_FOUND, INVALID = "ResourceNotFoundException", "ValidationException"
CANCELLED = "TransactionCanceledException"
ABSENT = {"ConditionExpression": "attribute_not_exists(#k)",
          "ExpressionAttributeNames": {"#k": "pk"}}
PRESENT = {**ABSENT, "ConditionExpression": "attribute_exists(#k)"}


def puts(count, start=0, size=1):
    return [{"PutRequest": {"Item": {"pk": {"S": f"{place}"}, "v": {"S": "x" * size}}}}
            for place in range(start, start + count)]


@engines.each_engine
class Batches(behaviour.Behaviour):
    def write(self, table, entries):
        return self.db.batch_write_item(RequestItems={table: entries})

    def read(self, table, names, **more):
        return self.db.batch_get_item(RequestItems={table: {
            "Keys": [{"pk": {"S": name}} for name in names], **more}})

    def test_sizes(self):
        table, other = self.table(), self.table()
        found = [(f"BatchWrite of {what}", wanted, self.outcome(self.write, name, entries))
                 for what, wanted, name, entries in (
                     ("25", "ok", table, puts(25)), ("26", INVALID, other, puts(26)),
                     ("a key twice", INVALID, other, puts(1) + puts(1)))]
        for what, names, wanted in (("100 keys", range(100), 25), ("101 keys", range(101), INVALID),
                                    ("a key twice", (1, 1), INVALID)):
            got = self.result(lambda names=names: len(self.read(table, map(str, names))[
                "Responses"][table]))
            found.append((f"BatchGet of {what}", wanted,
                          repr(got) if isinstance(got, behaviour.Failed) else got))
        self.all_hold("limits of batches", found)

    def test_puts_and_deletes(self):
        table, other = self.table(), self.table()
        self.write(table, puts(3))
        reply = self.db.batch_write_item(RequestItems={
            table: [{"DeleteRequest": {"Key": {"pk": {"S": "0"}}}},
                    {"DeleteRequest": {"Key": {"pk": {"S": "no"}}}}] + puts(1, 5), other: puts(2)})
        self.holds("BatchWrite says what is left", {}, reply["UnprocessedItems"])
        found = self.read(table, ["0", "1", "2", "5"])["Responses"][table]
        self.holds("BatchWrite of puts and deletes", ["1", "2", "5"],
                   sorted(item["pk"]["S"] for item in found))
        self.assertEqual(2, len(self.read(other, ["0", "1"])["Responses"][other]))

    def test_tables_that_are_not_there(self):
        self.holds("BatchWrite to no table", NOT_FOUND,
                   self.outcome(self.write, engines.fresh_name(), puts(1)))
        self.holds("BatchGet from no table", NOT_FOUND,
                   self.outcome(self.read, engines.fresh_name(), ["a"]))

    def test_partial_answers(self):
        """50 items of 400 KB are over 16 MB: the rest comes back as unprocessed."""
        table = self.table()
        for start in range(0, 50, 10):
            self.write(table, puts(10, start, 399000))
        reply = self.result(self.read, table, [str(place) for place in range(50)])
        if isinstance(reply, behaviour.Failed):
            self.holds("BatchGet of 50 items of 400 KB", 42, reply)
            return
        found = len(reply["Responses"][table])
        self.holds("BatchGet of 50 items of 400 KB", 42, found)
        left = reply.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])
        self.assertEqual(50, found + len(left))

    def test_projection(self):
        table = self.table()
        self.write(table, puts(1))
        got = self.read(table, ["0"], ProjectionExpression="#k", ConsistentRead=True,
                        ExpressionAttributeNames={"#k": "pk"})["Responses"][table]
        self.holds("BatchGet with a projection", [{"pk": {"S": "0"}}], got)


@engines.each_engine
class Transactions(behaviour.Behaviour):
    def write(self, *actions, **more):
        return self.db.transact_write_items(TransactItems=list(actions), **more)

    def setUp(self):
        self.name = self.table()
        got = self.outcome(self.write, self.act("Put", "first"))
        if self.id().endswith("test_are_there"):
            self.holds("transactions", "ok", got)
        elif got != "ok":
            self.skipTest(f"{self.engine.name} has no transactions: {got}")

    def test_are_there(self):
        """In setUp."""

    def act(self, kind, pk, **more):
        subject = {"Item": {"pk": {"S": pk}, **more.pop("item", {})}} if kind == "Put" else {
            "Key": {"pk": {"S": pk}}}
        return {kind: {"TableName": self.name, **subject, **more}}

    def test_rename(self):
        self.put(self.name, "old", v={"S": "x"})
        rename = [self.act("Put", "new", item={"v": {"S": "x"}}, **ABSENT),
                  self.act("Delete", "old", **PRESENT)]
        self.holds("rename by a transaction", "ok", self.outcome(self.write, *rename))
        self.holds("old and new after the rename", [False, True],
                   [bool(self.get(self.name, pk)) for pk in ("old", "new")])
        failed = self.result(self.write, *rename)
        self.holds("rename again", CANCELLED, repr(failed))
        codes = [reason["Code"] for reason in failed.response.get("CancellationReasons", [])] \
            if isinstance(failed, behaviour.Failed) else None
        self.holds("codes of a rename refused",
                   ["ConditionalCheckFailed", "ConditionalCheckFailed"], codes)

    def test_all_or_nothing(self):
        self.put(self.name, "a", n={"N": "1"})
        got = self.result(
            self.write, self.act("Put", "b"),
            self.act("Update", "c", UpdateExpression="SET #n = :n",
                     ExpressionAttributeNames={"#n": "n"},
                     ExpressionAttributeValues={":n": {"N": "1"}}),
            self.act("ConditionCheck", "a", ConditionExpression="#n = :n",
                     ExpressionAttributeNames={"#n": "n"},
                     ExpressionAttributeValues={":n": {"N": "2"}},
                     ReturnValuesOnConditionCheckFailure="ALL_OLD"))
        self.holds("a transaction with a condition that fails", CANCELLED, repr(got))
        reasons = getattr(got, "response", {}).get("CancellationReasons", [{}])
        self.holds("codes of a transaction refused", ["None", "None", "ConditionalCheckFailed"],
                   [reason.get("Code") for reason in reasons])
        self.holds("the item that failed a transaction", {"pk": {"S": "a"}, "n": {"N": "1"}},
                   reasons[-1].get("Item"))
        self.holds("a transaction refused changes nothing", [None, None],
                   [self.get(self.name, pk) for pk in "bc"])

    def test_token(self):
        def count(token, by="1"):
            return self.outcome(self.write, self.act(
                "Update", "n", UpdateExpression="ADD #n :by", ExpressionAttributeNames={"#n": "n"},
                ExpressionAttributeValues={":by": {"N": by}}), ClientRequestToken=token)
        token = engines.fresh_name()
        self.holds("the same token twice", ["ok", "ok"], [count(token), count(token)])
        counted = self.get(self.name, "n") or {}
        self.holds("the same token twice counts", "1", counted.get("n", {}).get("N"))
        self.holds("the same token with another request", "IdempotentParameterMismatchException",
                   count(token, "2"))
        self.holds("transaction token of 37 characters", INVALID, self.outcome(
            self.write, self.act("Put", "t"), ClientRequestToken="t" * 37))

    def test_limits(self):
        many = [self.act("Put", f"p{place}") for place in range(101)]
        nowhere = {"Put": {"TableName": engines.fresh_name(), "Item": {"pk": {"S": "a"}}}}
        self.all_hold("limits of transactions", [
            (what, wanted, self.outcome(self.write, *actions)) for what, wanted, actions in (
                ("100 actions", "ok", many[:100]), ("101 actions", INVALID, many),
                ("an item twice", INVALID, [self.act("Put", "x"), self.act("Delete", "x")]),
                ("no table", NOT_FOUND, [nowhere]))])

    def test_reads(self):
        self.put(self.name, "a", v={"S": "x"})
        reply = self.result(self.db.transact_get_items, TransactItems=[
            {"Get": {"TableName": self.name, "Key": {"pk": {"S": pk}}}} for pk in ("a", "no")])
        self.holds("TransactGetItems", [True, False], reply if isinstance(reply, behaviour.Failed)
                   else ["Item" in one for one in reply["Responses"]])
