# SPDX-License-Identifier: MIT
"""export and import on a service: exactly what boto3 sees, in parallel, through throttling, partial
batches and kills, with every request counted."""

import base64
import collections
import contextlib
import gzip
import hashlib
import json
import os
import subprocess
import unittest

from service import ITEMCTL, Proxy, SOURCE, ServiceTest, wait_for
from engines import each_engine, for_engine  # pylint: disable=wrong-import-order

FAILED = 1
RICH = {
    "id": {"S": "rich"}, "digits": {"N": "12345678901234567890123456789012345678"},
    "ss": {"SS": ["", "a", "é"]}, "ns": {"NS": ["1", "2.5"]}, "bs": {"BS": [b"", b"\0", b"\xff"]},
    "b": {"B": b"\0\xff"}, "empty": {"S": ""}, "no bytes": {"B": b""},
    "map": {"M": {"b": {"B": b"\1"}, "empty": {"M": {}}, "list": {"L": []}, "null": {"NULL": True}}},
    "list": {"L": [{"S": ""}, {"BOOL": False}, {"L": [{"N": "0"}]}]},
    "ключ": {"S": "𝄞"}, 'quo"te': {"S": "a\nb"}, "size": {"S": "a reserved word"},
}


def plain(value):
    """A typed value of boto3 as it stands in JSON, sets in the order of their bytes."""
    [(kind, content)] = value.items()
    if kind == "B":
        content = base64.b64encode(content).decode()
    elif kind == "BS":
        content = [base64.b64encode(each).decode() for each in sorted(content)]
    elif kind in ("SS", "NS"):
        content = sorted(content, key=str.encode)
    elif kind == "L":
        content = [plain(each) for each in content]
    elif kind == "M":
        content = {name: plain(each) for name, each in sorted(content.items())}
    return {kind: content}


def line(item):
    return json.dumps({name: plain(value) for name, value in sorted(item.items())},
                      ensure_ascii=False, separators=(",", ":"))


def ready(item):
    """As the engine gives it: sets have no order."""
    return {name: plain(value) for name, value in item.items()}


RECORD_AT = 4 << 20  # of a position's second record
Record = collections.namedtuple("Record", "turn offset line items file segments keys")


def record_of(path):
    """The newer record of a position; one of zeros where there is none."""
    found = [Record(0, 0, 0, 0, 0, 0, [])]
    with open(path, "rb") as file:
        for at in (0, RECORD_AT):
            file.seek(at)
            _, *lines = file.read(RECORD_AT).split(b"\n")
            if lines:
                *numbers, segments, turn = map(int, lines[0].split())
                keys = [base64.b64decode(key.split(b" ")[0]).decode()
                        for key in lines[1:1 + segments]]
                found.append(Record(turn, *numbers, segments, keys))
    return max(found)


