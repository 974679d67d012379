# SPDX-License-Identifier: MIT
"""Conditional writes, what they give back, and updates that count and append."""

import concurrent.futures
import decimal

import behaviour
import engines

ABSENT = "attribute_not_exists(#k)"
KEY = {"#k": "pk"}

# Of each type: a value, the same in other words, another one.
EQUAL = {
    "S": ({"S": "a"}, {"S": "a"}, {"S": "b"}),
    "N": ({"N": "1"}, {"N": "1.0"}, {"N": "2"}),
    "B": ({"B": b"\0\xff"}, {"B": b"\0\xff"}, {"B": b"\0"}),
    "BOOL": ({"BOOL": True}, {"BOOL": True}, {"BOOL": False}),
    "NULL": ({"NULL": True}, {"NULL": True}, {"S": ""}),
    "SS": ({"SS": ["a", "b"]}, {"SS": ["b", "a"]}, {"SS": ["a"]}),
    "NS": ({"NS": ["1", "2"]}, {"NS": ["2.0", "1"]}, {"NS": ["1"]}),
    "BS": ({"BS": [b"a", b"b"]}, {"BS": [b"b", b"a"]}, {"BS": [b"a"]}),
    "L": ({"L": [{"N": "1"}, {"S": "x"}]}, {"L": [{"N": "1"}, {"S": "x"}]},
          {"L": [{"S": "x"}, {"N": "1"}]}),
    "M": ({"M": {"a": {"N": "1"}, "b": {"L": [{"SS": ["x", "y"]}]}}},
          {"M": {"b": {"L": [{"SS": ["y", "x"]}]}, "a": {"N": "1"}}},
          {"M": {"a": {"N": "1"}}}),
    "M, one inner value differs": ({"M": {"a": {"N": "1"}}}, {"M": {"a": {"N": "1.0"}}},
                                   {"M": {"a": {"N": "2"}}}),
    "empty M": ({"M": {}}, {"M": {}}, {"M": {"a": {"N": "1"}}}),
    "empty L": ({"L": []}, {"L": []}, {"L": [{"N": "1"}]}),
    "empty S": ({"S": ""}, {"S": ""}, {"S": " "}),
}
FAILED, INVALID = "ConditionalCheckFailedException", "ValidationException"


