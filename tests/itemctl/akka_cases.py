# SPDX-License-Identifier: MIT
"""The queries of tests/vectors/akka.json and what they leave open, on whatever backend: a mixin for
tests. Who uses it says how a table is made and filled, and runs itemctl."""

import base64
import json
import os

VECTORS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "vectors")
with open(os.path.join(VECTORS, "akka.json"), encoding="utf-8") as _file:
    AKKA = json.load(_file)

ABSENT, USAGE = 3, 2
COUNTER = "counter-875e6ce0425e4d2b8203f3b44b9b531a"
EVERY_BYTE = base64.b64encode(bytes(range(256))).decode()


def cases(kind):
    found = [case for case in AKKA["cases"] if case["kind"] == kind]
    assert found, kind
    return found


def native(value):
    """A value of typed JSON as boto3 takes it."""
    [(kind, inner)] = value.items()
    return {kind: base64.b64decode(inner) if kind == "B" else inner}


def create_words(layout, without=()):
    """A table of the vectors as arguments of itemctl create; WITHOUT: names of indexes."""
    (partition, kind, _), *sort = layout["key"]
    words = ["--key", f"{partition}:{kind}"]
    for name, sort_kind, _ in sort:
        words += ["--sort", f"{name}:{sort_kind}"]
    for index in layout["indexes"]:
        if index["name"] not in without:
            words += ["--index", index["name"] + ":" + ",".join(
                f"{name}:{kind}" for name, kind, _ in index["key"])]
    return words


def event(number, pid="tagged-1", tags=None, deleted=False, message="AA=="):
    row = {"pkey": {"S": f"p{number % 3}"}, "skey": {"S": f"{pid}-{number:019}"},
           "persistence-id": {"S": pid}, "sequence-nr": {"N": str(number)},
           "ordering": {"N": "1"}, "deleted": {"BOOL": deleted}, "message": {"B": message}}
    return row | ({"tags": {"S": tags}} if tags is not None else {})


