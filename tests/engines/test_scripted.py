# SPDX-License-Identifier: MIT
"""The scripted server: what it answers, what it refuses, what it notices. Clients are boto3, which
does it right, and raw requests, which do not."""

import concurrent.futures
import email.utils
import http.client
import json
import time
import unittest
import zlib

import engines
import model
import wire
from scripted import FOR_EVER, Scripted

KEY = {"pk": {"S": "a"}}
GET = {"TableName": "table", "Key": KEY}
KEYS = {engines.KEYS["AWS_ACCESS_KEY_ID"]: engines.KEYS["AWS_SECRET_ACCESS_KEY"]}


def request(operation, body, **headers):
    """A Request as a good client would send it."""
    service = headers.pop("service", "DynamoDB_20120810")
    head = {"Host": "127.0.0.1", "Content-Type": wire.JSON_TYPE,
            "X-Amz-Target": f"{service}.{operation}", **headers}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return wire.Request("POST", "/", list(head.items()), data)


class Answers(unittest.TestCase):
    def test_queue_in_order(self):
        with Scripted() as server:
            server.answer("GetItem", {"Item": KEY})
            server.answer("GetItem", {})
            server.error("GetItem", "ProvisionedThroughputExceededException")
            db = engines.client(server.url)
            self.assertEqual(KEY, db.get_item(**GET)["Item"])
            self.assertNotIn("Item", db.get_item(**GET))
            with self.assertRaises(db.exceptions.ProvisionedThroughputExceededException):
                db.get_item(**GET)
            self.assertEqual([GET] * 3, [one.json for one in server.calls("GetItem")])

    def test_an_sdk_retries_until_it_works(self):
        with Scripted() as server:
            server.error("GetItem", "InternalServerError", status=500)
            server.error("GetItem", "ServiceUnavailable", status=503)
            server.answer("GetItem", {"Item": KEY})
            db = engines.client(server.url, retries={"total_max_attempts": 4, "mode": "standard"})
            self.assertEqual(KEY, db.get_item(**GET)["Item"])
            self.assertEqual(3, len(server.calls()))

    def test_for_ever_any_and_functions(self):
        with Scripted() as server:
            server.answer("*", lambda one: {"TableNames": [one.operation]}, times=FOR_EVER)
            db = engines.client(server.url)
            for _ in range(3):
                self.assertEqual(["ListTables"], db.list_tables()["TableNames"])

    def test_fields_and_headers_of_an_error(self):
        with Scripted() as server:
            server.error("PutItem", "ConditionalCheckFailedException", fields={"Item": KEY},
                         headers={"x-amz-retry-after": "250"})
            reply = wire.call(server.url, "PutItem", {"TableName": "table", "Item": KEY})
            self.assertEqual((400, "ConditionalCheckFailedException", KEY, "250"),
                             (reply.status, reply.error, reply.data["Item"],
                              reply.headers["x-amz-retry-after"]))
            self.assertEqual(zlib.crc32(reply.body), int(reply.headers["x-amz-crc32"]))

    def test_other_services(self):
        """Credentials come by plain GET and PUT."""
        with Scripted() as server:
            server.answer("PUT /latest/api/token", b"token")
            server.answer("GET /role", lambda _: wire.Answer(404))
            link = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=30)
            self.addCleanup(link.close)
            link.request("PUT", "/latest/api/token", headers={"X-Ttl": "1"})
            self.assertEqual(b"token", link.getresponse().read())
            link.request("GET", "/role")
            self.assertEqual(404, link.getresponse().status)
            self.assertEqual("1", server.calls()[0].header("x-ttl"))

    def test_connections_are_counted(self):
        with Scripted() as server:
            server.answer("ListTables", {}, times=3)
            server.answer("ListTables", {}, close=True)
            server.answer("ListTables", {})
            db = engines.client(server.url)
            for _ in range(4):
                db.list_tables()
            # Unannounced: boto3 only learns of it when the end of file has come.
            engines.client(server.url).list_tables()
            self.assertEqual(2, server.connections)
            self.assertEqual([(1, 1), (1, 2), (1, 3), (1, 4), (2, 1)],
                             [(one.connection, one.turn) for one in server.calls()])

    def test_many_clients_at_once(self):
        with Scripted() as server:
            server.answer("GetItem", {"Item": KEY}, times=100)
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                replies = list(pool.map(lambda _: wire.call(server.url, "GetItem", GET), range(100)))
            self.assertEqual({200}, {reply.status for reply in replies})
            self.assertEqual(100, len(server.calls()))


