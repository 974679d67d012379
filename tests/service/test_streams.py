# SPDX-License-Identifier: MIT
"""Streams of a service: each engine's as boto3 reads it, and what records, refusals and failures
come to by a scripted server."""

import datetime
import unittest

from service import ServiceTest, each_service, wait_for
from stream_reader import FAST, Failed, Reader, ScriptedStreams, some, told
import wire  # pylint: disable=wrong-import-order


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
            self.assertEqual([version], [one["version"] for one in some(reader)])
        self.boto.delete_item(TableName=self.table, Key={"id": {"S": "ada"}})
        self.release()
        self.assertEqual([0], [one["version"] for one in some(reader)])

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

    def test_from_many_threads(self):
        self.write()
        self.release()
        reader = self.reader()
        self.assertEqual([8] * 8, reader.tell("storm", 8)["counts"])

    def test_from_now_on(self):
        self.write()
        reader = self.reader("now")
        position = reader.position()
        self.put(id={"S": "eve"}, n={"N": "1"})
        self.release()
        self.assertEqual(["eve ->1"], told(some(reader)))
        self.assertEqual("eve ->1", told(self.reader(position).read())[-1])

    def test_a_dropped_table(self):
        self.write()
        reader = self.reader()
        self.release()
        some(reader, 8)
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
        found = told(some(again))
        # dynoxide keeps the records of the table before for the next of its name.
        self.assertEqual((["eve ->1"], 1), (found[-1:], again.lost))


each_service(Engines)
del Engines


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
        self.assertEqual(["ada 1>2"], told(some(reader)))

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
        self.table.put(first, "ada", 1, 2)
        reader = self.reader()
        self.assertEqual((["ada 1>2"], 1), (told(reader.read()), reader.lost))
        self.assertIn("a change is left out: it has no sequence number", reader.errors())


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
        self.assertEqual(5, len(some(reader, 5)))

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
        self.assertEqual(["ada ->1"], told(some(reader)))

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
        self.assertEqual(["ada ->1"], told(some(reader)))

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


if __name__ == "__main__":
    unittest.main()
