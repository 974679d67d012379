# SPDX-License-Identifier: MIT
"""Query and Scan: ranges, order, pages, indexes, parallel segments."""

import behaviour
import engines
from behaviour import index, items_of, pages

INVALID = "ValidationException"
ORDER = ["A", "a", "a.", "a0", "b", "\u00fc", "\u4e2d", "\uffee", "\U0001f600"]  # as UTF-8 bytes
NUMBERS = ["-1e20", "-100", "-2", "-1.5", "0", "1e-10", "0.5", "2", "10", "100", "1e20",
           "12345678901234567890123456789012345678"]
BINARY = [b"\0", b"\0\0", b"\x01", b"\x7f", b"\x80", b"\xff", b"\xff\0"]


@engines.each_engine
class Queries(behaviour.Behaviour):
    def query(self, table, condition="#p = :p", names=None, values=None, **more):
        return self.db.query(
            TableName=table, KeyConditionExpression=condition,
            ExpressionAttributeNames={"#p": "pk", **(names or {})},
            ExpressionAttributeValues={":p": {"S": "a"}, **(values or {})}, **more)

    def keys(self, reply):
        return [next(iter(item["sk"].values())) for item in reply["Items"]]

    def filled(self, kind, values):
        table = self.table(sort=kind)
        for value in values:
            self.put(table, sk={kind: value})
            self.put(table, pk="b", sk={kind: value})
        return table

    def test_order_of_strings(self):
        table = self.filled("S", ORDER)
        self.holds("string keys in the order of their bytes", ORDER, self.keys(self.query(table)))
        self.holds("string keys backwards", ORDER[::-1],
                   self.keys(self.query(table, ScanIndexForward=False)))

    def test_order_of_numbers_and_binary(self):
        table = self.filled("N", reversed(NUMBERS))
        got = [float(text) for text in self.keys(self.query(table))]
        self.holds("number keys in order", [float(text) for text in NUMBERS], got)
        table = self.filled("B", reversed(BINARY))
        self.holds("binary keys in order", repr(BINARY), repr(self.keys(self.query(table))))

    def test_ranges(self):
        table = self.filled("S", ["a", "ab", "b", "c", "d"])
        found = []
        for condition, values, wanted in (
                ("#s = :x", {":x": "b"}, "b"), ("#s < :x", {":x": "b"}, "a ab"),
                ("#s <= :x", {":x": "b"}, "a ab b"), ("#s > :x", {":x": "b"}, "c d"),
                ("#s >= :x", {":x": "b"}, "b c d"),
                ("#s BETWEEN :x AND :y", {":x": "ab", ":y": "c"}, "ab b c"),
                ("begins_with(#s, :x)", {":x": "a"}, "a ab")):
            values = {name: {"S": text} for name, text in values.items()}
            got = self.query(table, f"#p = :p AND {condition}", {"#s": "sk"}, values)
            found.append((condition, wanted, " ".join(self.keys(got))))
        self.all_hold("ranges of a query", found)
        self.holds("query BETWEEN the wrong way round", INVALID, self.outcome(
            self.query, table, "#p = :p AND #s BETWEEN :x AND :y", {"#s": "sk"},
            {":x": {"S": "c"}, ":y": {"S": "a"}}))

    def test_limit_and_pages(self):
        table = self.filled("S", ["a", "b", "c", "d"])
        first = self.query(table, Limit=3)
        self.holds("Limit 3 of 4", ["abc", {"pk": {"S": "a"}, "sk": {"S": "c"}}],
                   ["".join(self.keys(first)), first.get("LastEvaluatedKey")])
        rest = self.query(table, Limit=3, ExclusiveStartKey=first["LastEvaluatedKey"])
        self.holds("the rest of a Limit", ["d", False],
                   ["".join(self.keys(rest)), "LastEvaluatedKey" in rest])
        exact = self.query(table, Limit=4)
        self.holds("Limit reached with the last item", "LastEvaluatedKey, then an empty page",
                   "the end" if "LastEvaluatedKey" not in exact else "LastEvaluatedKey, then "
                   + ("an empty page" if not self.query(
                       table, ExclusiveStartKey=exact["LastEvaluatedKey"])["Items"] else "more"))
        back = self.query(table, Limit=1, ScanIndexForward=False, ExclusiveStartKey={
            "pk": {"S": "a"}, "sk": {"S": "c"}})
        self.holds("backwards from a key", "b", "".join(self.keys(back)))
        gone = self.query(table, Limit=1, ExclusiveStartKey={"pk": {"S": "a"}, "sk": {"S": "bb"}})
        self.holds("start at a key that is not there", "c", "".join(self.keys(gone)))

    def test_empty_pages(self):
        """A page on which a filter let nothing through, and still the way on."""
        table = self.table(sort="S")
        for name in "abcd":
            self.put(table, sk={"S": name}, v={"S": name})
        found = pages(self.query, table=table, Limit=1, FilterExpression="#v = :x",
                      names={"#v": "v"}, values={":x": {"S": "d"}})
        counts = [len(page["Items"]) for page in found][:4]
        self.holds("empty pages where a filter let nothing through", [0, 0, 0, 1], counts)
        self.holds("filter on a key attribute", INVALID, self.outcome(
            self.query, table, FilterExpression="#s = :x", names={"#s": "sk"},
            values={":x": {"S": "d"}}))
        count = self.query(table, Select="COUNT", FilterExpression="#v > :x", names={"#v": "v"},
                           values={":x": {"S": "b"}})
        self.holds("COUNT with a filter", [2, 4, False],
                   [count["Count"], count["ScannedCount"], "Items" in count])


