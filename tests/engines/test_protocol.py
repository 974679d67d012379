# SPDX-License-Identifier: MIT
"""The wire: checksums, content types, bodies that are no request, requests without signature."""

import http.client
import zlib

import behaviour
import engines
import wire

LIST = b"{}"


@engines.each_engine
class Protocol(behaviour.Behaviour):
    def said(self, reply):
        return f"{reply.status} {reply.error or 'ok'}"

    def crc(self, reply):
        given = reply.headers.get("x-amz-crc32")
        if given is None:
            return "absent"
        return "right" if int(given) == zlib.crc32(reply.body) else "wrong"

    def test_checksums(self):
        good = self.engine.call("ListTables", LIST)
        bad = self.engine.call("DescribeTable", {"TableName": engines.fresh_name()})
        self.holds("x-amz-crc32 of an answer", "right", self.crc(good))
        self.holds("x-amz-crc32 of an error", "right", self.crc(bad))
        self.holds("x-amzn-requestid", True, "x-amzn-requestid" in good.headers)
        self.holds("content type of an answer", wire.JSON_TYPE, good.headers.get("content-type"))
        self.holds("Date of an answer", True, "date" in good.headers)

    def test_errors_by_their_type(self):
        reply = self.engine.call("DescribeTable", {"TableName": engines.fresh_name()})
        self.holds("type of ResourceNotFound",
                   "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException",
                   reply.data.get("__type"))
        self.holds("its message is called", ["message"],
                   [name for name in reply.data if name.lower() == "message"])
        reply = self.engine.call("GetItem", {"TableName": "ab", "Key": {"pk": {"S": "x"}}})
        self.holds("type of a ValidationException",
                   "com.amazon.coral.validate#ValidationException", reply.data.get("__type"))

    def test_bodies_that_are_no_request(self):
        table = self.table().encode()
        found = []
        for what, operation, body, wanted in (
                ("no JSON", "ListTables", b"{", "400 SerializationException"),
                ("nothing at all", "ListTables", b"", "400 SerializationException"),
                ("base64 that is none", "PutItem",
                 b'{"TableName":"%s","Item":{"pk":{"S":"a"},"b":{"B":"*"}}}' % table,
                 "400 SerializationException"),
                ("a number as number", "PutItem",
                 b'{"TableName":"%s","Item":{"pk":{"S":"a"},"n":{"N":1}}}' % table,
                 "400 SerializationException"),
                ("a type that is none", "PutItem",
                 b'{"TableName":"%s","Item":{"pk":{"S":"a"},"n":{"X":"1"}}}' % table,
                 "400 ValidationException"),
                ("a parameter that is none", "ListTables", b'{"NoSuch":1}', "200 ok"),
                ("a value that is missing", "PutItem", b'{"TableName":"%s"}' % table,
                 "400 ValidationException")):
            found.append((what, wanted, self.said(self.engine.call(operation, body))))
        self.all_hold("bodies that are no request", found)
        for feature, operation, body in (
                ("body: JSON of another kind", "ListTables", b"[]"),
                ("body: UTF-8 that is none", "GetItem",
                 b'{"TableName":"%s","Key":{"pk":{"S":"\xff"}}}' % table)):
            self.holds(feature, "?", self.said(self.engine.call(operation, body)))

    def test_headers_that_are_missing_or_odd(self):
        found = []
        for what, headers, wanted in (
                ("JSON 1.1", {"Content-Type": "application/x-amz-json-1.1"}, "404 HTTP 404"),
                ("no content type", {"Content-Type": None}, "404 HTTP 404"),
                ("no target", {"X-Amz-Target": None}, "400 UnknownOperationException"),
                ("an operation that is none", {"X-Amz-Target": "DynamoDB_20120810.NoSuch"},
                 "400 UnknownOperationException"),
                ("no Authorization", {"Authorization": None},
                 "400 MissingAuthenticationTokenException"),
                ("no date", {"X-Amz-Date": None}, "400 IncompleteSignatureException"),
                ("a wrong signature of 2024", {}, "400 InvalidSignatureException"),
                ("an Authorization that is none", {"Authorization": "Basic eDp5"},
                 "400 MissingAuthenticationTokenException")):
            found.append((what, wanted,
                          self.said(self.engine.call("ListTables", LIST, headers=headers))))
        self.all_hold("headers that are missing or odd", found)

    def test_bodies_that_are_too_large(self):
        body = b'{"TableName":"ttt","Item":{"pk":{"S":"%s"}}}' % (b"x" * (17 << 20))
        try:
            got = self.said(self.engine.call("PutItem", body))
        except (ConnectionError, http.client.HTTPException) as error:
            got = type(error).__name__
        # Some end the connection while the body is still coming: which of these it is, is chance.
        refused = {"413 HTTP 413", "BrokenPipeError", "ConnectionResetError", "RemoteDisconnected"}
        self.holds("body: 17 MB", "413, or the connection ends",
                   "413, or the connection ends" if got in refused else got)

    def test_kept_connections(self):
        link = http.client.HTTPConnection(self.engine.endpoint.removeprefix("http://"), timeout=30)
        self.addCleanup(link.close)
        kept = []
        for _ in range(2):
            link.request("POST", "/", LIST, {
                "Content-Type": wire.JSON_TYPE, "X-Amz-Target": "DynamoDB_20120810.ListTables",
                "X-Amz-Date": "20240101T000000Z", "Authorization": wire.AUTHORIZATION})
            reply = link.getresponse()
            reply.read()
            kept.append(not reply.will_close)
        self.holds("connections are kept", [True, True], kept)

    def test_chunks_of_an_answer(self):
        """A long answer; what libcurl gets is the same whether it comes in chunks or not."""
        table = self.table()
        self.put(table, v={"S": "x" * 300000})
        reply = self.engine.call("GetItem", {"TableName": table, "Key": {"pk": {"S": "a"}}})
        self.assertEqual(300000, len(reply.data["Item"]["v"]["S"]))
        self.holds("Content-Length of a long answer", True, "content-length" in reply.headers)


