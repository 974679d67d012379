# SPDX-License-Identifier: MIT
"""A table with streams as DynamoDB has them, behind a scripted server: what no engine does.

    with Scripted() as server:
        table = Streams(server)
        first = table.on().shard()
        table.put(first, "ada", None, 1)
        left, right = table.split(first)

A stream has one open shard for each part of the table; a closed one has children. Their ids say
nothing of their order, nor does the list. Sequence numbers grow from 21 digits to 22. Iterators hold
until expire(), records until trim(), shards until forget(), streams until they are deleted from
table.streams; a dropped table leaves its streams behind. What DynamoDB does not allow is a problem
of the server's: more than 5 GetRecords a second of a shard, 10 DescribeStream, 5 ListStreams.
"""

import datetime
import hashlib
import itertools
import time

import wire

RATES = {"GetRecords": 5, "DescribeStream": 10, "ListStreams": 5}  # a second
FEW = 12  # calls that a rate cannot be told from
OPERATIONS = ("ListTables", "DescribeTable", "DescribeTimeToLive", "ListStreams", "DescribeStream",
              "GetShardIterator", "GetRecords")


class Shard:
    def __init__(self, number, parent):
        digest = hashlib.sha256(str(number).encode()).hexdigest()
        self.id = f"shardId-{int(digest[:12], 16):020d}-{digest[12:20]}"
        self.parent = parent
        self.records = []
        self.closed, self.gone = False, False
        self.trimmed = 0   # records that are not kept any more
        self.gaps = {}     # empty pages before the record of a number
        self.asked = []    # when

    @property
    def last(self):
        return self.records[-1]["dynamodb"]["SequenceNumber"]


class Stream:
    def __init__(self, table, born, view):
        self.born, self.view = born, view
        self.label = datetime.datetime.fromtimestamp(born, datetime.timezone.utc).strftime(
            "%Y-%m-%dT%H:%M:%S.%f")[:-3]
        self.arn = f"arn:aws:dynamodb:us-east-1:123456789012:table/{table.name}/stream/{self.label}"
        self.table, self.status, self.shards = table, "ENABLED", []

    def shard(self, parent=None):
        shard = Shard(next(self.table.numbers), parent)
        self.shards.append(shard)
        return shard


