# SPDX-License-Identifier: MIT
"""What ends or is gone: iterators, records, shards, streams and tables. Nothing is lost that is still
there, and what is lost is told."""

import unittest

from service import wait_for
from stream_reader import Failed, ScriptedStreams, some, told


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

    def test_a_shard_of_which_nothing_is_left(self):
        """Whatever the service calls it: its children go on."""
        first = self.table.on().shard()
        self.table.put(first, "ada", None, 1)
        reader = self.reader()
        reader.read()
        position = reader.position()
        child, = self.table.split(first, 1)
        self.table.put(child, "ada", 1, 2)
        first.gone = True
        self.table.fail("GetShardIterator", "TrimmedDataAccessException", 1000, first)
        self.table.fail("GetRecords", "TrimmedDataAccessException", 1000, first)
        for one in (reader, self.reader(position)):
            self.assertEqual((["ada 1>2"], True), (told(some(one)), one.lost > 0))

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
            self.assertEqual((["ada 1>2", "bob 1>2"], 1), (sorted(told(some(one, 2))), one.lost))
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
        self.assertEqual(["ada 1>2"], told(some(reader)))
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
                found += some(reader, 3 if restarted else 7)
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
        self.assertEqual(["ada 1>2"], told(some(reader)))
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
            self.assertEqual((["ada ->1"], 0), (told(some(one)), one.lost))

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
        self.assertEqual((["ada 1>2"], 1), (told(some(reader)), reader.lost))

    def test_shards_that_do_not_end(self):
        """Now and then the table is looked at: the stream may be another one, and the old one gone."""
        first = self.table.on().shard()
        reader = self.reader()
        self.assertEqual([], reader.read())
        self.table.off()
        first.closed = False
        self.table.streams.clear()
        self.table.put(self.table.on().shard(), "ada", None, 1)
        self.assertEqual((["ada ->1"], 1), (told(some(reader)), reader.lost))

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


if __name__ == "__main__":
    unittest.main()
