# SPDX-License-Identifier: MIT
"""Streams of a service. What engines do is checked by boto3; what they never do comes from a
scripted server: shards that split and end, iterators that expire, records that are gone."""

import datetime
import unittest

from service import PlaceTest, ServiceTest, each_service, wait_for
from scripted import Scripted
from stream_reader import Failed, Reader, told
from streams import Streams
import engines
import wire

FAST = "stream_poll=0.1"
SETTLED = 30  # readings in a row without a record that count as its end


class ScriptedStreams(PlaceTest):
    def setUp(self):
        self.server = self.enterContext(Scripted())
        self.table = Streams(self.server)
        self.addCleanup(self.table.check)

    def reader(self, position="oldest", **more):
        env = self.environment(**{**engines.KEYS, "AWS_ENDPOINT_URL": self.server.url})
        return Reader(self, env, self.table.name, position, options=(FAST,), **more)

    @staticmethod
    def some(reader, count=1):
        """COUNT records, waited for; and what comes with them."""
        found = []

        def enough():
            found.extend(reader.read())
            return len(found) >= count
        wait_for(f"{count} records", enough)
        return found

    def calls(self, operation):
        return len(self.server.calls(operation))


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
        self.assertEqual(["ada 8>9", "bob 1>2"], sorted(told(self.some(reader, 2))))
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
            found = told(self.some(reader, 3))
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
        self.assertEqual(["ada 1>2"], told(self.some(reader)))

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

    def test_an_open_shard_that_is_empty_for_long(self):
        first = self.table.on().shard()
        reader = self.reader("now")
        for _ in range(SETTLED):
            self.assertEqual(([], False), (reader.next()["records"], reader.next()["more"]))
        self.table.put(first, "ada", None, 1)
        self.assertEqual(["ada ->1"], told(self.some(reader)))
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
        found = told(self.some(reader, 3))
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
        self.assertEqual(["new ->1"], told(self.some(reader)))
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
                self.assertEqual(["new ->1"], told(self.some(reader)))
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
        self.assertEqual(["ada ->1"], told(self.some(reader)))


class Gone(ScriptedStreams):
    def test_an_iterator_that_expired(self):
        first = self.table.on().shard()
        ids = [self.table.put(first, "ada", i or None, i + 1) for i in range(6)]
        self.table.page_records = 2
        reader = self.reader()
        found = reader.next()["records"]
        for _ in range(2):
            self.table.expire()
            found += reader.next()["records"]
        self.assertEqual(ids, [one["change_id"] for one in found])
        self.table.expire()
        self.assertEqual([], reader.read())
        self.assertEqual(0, reader.lost)

    def test_one_that_expires_again_and_again(self):
        self.table.on().shard()
        reader = self.reader()
        self.table.fail("GetRecords", "ExpiredIteratorException", times=2)
        with self.assertRaisesRegex(Failed, "ESTALE.*table items: GetRecords: ExpiredIterator"):
            reader.next()
        self.assertEqual(([], 0), (reader.read(), reader.lost))

    def test_records_that_were_trimmed(self):
        first = self.table.on().shard()
        for i in range(6):
            self.table.put(first, "ada", i or None, i + 1)
        reader = self.reader()
        reader.next(1)
        position = reader.position()
        self.table.trim(first, 4)
        found = reader.read(), self.reader(position)
        self.assertEqual((["ada 4>5", "ada 5>6"], 1), (told(found[0]), reader.lost))
        self.assertEqual((["ada 4>5", "ada 5>6"], 1), (told(found[1].read()), found[1].lost))

    def test_a_position_that_is_refused(self):
        """Some services call it a validation error."""
        first = self.table.on().shard()
        self.table.put(first, "ada", None, 1)
        reader = self.reader()
        reader.read()
        self.table.fail("GetShardIterator", "ValidationException")
        again = self.reader(reader.position())
        self.assertEqual((["ada ->1"], 1), (told(again.read()), again.lost))

    def test_a_shard_that_is_gone(self):
        stream = self.table.on()
        first, other = stream.shard(), stream.shard()
        self.table.put(first, "ada", None, 1)
        self.table.put(other, "bob", None, 1)
        reader = self.reader()
        self.assertEqual(2, len(reader.read()))
        position = reader.position()
        child, = self.table.split(first, 1)
        self.table.put(child, "ada", 1, 2)
        self.table.put(other, "bob", 1, 2)
        self.table.forget(first)
        for one in (reader, self.reader(position)):
            self.assertEqual((["ada 1>2", "bob 1>2"], 1), (sorted(told(self.some(one, 2))), one.lost))
            self.assertEqual([], one.read())

    def test_a_shard_that_is_listed_and_not_there(self):
        """An inconsistency that passes is none; one that does not is told, and hides nothing."""
        stream = self.table.on()
        first, other = stream.shard(), stream.shard()
        self.table.put(first, "ada", None, 1)
        self.table.fail("GetRecords", "ResourceNotFoundException", 1, first)
        reader = self.reader()
        self.assertEqual((["ada ->1"], 0), (told(reader.read()), reader.lost))
        self.table.fail("GetRecords", "ResourceNotFoundException", 1000, first)
        failures = []
        for i in range(4):
            self.table.put(other, "bob", i or None, i + 1)

        def read(found=[]):  # pylint: disable=dangerous-default-value
            try:
                found += reader.next()["records"]
            except Failed as failed:
                failures.append(failed)
                found += failed.answer["records"]
            return failures and len(found) == 4
        wait_for("the error, and what can be read", read)
        self.assertEqual("EIO", failures[0].code)
        self.assertIn("ResourceNotFoundException", failures[0].message)
        self.table.faults.clear()
        self.table.put(first, "ada", 1, 2)
        self.assertEqual(["ada 1>2"], told(self.some(reader)))
        self.assertEqual(0, reader.lost)


