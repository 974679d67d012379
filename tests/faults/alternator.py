# SPDX-License-Identifier: MIT
"""What ScyllaDB's Alternator does otherwise than DynamoDB, imposed on an engine behind the proxy.

- No transactions: UnknownOperationException.
- Numeric keys are compared as text: 1000 and 1e3 are two items. An item is found under the spelling
  that it was first written in here, and no other; a write in a second spelling, which would make a
  second item there and cannot here, is a problem that fails the test. Keys within a Query's
  conditions are passed on as they are.
- So are numbers within items (alternator/conditions.cc: "=" compares their JSON): they come back as
  they were written, and "#a = :a" holds only for the same text. Known here of what was written by
  PutItem and BatchWriteItem.
- BatchWriteItem takes 100 entries; table names have 192 characters.
- A time to live that is set already, or is not, is refused (alternator/ttl.cc). Nothing expires: the
  sweep comes once in 24 hours.
- Stream records come late: STREAM_DELAY seconds after the write, or, where that is None, at
  release_streams(). A new item's record says MODIFY, as Alternator's may.
- TABLETS: neither streams nor time to live, as tables on tablets had before 2025 (ttl.cc).
- All errors are in one namespace.
- No x-amz-crc32 (the proxy sees to that).
"""

import dataclasses
import decimal
import json
import re
import threading
import time

import wire

BATCH_MAX, ENGINE_BATCH_MAX, NAME_MAX = 100, 25, 192
NAMESPACE = "com.amazonaws.dynamodb.v20120810"


