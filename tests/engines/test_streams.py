# SPDX-License-Identifier: MIT
"""Streams: what is recorded, in which order, and how one reads on."""

import behaviour
import engines

BOTH = {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}}


@engines.each_engine
class Streams(behaviour.Behaviour):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.streams = cls.engine.client("dynamodbstreams")
        cls.has_streams = cls.engine.call("ListStreams", {}, streams=True).status == 200

    def setUp(self):
        self.name = self.table(**BOTH)
        self.arn = self.db.describe_table(TableName=self.name)["Table"].get("LatestStreamArn")

    def shards(self, arn=None):
        found = self.streams.describe_stream(StreamArn=arn or self.arn)["StreamDescription"]
        return found["Shards"]

    def iterator(self, kind="TRIM_HORIZON", **more):
        return self.streams.get_shard_iterator(
            StreamArn=self.arn, ShardId=self.shards()[0]["ShardId"], ShardIteratorType=kind,
            **more)["ShardIterator"]

    def records(self, iterator=None):
        return self.streams.get_records(ShardIterator=iterator or self.iterator())["Records"]

    def events(self, records=None):
        return [f'{record["eventName"]} {record["dynamodb"]["Keys"]["pk"]["S"]}'
                for record in (self.records() if records is None else records)]

    def test_is_there(self):
        self.holds("streams", True, self.has_streams)
        self.holds("the table names its stream", True, bool(self.arn))
        self.holds("ListStreams", "ok",
                   self.engine.call("ListStreams", {}, streams=True).error or "ok")

    def needs_streams(self):
        if not self.has_streams:
            self.skipTest(f"{self.engine.name} has no streams (test_is_there holds it to that)")

    def test_kinds_of_records(self):
        self.needs_streams()
        self.put(self.name, "a", v={"N": "1"})
        self.put(self.name, "a", v={"N": "2"})
        self.db.delete_item(TableName=self.name, Key={"pk": {"S": "a"}})
        self.db.delete_item(TableName=self.name, Key={"pk": {"S": "no"}})
        found = self.records()
        self.holds("records of put, put, delete, delete of nothing",
                   ["INSERT a", "MODIFY a", "REMOVE a"], self.events(found))
        images = [[image in record["dynamodb"] for image in ("OldImage", "NewImage")]
                  for record in found[:3]]
        self.holds("their old and new images", [[False, True], [True, True], [True, False]], images)
        self.holds("image of a MODIFY", {"pk": {"S": "a"}, "v": {"N": "2"}},
                   found[1]["dynamodb"].get("NewImage"))
        first = found[0]
        self.holds("members of a record", [
            "awsRegion", "dynamodb", "eventID", "eventName", "eventSource", "eventVersion"],
                   sorted(first))
        self.holds("members of its dynamodb", [
            "ApproximateCreationDateTime", "Keys", "NewImage", "SequenceNumber", "SizeBytes",
            "StreamViewType"], sorted(first["dynamodb"]))
        numbers = [int(record["dynamodb"]["SequenceNumber"]) for record in found]
        self.assertEqual(sorted(set(numbers)), numbers)

    def test_what_makes_no_record(self):
        self.needs_streams()
        self.put(self.name, "a", v={"N": "1"})
        self.put(self.name, "a", v={"N": "1"})
        self.holds("records of a put and an equal put", ["INSERT a"], self.events())
        before = len(self.records())
        self.update(self.name, "SET #v = :v", {"#v": "v"}, {":v": {"N": "1"}})
        self.holds("records of an update to the same", 0, len(self.records()) - before)
        before = len(self.records())
        for call, more in ((self.db.put_item, {"Item": {"pk": {"S": "a"}}}),
                           (self.db.update_item, {"Key": {"pk": {"S": "a"}}, "UpdateExpression":
                                                  "REMOVE v"})):
            self.outcome(call, TableName=self.name,
                         ConditionExpression="attribute_not_exists(pk)", **more)
        self.holds("records of refused writes", 0, len(self.records()) - before)

    def test_batches_and_transactions(self):
        self.needs_streams()
        self.db.batch_write_item(RequestItems={self.name: [
            {"PutRequest": {"Item": {"pk": {"S": name}}}} for name in "ab"]})
        self.db.transact_write_items(TransactItems=[
            {"Put": {"TableName": self.name, "Item": {"pk": {"S": "c"}}}},
            {"Delete": {"TableName": self.name, "Key": {"pk": {"S": "a"}}}}])
        self.holds("records of a batch and a transaction",
                   ["INSERT a", "INSERT b", "INSERT c", "REMOVE a"], sorted(self.events()))

    def test_iterators(self):
        self.needs_streams()
        late = self.iterator("LATEST")
        for name in "abc":
            self.put(self.name, name)
        self.holds("LATEST, taken before the writes", ["INSERT a", "INSERT b", "INSERT c"],
                   self.events(self.records(late)))
        second = self.records()[1]["dynamodb"]["SequenceNumber"]
        for kind, wanted in (("AT_SEQUENCE_NUMBER", ["INSERT b", "INSERT c"]),
                             ("AFTER_SEQUENCE_NUMBER", ["INSERT c"])):
            got = self.result(lambda kind=kind: self.events(self.records(
                self.iterator(kind, SequenceNumber=second))))
            self.holds(kind, wanted, got)
        page = self.streams.get_records(ShardIterator=self.iterator(), Limit=2)
        self.holds("Limit 2", ["INSERT a", "INSERT b"], self.events(page["Records"]))
        page = self.streams.get_records(ShardIterator=page["NextShardIterator"])
        self.holds("the page after it", ["INSERT c"], self.events(page["Records"]))
        page = self.streams.get_records(ShardIterator=page["NextShardIterator"])
        self.holds("an open shard goes on", [[], True],
                   [self.events(page["Records"]), bool(page.get("NextShardIterator"))])
        self.put(self.name, "d")
        self.holds("an idle iterator sees later writes", ["INSERT d"],
                   self.events(self.records(page["NextShardIterator"])))

    def test_bad_iterators(self):
        self.needs_streams()
        self.holds("an iterator that does not exist", "ValidationException", self.outcome(
            self.streams.get_records, ShardIterator="no-iterator"))
        self.holds("a stream that is not there", "ResourceNotFoundException", self.outcome(
            self.streams.describe_stream, StreamArn=self.arn[:-3] + "999"))
        self.holds("a shard that is not there", "ResourceNotFoundException", self.outcome(
            self.streams.get_shard_iterator, StreamArn=self.arn, ShardIteratorType="LATEST",
            ShardId="shardId-00000000000000000000-00000000"))

    def end_of(self, iterator):
        """Whether the shard goes on behind the page of ITERATOR."""
        return self.result(lambda: "open" if self.streams.get_records(
            ShardIterator=iterator).get("NextShardIterator") else "closed")

    def test_off_and_on_again(self):
        self.needs_streams()
        self.put(self.name, "a")
        late = self.iterator("LATEST")
        change = {"TableName": self.name, "StreamSpecification": {"StreamEnabled": False}}
        self.db.update_table(**change)
        self.wait_active(self.name)
        self.holds("status of a stream switched off", "DISABLED",
                   self.result(lambda: self.streams.describe_stream(StreamArn=self.arn)[
                       "StreamDescription"]["StreamStatus"]))
        page = self.result(lambda: self.streams.get_records(ShardIterator=self.iterator()))
        self.holds("records of a stream switched off", [["INSERT a"], "closed"], page if isinstance(
            page, behaviour.Failed) else [self.events(page["Records"]), "open" if page.get(
                "NextShardIterator") else "closed"])
        self.holds("an iterator of a stream switched off", "closed", self.end_of(late))
        self.holds("a stream on again", "ok", self.outcome(
            self.db.update_table, TableName=self.name, **BOTH))
        self.wait_active(self.name)
        now = self.db.describe_table(TableName=self.name)["Table"].get("LatestStreamArn")
        listed = [one["StreamArn"] for one in self.streams.list_streams(
            TableName=self.name)["Streams"]]
        self.holds("a stream on again: new ARN, it is listed, the old is too", [True, True, True],
                   [now != self.arn, now in listed, self.arn in listed])

    def test_a_table_made_again(self):
        self.needs_streams()
        self.put(self.name, "a")
        late = self.iterator("LATEST")
        self.db.delete_table(TableName=self.name)
        self.holds("an iterator of a dropped table", "closed", self.end_of(late))
        self.db.create_table(
            TableName=self.name, KeySchema=behaviour.key_schema("pk"),
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST", **BOTH)
        self.wait_active(self.name)
        self.arn = self.db.describe_table(TableName=self.name)["Table"]["LatestStreamArn"]
        self.holds("records of a table that was dropped and made again", [], self.events())

    def test_shards(self):
        self.needs_streams()
        found = self.shards()
        self.holds("shards of a new stream", 1, len(found))
        self.holds("an open shard has no end", False,
                   "EndingSequenceNumber" in found[0].get("SequenceNumberRange", {}))