class Switched(ScriptedStreams):
    def test_off_and_on_again(self):
        """What is left of the old one comes first, then all of the new one."""
        for restarted in (False, True):
            with self.subTest(restarted=restarted):
                first = self.table.on().shard()
                self.table.page_records = 1
                for i in range(4):
                    self.table.put(first, "ada", i or None, i + 1)
                reader = self.reader("now" if restarted else "oldest")
                self.table.put(first, "ada", 4, 5)
                found = reader.next()["records"]
                self.table.put(first, "ada", 5, 6)
                self.table.off()
                between = self.table.on().shard()  # nobody looked while this one was
                self.table.put(between, "ada", 8, 9)
                self.table.off()
                second = self.table.on().shard()
                self.table.put(second, "ada", 19, 20)
                if restarted:
                    reader = self.reader(reader.position())
                found += self.some(reader, 3 if restarted else 7)
                wanted = ["ada ->1", "ada 1>2", "ada 2>3", "ada 3>4"] * (not restarted) + [
                    "ada 4>5", "ada 5>6", "ada 8>9", "ada 19>20"]
                self.assertEqual((wanted, 0), (told(found), reader.lost))
                self.table.off()
                self.table.streams.clear()

    def test_off(self):
        """Nothing comes, at the cost of next to nothing."""
        first = self.table.on().shard()
        self.table.put(first, "ada", None, 1)
        self.table.off()
        reader = self.reader()
        self.assertEqual(["ada ->1"], told(reader.read()))
        before = len(self.server.calls())
        for _ in range(100):
            self.assertEqual([], reader.read())
        self.assertLess(len(self.server.calls()) - before, 20)
        position = reader.position()
        self.assertTrue(position.endswith("," + self.table.streams[0].label), position)
        second = self.table.on().shard()
        self.table.put(second, "ada", 1, 2)
        self.assertEqual(["ada 1>2"], told(self.some(reader)))
        self.table.streams.pop(0)  # 24 hours later
        self.assertEqual(["ada 1>2"], told(self.reader(position).read()))
        self.assertEqual(0, reader.lost)

    def test_never_on(self):
        reader = self.reader()
        self.assertEqual([], reader.read())
        again = self.reader(reader.position())
        first = self.table.on().shard()
        self.table.put(first, "ada", None, 1)
        for one in (reader, again):
            self.assertEqual((["ada ->1"], 0), (told(self.some(one)), one.lost))

    def test_a_stream_that_is_gone(self):
        """Its records are kept 24 hours: what was not read of it is lost."""
        first = self.table.on().shard()
        self.table.put(first, "ada", None, 1)
        reader = self.reader()
        reader.read()
        position = reader.position()
        self.table.off()
        self.table.streams.clear()
        second = self.table.on().shard()
        self.table.put(second, "ada", 1, 2)
        again = self.reader(position)
        self.assertEqual((["ada 1>2"], 1), (told(again.read()), again.lost))
        first.gone = True
        self.assertEqual((["ada 1>2"], 1), (told(self.some(reader)), reader.lost))

    def test_shards_that_do_not_end(self):
        """Now and then the table is looked at: the stream may be another one, and the old one gone."""
        first = self.table.on().shard()
        reader = self.reader()
        self.assertEqual([], reader.read())
        self.table.off()
        first.closed = False
        self.table.streams.clear()
        self.table.put(self.table.on().shard(), "ada", None, 1)
        self.assertEqual((["ada ->1"], 1), (told(self.some(reader)), reader.lost))

    def test_a_dropped_table(self):
        first = self.table.on().shard()
        self.table.put(first, "ada", None, 1)
        reader = self.reader()
        reader.read()
        position = reader.position()
        self.table.put(first, "ada", 1, 2)
        self.table.drop()
        found = []

        def is_told():
            try:
                found.extend(reader.next()["records"])
            except Failed as failed:
                found.extend(failed.answer["records"])
                return failed
            return None
        failed = wait_for("the table's end", is_told)
        self.assertEqual(("ENOENT", "table items is gone"), (failed.code, failed.message))
        self.assertEqual(["ada 1>2"], told(found))
        self.table.create()
        with self.assertRaisesRegex(Failed, "table items is gone"):
            reader.next()
        second = self.table.on().shard()
        self.table.put(second, "eve", None, 1)
        for where, lost in ((position, 1), ("oldest", 0)):
            again = self.reader(where)
            self.assertEqual((["eve ->1"], lost), (told(again.read()), again.lost))

    def test_what_a_dropped_table_has_left(self):
        """It is read to its end, though the table is looked at meanwhile."""
        first = self.table.on().shard()
        self.table.page_records = 1
        wanted = []
        for i in range(32):
            self.table.put(first, "ada", i or None, i + 1)
            wanted.append(f"ada {i or '-'}>{i + 1}")
        reader = self.reader()
        found = told(reader.next()["records"])
        self.table.drop()
        looks = self.calls("DescribeTable")
        while len(found) < 32:
            found += told(reader.next()["records"])
        self.assertEqual(wanted, found)
        self.assertGreater(self.calls("DescribeTable"), looks)
        with self.assertRaisesRegex(Failed, "ENOENT.*table items is gone"):
            reader.read()
        self.assertEqual(0, reader.lost)