@engines.each_engine
class Conditions(behaviour.Behaviour):
    def conditional(self, table, condition, names=None, values=None, **more):
        """What a put under a condition comes to."""
        if values:
            more["ExpressionAttributeValues"] = values
        return self.outcome(self.db.put_item, TableName=table, ConditionExpression=condition,
                            ExpressionAttributeNames=names or KEY,
                            Item={"pk": {"S": "a"}, **more.pop("item", {})}, **more)

    def test_create_and_must_exist(self):
        table = self.table()
        self.holds("put if present, absent", FAILED,
                   self.conditional(table, "attribute_exists(#k)"))
        self.holds("put if absent, absent", "ok", self.conditional(table, ABSENT))
        self.holds("put if absent, present", FAILED, self.conditional(table, ABSENT))
        self.holds("put if present, present", "ok",
                   self.conditional(table, "attribute_exists(#k)"))

    def test_equal_on_every_type(self):
        table, found = self.table(), []
        for kind, (stored, same, other) in EQUAL.items():
            for what, value, wanted in (("the same", same, "ok"), ("another", other, FAILED)):
                self.put(table, v=stored)
                found.append((f"{kind}, {what}", wanted,
                              self.conditional(table, "#v = :v", {"#v": "v"}, {":v": value})))
        self.put(table)
        found.append(("absent", FAILED,
                      self.conditional(table, "#v = :v", {"#v": "v"}, {":v": {"S": "x"}})))
        self.all_hold("put if equal", found)

    def test_several_conditions_at_once(self):
        """A whole item compared, as an optimistic save does it."""
        table = self.table()
        item = {f"v{place}": stored for place, (stored, _, _) in enumerate(EQUAL.values())}
        self.put(table, **item)
        names = {f"#{name}": name for name in item}
        values = {f":{name}": value for name, value in item.items()}
        all_equal = " AND ".join(f"#{name} = :{name}" for name in item)
        self.holds("put if all of 14 attributes are equal", "ok", self.conditional(
            table, all_equal + " AND attribute_not_exists(#no)", {**names, "#no": "no"}, values,
            item=item))
        values[":v1"] = {"N": "7"}
        self.holds("put if all are equal, one is not", FAILED,
                   self.conditional(table, all_equal, names, values))

    def test_functions(self):
        table = self.table()
        self.put(table, s={"S": "hello"}, l={"L": [{"S": "x"}, {"N": "1"}, {"M": {}}]},
                 ss={"SS": ["x"]}, n={"N": "5"})
        found = []
        for condition, attribute, value, wanted in (
                ("begins_with(#a, :v)", "s", {"S": "he"}, "ok"),
                ("contains(#a, :v)", "s", {"S": "ell"}, "ok"),
                ("contains(#a, :v)", "l", {"N": "1.0"}, "ok"),
                ("contains(#a, :v)", "l", {"S": "y"}, FAILED),
                ("contains(#a, :v)", "l", {"M": {}}, "ok"),
                ("contains(#a, :v)", "ss", {"S": "x"}, "ok"),
                ("size(#a) = :v", "l", {"N": "3"}, "ok"),
                ("size(#a) > :v", "s", {"N": "5"}, FAILED),
                ("attribute_type(#a, :v)", "n", {"S": "N"}, "ok"),
                ("#a BETWEEN :v AND :v", "n", {"N": "5.0"}, "ok"),
                ("#a IN (:v)", "n", {"N": "5"}, "ok"),
                ("#a <> :v", "n", {"N": "5"}, FAILED),
                ("NOT #a = :v", "n", {"N": "5"}, FAILED)):
            got = self.outcome(self.update, table, "SET #t = :v", {"#a": attribute, "#t": "t"},
                               {":v": value}, ConditionExpression=condition)
            found.append((condition.replace("#a", attribute).replace(":v", repr(value)), wanted,
                          got))
        self.all_hold("functions in conditions", found)

    def test_old_values(self):
        table = self.table()
        first = self.put(table, v={"S": "1"})
        reply = self.db.put_item(TableName=table, Item={"pk": {"S": "a"}}, ReturnValues="ALL_OLD")
        self.holds("put with ALL_OLD", first, reply.get("Attributes"))
        reply = self.db.put_item(TableName=table, Item={"pk": {"S": "b"}}, ReturnValues="ALL_OLD")
        self.holds("put of a new item with ALL_OLD", None, reply.get("Attributes"))
        self.holds("put with ALL_NEW", INVALID, self.outcome(
            self.db.put_item, TableName=table, Item={"pk": {"S": "a"}}, ReturnValues="ALL_NEW"))
        reply = self.db.delete_item(TableName=table, Key={"pk": {"S": "a"}}, ReturnValues="ALL_OLD")
        self.holds("delete with ALL_OLD", {"pk": {"S": "a"}}, reply.get("Attributes"))
        reply = self.db.delete_item(TableName=table, Key={"pk": {"S": "a"}}, ReturnValues="ALL_OLD")
        self.holds("delete of nothing with ALL_OLD", None, reply.get("Attributes"))

    def test_item_of_a_failed_condition(self):
        table = self.table()
        item = self.put(table, v={"S": "1"})
        old = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD", "TableName": table,
               "ConditionExpression": ABSENT, "ExpressionAttributeNames": KEY}
        key, given = {"pk": {"S": "a"}}, []
        for word, call, arguments in (
                ("put", self.db.put_item, {"Item": key}),
                ("delete", self.db.delete_item, {"Key": key}),
                ("update", self.db.update_item, {"Key": key, "UpdateExpression": "REMOVE #v",
                                                 "ExpressionAttributeNames": {**KEY, "#v": "v"}})):
            failed = self.result(call, **{**old, **arguments})
            self.assertEqual(FAILED, repr(failed))
            given += [word] if failed.response.get("Item") == item else []
        self.holds("ALL_OLD of a failed condition, by", ["put", "delete", "update"], given)

    def test_conditional_delete(self):
        table = self.table()
        key = {"pk": {"S": "a"}}
        self.holds("delete if present, absent", FAILED, self.outcome(
            self.db.delete_item, TableName=table, Key=key, ExpressionAttributeNames=KEY,
            ConditionExpression="attribute_exists(#k)"))
        self.holds("delete of nothing", "ok",
                   self.outcome(self.db.delete_item, TableName=table, Key=key))


