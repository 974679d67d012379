# SPDX-License-Identifier: MIT
"""What ScyllaDB's Alternator does otherwise than DynamoDB, imposed on an engine behind the proxy.

- No transactions: UnknownOperationException.
- Numeric keys are compared as text: 1000 and 1e3 are two items. An item is found under the spelling
  that it was first written in here, and no other; a write in a second spelling, which would make a
  second item there and cannot here, is a problem that fails the test. Keys within a Query's
  conditions are passed on as they are.
- BatchWriteItem takes 100 entries; table names have 192 characters.
- Stream records come late: STREAM_DELAY seconds after the write, or, where that is None, at
  release_streams(). A new item's record says MODIFY, as Alternator's may.
- No x-amz-crc32 (the proxy sees to that).
"""

import dataclasses
import decimal
import json
import threading
import time

import wire

BATCH_MAX, ENGINE_BATCH_MAX, NAME_MAX = 100, 25, 192
NAMESPACE = "com.amazonaws.dynamodb.v20120810"


class Alternator:
    def __init__(self, upstream, stream_delay=10.0):
        self.upstream = upstream
        self.stream_delay = stream_delay
        self.problems = []
        self.lock = threading.Lock()
        self.keys = {}     # table -> {name: type} of its key attributes
        self.spelled = {}  # (table, key by value) -> key as first written
        self.places = {}   # shard iterator of ours -> (the engine's, records not given out yet)
        self.released = 0  # creation time (epoch) up to which records are out

    def handle(self, request, body=None):
        body = request.json if body is None else body
        special = {
            "TransactWriteItems": self.unknown, "TransactGetItems": self.unknown,
            "ExecuteTransaction": self.unknown,
            "CreateTable": self.create_table, "BatchWriteItem": self.batch_write,
            "BatchGetItem": self.batch_get, "GetItem": self.get_item,
            "PutItem": self.write, "UpdateItem": self.write, "DeleteItem": self.write,
            "GetRecords": self.get_records,
        }.get(request.operation)
        return special(request, body) if special else self.upstream.send(request, body)

    @staticmethod
    def unknown(request, _body):
        return wire.error_answer("UnknownOperationException",
                                 f"Unsupported operation {request.operation}", namespace=NAMESPACE)

    def create_table(self, request, body):
        if len(body.get("TableName", "")) > NAME_MAX:
            return invalid(f"TableName must be at most {NAME_MAX} characters long")
        return self.upstream.send(request, body)

    # Keys.

    def key_types(self, request, table):
        """{name: type} of the table's key attributes; {} where it is not known."""
        with self.lock:
            if table in self.keys:
                return self.keys[table]
        headers = [(name, value.partition(".")[0] + ".DescribeTable"
                    if name.lower() == "x-amz-target" else value) for name, value in request.headers]
        answer = self.upstream.send(dataclasses.replace(request, headers=headers),
                                    {"TableName": table})
        if answer.status != 200:
            return {}
        found = json.loads(answer.body)["Table"]
        types = {one["AttributeName"]: one["AttributeType"] for one in found["AttributeDefinitions"]}
        keys = {one["AttributeName"]: types[one["AttributeName"]] for one in found["KeySchema"]}
        with self.lock:
            self.keys[table] = keys
        return keys

    def other_spelling(self, request, table, item, write):
        """Whether ITEM's numeric key is spelled otherwise than at its first write."""
        types = self.key_types(request, table)
        if "N" not in types.values():
            return False
        try:
            spelled = tuple(item[name][kind] for name, kind in types.items())
            value = tuple(decimal.Decimal(item[name][kind]) if kind == "N" else item[name][kind]
                          for name, kind in types.items())
        except (KeyError, TypeError, decimal.InvalidOperation):
            return False  # the engine refuses it
        with self.lock:
            if write:
                self.spelled.setdefault((table, value), spelled)
            return self.spelled.get((table, value), spelled) != spelled

    def get_item(self, request, body):
        if self.other_spelling(request, body.get("TableName"), body.get("Key", {}), False):
            return wire.json_answer({})
        return self.upstream.send(request, body)

    def write(self, request, body):
        self.note_write(request, body.get("TableName"), body.get("Item") or body.get("Key") or {})
        return self.upstream.send(request, body)

    def note_write(self, request, table, item):
        if self.other_spelling(request, table, item, True):
            with self.lock:
                self.problems.append(f"{request.operation} of {table}: a numeric key in a second "
                                     f"spelling: {json.dumps(item)[:200]}")

    # Batches.

    def batch_write(self, request, body):
        parts = body.get("RequestItems", {})
        entries = [(table, entry) for table, part in parts.items() for entry in part]
        if len(entries) > BATCH_MAX:
            return invalid(f"Too many items requested for the BatchWriteItem call: {len(entries)}")
        for table, entry in entries:
            (inner,) = entry.values()
            self.note_write(request, table, inner.get("Item") or inner.get("Key") or {})
        answer, rest = None, {}
        for start in range(0, max(1, len(entries)), ENGINE_BATCH_MAX):
            some = {}
            for table, entry in entries[start:start + ENGINE_BATCH_MAX]:
                some.setdefault(table, []).append(entry)
            answer = self.upstream.send(request, {**body, "RequestItems": some})
            if answer.status != 200:
                return answer
            for table, left in json.loads(answer.body).get("UnprocessedItems", {}).items():
                rest.setdefault(table, []).extend(left)
        whole = {**json.loads(answer.body), "UnprocessedItems": rest}
        return dataclasses.replace(answer, body=json.dumps(whole).encode(), crc="right")

    def batch_get(self, request, body):
        parts = {}
        for table, part in body.get("RequestItems", {}).items():
            kept = [key for key in part.get("Keys", [])
                    if not self.other_spelling(request, table, key, False)]
            if kept:
                parts[table] = {**part, "Keys": kept}
        if not parts:
            return wire.json_answer({"Responses": {}, "UnprocessedKeys": {}})
        return self.upstream.send(request, {**body, "RequestItems": parts})

    # Streams.

    def release_streams(self):
        """All records of writes up to now are due."""
        with self.lock:
            self.released = time.time() + 1  # creation times may be rounded up

    def due(self, record):
        created = record.get("dynamodb", {}).get("ApproximateCreationDateTime", 0)
        if created <= self.released:
            return True
        return self.stream_delay is not None and created + self.stream_delay <= time.time()

    def get_records(self, request, body):
        """Iterators are our own from the second page on: the engine's stand still where nothing is
        new, and what was held back would come twice."""
        given = body.get("ShardIterator", "")
        with self.lock:
            place, waiting = self.places.get(given, (given, []))
        if place is None:  # the shard is closed, and not all of it has come out
            reply, answer = {}, wire.json_answer({})
        else:
            answer = self.upstream.send(request, {**body, "ShardIterator": place})
            if answer.status != 200:
                return answer
            reply = json.loads(answer.body)
        records = waiting + reply.get("Records", [])
        ready, following = [], reply.pop("NextShardIterator", None)
        with self.lock:
            for record in records[:body.get("Limit", 1000)]:
                if not self.due(record):
                    break
                ready.append(record)
            rest = records[len(ready):]
            if rest or following:
                reply["NextShardIterator"] = f"late-{len(self.places)}"
                self.places[reply["NextShardIterator"]] = (following, rest)
        for record in ready:
            if record.get("eventName") == "INSERT":
                record["eventName"] = "MODIFY"
        reply["Records"] = ready
        return dataclasses.replace(answer, body=json.dumps(reply).encode(), crc="right")


def invalid(message):
    return wire.error_answer("ValidationException", message, namespace="com.amazon.coral.validate")