class Records(ScriptedStreams):
    def test_what_a_stream_shows(self):
        """Keys are all there may be."""
        wanted = {"NEW_AND_OLD_IMAGES": ["ada ->1", "ada 1>2", "ada 2>-"],
                  "NEW_IMAGE": ["ada ->1", "ada ->2", "ada ->-"],
                  "OLD_IMAGE": ["ada ->-", "ada 1>-", "ada 2>-"],
                  "KEYS_ONLY": ["ada ->-", "ada ->-", "ada ->-"]}
        for view, shown in wanted.items():
            with self.subTest(view):
                first = self.table.on(view).shard()
                ids = [self.table.put(first, "ada", *change)
                       for change in ((None, 1), (1, 2), (2, None))]
                found = self.reader().read()
                self.assertEqual(shown, told(found))
                self.assertEqual(["INSERT", "MODIFY", "REMOVE"],
                                 [one["change_type"] for one in found])
                self.assertEqual(ids, [one["change_id"] for one in found])
                self.assertEqual([view.startswith("NEW")] * 2 + [False],
                                 [one["version"] > 0 for one in found])
                self.table.off()
                self.table.streams.clear()

    def test_expiry(self):
        first = self.table.on().shard()
        service = {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}
        for identity in (service, {**service, "Type": "User"}, {**service, "PrincipalId": "x"}):
            self.table.put(first, "ada", 1, None, userIdentity=identity)
        self.table.put(first, "ada", 1, 2, userIdentity=service)
        self.assertEqual([True, None, None, None],
                         [one.get("expired") for one in self.reader().read()])

    def test_what_has_not_changed(self):
        """Some services record it all the same."""
        first = self.table.on().shard()
        self.table.put(first, "ada", 1, "1.0")
        self.table.put(first, "ada", 2, "2e0")
        images = {"OldImage": {"id": {"S": "x"}, "s": {"SS": ["a", "b"]}},
                  "NewImage": {"id": {"S": "x"}, "s": {"SS": ["b", "a"]}}}
        self.table.put(first, "x", 1, 1, dynamodb=images)
        reader = self.reader()
        self.assertEqual([], reader.read())
        self.assertTrue(reader.position().endswith("=" + first.last))
        self.table.put(first, "ada", 1, 2)
        self.assertEqual(["ada 1>2"], told(self.some(reader)))

    def test_times_and_items(self):
        first = self.table.on().shard()
        image = {"s": {"NS": ["2", "10"]}, "id": {"S": "x"}, "m": {"M": {"b": {"B": "AA=="}}}}
        self.table.put(first, "x", None, 1, made=1700000000, dynamodb={"NewImage": image})
        found, = self.reader().read()
        self.assertEqual("2023-11-14T22:13:20.000000000Z", found["time"])
        self.assertEqual({"id": {"S": "x"}, "m": {"M": {"b": {"B": "AA=="}}},
                          "s": {"NS": ["10", "2"]}}, found["new_item"])

    def test_what_cannot_be_shown(self):
        """An image that is none is left out, of a key that is none the whole record: it is told."""
        first = self.table.on().shard()
        self.table.put(first, "ada", 1, 2, dynamodb={"NewImage": {"id": {"X": "y"}}})
        self.table.put(first, "ada", 2, 3, dynamodb={"Keys": {"other": {"S": "y"}}})
        self.table.put(first, "ada", 3, 4)
        reader = self.reader()
        self.assertEqual((["ada 1>-", "ada 3>4"], 1), (told(reader.read()), reader.lost))
        self.assertIn("table items: the NewImage of a change is not shown", reader.errors())
        self.assertIn("table items: a change is left out", reader.errors())

    def test_a_record_without_a_number(self):
        first = self.table.on().shard()
        self.table.put(first, "ada", None, 1, dynamodb={"SequenceNumber": "x"})
        with self.assertRaisesRegex(Failed, "EIO.*a change has no sequence number"):
            self.reader().next()


