# SPDX-License-Identifier: MIT
"""Shards that split and end, as a scripted server has them: parents come before their children, from
wherever the stream is read."""

import datetime
import itertools
import unittest

from service import wait_for
from stream_reader import Failed, ScriptedStreams, some, told

SETTLED = 30  # readings in a row without a record that count as its end


class Shards(ScriptedStreams):
    def test_parents_come_before_their_children(self):
        """Also where they have many pages, and the children are small."""
        stream = self.table.on()
        self.table.page_records = 2
        first = stream.shard()
        for i in range(7):
            self.table.put(first, "ada", i - 1 if i else None, i)
        left, right = self.table.split(first)
        self.table.put(left, "ada", 6, 7)
        self.table.put(right, "bob", None, 1)
        last, = self.table.split(left, 1)
        self.table.put(last, "ada", 7, 8)
        reader = self.reader()
        found = told(reader.read())
        self.assertEqual(["ada ->0"] + [f"ada {i}>{i + 1}" for i in range(8)],
                         [one for one in found if one.startswith("ada")])
        self.assertEqual(10, len(found))
        self.table.put(last, "ada", 8, 9)
        self.table.put(right, "bob", 1, 2)
        self.assertEqual(["ada 8>9", "bob 1>2"], sorted(told(some(reader, 2))))
        self.assertEqual(0, reader.lost)

    def test_a_shard_splits_while_it_is_read(self):
        first = self.table.on().shard()
        self.table.put(first, "ada", None, 1)
        reader = self.reader()
        self.assertEqual(["ada ->1"], told(reader.read()))
        for number in range(1, 5):
            self.table.put(first, "ada", number, number + 0.5)
            first, other = self.table.split(first)
            self.table.put(first, "ada", number + 0.5, number + 1)
            self.table.put(other, f"b{number}", None, number)
            found = told(some(reader, 3))
            self.assertEqual([f"ada {number}>{number + 0.5}", f"ada {number + 0.5}>{number + 1}"],
                             [one for one in found if one.startswith("ada")])
        self.assertEqual(0, reader.lost)

    def test_children_that_are_listed_late(self):
        first = self.table.on().shard()
        self.table.put(first, "ada", None, 1)
        first.closed = True
        reader = self.reader()
        self.assertEqual(["ada ->1"], told(reader.read()))
        child, = self.table.split(first, 1)
        self.table.put(child, "ada", 1, 2)
        self.assertEqual(["ada 1>2"], told(some(reader)))

    def test_many_pages_of_shards(self):
        stream = self.table.on()
        self.table.page = 3
        shard = stream.shard()
        wanted = []
        for i in range(20):
            self.table.put(shard, "ada", i or None, i + 1)
            wanted.append(f"ada {i or '-'}>{i + 1}")
            shard, = self.table.split(shard, 1)
        self.assertEqual(wanted, told(self.reader().read()))
        self.assertEqual(7, self.calls("DescribeStream"))

    def test_small_portions(self):
        """Each is as small as was asked for, and all shards have their turn."""
        stream = self.table.on()
        shards = [stream.shard() for _ in range(3)]
        for i in range(3):
            for number, shard in enumerate(shards):
                self.table.put(shard, f"k{number}", i or None, i + 1)
        reader = self.reader()
        portions = []
        while sum(map(len, portions)) < 9:
            portions.append([one["keys"]["id"]["S"] for one in reader.next(2)["records"]])
            self.assertLessEqual(len(portions[-1]), 2)
        self.assertEqual([["k0"] * 2, ["k1"] * 2, ["k2"] * 2], sorted(portions[:3]))
        self.assertEqual([], reader.read())

    def test_a_callback_ends_the_reading(self):
        first = self.table.on().shard()
        ids = [self.table.put(first, "ada", i or None, i + 1) for i in range(5)]
        reader = self.reader()
        found = reader.next(0, 2)["records"] + reader.next(0, 1)["records"]
        again = self.reader(reader.position())
        self.assertEqual(ids[3:], [one["change_id"] for one in again.read()])
        self.assertEqual(ids, [one["change_id"] for one in found + reader.read()])

    def test_records_behind_empty_pages(self):
        """An empty page is not the end of what there is."""
        first = self.table.on().shard()
        self.table.put(first, "ada", None, 1, made=1)
        self.table.put(first, "ada", 1, 2)
        first.gaps = {0: 4, 1: 4}
        self.assertEqual(["ada ->1", "ada 1>2"], told(self.reader().read()))

    def test_a_shard_that_is_written_to_all_the_time(self):
        """What was there is read all the same, and there is no end of asking."""
        first = self.table.on().shard()
        for number in range(3):
            self.table.put(first, "ada", number or None, number + 1, made=1)
        numbers = itertools.count(3)

        def write(operation):
            if operation == "GetRecords" and self.calls(operation) < 60:
                number = next(numbers)
                self.table.put(first, "ada", number, number + 1)
        self.table.hook = write
        reader = self.reader()
        for _ in range(2):
            before = self.calls("GetRecords")
            self.assertTrue(wait_for("records", reader.read))
            self.assertLessEqual(self.calls("GetRecords") - before, 8)

    def test_that_is_told_late(self):
        """No record was made just now, and there is no end of them: what was made before the reading
        began is enough. LIMIT: so that pages are full."""
        first = self.table.on().shard()
        seconds = itertools.count(10)

        def write(operation):
            if operation == "GetRecords" and self.calls(operation) < 60:
                self.server.clock = next(seconds)
                for number in range(2):
                    self.table.put(first, "ada", number, number + 1, made=self.server.now() - 6)
        self.table.hook = write
        reader = self.reader()
        for limit in (0, 2):
            before = self.calls("GetRecords")
            records = wait_for("records", lambda limit=limit: reader.read(limit))
            self.assertIn(self.calls("GetRecords") - before, range(6, 12))
            made = datetime.datetime.fromisoformat(records[-1]["time"]).timestamp()
            self.assertLess(self.server.now() - 8, made)

    def test_an_open_shard_that_is_empty_for_long(self):
        first = self.table.on().shard()
        reader = self.reader("now")
        for _ in range(SETTLED):
            self.assertEqual(([], False), (reader.next()["records"], reader.next()["more"]))
        self.table.put(first, "ada", None, 1)
        self.assertEqual(["ada ->1"], told(some(reader)))
        self.assertEqual((1, 1, 0), (self.calls("DescribeStream"), self.calls("GetShardIterator"),
                                     self.calls("ListStreams")))


