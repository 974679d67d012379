# SPDX-License-Identifier: MIT
"""What engines store and give back: numbers, sets, binary, empty values, odd strings, odd names."""

import unittest

import behaviour
import engines
import wire

TINY = "0." + "0" * 129 + "1"
HUGE = "9" * 38 + "0" * 88

# Text sent -> text that DynamoDB gives back.
NUMBERS = {
    "12345678901234567890123456789012345678": "12345678901234567890123456789012345678",
    "-0.12345678901234567890123456789012345678": "-0.12345678901234567890123456789012345678",
    "1e2": "100", "1.0": "1", "0012": "12", "-0": "0", "1.50": "1.5", "9007199254740993":
    "9007199254740993", "1e-130": TINY, "9.9999999999999999999999999999999999999e125": HUGE,
}
TOO_MUCH = {"39 digits": "1" * 39, "1e126": "1e126", "1e-131": "1e-131", "a word": "abc", "Infinity":
            "Infinity", "NaN": "NaN", "the empty text": ""}
ODD_NAMES = {"a dot": "a.b", "a dash": "a-b", "quotes": "q\"'u", "#": "#x", "a colon": ":x",
             "a reserved word": "size", "a space": "two words", "brackets": "a[0]", "NUL": "n\0l",
             "not ASCII": "\u00fc\u4e2d\U0001f600", "256 characters": "n" * 256}


INVALID = "ValidationException"


@engines.each_engine
class Numbers(behaviour.Behaviour):
    def test_numbers_come_back_plain(self):
        table = self.table()
        found = {}
        for sent in NUMBERS:
            self.put(table, n={"N": sent})
            found[sent] = self.get(table)["n"]["N"]
        got = "plain" if found == NUMBERS else "as sent" if all(
            sent == came for sent, came in found.items()) else repr(found)
        self.holds("numbers come back", "plain", got)

    def test_numbers_out_of_range_are_refused(self):
        table = self.table()
        self.all_hold("numbers refused", [
            (what, INVALID, self.outcome(self.put, table, n={"N": sent}))
            for what, sent in TOO_MUCH.items()])

    def test_number_keys_are_compared_by_value(self):
        table = self.table(key="N")
        self.db.put_item(TableName=table, Item={"pk": {"N": "1000"}})
        found = self.db.get_item(TableName=table, Key={"pk": {"N": "1e3"}})
        self.holds("key 1e3 finds 1000", True, "Item" in found)


@engines.each_engine
class Values(behaviour.Behaviour):
    def came_back(self, table, value):
        """"as sent", sets in any order; else what came."""
        sent = self.result(self.put, table, v=value)
        if isinstance(sent, behaviour.Failed):
            return sent
        got = self.get(table).get("v")
        (kind, inner), = value.items()
        if kind in ("SS", "NS", "BS") and got:
            got, inner = sorted(got.get(kind, [])), sorted(inner)
            return "as sent" if got == inner else repr(got)
        return "as sent" if got == value else repr(got)

    def test_values_come_back(self):
        table = self.table()
        self.all_hold("values come back", [(what, "as sent", self.came_back(table, value)) for
                                           what, value in {
            "string set": {"SS": ["b", "a", "\u00fc"]},
            "string set with the empty string": {"SS": ["", "a"]},
            "number set": {"NS": ["3", "-1.5", "12345678901234567890123456789012345678"]},
            "binary set": {"BS": [b"\0", b"\xff\xfe"]},
            "binary": {"B": bytes(range(256))},
            "binary in a map in a list": {"L": [{"M": {"b": {"B": b"\0\xff"}}}, {"BS": [b"x"]}]},
            "empty string": {"S": ""}, "empty binary": {"B": b""}, "empty map": {"M": {}},
            "empty list": {"L": []},
            "true, false, NULL": {"L": [{"BOOL": True}, {"BOOL": False}, {"NULL": True}]},
            "NUL in a string": {"S": "a\0b"},
            "all of Unicode in a string": {"S": "\x01\x7f\u00fc\u2028\ufffe\U0001f600"},
        }.items()])

    def test_values_that_are_refused(self):
        table = self.table()
        values = {
            "empty set": {"SS": []}, "string twice in a set": {"SS": ["a", "a"]},
            "1 and 1.0 in a set": {"NS": ["1", "1.0"]},
            "empty name in a map": {"M": {"": {"S": "x"}}}, "NULL false": {"NULL": False},
            "binary twice in a set": {"BS": [b"a", b"a"]},
        }
        found = [(what, INVALID, self.outcome(self.put, table, v=value))
                 for what, value in values.items()]
        reply = self.engine.call("PutItem", {"TableName": table, "Item": {
            "pk": {"S": "a"}, "v": {"S": "x", "N": "1"}}})
        self.all_hold("values refused", found + [("two types", INVALID, reply.error or "ok")])

    def test_lone_surrogates(self):
        """Only what a raw request can say: an SDK's UTF-8 has none."""
        table = self.table()
        for feature, item in {
                "lone surrogate in a string": b'{"pk":{"S":"a"},"v":{"S":"x\\ud800y"}}',
                "lone surrogate in a name": b'{"pk":{"S":"a"},"x\\ud800y":{"S":"v"}}'}.items():
            sent = self.engine.call("PutItem", b'{"TableName":"%s","Item":%s}'
                                    % (table.encode(), item))
            if sent.error:
                self.holds(feature, "?", sent.error)
                continue
            got = self.engine.call("GetItem", {"TableName": table, "Key": {"pk": {"S": "a"}}})
            text = got.body.decode("utf-8", "replace")
            kept = "x\\ud800y" in text.lower()
            self.holds(feature, "?",
                       "as sent" if kept else "U+FFFD" if "\ufffd" in text else text[:100])

    def test_nothing_is_no_error(self):
        table = self.table()
        reply = self.engine.call("GetItem", {"TableName": table, "Key": {"pk": {"S": "a"}}})
        self.holds("GetItem of nothing", "200 {}", f"{reply.status} {reply.body.decode()}")