class Trouble(ScriptedStreams):
    def test_throttling_passes(self):
        first = self.table.on().shard()
        self.table.put(first, "ada", None, 1)
        for operation in ("ListStreams", "DescribeStream", "GetShardIterator", "GetRecords"):
            self.table.fail(operation, "LimitExceededException")
        reader = self.reader()
        self.assertEqual((["ada ->1"], 0), (told(reader.read()), reader.lost))

    def test_throttling_that_lasts_is_told(self):
        stream = self.table.on()
        first, other = stream.shard(), stream.shard()
        self.table.put(first, "ada", None, 1)
        self.table.put(other, "bob", None, 1)
        self.table.fail("GetRecords", "LimitExceededException", 4, first)
        reader = self.reader()
        with self.assertRaisesRegex(Failed, "EDQUOT.*tried 4 times: LimitExceeded") as failed:
            reader.next()
        found = failed.exception.answer["records"] + reader.read()
        self.assertEqual((["ada ->1", "bob ->1"], 0), (sorted(told(found)), reader.lost))

    def test_a_service_that_is_away(self):
        """What holds for all shards is not tried with each of them."""
        stream = self.table.on()
        shards = [stream.shard() for _ in range(5)]
        reader = self.reader()
        reader.read()
        for shard in shards:
            self.table.put(shard, "ada", None, 1)
        self.table.fail("GetRecords", "AccessDeniedException")
        before = self.calls("GetRecords")

        def is_told():
            try:
                reader.next()
            except Failed as failed:
                return failed
            return None
        self.assertEqual("EACCES", wait_for("the refusal", is_told).code)
        self.assertEqual(before + 1, self.calls("GetRecords"))
        self.assertEqual(5, len(self.some(reader, 5)))

    def test_a_list_that_fails(self):
        """It is told, and holds up nothing that can be read."""
        stream = self.table.on()
        first, other = stream.shard(), stream.shard()
        reader = self.reader()
        reader.read()
        child, = self.table.split(first, 1)
        self.table.put(child, "ada", None, 1)
        self.table.put(other, "bob", None, 1)
        self.table.fail("DescribeStream", "ValidationException", 1000)
        found, failures = [], []

        def is_told():
            try:
                found.extend(reader.next()["records"])
            except Failed as failed:
                failures.append(failed)
                found.extend(failed.answer["records"])
            return failures and found
        wait_for("the error, and what can be read", is_told)
        self.assertEqual(["bob ->1"], told(found))
        self.assertIn("table items: DescribeStream: ValidationException", failures[0].message)
        self.table.faults.clear()
        self.assertEqual(["ada ->1"], told(self.some(reader)))

    def test_called_off(self):
        first = self.table.on().shard()
        self.table.put(first, "ada", None, 1)
        reader = self.reader()
        asked = self.calls("GetRecords")
        self.table.fail("GetRecords", wire.Answer(hang=True))
        reader.begin("next")
        self.server.wait_for_calls(asked + 1, "GetRecords")
        reader.call_off()
        with self.assertRaisesRegex(Failed, "EINTR"):
            reader.answer()
        self.assertEqual(["ada ->1"], told(self.some(reader)))

    def test_no_streams(self):
        self.table.fail("ListStreams", "UnknownOperationException", 2)
        for where in ("oldest", "now"):
            with self.assertRaisesRegex(Failed, "EOPNOTSUPP.*table items: ListStreams"):
                self.reader(where)

    def test_what_is_denied(self):
        self.table.on().shard()
        for operation, where in (("ListStreams", "oldest"), ("DescribeStream", "oldest"),
                                 ("DescribeStream", "now"), ("GetShardIterator", "now")):
            self.table.fail(operation, "AccessDeniedException")
            with self.assertRaisesRegex(Failed, f"EACCES.*table items: {operation}: AccessDenied"):
                self.reader(where)
        self.table.fail("GetShardIterator", "AccessDeniedException")
        reader = self.reader()
        with self.assertRaisesRegex(Failed, "EACCES.*GetShardIterator"):
            reader.next()

    def test_answers_that_are_none(self):
        first = self.table.on().shard()
        self.table.put(first, "ada", None, 1)
        for operation in ("DescribeStream", "GetShardIterator", "GetRecords"):
            reader = self.reader() if operation != "DescribeStream" else None
            self.table.fail(operation, wire.json_answer({"NextShardIterator": ""}))
            with self.assertRaisesRegex(Failed, "EIO.*table items: "):
                (reader or self.reader()).next()

    def test_odd_names(self):
        stream = self.table.on()
        for name in ("a,b" * 12, "a=b" * 12, "x" * 300, "a b" * 12):
            shard = stream.shard()
            shard.id = name
            with self.assertRaisesRegex(Failed, "EIO.*its stream has a shard with a name"):
                self.reader()
            stream.shards.remove(shard)