class Streams:
    """The table NAME, with the partition key id (S). Pages of lists have PAGE entries. ALONE: it has
    the server's answers; else who made it asks for them."""

    def __init__(self, server, name="items", page=100, alone=True):
        self.server, self.name, self.page = server, name, page
        self.numbers, self.sequence = itertools.count(1), itertools.count(999999999999999999995)
        self.streams = []   # also those of tables that were dropped
        self.faults = []    # [operation, shard or None, error, times left]
        self.iterators, self.epoch = {}, 0
        self.page_records = 1000
        self.hides_latest = False  # DescribeTable does not name a stream that is off
        self.readers = 1   # at most, at a time; None: any number
        self.hook = None   # called with each operation's name before its answer is made
        self.calls = {"DescribeStream": [], "ListStreams": []}
        self.born = 0
        self.create()
        for operation in OPERATIONS if alone else ():
            server.answer(operation, self.answer, times=None)

    # What a test says.

    def create(self):
        self.born = max(time.time() - 3600, self.born + 60)
        self.id, self.there = f"id-{self.name}-{next(self.numbers)}", True

    def drop(self):
        self.off()
        self.there = False

    def on(self, view="NEW_AND_OLD_IMAGES"):
        stream = Stream(self, self.born + next(self.numbers), view)
        self.streams.append(stream)
        return stream

    def off(self):
        for stream in self.streams:
            stream.status = "DISABLED"
            for shard in stream.shards:
                shard.closed = True

    def split(self, shard, children=2):
        shard.closed = True
        stream = next(one for one in self.streams if shard in one.shards)
        return [stream.shard(shard) for _ in range(children)]

    def put(self, shard, key, old, new, made=None, **more):
        """A change from OLD to NEW, numbers or None; MADE: epoch seconds. Its event id."""
        view = next(one for one in self.streams if shard in one.shards).view
        images = {"OldImage": old, "NewImage": new}
        shown = {"KEYS_ONLY": (), "OLD_IMAGE": ("OldImage",), "NEW_IMAGE": ("NewImage",)}.get(
            view, tuple(images))
        number = next(self.sequence)
        record = {"ApproximateCreationDateTime": int(time.time() if made is None else made),
                  "Keys": {"id": {"S": key}}, "SequenceNumber": str(number), "SizeBytes": 26,
                  "StreamViewType": view}
        for name, value in images.items():
            if name in shown and value is not None:
                record[name] = {"id": {"S": key}, "n": {"N": str(value)}}
        record.update(more.pop("dynamodb", {}))
        event = "INSERT" if old is None else "REMOVE" if new is None else "MODIFY"
        shard.records.append({"eventID": f"{number:032x}", "eventName": event,
                              "eventVersion": "1.1", "eventSource": "aws:dynamodb",
                              "awsRegion": "us-east-1", "dynamodb": record, **more})
        return f"{number:032x}"

    def trim(self, shard, count):
        shard.trimmed = count

    def forget(self, *shards):
        """Records and shards are kept 24 hours."""
        for shard in shards:
            shard.gone = True

    def expire(self):
        self.epoch += 1

    def fail(self, operation, error, times=1, shard=None):
        self.faults.append([operation, shard, error, times])

    def check(self):
        """Whether the service's limits were kept, by as many readers as there may be of a shard."""
        with self.server.lock:
            lists = [("GetRecords", shard.asked) for stream in self.streams
                     for shard in stream.shards] + list(self.calls.items())
        for operation, times in lists if self.readers else ():
            rate = self.readers * RATES[operation]
            if len(times) > FEW and (len(times) - 1) / (times[-1] - times[0]) > rate:
                raise AssertionError(f"{operation}: {len(times)} in {times[-1] - times[0]:.2f} s")

    # What happens.

    def answer(self, request):
        with self.server.lock:
            if self.hook:
                self.hook(request.operation)
            body = request.json
            shard = self.shard_of(request.operation, body)
            if request.operation in self.calls:
                self.calls[request.operation].append(time.monotonic())
            for fault in self.faults:
                if fault[0] == request.operation and fault[1] in (None, shard):
                    fault[3] -= 1
                    self.faults = [one for one in self.faults if one[3] > 0]
                    return fault[2] if isinstance(fault[2], wire.Answer) else refusal(fault[2])
            return getattr(self, request.operation)(body)

    def shard_of(self, operation, body):
        if operation == "GetRecords":
            place = self.iterators.get(body["ShardIterator"])
            return place[0] if place else None
        return next((shard for stream in self.streams for shard in stream.shards
                     if shard.id == body.get("ShardId")), None)

    def ListTables(self, _body):
        return {"TableNames": [self.name] if self.there else []}

    def DescribeTable(self, body):
        if not self.there or body["TableName"] != self.name:
            return refusal("ResourceNotFoundException")
        latest = next((one for one in reversed(self.streams) if one.born > self.born), None)
        on = latest is not None and latest.status == "ENABLED"
        found = {"TableName": self.name, "TableId": self.id, "TableStatus": "ACTIVE",
                 "CreationDateTime": self.born, "ItemCount": 0, "TableSizeBytes": 0,
                 "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
                 "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}]}
        if on:
            found["StreamSpecification"] = {"StreamEnabled": True, "StreamViewType": latest.view}
        if latest and (on or not self.hides_latest):
            found |= {"LatestStreamArn": latest.arn, "LatestStreamLabel": latest.label}
        return {"Table": found}

    @staticmethod
    def DescribeTimeToLive(_body):
        return {"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}}

    def paged(self, entries, start, key):
        """(a page of ENTRIES behind the one named START, whether there are more)"""
        names = [entry[key] for entry in entries]
        at = names.index(start) + 1 if start else 0
        return entries[at:at + self.page], at + self.page < len(entries)

    def ListStreams(self, body):
        listed = [{"StreamArn": one.arn, "TableName": self.name, "StreamLabel": one.label}
                  for one in sorted(self.streams, key=lambda one: hash(one.arn))]
        page, more = self.paged(listed, body.get("ExclusiveStartStreamArn"), "StreamArn")
        return {"Streams": page, **({"LastEvaluatedStreamArn": page[-1]["StreamArn"]}
                                    if more else {})}

    def find(self, arn):
        return next((one for one in self.streams if one.arn == arn), None)

    def DescribeStream(self, body):
        stream = self.find(body["StreamArn"])
        if not stream:
            return refusal("ResourceNotFoundException")
        listed = []
        for shard in sorted(stream.shards, key=lambda one: one.id):
            entry = {"ShardId": shard.id,
                     "SequenceNumberRange": {"StartingSequenceNumber": "1" + "0" * 20}}
            if shard.closed:
                entry["SequenceNumberRange"]["EndingSequenceNumber"] = "9" * 22
            if shard.parent:
                entry["ParentShardId"] = shard.parent.id
            if not shard.gone:
                listed.append(entry)
        page, more = self.paged(listed, body.get("ExclusiveStartShardId"), "ShardId")
        return {"StreamDescription": {
            "StreamArn": stream.arn, "StreamLabel": stream.label, "StreamStatus": stream.status,
            "StreamViewType": stream.view, "CreationRequestDateTime": stream.born,
            "TableName": self.name, "Shards": page,
            "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
            **({"LastEvaluatedShardId": page[-1]["ShardId"]} if more else {})}}

    def iterator(self, shard, at):
        text = f"{self.name}-iterator-{len(self.iterators)}"
        self.iterators[text] = shard, at, self.epoch
        return text

    def GetShardIterator(self, body):
        stream = self.find(body["StreamArn"])
        shard = self.shard_of("GetShardIterator", body)
        if not stream or not shard or shard.gone or shard not in stream.shards:
            return refusal("ResourceNotFoundException")
        kind, at = body["ShardIteratorType"], len(shard.records)
        if kind == "TRIM_HORIZON":
            at = shard.trimmed
        elif kind == "AFTER_SEQUENCE_NUMBER":
            at = sum(int(one["dynamodb"]["SequenceNumber"]) <= int(body["SequenceNumber"])
                     for one in shard.records)
            if at <= shard.trimmed and shard.trimmed:
                return refusal("TrimmedDataAccessException")
        return {"ShardIterator": self.iterator(shard, at)}

    def GetRecords(self, body):
        if body["ShardIterator"] not in self.iterators:
            return refusal("ValidationException")
        shard, at, epoch = self.iterators[body["ShardIterator"]]
        shard.asked.append(time.monotonic())
        if epoch != self.epoch:
            return refusal("ExpiredIteratorException")
        if shard.gone:
            return refusal("ResourceNotFoundException")
        if at < shard.trimmed:
            return refusal("TrimmedDataAccessException")
        most = min(body.get("Limit", 1000), self.page_records)
        end = min([at + most, len(shard.records)] + [gap for gap in shard.gaps if gap > at])
        if shard.gaps.get(at):
            shard.gaps[at] -= 1
            end = at
        answer = {"Records": shard.records[at:end]}
        if not shard.closed or end < len(shard.records):
            answer["NextShardIterator"] = self.iterator(shard, end)
        return answer


class ManyStreams:
    """Several tables, each as Streams."""

    def __init__(self, server, names):
        self.delay = 0  # of every answer, in seconds
        self.tables = {name: Streams(server, name, alone=False) for name in names}
        for operation in OPERATIONS:
            server.answer(operation, self.answer, times=None)

    def __getitem__(self, name):
        return self.tables[name]

    def answer(self, request):
        time.sleep(self.delay)
        if request.operation == "ListTables":
            return {"TableNames": sorted(self.tables)}
        return self.tables[self.name_in(request.json)].answer(request)

    @staticmethod
    def name_in(body):
        if "StreamArn" in body:
            return body["StreamArn"].split("/")[1]
        return body.get("TableName") or body["ShardIterator"].partition("-iterator-")[0]

    def check(self):
        for table in self.tables.values():
            table.check()


def refusal(name):
    return wire.error_answer(name, "as the test says")