class AkkaCases:
    """make_table(words of itemctl create), fill(items), itemctl(*words, status) -> standard output and
    error; self.table is the table's name."""

    def make(self, name, without=()):
        self.make_table(create_words(AKKA["tables"][name], without))

    def akka(self, command, *words, status=0):
        return self.itemctl("akka", command, self.table, *words, status=status)

    def rows(self, command, *words, told=""):
        out, err = self.akka(command, *words)
        self.assertEqual(told, err)
        return [json.loads(line) for line in out.splitlines()]

    def numbers(self, *words, told=""):
        return [int(row["sequence-nr"]["N"]) for row in self.rows("events", *words, told=told)]

    def check_query(self, query, expect, told):
        words = [query["persistence_id"]]
        if query["from"]:
            words += ["--from", str(query["from"])]
        if "highest" in expect:
            self.assertEqual((None, True, 1),
                             (query["deleted"], query["descending"], query["max"]))
            status = ABSENT if expect["highest"] is None else 0
            out, err = self.akka("highest-sequence", *words, status=status)
            self.assertEqual("" if status else f"{expect['highest']}\n", out)
            return self.assertIn(told, err)
        words += ["--to", str(query["to"])]
        words += ["--deleted"] if query["deleted"] else []
        words += ["--max", str(query["max"])] if query["max"] is not None else []
        told = "" if query["max"] == 0 else told
        return self.assertEqual(expect["sequence_nrs"], self.numbers(*words, told=told))

    def check_queries(self, told=""):
        for case in cases("query"):
            with self.subTest(case["note"]):
                self.assertEqual("@journal", case["items"])
                self.check_query(case["query"], case["expect"], told)

    def no_index(self, of='persistence ids "persistence-id"'):
        return f"itemctl: table {self.table} has no index of {of}, with whole rows: all of it is read\n"

    def test_query_vectors(self):
        self.make("Journal")
        self.fill(AKKA["journal"])
        self.check_queries()
        rows = self.rows("events", COUNTER, "--from", "1", "--to", "1")
        self.assertEqual([AKKA["journal"][0]], rows)

    def test_query_vectors_without_index(self):
        self.make("Journal", without=("GetJournalRowsIndex", "TagsIndex"))
        self.fill(reversed(AKKA["journal"]))
        self.check_queries(self.no_index())
        self.assertEqual([1, 2, 9, 10, 11, 99, 100],
                         self.numbers(COUNTER, "--all", told=self.no_index()))
        self.assertEqual([1, 2], self.numbers(COUNTER, "--all", "--max", "2", told=self.no_index()))

    def test_query_vectors_in_legacy_tables(self):
        """Of a journal without skey, and of snapshots, whose own key has ids and numbers."""
        rows = [{name: value for name, value in row.items() if name != "skey"}
                for row in AKKA["journal"]]
        for name in ("LegacyJournal", "LegacySnapshot"):
            self.make(name)
            self.fill(rows)
            self.check_queries()
            self.itemctl("drop", self.table, "--force")

    def test_all_rows(self):
        self.make("Journal")
        self.fill(AKKA["journal"])
        self.assertEqual([1, 2, 9, 10, 11, 99, 100], self.numbers(COUNTER, "--all"))
        self.assertEqual([1, 2, 9], self.numbers(COUNTER, "--all", "--max", "3"))
        self.assertEqual([100], self.numbers(COUNTER, "--deleted", "--from", "3"))
        self.assertEqual([], self.numbers(COUNTER, "--from", "11", "--to", "10"))

    def test_latest_snapshot(self):
        self.make("Snapshot")
        pid = "counter-a8d46579bc2f4caf8c3b8dc2db984227"
        snapshots = [case["expect"] for case in cases("snapshot_item")]
        rows = [{**snapshots[-1], "sequence-nr": {"N": str(number)},
                 "skey": {"S": f"a8d46579bc2f4caf8c3b8dc2db984227-{number:019}"}}
                for number in (9, 10, 100)]
        self.fill(snapshots + rows)
        self.assertEqual([rows[-1]], self.rows("latest-snapshot", pid))
        self.assertEqual([snapshots[-1]], self.rows("latest-snapshot", pid, "--to", "99"))
        self.assertEqual([snapshots[0]], self.rows("latest-snapshot", COUNTER))
        for words in ((COUNTER, "--from", "2"), ("nobody",)):
            out, err = self.akka("latest-snapshot", *words, status=ABSENT)
            self.assertEqual(("", f'itemctl: table {self.table} has no such row of "{words[0]}"\n'),
                             (out, err))
        self.assertEqual("100\n", self.akka("highest-sequence", pid)[0])

    TAGGED = [event(1, tags="red"), event(2, tags="blue,red"), event(10, tags="red,green"),
              event(3, tags="infrared"), event(4), event(5, tags="red", deleted=True),
              event(1, pid="another", tags="green,red,blue"), event(9, tags="blue")]

    def check_tags(self, told):
        def found(*words):
            return [(row["persistence-id"]["S"], int(row["sequence-nr"]["N"]))
                    for row in self.rows("by-tag", *words, told=told)]
        red = [("another", 1), ("tagged-1", 1), ("tagged-1", 2), ("tagged-1", 10)]
        self.assertEqual(red, found("red"))
        self.assertEqual(red[:2], found("red", "--max", "2"))
        self.assertEqual(red[:3] + [("tagged-1", 5), ("tagged-1", 10)], found("red", "--all"))
        self.assertEqual([("tagged-1", 5)], found("red", "--deleted"))
        self.assertEqual([("another", 1), ("tagged-1", 2), ("tagged-1", 9)], found("blue"))
        self.assertEqual([("tagged-1", 3)], found("infrared"))
        self.assertEqual([], found("re"))
        self.assertEqual([], found("purple"))

    def test_by_tag(self):
        self.make("Journal")
        self.fill(self.TAGGED)
        self.check_tags("")

    def test_by_tag_without_index(self):
        self.make("Journal", without=("TagsIndex",))
        self.fill(self.TAGGED)
        self.check_tags(self.no_index('tags "tags"'))

    def test_many_events(self):
        """More than a service gives at once, in numeric order."""
        self.make("Journal")
        message = base64.b64encode(b"m" * 9000).decode()
        self.fill(event(number, pid="many-1", deleted=number % 3 == 0, message=message)
                  for number in range(1, 301))
        live = [number for number in range(1, 301) if number % 3]
        self.assertEqual(live, self.numbers("many-1"))
        self.assertEqual(live[:150], self.numbers("many-1", "--max", "150"))
        self.assertEqual("300\n", self.akka("highest-sequence", "many-1")[0])

    def test_raw(self):
        self.make("Journal")
        row = event(1, message=EVERY_BYTE, tags="rot,grün")
        self.fill([row])
        where = ("get", self.table, "-k", "p1", "--sort-key", "tagged-1-0000000000000000001")

        def raw(column, status=0):
            return self.itemctl(*where, "--raw", column, status=status, binary=True)[0]
        self.assertEqual(bytes(range(256)), raw("message"))
        self.assertEqual("rot,grün".encode(), raw("tags"))
        self.assertEqual(b"p1", raw("pkey"))
        self.assertEqual(b"", raw("sequence-nr", 1))
        self.assertEqual(b"", raw("nothing", ABSENT))