class Damage(unittest.TestCase):
    def setUp(self):
        self.server = Scripted()
        self.enterContext(self.server)

    def get(self, seconds=30):
        return wire.call(self.server.url, "GetItem", GET, seconds=seconds)

    def test_resets(self):
        self.server.answer("GetItem", reset="before")
        self.server.answer("GetItem", reset="after")
        self.server.answer("GetItem", reset="after", orderly=True)
        for error in (ConnectionResetError, ConnectionResetError, http.client.RemoteDisconnected):
            with self.assertRaises((error, BrokenPipeError)):
                self.get()
        self.assertEqual([b"", json.dumps(GET).encode(), json.dumps(GET).encode()],
                         [one.body for one in self.server.wait_for_calls(3)])

    def test_truncated(self):
        self.server.answer("GetItem", {"Item": KEY}, truncate=5)
        with self.assertRaises(http.client.IncompleteRead) as caught:
            self.get()
        self.assertEqual(b'{"Ite', caught.exception.partial)

    def test_wrong_and_absent_checksums(self):
        for crc in ("wrong", "absent", "right"):
            self.server.answer("GetItem", {"Item": KEY}, crc=crc)
        found = [(reply.headers.get("x-amz-crc32"), zlib.crc32(reply.body))
                 for reply in (self.get() for _ in range(3))]
        self.assertEqual([str(found[0][1] ^ 1), None, str(found[2][1])],
                         [given for given, _ in found])

    def test_corrupt(self):
        self.server.answer("GetItem", {"Item": KEY}, corrupt=-1)
        reply = self.get()
        self.assertEqual(b"|", reply.body[-1:])
        self.assertNotEqual(zlib.crc32(reply.body), int(reply.headers["x-amz-crc32"]))

    def test_slow_and_late(self):
        self.server.answer("GetItem", {"Item": KEY}, slow=(1, 0.001), delay=0.01)
        begin = time.monotonic()
        self.assertEqual(KEY, self.get().data["Item"])
        self.assertGreaterEqual(time.monotonic() - begin, 0.01)

    def test_hang(self):
        """It holds up neither the client nor, at the end, the server."""
        self.server.answer("GetItem", hang=True)
        with self.assertRaises(TimeoutError):
            self.get(seconds=0.1)

    def test_late_answer_does_not_hold_up_the_end(self):
        self.server.answer("GetItem", delay=3600)
        with self.assertRaises(TimeoutError):
            self.get(seconds=0.1)

    def test_what_is_no_damage(self):
        with self.assertRaisesRegex(ValueError, "explode"):
            self.server.answer("GetItem", explode=True)