@engines.each_engine
class Limits(behaviour.Behaviour):
    def test_item_size(self):
        table = self.table()
        room = 409600 - len("pk") - len("a") - len("v")
        self.holds("item of 409,600 bytes", "ok",
                   self.outcome(self.put, table, v={"S": "x" * room}))
        self.holds("item of 409,601 bytes", INVALID,
                   self.outcome(self.put, table, v={"S": "x" * (room + 1)}))

    def test_update_past_the_size(self):
        table = self.table()
        self.put(table, v={"S": "x" * 400000})
        self.holds("update past 409,600 bytes", INVALID, self.outcome(
            self.update, table, "SET #w = :w", {"#w": "w"}, {":w": {"S": "y" * 20000}}))

    def test_key_sizes(self):
        table = self.table(sort="S")
        found = [(f"{pk} and {sk} bytes", wanted,
                  self.outcome(self.put, table, pk="p" * pk, sk={"S": "s" * sk}))
                 for pk, sk, wanted in ((2048, 1024, "ok"), (2049, 1, INVALID), (1, 1025, INVALID))]
        for what, pk, more in (("the empty string", "", {"sk": {"S": "s"}}), ("missing", "a", {}),
                               ("of another type", "a", {"sk": {"N": "1"}})):
            found.append((what, INVALID, self.outcome(self.put, table, pk=pk, **more)))
        self.all_hold("keys checked", found)

    def test_nesting(self):
        table = self.table()
        for feature, depth, wanted in (("31 lists in each other", 31, "ok"),
                                       ("32 lists in each other", 32, INVALID)):
            value = {"S": "x"}
            for _ in range(depth):
                value = {"L": [value]}
            self.holds(feature, wanted, self.outcome(self.put, table, v=value))


@engines.each_engine
class Names(behaviour.Behaviour):
    def test_odd_attribute_names(self):
        """Put, and read through an alias, and updated through one."""
        table, reads, updates = self.table(), [], []
        for what, name in ODD_NAMES.items():
            self.put(table, **{name: {"S": "old"}})
            got = self.result(self.get, table, ProjectionExpression="#n",
                              ExpressionAttributeNames={"#n": name})
            reads.append((what, {name: {"S": "old"}}, got))
            self.outcome(self.update, table, "SET #n = :v", {"#n": name}, {":v": {"S": "new"}})
            got = self.get(table)
            updates.append((what, {"pk": {"S": "a"}, name: {"S": "new"}}, got))
        self.all_hold("reads of odd attribute names", reads)
        self.all_hold("updates of odd attribute names", updates)

    def test_names_without_alias(self):
        table = self.table()
        value, both = {":v": {"S": "x"}}, {":v": {"S": "x"}, ":w": {"S": "x"}}
        self.all_hold("aliases checked", [(what, INVALID, self.outcome(
            self.update, table, expression, names, values)) for what, expression, names, values in (
                ("reserved word without alias", "SET size = :v", None, value),
                ("alias not used", "SET #a = :v", {"#a": "a", "#b": "b"}, value),
                ("value not used", "SET #a = :v", {"#a": "a"}, both),
                ("alias not given", "SET #a = :v", None, value))])

    def test_nested_paths(self):
        table = self.table()
        self.put(table, m={"M": {"a.b": {"L": [{"S": "x"}, {"S": "y"}]}, "c": {"S": "z"}}})
        got = self.result(self.get, table, ProjectionExpression="#m.#n[1]",
                          ExpressionAttributeNames={"#m": "m", "#n": "a.b"})
        self.holds("projection of a nested path", "found", "found" if got == {
            "m": {"M": {"a.b": {"L": [{"S": "y"}]}}}} else repr(got))
        self.update(table, "SET #m.#n = :v REMOVE #m.#c", {"#m": "m", "#n": "new", "#c": "c"},
                    {":v": {"N": "1"}})
        got = self.get(table)["m"]["M"]
        self.holds("update of nested paths", ["a.b", "new"], sorted(got))

    def test_attribute_order_is_nobodys_matter(self):
        """Only noted: a client must not rely on either."""
        table = self.table()
        body = (b'{"TableName":"%s","Item":{"pk":{"S":"a"},"z":{"S":""},"b":{"S":""},"y":{"S":""}}}'
                % table.encode())
        self.assertIsNone(self.engine.call("PutItem", body).error)
        got = self.engine.call("GetItem", {"TableName": table, "Key": {"pk": {"S": "a"}}})
        self.assertEqual({"pk", "z", "b", "y"}, set(got.data["Item"]))

    def test_base64_of_all_lengths(self):
        table = self.table()
        for length in range(5):
            data = b"\xfb\xff\xfe\xfd\xfc"[:length]
            self.engine.call("PutItem", {"TableName": table, "Item": {
                "pk": {"S": "a"}, "v": {"B": wire.binary(data)}}})
            self.assertEqual({"B": data}, self.get(table)["v"])


if __name__ == "__main__":
    unittest.main()