@engines.each_engine
class Indexes(behaviour.Behaviour):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.indexed = cls().table(
            sort="S", attributes={"status": "S", "day": "N"},
            GlobalSecondaryIndexes=[index("by-status", "status", "day"),
                                    index("keys-only", "status", projection="KEYS_ONLY")],
            LocalSecondaryIndexes=[index("by-day", "pk", "day")])
        for place in range(10):
            item = {"pk": {"S": "ab"[place % 2]}, "sk": {"S": f"k{place}"},
                    "day": {"N": str(place // 2)}, "status": {"S": "open"}, "more": {"S": "x"}}
            if place == 9:
                del item["status"]  # in no index of status
            cls.db.put_item(TableName=cls.indexed, Item=item)

    def query(self, condition, names, values, by="by-status", **more):
        return self.db.query(TableName=self.indexed, IndexName=by, KeyConditionExpression=condition,
                             ExpressionAttributeNames=names, ExpressionAttributeValues=values, **more)

    def test_global_index(self):
        names, values = {"#s": "status", "#d": "day"}, {":s": {"S": "open"}, ":d": {"N": "3"}}
        found = self.query("#s = :s AND #d < :d", names, values)
        self.holds("query of a global index", [6, ["0", "0", "1", "1", "2", "2"]],
                   [found["Count"], [item["day"]["N"] for item in found["Items"]]])
        found = self.query("#s = :s AND #d >= :d", names, values, ScanIndexForward=False)
        self.holds("query of a global index backwards", ["4", "3", "3"],
                   [item["day"]["N"] for item in found["Items"]])
        self.holds("ConsistentRead of a global index", INVALID, self.outcome(
            self.query, "#s = :s AND #d < :d", names, values, ConsistentRead=True))
        self.holds("query of an index that is not there", INVALID, self.outcome(
            self.query, "#s = :s AND #d < :d", names, values, by="no-such-index"))

    def test_pages_of_a_global_index(self):
        """Equal index keys: only the table's key in LastEvaluatedKey tells them apart."""
        names, values = {"#s": "status"}, {":s": {"S": "open"}}
        found = pages(self.query, condition="#s = :s", names=names, values=values, Limit=2)
        self.holds("LastEvaluatedKey of a global index", ["day", "pk", "sk", "status"],
                   sorted(found[0]["LastEvaluatedKey"]))
        self.holds("pages of a global index give each item once",
                   [f"k{place}" for place in range(9)],
                   sorted(item["sk"]["S"] for item in items_of(found)))

    def test_keys_only(self):
        found = self.query("#s = :s", {"#s": "status"}, {":s": {"S": "open"}}, by="keys-only")
        self.holds("attributes of a KEYS_ONLY index", ["pk", "sk", "status"],
                   sorted(set().union(*found["Items"])))

    def test_local_index(self):
        found = self.query("#p = :p", {"#p": "pk"}, {":p": {"S": "a"}}, by="by-day",
                           ConsistentRead=True, ScanIndexForward=False)
        self.holds("query of a local index", ["4", "3", "2", "1", "0"],
                   [item["day"]["N"] for item in found["Items"]])

    def test_scan_of_an_index(self):
        found = pages(self.db.scan, TableName=self.indexed, IndexName="by-status", Limit=4)
        self.holds("scan of a sparse index", 9, len(items_of(found)))


@engines.each_engine
class Scans(behaviour.Behaviour):
    def fill(self, count, size=10):
        table = self.table()
        for start in range(0, count, 25):
            self.db.batch_write_item(RequestItems={table: [
                {"PutRequest": {"Item": {"pk": {"S": f"{place:05}"}, "v": {"S": "x" * size}}}}
                for place in range(start, min(count, start + 25))]})
        return table

    def test_parallel_segments(self):
        table = self.fill(200)
        parts = [{item["pk"]["S"] for item in items_of(pages(
            self.db.scan, TableName=table, Segment=segment, TotalSegments=4, Limit=17))}
                 for segment in range(4)]
        self.holds("4 segments of a scan: all items once", [200, 200],
                   [len(set().union(*parts)), sum(map(len, parts))])
        self.holds("4 segments: each has a share", True, all(len(part) > 10 for part in parts))

    def test_pages_of_1_mb(self):
        """A projection saves nothing: what is read counts."""
        table = self.table()
        for place in range(6):
            self.put(table, pk=str(place), v={"S": "x" * 300000})
        projection = {"ProjectionExpression": "#n", "ExpressionAttributeNames": {"#n": "no"}}
        for feature, more in {"pages of a scan of 6 items of 300 KB": {},
                              "pages of that scan with a projection to nothing": projection}.items():
            found = pages(self.db.scan, TableName=table, **more)
            self.holds(feature, "?", [len(page["Items"]) for page in found])

    def test_consumed_capacity(self):
        table = self.fill(3, size=5000)
        key, item = {"pk": {"S": "a"}}, {"pk": {"S": "a"}, "v": {"S": "x" * 1500}}
        none = {"pk": {"S": "none"}}
        self.all_hold("consumed capacity", [
            (what, wanted, call(TableName=table, ReturnConsumedCapacity="TOTAL", **more).get(
                "ConsumedCapacity", {}).get("CapacityUnits")) for what, wanted, call, more in (
                    ("consistent scan of 15 KB", 4.0, self.db.scan, {"ConsistentRead": True}),
                    ("put of 1.5 KB", 2.0, self.db.put_item, {"Item": item}),
                    ("get of 1.5 KB", 0.5, self.db.get_item, {"Key": key}),
                    ("get of nothing", 0.5, self.db.get_item, {"Key": none}),
                    ("put of 1 byte over 1.5 KB", 2.0, self.db.put_item, {"Item": key}),
                    ("delete of 1 byte", 1.0, self.db.delete_item, {"Key": key}),
                    ("delete of nothing", 1.0, self.db.delete_item, {"Key": none}))])
        self.holds("a failed condition tells of units", False, "ConsumedCapacity" in self.result(
            self.db.delete_item, TableName=table, Key=none, ReturnConsumedCapacity="TOTAL",
            ConditionExpression="attribute_exists(pk)").response)

    def test_bad_scans(self):
        table = self.table()
        self.holds("segment out of range", INVALID, self.outcome(
            self.db.scan, TableName=table, Segment=4, TotalSegments=4))
        self.holds("start key of another shape", INVALID, self.outcome(
            self.db.scan, TableName=table, ExclusiveStartKey={"no": {"S": "a"}}))