class Noticed(unittest.TestCase):
    """Each problem fails the test at the end of the with statement."""

    def problem(self, text, talk, **options):
        with self.assertRaisesRegex(AssertionError, text):
            with Scripted(**options) as server:
                talk(server)

    def test_no_answer_queued(self):
        self.problem("no answer is queued", lambda server: wire.call(server.url, "GetItem", GET))

    def test_answer_not_asked_for(self):
        self.problem("GetItem: an answer that nobody asked for",
                     lambda server: server.answer("GetItem"))

    def test_no_http(self):
        def talk(server):
            host, port = server.url.removeprefix("http://").split(":")
            link = http.client.HTTPConnection(host, int(port), timeout=30)
            self.addCleanup(link.close)
            link.connect()
            link.sock.sendall(b"HELLO\r\n\r\n")
            link.sock.recv(1)
        self.problem("not a request of HTTP/1.1", talk)

    def test_invalid_request(self):
        def talk(server):
            server.answer("GetItem")
            wire.call(server.url, "GetItem", {"TableName": "table"})
        self.problem("GetItem is no valid request(.|\n)*Missing required parameter", talk)

    def test_lenient(self):
        with Scripted(lenient=True) as server:
            server.answer("GetItem")
            self.assertEqual(200, wire.call(server.url, "GetItem", {"No": 1}).status)

    def test_error_of_our_own(self):
        def talk(server):
            server.answer("GetItem", lambda _: 1 // 0)
            with self.assertRaises(OSError):
                wire.call(server.url, "GetItem", GET)
        self.problem("ZeroDivisionError", talk)

    def test_a_failing_test_comes_first(self):
        with self.assertRaises(RuntimeError):
            with Scripted() as server:
                server.answer("GetItem")
                raise RuntimeError


class Model(unittest.TestCase):
    """What model.complaints() finds in requests, and that it finds nothing in good ones."""

    GOOD = {
        "PutItem": {"TableName": "table", "Item": {
            "pk": {"S": ""}, "n": {"N": "-1.5e-3"}, "b": {"B": "AP8="}, "l": {"L": [{"NULL": True}]},
            "m": {"M": {"": {"SS": ["a", ""]}}}, "ns": {"NS": ["1", "2"]}}},
        "UpdateItem": {"TableName": "table", "Key": KEY, "UpdateExpression": "SET #a.#b[0] = :v",
                       "ExpressionAttributeNames": {"#a": "a", "#b": "b"},
                       "ExpressionAttributeValues": {":v": {"M": {"Update": {"S": "#x :y"}}}}},
        "TransactWriteItems": {"TransactItems": [{"Delete": {
            "TableName": "table", "Key": KEY, "ConditionExpression": "attribute_exists(#k)",
            "ExpressionAttributeNames": {"#k": "pk"}}}], "ClientRequestToken": "t"},
        "BatchGetItem": {"RequestItems": {"table": {"Keys": [KEY], "ConsistentRead": True}}},
    }
    BAD = {
        "a parameter that is none": ("GetItem", {**GET, "Limit": 1}, "Unknown parameter"),
        "a parameter of another type": ("GetItem", {**GET, "ConsistentRead": "yes"}, "Invalid type"),
        "a missing parameter": ("GetItem", {"TableName": "table"}, "Missing required"),
        "an operation that is none": ("Getitem", GET, "no operation"),
        "an enumeration": ("PutItem", {"TableName": "table", "Item": KEY, "ReturnValues": "OLD"},
                           "is none of"),
        "a number": ("PutItem", {"TableName": "table", "Item": {"n": {"N": "1."}}}, "no number"),
        "39 digits": ("PutItem", {"TableName": "table", "Item": {"n": {"N": "1" * 39}}}, "no number"),
        "1e126": ("PutItem", {"TableName": "table", "Item": {"n": {"NS": ["1e126"]}}}, "no number"),
        "base64": ("PutItem", {"TableName": "table", "Item": {"b": {"B": "A"}}}, "not base64"),
        "two types": ("GetItem", {"TableName": "table", "Key": {"k": {"S": "a", "N": "1"}}},
                      "one type must stand"),
        "NULL false": ("PutItem", {"TableName": "table", "Item": {"x": {"NULL": False}}}, "NULL is"),
        "an empty set": ("PutItem", {"TableName": "table", "Item": {"x": {"SS": []}}}, "empty set"),
        "a set with 1 and 1.0": ("PutItem", {"TableName": "table", "Item": {
            "x": {"NS": ["1", "1.0"]}}}, "stands twice"),
        "null": ("GetItem", {**GET, "ConsistentRead": None}, "null"),
        "Limit 0": ("Scan", {"TableName": "table", "Limit": 0}, "0 as value|valid min value"),
        "101 keys": ("BatchGetItem", {"RequestItems": {"table": {"Keys": [KEY] * 101}}}, "elements"),
        "26 writes": ("BatchWriteItem", {"RequestItems": {"table": [
            {"PutRequest": {"Item": KEY}}] * 26}}, "elements"),
        "a token that is too long": ("TransactWriteItems", {"TransactItems": [], "ClientRequestToken":
                                                            "t" * 37}, "37 characters"),
        "an alias not given": ("GetItem", {**GET, "ProjectionExpression": "#a"}, r"not given \['#a'\]"),
        "an alias not used": ("GetItem", {**GET, "ExpressionAttributeNames": {"#a": "a"}},
                              r"not used \['#a'\]"),
        "a value not given, nested": ("TransactWriteItems", {"TransactItems": [{"Put": {
            "TableName": "table", "Item": KEY, "ConditionExpression": "pk = :v"}}]},
                                      r"not given \[':v'\]"),
        "an empty expression": ("GetItem", {**GET, "ProjectionExpression": " "}, "empty"),
        "an old parameter": ("GetItem", {**GET, "AttributesToGet": ["a"]}, "before expressions"),
        "no JSON": ("GetItem", b"{", "the body"),
        "a name twice": ("GetItem", b'{"TableName":"table","TableName":"table"}', "twice"),
        "no UTF-8": ("GetItem", b'{"TableName":"\xff"}', "the body"),
        "NaN": ("GetItem", b'{"TableName":NaN}', "no JSON"),
        "an array": ("GetItem", b"[]", "no object"),
    }

    def test_good_requests(self):
        for operation, body in self.GOOD.items():
            with self.subTest(operation):
                self.assertEqual([], model.complaints(request(operation, body)))

    def test_streams(self):
        good = request("GetRecords", {"ShardIterator": "x"}, service="DynamoDBStreams_20120810")
        self.assertEqual([], model.complaints(good))
        self.assertNotEqual([], model.complaints(request("GetRecords", {"ShardIterator": "x"})))

    def test_bad_requests(self):
        for what, (operation, body, text) in self.BAD.items():
            with self.subTest(what):
                self.assertRegex("\n".join(model.complaints(request(operation, body))), text)

    def test_bad_headers(self):
        for headers in ({"Content-Type": "application/json"}, {"Expect": "100-continue"},
                        {"X-Amz-Target": "GetItem"}):
            with self.subTest(headers):
                self.assertNotEqual([], model.complaints(request("GetItem", GET, **headers)))
        other = request("GetItem", GET)
        other.path = "/table"
        self.assertNotEqual([], model.complaints(other))


class Signatures(unittest.TestCase):
    def test_an_sdk_signs_right(self):
        """Both services; without and with a session token."""
        for keys in (("id", "secret"), ("id", "secret", "token")):
            with Scripted(keys={keys[0]: keys[1:] if len(keys) > 2 else keys[1]}) as server:
                server.answer("*", {}, times=FOR_EVER)
                engines.client(server.url, keys=keys).list_tables()
                engines.client(server.url, "dynamodbstreams", keys=keys).list_streams()
                self.assertEqual([], server.refused)

    def test_another_clock(self):
        """The answer's Date tells a client by how much it is off; boto3 itself gives up."""
        with Scripted(keys=KEYS, clock=3600) as server:
            db = engines.client(server.url)
            with self.assertRaises(db.exceptions.ClientError) as caught:
                db.get_item(**GET)
            error = caught.exception.response
            self.assertEqual("InvalidSignatureException", error["Error"]["Code"])
            date = error["ResponseMetadata"]["HTTPHeaders"]["date"]
            ahead = email.utils.parsedate_to_datetime(date).timestamp() - time.time()
            self.assertLess(abs(ahead - 3600), 300)

    def refusal(self, change=lambda _: None, keys=None, clock=0):
        """The error that a request of boto3's comes to, after CHANGE of what was sent."""
        caught = []
        with Scripted(clock=clock) as server:
            server.answer("GetItem", {}, times=FOR_EVER)
            engines.client(server.url).get_item(**GET)
            sent = server.calls()[0]
            headers = dict(sent.headers)
            change(headers)
            sent.headers = list(headers.items())
            caught = model.signature_error(sent, KEYS if keys is None else keys, server.now())
        return caught and caught[0]

    def test_wrong_ones(self):
        self.assertIsNone(self.refusal())
        self.assertIsNone(self.refusal(clock=800))
        wrong = "InvalidSignatureException"
        for what, expected, more in (
                ("another secret", wrong, {"keys": {"test": "another"}}),
                ("nobody's key", "UnrecognizedClientException", {"keys": {}}),
                ("a token is missing", "UnrecognizedClientException", {"keys": {"test": ("x", "t")}}),
                ("an hour late", wrong, {"clock": 3600}), ("an hour early", wrong, {"clock": -3600}),
                ("another target", wrong, {"change": lambda headers: headers.update({
                    "X-Amz-Target": "DynamoDB_20120810.DeleteItem"})}),
                ("another host", wrong, {"change": lambda headers: headers.update(Host="x")}),
                ("none", "MissingAuthenticationTokenException",
                 {"change": lambda headers: headers.pop("Authorization")}),
                ("no date", "IncompleteSignatureException",
                 {"change": lambda headers: headers.pop("X-Amz-Date")})):
            with self.subTest(what):
                self.assertEqual(expected, self.refusal(**more))

    def test_refused_as_the_service_would(self):
        """The answer stays for a request that is signed right."""
        with Scripted(keys=KEYS) as server:
            server.answer("GetItem", {"Item": KEY})
            reply = wire.call(server.url, "GetItem", GET)
            self.assertEqual("InvalidSignatureException", reply.error)
            self.assertEqual(["InvalidSignatureException"], [name for _, name in server.refused])
            self.assertEqual(KEY, engines.client(server.url).get_item(**GET)["Item"])


@engines.each_engine
class InFrontOfAnEngine(unittest.TestCase):
    engine = None

    def setUp(self):
        self.server = Scripted(engine=self.engine.endpoint)
        self.enterContext(self.server)
        self.db = engines.client(self.server.url)
        self.table = engines.fresh_name()
        self.db.create_table(TableName=self.table, BillingMode="PAY_PER_REQUEST",
                             KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
                             AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}])
        self.db.get_waiter("table_exists").wait(
            TableName=self.table, WaiterConfig={"Delay": 0.02, "MaxAttempts": 500})

    def stored(self):
        return self.engine.client().get_item(TableName=self.table, Key=KEY).get("Item")

    def test_what_has_no_rule_goes_through(self):
        self.db.put_item(TableName=self.table, Item={**KEY, "v": {"B": b"\0"}})
        self.assertEqual({**KEY, "v": {"B": b"\0"}}, self.stored())
        self.server.error("GetItem", "InternalServerError", status=500)
        get = {"TableName": self.table, "Key": KEY}
        with self.assertRaises(self.db.exceptions.InternalServerError):
            self.db.get_item(**get)
        self.assertEqual(b"\0", self.db.get_item(**get)["Item"]["v"]["B"])

    def test_applied_and_not_heard_of(self):
        put = {"TableName": self.table, "Item": KEY}
        self.server.answer("PutItem", reset="before")
        with self.assertRaises(OSError):
            wire.call(self.server.url, "PutItem", put)
        self.assertIsNone(self.stored())
        self.server.through("PutItem", reset="after")
        with self.assertRaises(OSError):
            wire.call(self.server.url, "PutItem", put)
        self.assertEqual(KEY, self.stored())

    def test_through_needs_an_engine(self):
        with Scripted() as server, self.assertRaisesRegex(ValueError, "no engine behind"):
            server.through("PutItem")
