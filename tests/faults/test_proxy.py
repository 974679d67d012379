# SPDX-License-Identifier: MIT
"""The fault proxy: each fault happens, to whom and as often as it was told, and nothing else."""

import concurrent.futures
import http.client
import json
import os
import subprocess
import sys
import time
import unittest
import zlib

import proxy as faults  # sets the path to the engines

import engines
import wire

KEY = {"pk": {"S": "a"}}
BATCH = [{"pk": {"S": str(place)}} for place in range(10)]


class ProxyTest(unittest.TestCase):
    engine = None

    def start(self, **options):
        """A proxy for the test, a client of it and a table."""
        self.proxy = faults.Proxy(self.engine.endpoint, **options)
        self.enterContext(self.proxy)
        self.db = engines.client(self.proxy.url)
        self.table = self.new_table()

    def new_table(self, kind="S", **more):
        """Made without the proxy's help, so that no fault can hit it."""
        name, direct = engines.fresh_name(), self.engine.client()
        direct.create_table(TableName=name, BillingMode="PAY_PER_REQUEST",
                            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
                            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": kind}],
                            **more)
        direct.get_waiter("table_exists").wait(TableName=name, WaiterConfig={
            "Delay": 0.02, "MaxAttempts": 500})
        return name

    def raw(self, operation, body=None, seconds=30):
        """A raw request; PutItem and GetItem of one item need no body."""
        body = body or {"TableName": self.table, ("Item" if operation == "PutItem" else "Key"): KEY}
        return wire.call(self.proxy.url, operation, body, seconds=seconds)

    def stored(self):
        """Whether the engine has the item."""
        return "Item" in self.engine.client().get_item(TableName=self.table, Key=KEY,
                                                       ConsistentRead=True)