class Engines(ServiceTest):
    def setUp(self):
        super().setUp()
        self.make(StreamSpecification={"StreamEnabled": True,
                                       "StreamViewType": "NEW_AND_OLD_IMAGES"})
        if self.engine.name == "dynalite":
            self.assertRaisesRegex(Failed, "EOPNOTSUPP", self.reader)
            self.skipTest("dynalite has no streams, and that is said")
        self.streams = self.engine.client("dynamodbstreams")

    def reader(self, position="oldest"):
        return Reader(self, self.environment(), self.table, position, options=(FAST,))

    def release(self):
        """Alternator's records come late."""
        if self.engine.name == "alternator":
            self.engine.proxy.alternator.release_streams()

    def recorded(self):
        """What boto3 reads, without what has changed nothing."""
        arn = self.boto.describe_table(TableName=self.table)["Table"]["LatestStreamArn"]
        shard, = self.streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
        iterator = self.streams.get_shard_iterator(
            StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON")
        found = self.streams.get_records(ShardIterator=iterator["ShardIterator"])["Records"]
        return [one for one in found
                if one["dynamodb"].get("OldImage") != one["dynamodb"].get("NewImage")]

    def write(self):
        for i in range(3):
            self.put(id={"S": "ada"}, n={"N": str(i)}, s={"SS": ["b", "a"]})
            self.put(id={"S": "bob"}, n={"N": str(i)}, b={"B": b"\0\1"})
        self.put(id={"S": "bob"}, n={"N": "2"}, b={"B": b"\0\1"})
        self.boto.update_item(TableName=self.table, Key={"id": {"S": "ada"}},
                              UpdateExpression="ADD n :one",
                              ExpressionAttributeValues={":one": {"N": "1"}})
        self.boto.delete_item(TableName=self.table, Key={"id": {"S": "bob"}})

    def test_as_boto_reads_them(self):
        self.write()
        self.release()
        recorded = self.recorded()
        found = self.reader().read(3)
        self.assertEqual([one["eventID"] for one in recorded],
                         [one["change_id"] for one in found])
        self.assertEqual(["INSERT", "INSERT"] + ["MODIFY"] * 5 + ["REMOVE"],
                         [one["change_type"] for one in found])
        for theirs, ours in zip(recorded, found):
            self.assertEqual(theirs["dynamodb"]["Keys"], ours["keys"])
            self.assertEqual(int(theirs["dynamodb"]["ApproximateCreationDateTime"].timestamp()),
                             int(datetime.datetime.fromisoformat(ours["time"][:19] + "+00:00")
                                 .timestamp()))
            for name, image in (("old_item", "OldImage"), ("new_item", "NewImage")):
                self.assertEqual(self.plain(theirs["dynamodb"].get(image)),
                                 self.plain(ours.get(name)))

    @staticmethod
    def plain(item):
        """An item with bytes as in JSON, sets sorted."""
        return item and {name: {kind: sorted(held) if kind == "SS" else wire.binary(held)
                                if isinstance(held, bytes) else held
                                for kind, held in value.items()} for name, value in item.items()}

    def test_versions(self):
        """Those of the items as they are read."""
        reader = self.reader()
        for i in range(3):
            self.put(id={"S": "ada"}, n={"N": f"{i}.50"}, s={"NS": ["2", "10"]})
            version = reader.tell("get", "ada")["version"]
            self.release()
            self.assertEqual([version], [one["version"] for one in self.some(reader)])
        self.boto.delete_item(TableName=self.table, Key={"id": {"S": "ada"}})
        self.release()
        self.assertEqual([0], [one["version"] for one in self.some(reader)])

    some = staticmethod(ScriptedStreams.some)

    def test_gone_on_from_elsewhere(self):
        self.write()
        self.release()
        wanted = [one["eventID"] for one in self.recorded()]
        reader, given = self.reader(), []
        while len(given) < len(wanted):
            given += [one["change_id"] for one in reader.next(1)["records"]]
            again = self.reader(reader.position())
            self.assertEqual(wanted[len(given):], [one["change_id"] for one in again.read()])
            self.assertEqual(0, again.lost)
        self.assertEqual(wanted, given)

    def test_from_now_on(self):
        self.write()
        reader = self.reader("now")
        position = reader.position()
        self.put(id={"S": "eve"}, n={"N": "1"})
        self.release()
        self.assertEqual(["eve ->1"], told(self.some(reader)))
        self.assertEqual("eve ->1", told(self.reader(position).read())[-1])

    def test_a_dropped_table(self):
        self.write()
        reader = self.reader()
        self.release()
        self.some(reader, 8)
        position = reader.position()
        self.forget(self.table)

        def is_told():
            try:
                reader.next()
            except Failed as failed:
                return failed
            return None
        self.assertEqual("ENOENT", wait_for("the table's end", is_told).code)
        with self.assertRaisesRegex(Failed, "ENOENT"):
            self.reader(position)
        self.make(StreamSpecification={"StreamEnabled": True,
                                       "StreamViewType": "NEW_AND_OLD_IMAGES"})
        self.put(id={"S": "eve"}, n={"N": "1"})
        self.release()
        again = self.reader(position)
        found = told(self.some(again))
        # dynoxide keeps the records of the table before for the next of its name.
        self.assertEqual((["eve ->1"], 1), (found[-1:], again.lost))


each_service(Engines)
del Engines


if __name__ == "__main__":
    unittest.main()