@engines.each_engine
class Updates(behaviour.Behaviour):
    def test_update_creates(self):
        table = self.table()
        reply = self.update(table, "SET #v = :v", {"#v": "v"}, {":v": {"N": "1"}},
                            ReturnValues="ALL_NEW")
        self.holds("update of nothing creates", {"pk": {"S": "a"}, "v": {"N": "1"}},
                   reply["Attributes"])
        reply = self.update(table, "SET #v = #v + :one", {"#v": "v"}, {":one": {"N": "1"}},
                            ReturnValues="UPDATED_OLD")
        self.holds("update with UPDATED_OLD", {"v": {"N": "1"}}, reply.get("Attributes"))
        self.holds("update of a key", INVALID, self.outcome(
            self.update, table, "SET #k = :v", KEY, {":v": {"S": "b"}}))
        self.holds("SET of an absent path", INVALID, self.outcome(
            self.update, table, "SET #v = #w", {"#v": "v", "#w": "w"}))

    def test_add(self):
        table = self.table()
        self.update(table, "ADD #n :one", {"#n": "n"}, {":one": {"N": "1"}})
        self.holds("ADD creates", {"pk": {"S": "a"}, "n": {"N": "1"}}, self.get(table))
        big = "12345678901234567890123456789012345678"
        self.update(table, "ADD #n :big", {"#n": "n"}, {":big": {"N": big}})
        self.holds("ADD of 38 digits", big[:-1] + "9", self.get(table)["n"]["N"])
        self.put(table, m={"M": {}})
        self.update(table, "ADD #m.#n :one", {"#m": "m", "#n": "n"}, {":one": {"N": "0.1"}})
        self.update(table, "ADD #m.#n :one", {"#m": "m", "#n": "n"}, {":one": {"N": "0.2"}})
        self.holds("ADD of 0.1 and 0.2 in a map", "0.3", self.get(table)["m"]["M"]["n"]["N"])
        self.holds("ADD below a missing parent", INVALID, self.outcome(
            self.update, table, "ADD #x.#n :one", {"#x": "x", "#n": "n"}, {":one": {"N": "1"}}))
        self.holds("ADD of a number to a map", INVALID, self.outcome(
            self.update, table, "ADD #m :one", {"#m": "m"}, {":one": {"N": "1"}}))

    def test_sets(self):
        table = self.table()
        self.update(table, "ADD #s :ab", {"#s": "s"}, {":ab": {"SS": ["a", "b"]}})
        self.update(table, "ADD #s :bc", {"#s": "s"}, {":bc": {"SS": ["b", "c"]}})
        self.holds("ADD to a set", ["a", "b", "c"], sorted(self.get(table)["s"]["SS"]))
        self.update(table, "DELETE #s :all", {"#s": "s"}, {":all": {"SS": ["a", "b", "c"]}})
        self.holds("DELETE of all of a set", {"pk": {"S": "a"}}, self.get(table))

    def append(self, table, value):
        """Our append: a value that is not there yet, to a list that may not be."""
        return self.outcome(
            self.update, table, "SET #l = list_append(if_not_exists(#l, :empty), :one)",
            {"#l": "l"}, {":empty": {"L": []}, ":one": {"L": [value]}, ":scalar": value},
            ConditionExpression="NOT contains(#l, :scalar)")

    def test_unique_append(self):
        table = self.table()
        for feature, value, wanted in (
                ("append to nothing", {"S": "x"}, "ok"), ("append of another", {"N": "1"}, "ok"),
                ("append of the same", {"S": "x"}, FAILED), ("append of 1.0 after 1", {"N": "1.0"},
                                                             FAILED),
                ("append of a map", {"M": {"a": {"S": "b"}}}, "ok"),
                ("append of the same map", {"M": {"a": {"S": "b"}}}, FAILED)):
            self.holds(feature, wanted, self.append(table, value))
        for feature, stored, wanted in (
                ("append to a number", {"N": "1"}, INVALID),
                ("append to a string set", {"SS": ["a"]}, INVALID),
                ("append to a string that holds it", {"S": "axb"}, FAILED)):
            self.put(table, l=stored)
            self.holds(feature, wanted, self.append(table, {"S": "x"}))

    def test_unique_append_by_many(self):
        table = self.table()
        values = [{"S": str(number)} for number in range(20)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            jobs = [pool.submit(self.append, table, value) for value in values for _ in range(8)]
            outcomes = [job.result() for job in jobs]
        found = [value["S"] for value in self.get(table)["l"]["L"]]
        got = [outcomes.count("ok"), outcomes.count(FAILED), len(found), len(set(found))]
        self.holds("8 writers append 20 values once each", "yes",
                   "yes" if got == [20, 140, 20, 20] else repr(got))

    def test_sums(self):
        table = self.table()
        nines, ones = "9" * 38, "1" * 30
        def add(number, step):
            self.put(table, n={"N": number})
            found = self.result(self.update, table, "SET #n = #n + :step", {"#n": "n"},
                                {":step": {"N": step}}, ReturnValues="UPDATED_NEW")
            if isinstance(found, behaviour.Failed):
                return found.name
            with decimal.localcontext(prec=300):
                wanted = decimal.Decimal(number) + decimal.Decimal(step)
                got = decimal.Decimal(found["Attributes"]["n"]["N"])
                return "exact" if got == wanted else "rounded"
        self.all_hold("sums", [
            (feature, wanted, add(*numbers)) for feature, wanted, numbers in (
                ("of 1 digit", "exact", ("0.1", "0.2")), ("of 31 digits", "exact", (ones, "0.5")),
                ("that are 1e38", "exact", (nines, "1")), ("of 39 digits", INVALID, (nines, "2")),
                ("of 38 and a half", INVALID, (nines, "0.5")),
                ("over 1e126", INVALID, ("9.5e125", "9e125")))])

    def test_counters_by_many(self):
        table = self.table()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for job in [pool.submit(self.update, table, "ADD #n :one", {"#n": "n"},
                                    {":one": {"N": "1"}}) for _ in range(100)]:
                job.result()
        self.holds("8 writers count to 100", "100", self.get(table)["n"]["N"])