class Positions(ScriptedStreams):
    def ids(self, records):
        return [one["change_id"] for one in records]

    def test_each_is_gone_on_from(self):
        """From every record on, whatever happened to the shards meanwhile."""
        self.table.readers = None
        stream = self.table.on()
        first, other = stream.shard(), stream.shard()
        for i in range(3):
            self.table.put(first, "ada", i or None, i + 1)
            self.table.put(other, "bob", i or None, i + 1)
        left, right = self.table.split(first)
        self.table.put(left, "ada", 3, 4)
        self.table.put(right, "cyd", None, 1)
        reader, given, positions = self.reader(), [], [(0, "oldest")]
        while len(given) < 8:
            found = reader.next(1)["records"]
            given += found
            positions.append((len(given), reader.position()))
        last, = self.table.split(left, 1)
        given.append({"change_id": self.table.put(last, "ada", 4, 5)})
        for count, position in positions:
            with self.subTest(position):
                reader.open(position)
                found = reader.read()
                self.assertCountEqual(self.ids(given[count:]), self.ids(found))
                numbers = [one for one in told(found) if one.startswith("ada")]
                self.assertEqual([f"ada {i or '-'}>{i + 1}" for i in range(5)][-len(numbers):],
                                 numbers)
        self.assertEqual(0, reader.lost)

    def test_from_before_a_split(self):
        """The shard is read to its end, then its children, though they were not known then."""
        first = self.table.on().shard()
        self.table.put(first, "ada", None, 1)
        reader = self.reader()
        reader.read()
        position = reader.position()
        self.table.put(first, "ada", 1, 2)
        left, right = self.table.split(first)
        self.table.put(left, "ada", 2, 3)
        self.table.put(right, "bob", None, 1)
        last, = self.table.split(left, 1)
        self.table.put(last, "ada", 3, 4)
        again = self.reader(position)
        found = told(again.read())
        self.assertEqual(["ada 1>2", "ada 2>3", "ada 3>4"],
                         [one for one in found if one.startswith("ada")])
        self.assertIn("bob ->1", found)
        self.assertEqual(0, again.lost)

    def test_what_was_read_is_left_out(self):
        """A position names what is read now: neither the parents that are done, nor the children
        that wait."""
        first = self.table.on().shard()
        for i in range(3):
            self.table.put(first, "ada", i or None, i + 1)
        second, = self.table.split(first, 1)
        third, = self.table.split(second, 1)
        self.table.put(second, "ada", 3, 4)
        reader = self.reader()
        self.assertNotIn(second.id, reader.position())
        count = 0
        while count < 2:
            count += len(reader.next(1)["records"])
        sequence = first.records[1]["dynamodb"]["SequenceNumber"]
        self.assertTrue(reader.position().endswith(f",{first.id},={sequence}"))
        reader.read()
        self.assertTrue(reader.position().endswith(f",{third.id},="))

    def test_a_shard_that_ended_unseen(self):
        """It was read to its end, but its children were not listed yet."""
        first = self.table.on().shard()
        self.table.put(first, "ada", None, 1)
        first.closed = True
        reader = self.reader()
        reader.read()
        position = reader.position()
        self.assertTrue(position.endswith("=end"), position)
        child, = self.table.split(first, 1)
        self.table.put(child, "ada", 1, 2)
        self.table.forget(first)  # 24 hours later
        again = self.reader(position)
        self.assertEqual((["ada 1>2"], 0), (told(again.read()), again.lost))
        self.table.forget(child)
        grandchild, = self.table.split(child, 1)
        self.table.put(grandchild, "ada", 2, 3)
        again = self.reader(position)
        self.assertEqual((["ada 2>3"], 1), (told(again.read()), again.lost))

    def test_many_shards(self):
        stream = self.table.on()
        shards = [stream.shard() for _ in range(300)]
        reader = self.reader("now")
        position = reader.position()
        self.assertLess(len(position), 64 << 10)
        self.table.put(shards[150], "ada", None, 1)
        self.assertEqual((["ada ->1"], 0), (told(self.reader(position).read()), reader.lost))

    def test_what_is_none(self):
        stream = self.table.on()
        stream.shard()
        reader = self.reader()
        good = reader.position().split(",")
        reader.open(",".join(good))
        for place, word in ((0, "2"), (0, ""), (1, "0123"), (1, "0123456789abcdeF"),
                            (2, "x" * 300), (2, "a=b"), (3, ""), (3, "a=b"), (3, "x" * 1100),
                            (4, "x" * 300), (4, ""), (5, "x"), (5, "x=1x"), (5, "x=@"), (5, "x=@1x"),
                            (5, "x=@1234567890123"), (5, "x=End"), (5, "x=end,x=end"),
                            (5, "x=" + "1" * 300), (5, "x=1=2"), (5, ""), (5, "x=1,"), (5, "\x7f=1"),
                            (5, "é=1")):
            bad = ",".join(good[:place] + [word] + good[place + 1:])
            with self.subTest(bad), self.assertRaises(Failed) as failed:
                reader.open(bad)
            self.assertEqual("EINVAL", failed.exception.code)
            self.assertIn("table items: \"", failed.exception.message)
        for bad in ("x", "1", "1,", "1,0123456789abcdef", "0" * 32):
            with self.subTest(bad), self.assertRaises(Failed) as failed:
                reader.open(bad)
            self.assertEqual("EINVAL", failed.exception.code)

    def test_of_another_table(self):
        first = self.table.on().shard()
        self.table.put(first, "ada", None, 1)
        reader = self.reader()
        words = reader.position().split(",")
        for bad in ([words[0], "0" * 16, *words[2:]], [*words[:2], words[2], "arn:other", *words[4:]]):
            other = self.reader(",".join(bad))
            self.assertEqual((["ada ->1"], 1), (told(other.read()), other.lost))


