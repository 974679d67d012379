# SPDX-License-Identifier: MIT
"""Requests as they go out, connections that are kept, and what comes of broken ones."""

import contextlib
import hashlib
import hmac
import json
import os
import socket
import subprocess
import time
import unittest

from calls import ACCESS, LONG, SECRET, TOKEN, ClientTest
from server import Server, server_context


def derive(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def signature_of(request):
    """Signature Version 4 as its specification says, from what has arrived."""
    headers, date = request.headers, request.headers["x-amz-date"]
    names = headers["authorization"].split("SignedHeaders=")[1].split(",")[0]
    canonical = ["POST", "/", "", *(f"{name}:{headers[name]}" for name in names.split(";")), "",
                 names, hashlib.sha256(request.body).hexdigest()]
    scope = f"{date[:8]}/eu-test-1/dynamodb/aws4_request"
    text = ["AWS4-HMAC-SHA256", date, scope,
            hashlib.sha256("\n".join(canonical).encode()).hexdigest()]
    key = ("AWS4" + SECRET).encode()
    for part in scope.split("/"):
        key = derive(key, part)
    return (f"AWS4-HMAC-SHA256 Credential={ACCESS}/{scope}, SignedHeaders={names}, "
            f"Signature={derive(key, chr(10).join(text)).hex()}")


class Requests(ClientTest):
    def test_headers(self):
        outcome = self.outcome({"json": {"Item": {"id": {"S": "é"}}}}, pad=2 << 20)
        self.check(outcome, "0", attempts=1, repeated=0, uncertain=0, type="", message="",
                   request_id="REQUEST-ID-1", body='{"Item": {"id": {"S": "\\u00e9"}}}')
        request = self.server.requests[0]
        self.assertEqual("POST / HTTP/1.1", request.line)
        fixed = {
            "host": f"127.0.0.1:{self.server.port}", "accept-encoding": "identity",
            "content-type": "application/x-amz-json-1.0", "x-amz-security-token": TOKEN,
            "x-amz-target": "DynamoDB_20120810.GetItem", "content-length": str(len(request.body)),
            "authorization": signature_of(request),
        }
        self.assertEqual({**request.headers, **fixed}, request.headers)
        self.assertEqual({*fixed, "user-agent", "x-amz-date"}, set(request.headers))
        self.assertEqual(
            "content-type;host;x-amz-date;x-amz-security-token;x-amz-target",
            request.headers["authorization"].split("SignedHeaders=")[1].split(",")[0])

    def test_no_token(self):
        self.check(self.outcome(env={"AWS_SESSION_TOKEN": ""}), "0")
        request = self.server.requests[0]
        self.assertNotIn("x-amz-security-token", request.headers)
        self.assertEqual(signature_of(request), request.headers["authorization"])

    def test_answers_in_other_shapes(self):
        with self.client() as client:
            for step in ({"chunked": True}, {"interim": True}, {"crc": "none"},
                         {"headers": {"Content-Length": None}, "hang_up": True},
                         {"headers": {"X-AMZ-CRC32": None, "x-amzn-requestid": "REQUEST-ID-1"}}):
                with self.subTest(**step):
                    outcome = client.call({"json": {"a": "b" * 99}, **step})
                    self.check(outcome, "0", attempts=1, body=json.dumps({"a": "b" * 99}),
                               request_id="REQUEST-ID-1")

    def test_redirects_are_not_followed(self):
        there = self.server.url() + "/elsewhere"
        for status in (301, 302, 307, 308):
            outcome = self.outcome({"status": status, "headers": {"Location": there}})
            self.check(outcome, "EIO", attempts=1,
                       message=f"GetItem: HTTP {status} (request REQUEST-ID-1)")
        self.assertEqual(4, len(self.server.requests))

    def test_proxies(self):
        """Not for this machine; for others that of the environment."""
        proxy = {"http_proxy": self.server.url()}
        self.check(self.outcome(env={"http_proxy": "http://127.0.0.1:1"}), "0")
        for host in ("localhost", "here.localhost"):
            self.check(self.outcome(url=self.server.url(host=host), env=proxy), "0", attempts=1)
        self.check(self.outcome(url="http://db.example.test:8000", env=proxy), "0", attempts=1)
        request = self.server.requests[-1]
        self.assertEqual("POST http://db.example.test:8000/ HTTP/1.1", request.line)
        self.assertEqual("db.example.test:8000", request.headers["host"])
        self.outcome(url="http://db.example.test:80/", env=proxy)
        self.assertEqual("db.example.test", self.server.requests[-1].headers["host"])

    def test_endpoints_that_are_none(self):
        for url in ("ftp://host", "host:8000", "http://", "http://:80", "http:///", "http://host/path",
                    "http://host?query", "http://user:S3cret@host", "http://a b", "http://host#x"):
            with self.subTest(url=url):
                said = self.refusal(url)
                self.assertEqual({"EINVAL": 1}, said["codes"])
                self.assertNotIn("S3cret", said["message"])


class Connections(ClientTest):
    def test_ten_thousand_calls(self):
        with self.client() as client:
            outcome = client.call(threads=4, count=2500)
            self.check(outcome, "0", codes={"0": 10000}, attempts=10000, repeated=0)
            self.assertEqual(10000, self.server.count(outcome["id"]))
            self.assertLessEqual(self.server.connections, 4)
            self.assertEqual({"calls": 10000, "attempts": 10000, "throttled": 0, "failed": 0,
                              "connections": self.server.connections}, outcome["counts"])

    def test_idle_close(self):
        with self.client() as client:
            for round in range(1, 4):
                self.check(client.call({"hang_up": True}), "0", attempts=1, repeated=0)
                self.server.wait(lambda: self.server.closed == round)
            self.assertEqual(3, self.server.connections)

    @unittest.skipUnless(LONG, "waits for 21 s: ITEMFS_LONG=1")
    def test_old_connections_are_not_used(self):
        """Nor kept, where they were those of many threads."""
        with self.client() as client:
            self.check(client.call({"do": "late"}, threads=4), "0", codes={"0": 4})
            self.assertEqual((4, 0), (self.server.connections, self.server.closed))
            time.sleep(21)
            self.check(client.call(), "0", attempts=1)
            self.server.wait(lambda: self.server.closed == 4)
            self.assertEqual(5, self.server.connections)

    def test_connection_close(self):
        with self.client() as client:
            for _ in range(3):
                step = {"headers": {"Connection": "close"}, "hang_up": True}
                self.check(client.call(step), "0", attempts=1)
            self.assertEqual(3, self.server.connections)

    def test_errors_keep_the_connection(self):
        with self.client() as client:
            for step in ({"type": "ValidationException"}, {"status": 413}, {"raw": "<html>"}):
                client.call(step)
            self.check(client.call({"status": 500}, {}), "0", attempts=2)
            self.assertEqual(1, self.server.connections)

    def test_once_has_a_connection_of_its_own(self):
        with self.client() as client:
            ids = [client.call(once=once)["id"] for once in (False, True, False, True, True)]
            used = [self.server.of(id)[0].connection for id in ids]
            self.assertEqual([1, 2, 1, 3, 4], used)
            self.server.wait(lambda: self.server.closed == 3)

    def test_kept_connection_that_breaks(self):
        """Each is sent once by itself: libcurl would send it again without a word."""
        for do in ("close", "reset"):
            with self.subTest(do=do), self.client() as client:
                client.call()
                outcome = client.call({"do": do}, {})
                self.check(outcome, "0", attempts=2, repeated=1, uncertain=0)
                self.assertEqual(2, self.server.count(outcome["id"]))

    def test_every_attempt_breaks(self):
        for do in ("close", "reset", "truncate", "garbage"):
            with self.subTest(do=do):
                outcome = self.outcome({"do": do})
                self.check(outcome, "EIO", attempts=4, repeated=1, uncertain=1)
                self.assertEqual(4, self.server.count(outcome["id"]))
                self.assertTrue(outcome["message"].startswith("GetItem, tried 4 times: "))

    def test_one_attempt_breaks(self):
        for do in ("close", "reset", "truncate", "garbage"):
            with self.subTest(do=do):
                outcome = self.outcome({"do": do}, {"json": {"well": "then"}})
                self.check(outcome, "0", attempts=2, repeated=1, body='{"well": "then"}')

    def test_once_is_sent_once(self):
        steps = [{"do": do} for do in ("close", "reset", "truncate", "garbage", "stall", "big")]
        steps += [{"status": status} for status in (500, 502, 503, 504)]
        steps += [{"crc": "bad"}, {"raw": "<html>"}, {"raw": ""}, {"status": 302}]
        with self.client("--request", "1500") as client:
            for kept in (False, True):
                for step in steps:
                    with self.subTest(kept=kept, **step):
                        if kept:
                            client.call()
                        outcome = client.call(step, {}, once=True)
                        self.check(outcome, "EIO", attempts=1, repeated=0, uncertain=1)
                        self.assertEqual(1, self.server.count(outcome["id"]))
                        said = "GetItem may have been applied: "
                        self.assertEqual(said, outcome["message"][:len(said)])

    def test_once_is_sent_again_where_it_was_refused(self):
        with self.client() as client:
            for step in ({"type": "ThrottlingException"}, {"status": 429}, {"clock": 9000,
                         "type": "RequestExpired"}):
                outcome = client.call(step, {}, once=True)
                self.check(outcome, "0", attempts=2, repeated=0, uncertain=0)

    def test_answer_too_large(self):
        outcome = self.outcome({"do": "big"}, once=True)
        self.assertEqual("GetItem may have been applied: the answer is larger than 67108864 bytes",
                         outcome["message"])

    def test_nobody_there(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        for url in (f"http://127.0.0.1:{port}", "http://no-such-host.invalid:8000"):
            for once in (False, True):
                with self.subTest(url=url, once=once):
                    outcome = self.outcome(url=url, once=once)
                    self.check(outcome, "EHOSTUNREACH", attempts=4, repeated=0, uncertain=0)


class Time(ClientTest):
    def test_hung_server(self):
        outcome = self.outcome({"do": "stall"}, options=("--deadline", "1500"))
        self.check(outcome, "ETIMEDOUT", attempts=1, uncertain=1)

    def test_hung_server_for_each_attempt(self):
        outcome = self.outcome({"do": "stall"}, options=("--request", "500"))
        self.check(outcome, "ETIMEDOUT", attempts=4, repeated=1, uncertain=1)

    def test_slow_bytes(self):
        outcome = self.outcome({"do": "drip"}, options=("--deadline", "1500"))
        self.check(outcome, "ETIMEDOUT", attempts=1)

    def test_waits_before_a_call_count(self):
        """Of a minute in all."""
        with self.client() as client:
            self.check(client.call(waited=30_000), "0", attempts=1)
            outcome = client.call(waited=60_000)
            self.check(outcome, "ETIMEDOUT", attempts=0, message="GetItem: no time was left")
            self.assertEqual(0, self.server.count(outcome["id"]))

    def test_slow_then_well(self):
        outcome = self.outcome({"do": "drip"}, {}, options=("--request", "1500"))
        self.check(outcome, "0", attempts=2, repeated=1)

    @contextlib.contextmanager
    def at_once(self):
        """What is done meanwhile is over before a call that takes some seconds."""
        with self.client() as slow:
            id = slow.begin({"do": "late"})
            self.server.wait(lambda: self.server.count(id) == 1)
            yield
            self.assertEqual(0, self.server.late)
            self.check(slow.line(), "0")

    def arrived(self, number):
        """Until as many requests of a job have come."""
        return lambda id: self.server.wait(lambda: self.server.count(id) == number)

    @staticmethod
    def waits(client):
        """Until it waits before a retry: it logs that."""
        def until(_):
            while b"again in" not in client.errors():
                time.sleep(0.02)
        return until

    def test_cancelled_under_way_at_once(self):
        with self.at_once(), self.client() as client:
            outcome = client.call_cancelled(self.arrived(1), {"do": "stall"})
            self.check(outcome, "EINTR", attempts=1, uncertain=1)

    def test_cancelled_between_attempts_at_once(self):
        with self.at_once(), self.client("--debug") as client:
            step = {"status": 500, "headers": {"x-amz-retry-after": 4900}}
            outcome = client.call_cancelled(self.waits(client), step)
            self.check(outcome, "EINTR", attempts=1, repeated=1, uncertain=0,
                       message="GetItem: interrupted")
            self.assertEqual(1, self.server.count(outcome["id"]))

    def test_cancelled_under_way(self):
        with self.client() as client:
            outcome = client.call_cancelled(self.arrived(4), {"do": "stall"}, threads=4)
            self.check(outcome, "EINTR", attempts=4, repeated=0, uncertain=4, codes={"EINTR": 4},
                       message="GetItem: interrupted")
            outcome = client.call_cancelled(self.arrived(1), {"do": "stall"}, once=True)
            self.check(outcome, "EINTR", attempts=1, uncertain=1,
                       message="GetItem may have been applied: interrupted")
            self.server.wait(lambda: self.server.closed == 5)
            self.assertEqual(5, len(self.server.requests))
            self.check(client.call(), "0", attempts=1)

    def test_cancelled_before(self):
        """Of two calls in a row the second is not begun."""
        with self.client() as client:
            outcome = client.call_cancelled(self.arrived(1), {"do": "stall"}, count=2)
            self.check(outcome, "EINTR", codes={"EINTR": 2}, attempts=1, uncertain=1)


def openssl(*arguments, **more):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60, **more)


class Tls(ClientTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.ca = cls.authority("ca")
        cls.other_ca = cls.authority("other-ca")
        cls.good = cls.certificate("good", "DNS:localhost,IP:127.0.0.1")
        cls.wrong = cls.certificate("wrong", "DNS:elsewhere.test,IP:127.0.0.9")

    @classmethod
    def authority(cls, name):
        path = os.path.join(cls.dir, name)
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", path + ".key", "-out", path + ".pem", "-days", "3650",
                "-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE")
        return path + ".pem"

    @classmethod
    def certificate(cls, name, names):
        path, ca = os.path.join(cls.dir, name), os.path.join(cls.dir, "ca")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", path + ".key", "-out", path + ".csr", "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", path + ".csr", "-CA", ca + ".pem", "-CAkey", ca + ".key",
                "-out", path + ".pem", "-days", "3650", "-extfile", "/dev/stdin",
                input=f"subjectAltName={names}".encode())
        return path + ".pem", path + ".key"

    def use(self, certificate):
        self.server = Server(server_context(*certificate))
        self.addCleanup(self.server.stop)

    def test_private_authority(self):
        self.use(self.good)
        for host in ("localhost", "127.0.0.1"):
            with self.client("--ca", self.ca, url=self.server.url("https", host)) as client:
                for _ in range(3):
                    self.check(client.call({"json": {"a": 1}}), "0", attempts=1, body='{"a": 1}')
                self.check(client.call(once=True), "0", attempts=1)
        self.assertEqual([1, 1, 1, 2, 3, 3, 3, 4],
                         [request.connection for request in self.server.requests])

    def test_refused(self):
        """By the system's certificates, by another authority's, for the name, without a file."""
        for certificate, options in ((self.good, ()), (self.good, ("--ca", self.other_ca)),
                                     (self.wrong, ("--ca", self.ca)),
                                     (self.good, ("--ca", self.path("absent")))):
            with self.subTest(options=options):
                self.use(certificate)
                outcome = self.outcome(url=self.server.url("https", "localhost"), options=options)
                self.check(outcome, "EHOSTUNREACH", repeated=0, uncertain=0)
                self.assertEqual([], self.server.requests)

    def path(self, name):
        return os.path.join(self.dir, name)

    def test_kept_connection_that_breaks(self):
        self.use(self.good)
        with self.client("--ca", self.ca, url=self.server.url("https", "localhost")) as client:
            for do in ("close", "reset"):
                client.call()
                outcome = client.call({"do": do}, {})
                self.check(outcome, "0", attempts=2, repeated=1)
                self.assertEqual(2, self.server.count(outcome["id"]))

    def test_reset_while_sending(self):
        """A broken pipe is an error, not a signal."""
        self.use(self.good)
        with self.client("--ca", self.ca, url=self.server.url("https", "localhost")) as client:
            for _ in range(3):
                outcome = client.call(operation="ResetEarly", pad=8 << 20, once=True)
                self.check(outcome, "EIO", attempts=1, uncertain=1)

    def test_no_handshake(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"https://127.0.0.1:{silent.getsockname()[1]}"
            outcome = self.outcome(url=url, options=("--deadline", "1000"))
        self.check(outcome, "EHOSTUNREACH", attempts=1, uncertain=0)


if __name__ == "__main__":
    unittest.main()