@engines.each_engine
class Faults(ProxyTest):
    def setUp(self):
        self.start()

    def test_nothing_happens_untold(self):
        self.db.put_item(TableName=self.table, Item={**KEY, "n": {"N": "1"}})
        self.assertEqual({"N": "1"}, self.db.get_item(TableName=self.table, Key=KEY)["Item"]["n"])
        self.assertEqual([], self.proxy.injected)

    def test_errors_before(self):
        """The engine has not seen what they hit."""
        for kind, status, error in (
                ("throttle", 400, "ProvisionedThroughputExceededException"),
                ("throttle-503", 503, "ThrottlingException"),
                ("error-500", 500, "InternalServerError"), ("error-503", 503, "ServiceUnavailable"),
                ("expired", 400, "ExpiredTokenException"),
                ("skew", 400, "InvalidSignatureException")):
            with self.subTest(kind):
                self.proxy.fault("PutItem", kind, times=1)
                reply = self.raw("PutItem")
                self.assertEqual((status, error), (reply.status, reply.error))
        self.assertFalse(self.stored())

    def test_skew_says_another_time(self):
        self.proxy.fault("GetItem", "skew", times=1)
        skewed, now = (time.mktime(time.strptime(self.raw("GetItem").headers["date"],
                                                 "%a, %d %b %Y %H:%M:%S GMT")) for _ in range(2))
        self.assertLess(abs(skewed - now - faults.SKEW), 300)

    def test_reset_before_and_after(self):
        for kind, applied in (("reset", False), ("reset-after", True), ("drop-after", True)):
            with self.subTest(kind):
                self.engine.client().delete_item(TableName=self.table, Key=KEY)
                self.proxy.fault("PutItem", kind, times=1)
                with self.assertRaises(ConnectionError):
                    self.raw("PutItem")
                self.assertEqual(applied, self.stored())

    def test_unavailable_after(self):
        self.proxy.fault("PutItem", "unavailable-after", times=1)
        self.assertEqual("ServiceUnavailable", self.raw("PutItem").error)
        self.assertTrue(self.stored())

    def test_damaged_answers(self):
        self.raw("PutItem")
        for kind in ("corrupt", "bad-crc"):
            with self.subTest(kind):
                self.proxy.fault("GetItem", kind, times=1)
                reply = self.raw("GetItem")
                self.assertNotEqual(zlib.crc32(reply.body), int(reply.headers["x-amz-crc32"]))
        self.proxy.fault("GetItem", "truncate", times=1)
        with self.assertRaises(http.client.IncompleteRead):
            self.raw("GetItem")
        self.proxy.fault("GetItem", "garbage", times=1)
        self.assertIsNone(self.raw("GetItem").data)
        self.assertEqual(KEY, self.raw("GetItem").data["Item"])

    def test_slow_hang_close(self):
        self.raw("PutItem")
        self.proxy.fault("GetItem", "slow", times=1)
        self.assertEqual(KEY, self.raw("GetItem").data["Item"])
        self.proxy.fault("GetItem", "hang", times=1)
        with self.assertRaises(TimeoutError):
            self.raw("GetItem", seconds=0.1)
        self.proxy.fault("GetItem", "close", times=1)
        link = http.client.HTTPConnection(self.proxy.url.removeprefix("http://"), timeout=30)
        self.addCleanup(link.close)
        link.request("POST", "/", json.dumps({"TableName": self.table, "Key": KEY}), {
            "X-Amz-Target": "DynamoDB_20120810.GetItem", "Content-Type": wire.JSON_TYPE,
            "X-Amz-Date": "20240101T000000Z", "Authorization": wire.AUTHORIZATION})
        reply = link.getresponse()
        self.assertEqual(KEY, json.loads(reply.read())["Item"])
        self.assertEqual((False, b""), (reply.will_close, link.sock.recv(1)))

    def test_an_sdk_gets_through(self):
        self.proxy.fault("GetItem", "error-500", times=1)
        self.proxy.fault("GetItem", "reset", times=1)
        self.raw("PutItem")
        db = engines.client(self.proxy.url, retries={"total_max_attempts": 4, "mode": "standard"})
        self.assertEqual(KEY, db.get_item(TableName=self.table, Key=KEY)["Item"])
        self.assertEqual({"error-500", "reset"}, {kind for _, kind in self.proxy.injected})

    def test_partial_batches(self):
        self.proxy.fault("*", "partial", times=2)
        reply = self.db.batch_write_item(RequestItems={
            self.table: [{"PutRequest": {"Item": item}} for item in BATCH]})
        left = reply["UnprocessedItems"][self.table]
        self.assertEqual(5, len(left))
        self.assertEqual(5, self.engine.client().scan(TableName=self.table)["Count"])
        reply = self.db.batch_get_item(RequestItems={self.table: {"Keys": BATCH,
                                                                  "ConsistentRead": True}})
        self.assertEqual({"Keys": BATCH[5:], "ConsistentRead": True},
                         reply["UnprocessedKeys"][self.table])
        self.assertEqual(5, len(reply["Responses"][self.table]))
        reply = self.db.batch_write_item(RequestItems={self.table: left})
        self.assertEqual({}, reply["UnprocessedItems"])
        self.assertEqual(10, self.engine.client().scan(TableName=self.table)["Count"])

    def test_no_batch_of_one_is_partial(self):
        self.proxy.fault("*", "partial", optional=True)
        self.db.batch_write_item(RequestItems={self.table: [{"PutRequest": {"Item": KEY}}]})
        self.raw("PutItem")
        self.assertEqual([], self.proxy.injected)

    def test_empty_pages(self):
        self.db.batch_write_item(RequestItems={
            self.table: [{"PutRequest": {"Item": item}} for item in BATCH]})
        self.proxy.fault("Scan", "empty-page", times=2)
        counts, start, found = [], {}, []
        while True:
            page = self.db.scan(TableName=self.table, Limit=4, **start)
            counts.append(page["Count"])
            found += [item["pk"]["S"] for item in page["Items"]]
            if "LastEvaluatedKey" not in page:
                break
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
        self.assertEqual([4, 0, 0, 4, 2], counts)
        self.assertEqual(10, len(set(found)))