class Now(ScriptedStreams):
    def test_nothing_is_missed(self):
        """Also of a shard that splits between its being listed and being asked for."""
        stream = self.table.on()
        shards = [stream.shard() for _ in range(3)]
        for shard in shards:
            self.table.put(shard, "before", None, 1)
        made = []

        def split(operation):
            if operation == "GetShardIterator" and not made:
                for shard in shards:
                    self.table.put(shard, f"k{len(made)}", None, 1)
                    left, _ = self.table.split(shard)
                    made.append(left)
        self.table.hook = split
        reader = self.reader("now")
        for number, shard in enumerate(made):
            self.table.put(shard, f"k{number}", 1, 2)
        found = told(some(reader, 3))
        self.assertLessEqual({"k0 1>2", "k1 1>2", "k2 1>2"}, set(found))
        self.assertNotIn("before ->1", found)
        self.assertEqual(0, reader.lost)

    def test_a_position_before_the_first_record(self):
        """There is no sequence number yet: what was made before is passed over, nothing after."""
        first = self.table.on().shard()
        for i in range(5):
            self.table.put(first, "old", i or None, i + 1, made=1000 + i)
        self.table.page_records = 2
        reader = self.reader("now")
        position = reader.position()
        self.assertRegex(position, "=@[0-9]+$")
        self.assertEqual([], self.reader(position).read())
        self.table.put(first, "new", None, 1)
        again = self.reader(position)
        self.assertEqual(["new ->1"], told(again.read()))
        self.assertTrue(again.position().endswith("=" + first.last))
        self.table.expire()
        self.assertEqual(["new ->1"], told(some(reader)))
        self.assertEqual((0, 0), (reader.lost, again.lost))

    def test_while_it_is_off(self):
        """What comes once it is on is given from its beginning; what was before is not."""
        for hides in (False, True):
            with self.subTest(hides=hides):
                self.table.hides_latest = hides
                first = self.table.on().shard()
                self.table.put(first, "old", None, 1)
                self.table.off()
                reader = self.reader("now")
                position = reader.position()
                self.assertEqual([], reader.read())
                first = self.table.on().shard()
                self.table.put(first, "new", None, 1)
                self.assertEqual(["new ->1"], told(some(reader)))
                self.assertEqual(["new ->1"], told(self.reader(position).read()))
                self.assertEqual(0, reader.lost)
                self.table.off()

    def test_switched_on_while_it_is_opened(self):
        self.table.hides_latest = True
        made = []

        def switch(operation):
            if operation == "ListStreams" and not made:
                made.append(self.table.on().shard())
        self.table.hook = switch
        reader = self.reader("now")
        self.table.put(made[0], "ada", None, 1)
        self.assertEqual(["ada ->1"], told(some(reader)))


if __name__ == "__main__":
    unittest.main()