class Transfer(ServiceTest):
    def path(self, name):
        return os.path.join(self.place, f"{self.table}-{name}")

    def write(self, name, items):
        with open(self.path(name), "w", encoding="utf-8") as out:
            out.writelines(line(item) + "\n" for item in items)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read().splitlines()

    def many(self, count, size=60, start=0):
        return [{"id": {"S": f"i{n:06}"}, "n": {"N": str(n)}, "pad": {"S": "x" * size}}
                for n in range(start, start + count)]

    def fill(self, items):
        for first in range(0, len(items), 25):
            self.boto.batch_write_item(RequestItems={self.table: [
                {"PutRequest": {"Item": item}} for item in items[first:first + 25]]})

    def stored(self):
        """All items as boto3 reads them, as lines in the order of their ids."""
        pages = self.boto.get_paginator("scan").paginate(TableName=self.table, ConsistentRead=True)
        return sorted(line(item) for page in pages for item in page["Items"])

    def run_ctl(self, *arguments, status=0, endpoint=None):
        more = {"env": self.environment(AWS_ENDPOINT_URL=endpoint)} if endpoint else {}
        return self.itemctl(*arguments, status=status, **more)

    @contextlib.contextmanager
    def started(self, endpoint, *arguments):
        """A process that is killed (-9) at the end."""
        process = subprocess.Popen([ITEMCTL, "-s", SOURCE, *arguments], cwd=self.place,
                                   env=self.environment(AWS_ENDPOINT_URL=endpoint),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def puts(self, calls):
        """Ids that these requests put."""
        return [entry["PutRequest"]["Item"]["id"]["S"] for call in calls
                if call.operation == "BatchWriteItem"
                for entry in call.json["RequestItems"][self.table]] + \
               [call.json["Item"]["id"]["S"] for call in calls if call.operation == "PutItem"]

    def positions(self):
        """What the positions of imports tell."""
        folder = os.path.join(self.home, "state", "itemfs", "import")
        return [record_of(os.path.join(folder, name))
                for name in (os.listdir(folder) if os.path.isdir(folder) else ())]


@each_engine
class Exactly(Transfer):
    def test_boto_reads_what_was_imported(self):
        self.make()
        want = self.many(120) + [RICH]
        told = self.run_ctl("import", self.table, self.write("in", want)).stdout
        self.assertEqual({"TableName": self.table, "ItemCount": 121}, json.loads(told))
        self.assertEqual(sorted(line(item) for item in want), self.stored())
        self.assertEqual(ready(RICH), ready(self.item(id={"S": "rich"})))

    def test_export_is_what_boto_wrote(self):
        self.make()
        want = self.many(120) + [RICH]
        self.fill(want)
        self.run_ctl("export", self.table, self.path("out"))
        self.assertEqual(sorted(line(item) for item in want), sorted(self.read("out")))

    def test_segments(self):
        self.make()
        want = self.many(200)
        self.fill(want)
        self.run_ctl("export", self.table, self.path("out"), "--segments", "7")
        self.assertEqual([line(item) for item in want], sorted(self.read("out")))

    def test_layout_of_exports_to_s3(self):
        self.make(sort=("n", "N"))
        want = [{**item, "n": {"N": str(n % 3)}} for n, item in enumerate(self.many(60))]
        want.append({**RICH, "n": {"N": "-1.5"}})
        self.fill(want)
        self.run_ctl("export", self.table, self.path("out"), "--s3-layout")
        top = self.path("out") + "/AWSDynamoDB"
        [export] = os.listdir(top)
        with open(f"{top}/{export}/manifest-files.json", encoding="utf-8") as file:
            [told] = [json.loads(each) for each in file]
        with open(f"{self.path('out')}/{told['dataFileS3Key']}", "rb") as file:
            packed = file.read()
        self.assertEqual((61, base64.b64encode(hashlib.md5(packed).digest()).decode()),
                         (told["itemCount"], told["md5Checksum"]))
        lines = [json.loads(each) for each in gzip.decompress(packed).splitlines()]
        self.assertEqual([["Item"]] * 61, [list(each) for each in lines])
        self.assertEqual(sorted(line(item) for item in want), sorted(
            json.dumps(each["Item"], ensure_ascii=False, separators=(",", ":")) for each in lines))
        with open(f"{top}/{export}/manifest-summary.json", encoding="utf-8") as file:
            summary = json.load(file)
        self.assertEqual((61, f"arn:aws:dynamodb:us-east-1:000000000000:table/{self.table}"),
                         (summary["itemCount"], summary["tableArn"]))
        self.forget(self.table)
        self.make(sort=("n", "N"))
        self.run_ctl("import", self.table, self.path("out"))
        self.assertEqual(sorted(line(item) for item in want), self.stored())

    def test_of_several_with_one_key_the_last_stands(self):
        self.make()
        twice = [{"id": {"S": f"i{n % 7}"}, "n": {"N": str(n)}} for n in range(100)]
        self.run_ctl("import", self.table, self.write("in", twice))
        self.assertEqual(sorted(line(item) for item in twice[-7:]), self.stored())

    def test_bad_input(self):
        self.make()
        big = line({"id": {"S": "big"}, "pad": {"S": "x" * 410_000}})
        for bad, reason in ((big, r"bytes, and the service takes 409600"),
                            ('{"id":{"N":"1"}}', r'"id" must be of type S, not N'),
                            ('{"id":{"S":"x"},"n":{"N":"1e200"}}', r"."),
                            ('{"id":{"S":""}}', r"."), ('{"id":{"S":"x"}', r".")):
            file = self.write("in", self.many(30))
            with open(file, "a", encoding="utf-8") as out:
                out.write(bad + "\n" + line({"id": {"S": "zzz"}}) + "\n")
            failed = self.run_ctl("import", self.table, file, status=FAILED)
            said = failed.stderr.splitlines()
            self.assertEqual("itemctl: 30 lines before the bad one are in the table", said[-2])
            self.assertRegex(said[-1], f"^itemctl: {file}:31: .*{reason}")
            self.assertEqual("", failed.stdout)
            self.assertEqual([line(item) for item in self.many(30)], self.stored())


class Through(Transfer):
    """Faults and kills, behind a proxy that counts."""

    def setUp(self):
        super().setUp()
        self.make()
        self.proxy = Proxy(self.engine.endpoint).__enter__()
        self.addCleanup(self.proxy.__exit__, None, None, None)
        self.addCleanup(self.proxy.heal)

    def test_import_is_in_full_batches(self):
        self.run_ctl("import", self.table, self.write("in", self.many(2000)),
                     endpoint=self.proxy.url)
        calls = collections.Counter(call.operation for call in self.proxy.calls())
        self.assertEqual(sorted(item["id"]["S"] for item in self.many(2000)),
                         sorted(self.puts(self.proxy.calls())))
        self.assertEqual(80, calls.pop("BatchWriteItem"))
        self.assertEqual({"ListTables", "DescribeTable", "DescribeTimeToLive"}, set(calls))
        self.assertLessEqual(sum(calls.values()), 4)

    def test_what_is_left_unprocessed_is_sent_again(self):
        self.proxy.fault("BatchWriteItem", "partial", times=6)
        items = self.many(1000)
        self.run_ctl("import", self.table, self.write("in", items), endpoint=self.proxy.url)
        self.assertEqual([line(item) for item in items], self.stored())
        sizes = collections.Counter(len(call.json["RequestItems"][self.table])
                                    for call in self.proxy.calls()
                                    if call.operation == "BatchWriteItem")
        self.assertEqual(40, sizes.pop(25))
        self.assertEqual(6, sum(sizes.values()))  # what was left of 25, or of 13, and nothing else
        self.assertLessEqual(set(sizes), {13, 7, 4, 2, 1})

    def test_more_throttling_than_a_call_is_tried(self):
        self.proxy.fault("BatchWriteItem", "throttle", times=5)
        self.run_ctl("import", self.table, self.write("in", self.many(25)), endpoint=self.proxy.url)
        self.assertEqual([line(item) for item in self.many(25)], self.stored())
        self.assertEqual(6, sum(call.operation == "BatchWriteItem" for call in self.proxy.calls()))

    def test_throttling_is_waited_for(self):
        self.proxy.fault("BatchWriteItem", "throttle", times=9)
        self.proxy.fault("Scan", "throttle", times=3)
        items = self.many(600)
        self.run_ctl("import", self.table, self.write("in", items), endpoint=self.proxy.url)
        self.assertEqual([line(item) for item in items], self.stored())
        self.run_ctl("export", self.table, self.path("out"), endpoint=self.proxy.url)
        self.assertEqual([line(item) for item in items], sorted(self.read("out")))

    def test_requests_that_are_lost_or_damaged(self):
        for number, kind in enumerate(("error-500", "reset", "reset-after", "truncate", "corrupt")):
            with self.subTest(kind):
                self.proxy.fault("BatchWriteItem", kind, times=1, after=2)
                self.proxy.fault("Scan", kind, times=1, after=2)
                file = self.write("in", self.many(200, start=200 * number))
                self.run_ctl("import", self.table, file, endpoint=self.proxy.url)
                self.run_ctl("export", self.table, self.path("out"), "--segments", "4",
                             endpoint=self.proxy.url)
                self.assertEqual([line(item) for item in self.many(200 * (number + 1))],
                                 sorted(self.read("out")))

    def test_service_that_fails_for_good(self):
        items = self.many(400)
        self.proxy.fault("BatchWriteItem", "error-500", after=6)
        failed = self.run_ctl("import", self.table, self.write("in", items), status=FAILED,
                              endpoint=self.proxy.url)
        self.assertIn(f"table {self.table}: ", failed.stderr)
        self.assertEqual("", failed.stdout)
        self.proxy.heal()
        self.run_ctl("import", self.table, self.path("in"), endpoint=self.proxy.url)
        self.assertEqual([line(item) for item in items], self.stored())

    def test_import_that_was_killed_goes_on(self):
        items = self.many(3000)
        file = self.write("in", items)
        self.proxy.fault("BatchWriteItem", "hang", after=60)
        with self.started(self.proxy.url, "import", self.table, file):
            wait_for("the end of what is answered", lambda: len(self.proxy.injected) == 8)
            turn = max(record.turn for record in wait_for("a record", self.positions))
            wait_for("records of a time when nothing gets done any more",
                     lambda: self.positions()[0].turn > turn + 1)
        [record] = self.positions()
        done = record.items
        self.assertEqual(record.line, done)
        self.assertTrue(0 < done < 3000, done)
        self.assertLessEqual({line(item) for item in items[:done]}, set(self.stored()))
        self.proxy.heal()
        before = len(self.proxy.calls())
        again = self.run_ctl("import", self.table, file, endpoint=self.proxy.url)
        self.assertIn(f"going on at line {done + 1} of {file}", again.stderr)
        self.assertEqual({"TableName": self.table, "ItemCount": 3000}, json.loads(again.stdout))
        # What was done is not sent again; all that is behind it is, once.
        self.assertEqual([item["id"]["S"] for item in items[done:]],
                         sorted(self.puts(self.proxy.calls()[before:])))
        self.assertEqual([line(item) for item in items], self.stored())
        self.assertEqual([], self.positions())

    def test_export_that_was_killed_goes_on(self):
        items = self.many(300, 40_000)  # 12 MB
        self.fill(items)
        record = self.path("out.partial-position")
        self.proxy.fault("Scan", "hang", after=5)
        with self.started(self.proxy.url, "export", self.table, self.path("out"), "--segments", "3"):
            wait_for("the end of what is answered", lambda: len(self.proxy.injected) == 3)
            wait_for("a record", lambda: os.path.exists(record) and os.path.getsize(record))
        told = record_of(record)
        done = told.items
        self.assertEqual(3, told.segments)
        self.assertTrue(0 < done < 300, done)
        with open(self.path("out.partial"), "rb") as file:
            kept = file.read(told.offset)
        self.assertEqual(done, kept.count(b"\n"))
        self.proxy.heal()
        before = len(self.proxy.calls())
        again = self.run_ctl("export", self.table, self.path("out"), endpoint=self.proxy.url)
        self.assertIn(f"going on behind the {done} items that an earlier export wrote, in 3 segments",
                      again.stderr)
        # Each segment goes on behind its own last key, and what was written stays as it was.
        first = {}
        for call in self.proxy.calls()[before:]:
            if call.operation == "Scan":
                first.setdefault(call.json["Segment"], call.json.get("ExclusiveStartKey"))
        self.assertEqual({number: {"id": {"S": key}} if key else None
                          for number, key in enumerate(told.keys)}, first)
        with open(self.path("out"), "rb") as file:
            self.assertEqual(kept, file.read(told.offset))
        self.assertEqual([line(item) for item in items], sorted(self.read("out")))
        self.assertEqual([], [name for name in os.listdir(self.place) if ".partial" in name])

    def test_export_of_a_table_made_anew_begins_anew(self):
        self.fill(self.many(100, 40_000))
        record = self.path("out.partial-position")
        self.proxy.fault("Scan", "hang", after=2)
        with self.started(self.proxy.url, "export", self.table, self.path("out")):
            wait_for("the end of what is answered", lambda: self.proxy.injected)
            wait_for("a record", lambda: os.path.exists(record) and os.path.getsize(record))
        self.proxy.heal()
        self.forget(self.table)
        self.make()
        self.fill(self.many(3, start=1000))
        again = self.run_ctl("export", self.table, self.path("out"), endpoint=self.proxy.url)
        self.assertIn("beginning anew", again.stderr)
        self.assertEqual([line(item) for item in self.many(3, start=1000)], sorted(self.read("out")))

    def test_a_segment_that_fails_leaves_no_file(self):
        self.fill(self.many(100, 40_000))
        self.proxy.fault("Scan", "error-500", after=4)
        failed = self.run_ctl("export", self.table, self.path("out"), "--segments", "2",
                              status=FAILED, endpoint=self.proxy.url)
        self.assertEqual("", failed.stdout)
        self.assertFalse(os.path.exists(self.path("out")))
        self.proxy.heal()
        again = self.run_ctl("export", self.table, self.path("out"), endpoint=self.proxy.url)
        self.assertIn("going on behind", again.stderr)
        self.assertEqual([line(item) for item in self.many(100, 40_000)], sorted(self.read("out")))


Through_dynoxide = for_engine(Through, "dynoxide")
del Through, Transfer

if __name__ == "__main__":
    unittest.main()