class Alternator:
    def __init__(self, upstream, stream_delay=10.0, tablets=False):
        self.upstream = upstream
        self.stream_delay, self.tablets = stream_delay, tablets
        self.problems = []
        self.lock = threading.Lock()
        self.keys = {}     # table -> {name: type} of its key attributes
        self.spelled = {}  # (table, key by value) -> key as first written
        self.items = {}    # (table, key by value) -> item as last written
        self.ttl = {}      # table -> attribute
        self.places = {}   # shard iterator of ours -> (the engine's, records not given out yet)
        self.released = 0  # creation time (epoch) up to which records are out

    def handle(self, request, body=None):
        body = request.json if body is None else body
        special = {
            "TransactWriteItems": self.unknown, "TransactGetItems": self.unknown,
            "ExecuteTransaction": self.unknown,
            "CreateTable": self.create_table, "UpdateTable": self.update_table,
            "DeleteTable": self.delete_table, "UpdateTimeToLive": self.update_time_to_live,
            "BatchWriteItem": self.batch_write, "BatchGetItem": self.batch_get,
            "GetItem": self.get_item, "Scan": self.read_page, "Query": self.read_page,
            "PutItem": self.write, "UpdateItem": self.write, "DeleteItem": self.write,
            "GetRecords": self.get_records,
        }.get(request.operation)
        answer = special(request, body) if special else self.upstream.send(request, body)
        return one_namespace(answer) if answer.status >= 400 else answer

    @staticmethod
    def unknown(request, _body):
        return wire.error_answer("UnknownOperationException",
                                 f"Unsupported operation {request.operation}", namespace=NAMESPACE)

    # Tables.

    def wants_stream(self, body):
        return self.tablets and body.get("StreamSpecification", {}).get("StreamEnabled")

    def create_table(self, request, body):
        if len(body.get("TableName", "")) > NAME_MAX:
            return invalid(f"TableName must be at most {NAME_MAX} characters long")
        if self.wants_stream(body):
            return invalid("Streams not yet supported on a table using tablets")
        return self.upstream.send(request, body)

    def update_table(self, request, body):
        if self.wants_stream(body):
            return invalid("Streams not yet supported on a table using tablets")
        return self.upstream.send(request, body)

    def delete_table(self, request, body):
        answer = self.upstream.send(request, body)
        if answer.status == 200:
            with self.lock:
                self.ttl.pop(body["TableName"], None)
                self.keys.pop(body["TableName"], None)
                for known in (self.spelled, self.items):
                    for place in [place for place in known if place[0] == body["TableName"]]:
                        del known[place]
        return answer

    def update_time_to_live(self, request, body):
        table, wanted = body.get("TableName"), body.get("TimeToLiveSpecification", {})
        with self.lock:
            now = self.ttl.get(table)
        if wanted.get("Enabled") and self.tablets:
            return invalid("TTL not yet supported on a table using tablets")
        if wanted.get("Enabled") and now:
            return invalid("TTL is already enabled")
        if not wanted.get("Enabled") and now != wanted.get("AttributeName"):
            return invalid("TTL is already disabled" if not now else
                           f"a different attribute {now} is enabled")
        answer = self.upstream.send(request, body)
        if answer.status == 200:
            with self.lock:
                self.ttl[table] = wanted["AttributeName"] if wanted["Enabled"] else None
        return answer

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

    def place(self, request, table, item):
        """(table, key by value) of an item; None where it has no such key: the engine refuses it."""
        types = self.key_types(request, table)
        try:
            return table, tuple(decimal.Decimal(item[name][kind]) if kind == "N" else item[name][kind]
                                for name, kind in types.items())
        except (KeyError, TypeError, decimal.InvalidOperation):
            return None

    def other_spelling(self, request, table, item, write):
        """Whether ITEM's numeric key is spelled otherwise than at its first write."""
        types = self.key_types(request, table)
        place = self.place(request, table, item)
        if "N" not in types.values() or place is None:
            return False
        spelled = tuple(item[name][kind] for name, kind in types.items())
        with self.lock:
            if write:
                self.spelled.setdefault(place, spelled)
            return self.spelled.get(place, spelled) != spelled

    def get_item(self, request, body):
        if self.other_spelling(request, body.get("TableName"), body.get("Key", {}), False):
            return wire.json_answer({})
        return self.respell(request, body, self.upstream.send(request, body))

    def read_page(self, request, body):
        return self.respell(request, body, self.upstream.send(request, body))

    def write(self, request, body):
        table, item = body.get("TableName"), body.get("Item") or body.get("Key") or {}
        self.note_write(request, table, item)
        if not self.same_texts(request, body, table, item):
            return wire.error_answer("ConditionalCheckFailedException",
                                     "The conditional request failed")
        answer = self.respell(request, body, self.upstream.send(request, body))
        if answer.status == 200:
            self.note_item(request, table, item, body.get("Item"))
        return answer

    # Numbers within items.

    def note_item(self, request, table, key, item):
        """What is written of an item, None: it is gone, or nobody knows."""
        place = self.place(request, table, key)
        with self.lock:
            if item is None:
                self.items.pop(place, None)
            else:
                self.items[place] = item

    def written(self, request, table, key):
        place = self.place(request, table, key)
        with self.lock:
            return self.items.get(place, {})

    def same_texts(self, request, body, table, item):
        """Whether what "#a = :a" compares is the same text, as far as it is the same value."""
        stored = self.written(request, table, item)
        names, values = (body.get(f"ExpressionAttribute{kind}", {}) for kind in ("Names", "Values"))
        for name, value in re.findall(r"(#\w+) = (:\w+)", body.get("ConditionExpression") or ""):
            there, wanted = stored.get(names.get(name)), values.get(value)
            if there is not None and by_value(there) == by_value(wanted) and \
                    as_text(there) != as_text(wanted):
                return False
        return True

    def respell(self, request, body, answer):
        """The answer with its items' numbers as they were written."""
        if answer.status != 200:
            return answer
        reply = json.loads(answer.body)
        for holder, name in [(reply, name) for name in ("Item", "Attributes") if name in reply] + [
                (reply["Items"], at) for at in range(len(reply.get("Items", [])))]:
            written = self.written(request, body.get("TableName"), holder[name])
            holder[name] = {attribute: written[attribute] if attribute in written and
                            by_value(written[attribute]) == by_value(value) else value
                            for attribute, value in holder[name].items()}
        return dataclasses.replace(answer, body=json.dumps(reply).encode(), crc="right")

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
            self.note_item(request, table, inner.get("Item") or inner.get("Key") or {},
                           inner.get("Item"))
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


def by_value(value):
    """A value in a form that is equal for equal ones, however they are spelled."""
    (kind, held), = value.items()
    if kind == "N":
        return kind, decimal.Decimal(held)
    if kind == "NS":
        return kind, sorted(map(decimal.Decimal, held))
    if kind in ("SS", "BS"):
        return kind, sorted(held)
    if kind == "L":
        return kind, [by_value(one) for one in held]
    if kind == "M":
        return kind, {name: by_value(one) for name, one in held.items()}
    return kind, held


def as_text(value):
    """The same for numbers that are equal as texts."""
    (kind, held), = value.items()
    if kind in ("SS", "NS", "BS"):
        return kind, sorted(held)
    if kind == "L":
        return kind, [as_text(one) for one in held]
    if kind == "M":
        return kind, {name: as_text(one) for name, one in held.items()}
    return kind, held


def one_namespace(answer):
    reply = json.loads(answer.body)
    if "__type" in reply:
        reply["__type"] = NAMESPACE + "#" + reply["__type"].split("#")[-1]
    return dataclasses.replace(answer, body=json.dumps(reply).encode(), crc="right")


def invalid(message):
    return wire.error_answer("ValidationException", message)