@engines.each_engine
class Choice(ProxyTest):
    def test_by_operation_and_count(self):
        self.start()
        self.proxy.fault("GetItem", "throttle", times=2, after=1)
        self.assertEqual([None, "x", "x", None], [self.raw("GetItem").error and "x"
                                                  for _ in range(4)])
        self.assertIsNone(self.raw("PutItem").error)

    def errors(self, seed):
        self.start(seed=seed)
        self.proxy.fault("*", "throttle", probability=0.3)
        return [bool(self.raw("GetItem").error) for _ in range(60)]

    def test_by_probability(self):
        one, same, other = self.errors(1), self.errors(1), self.errors(2)
        self.assertEqual(one, same)
        self.assertNotEqual(one, other)
        self.assertTrue(5 < sum(one) < 35, sum(one))

    def test_heal(self):
        self.start()
        self.proxy.fault("*", "throttle")
        self.assertIsNotNone(self.raw("GetItem").error)
        self.proxy.heal()
        self.assertIsNone(self.raw("GetItem").error)

    def test_latency(self):
        self.start(latency_ms=30)
        begin = time.monotonic()
        self.raw("GetItem")
        self.assertGreaterEqual(time.monotonic() - begin, 0.03)

    def test_many_at_once(self):
        """Under random faults each write is there, or its client knows that it may not be."""
        self.start(seed=5)
        self.proxy.fault("PutItem", "reset", probability=0.1)
        self.proxy.fault("PutItem", "reset-after", probability=0.1)
        self.proxy.fault("PutItem", "throttle", probability=0.1)

        def put(place):
            try:
                return self.raw("PutItem", {"TableName": self.table, "Item": {
                    "pk": {"S": str(place)}}}).error or "ok"
            except OSError:
                return "unknown"
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            outcomes = list(pool.map(put, range(100)))
        found = {item["pk"]["S"] for item in self.engine.client().scan(
            TableName=self.table, ConsistentRead=True)["Items"]}
        for place, outcome in enumerate(outcomes):
            if outcome != "unknown":
                self.assertEqual(outcome == "ok", str(place) in found, (place, outcome))


class Mistakes(unittest.TestCase):
    def test_fault_that_never_happened(self):
        with self.assertRaisesRegex(AssertionError, "PutItem: throttle never happened"):
            with faults.Proxy("http://127.0.0.1:9") as proxy:
                proxy.fault("PutItem", "throttle")

    def test_fault_that_is_none(self):
        with faults.Proxy("http://127.0.0.1:9") as proxy:
            with self.assertRaisesRegex(ValueError, "earthquake"):
                proxy.fault("*", "earthquake")

    def test_engine_that_is_gone(self):
        with faults.Proxy("http://127.0.0.1:9") as proxy:
            with self.assertRaises(ConnectionError):
                wire.call(proxy.url, "ListTables", {})

    def test_program(self):
        name = engines.available(lambda _: None)[0]
        program = os.path.join(os.path.dirname(os.path.abspath(faults.__file__)), "proxy.py")
        command = [sys.executable, "-B", program, engines.shared(name).endpoint, "--latency", "1",
                   "--fault", "ListTables:throttle", "--fault", "GetItem:reset:0.5"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as run:
            self.addCleanup(run.kill)
            reply = wire.call(run.stdout.readline().strip(), "ListTables", {})
            self.assertEqual("ProvisionedThroughputExceededException", reply.error)
            run.stdin.close()
            self.assertEqual(0, run.wait(30))


@engines.each_engine
class Alternator(ProxyTest):
    def begin(self, **options):
        self.start(alternator_options=options)

    def test_no_transactions_no_checksums(self):
        self.begin()
        put = {"Put": {"TableName": self.table, "Item": KEY}}
        reply = self.raw("TransactWriteItems", {"TransactItems": [put]})
        self.assertEqual("UnknownOperationException", reply.error)
        self.assertNotIn("x-amz-crc32", reply.headers)
        reply = self.raw("PutItem")
        self.assertEqual(200, reply.status)
        self.assertNotIn("x-amz-crc32", reply.headers)

    def test_batches_of_100(self):
        self.begin()
        entries = [{"PutRequest": {"Item": {"pk": {"S": str(place)}}}} for place in range(101)]
        reply = self.raw("BatchWriteItem", {"RequestItems": {self.table: entries[:100]}})
        self.assertEqual({}, reply.data["UnprocessedItems"])
        self.assertEqual(100, self.engine.client().scan(TableName=self.table)["Count"])
        reply = self.raw("BatchWriteItem", {"RequestItems": {self.table: entries}})
        self.assertEqual("ValidationException", reply.error)

    def test_table_names(self):
        self.begin()
        body = {"TableName": "n" * 193, "BillingMode": "PAY_PER_REQUEST", "KeySchema": [
            {"AttributeName": "pk", "KeyType": "HASH"}], "AttributeDefinitions": [
                {"AttributeName": "pk", "AttributeType": "S"}]}
        self.assertEqual("ValidationException", self.raw("CreateTable", body).error)

    def test_numeric_keys_are_texts(self):
        self.begin()
        table = self.new_table("N")
        for text in ("1000", "1000"):
            self.raw("PutItem", {"TableName": table, "Item": {"pk": {"N": text}}})
        found = {text: "Item" in self.raw("GetItem", {"TableName": table, "Key": {
            "pk": {"N": text}}}).data for text in ("1000", "1e3", "1000.0")}
        self.assertEqual({"1000": True, "1e3": False, "1000.0": False}, found)
        got = self.db.batch_get_item(RequestItems={table: {"Keys": [{"pk": {"N": "1e3"}}]}})
        self.assertEqual({}, {name: items for name, items in got["Responses"].items() if items})

    def test_second_spelling_is_a_problem(self):
        with self.assertRaisesRegex(AssertionError, "second spelling"):
            with faults.Proxy(self.engine.endpoint, alternator_options={}) as proxy:
                table = self.new_table("N")
                for text in ("1000", "1e3"):
                    wire.call(proxy.url, "PutItem", {"TableName": table, "Item": {
                        "pk": {"N": text}}})


@engines.each_engine
class LateStreams(ProxyTest):
    def begin(self, **options):
        if self.engine.call("ListStreams", {}, streams=True).status != 200:
            self.skipTest(f"{self.engine.name} has no streams")
        self.start(alternator_options=options)
        self.table = self.new_table(StreamSpecification={"StreamEnabled": True, "StreamViewType":
                                                         "NEW_AND_OLD_IMAGES"})
        self.streams = engines.client(self.proxy.url, "dynamodbstreams")
        arn = self.db.describe_table(TableName=self.table)["Table"]["LatestStreamArn"]
        shard = self.streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"][0]
        found = self.streams.get_shard_iterator(StreamArn=arn, ShardId=shard["ShardId"],
                                                ShardIteratorType="TRIM_HORIZON")
        self.place = found["ShardIterator"]

    def read(self, **more):
        page = self.streams.get_records(ShardIterator=self.place, **more)
        self.place = page["NextShardIterator"]
        return [f'{one["eventName"]} {one["dynamodb"]["Keys"]["pk"]["S"]}' for one
                in page["Records"]]

    def put(self, *names):
        for name in names:
            self.db.put_item(TableName=self.table, Item={"pk": {"S": name}})

    def test_held_until_released(self):
        self.begin(stream_delay=None)
        self.put("a", "b")
        self.assertEqual([], self.read())
        self.put("c")
        self.assertEqual([], self.read())
        self.proxy.alternator.release_streams()
        self.assertEqual(["MODIFY a", "MODIFY b"], self.read(Limit=2))
        self.assertEqual(["MODIFY c"], self.read())
        self.assertEqual([], self.read())

    def test_repeated_iterator_gives_the_same(self):
        self.begin(stream_delay=None)
        self.put("a")
        self.read()
        self.proxy.alternator.release_streams()
        place, first = self.place, self.read()
        self.place = place
        self.assertEqual(first, self.read())

    def test_delay(self):
        self.begin(stream_delay=0)
        self.put("a")
        self.assertEqual(["MODIFY a"], self.read())
        self.proxy.alternator.stream_delay = 3600
        self.put("b")
        self.assertEqual([], self.read())

    def test_json_of_the_answer_stays_whole(self):
        self.begin(stream_delay=None)
        reply = wire.call(self.proxy.url, "GetRecords", {"ShardIterator": self.place}, streams=True)
        self.assertEqual({"Records", "NextShardIterator"}, set(json.loads(reply.body)))
