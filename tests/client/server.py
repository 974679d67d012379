# SPDX-License-Identifier: MIT
"""A server that answers as it is told: over raw sockets, so that it can break every rule.

What it is to do stands in the request itself: {"id": TEXT, "script": [STEP, ...]}. The first request
of an id gets the first step, and so on; the last step repeats. A step is a dictionary:

do       answer (default), reset, close, stall, late, truncate, drip, garbage, big
status   of the answer; 200, or 400 where there is a type
type     name of an error, with message
json     the answer's body as an object; raw: as text
headers  more of them
crc      good (default), bad, none
chunked  sends the body in chunks
interim  sends "100 Continue" first
hang_up  closes the connection after the answer, without having said so
clock    seconds its clock is ahead: a request signed at another time is refused, with `type`
expired  an access key: requests signed with it are refused with `type`
"""

import collections
import datetime
import email.utils
import json
import socket
import ssl
import struct
import threading
import time
import zlib

NAMESPACE = "com.amazonaws.dynamodb.v20120810#"
Request = collections.namedtuple("Request", "connection line headers body id")


class Broken(Exception):
    """The connection is to end here."""


class Server:
    def __init__(self, context=None):
        self.context = context
        self.lock = threading.Condition()
        self.connections = self.closed = self.late = 0
        self.requests = []
        self.sockets = set()
        self.stopping = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        self.threads = [threading.Thread(target=self.accept, daemon=True)]
        self.threads[0].start()

    def url(self, scheme="http", host="127.0.0.1"):
        return f"{scheme}://{host}:{self.port}"

    def stop(self):
        self.stopping.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        with self.lock:
            sockets = list(self.sockets)
        for connection in sockets:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self.threads:
            thread.join(20)

    def count(self, id):
        """How often a request has arrived."""
        with self.lock:
            return sum(1 for request in self.requests if request.id == id)

    def of(self, id):
        with self.lock:
            return [request for request in self.requests if request.id == id]

    def wait(self, condition):
        with self.lock:
            assert self.lock.wait_for(condition, 60)

    # One connection.

    def accept(self):
        while not self.stopping.is_set():
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                self.connections += 1
                number = self.connections
                self.sockets.add(connection)
            thread = threading.Thread(target=self.serve, args=(connection, number), daemon=True)
            self.threads.append(thread)
            thread.start()

    def serve(self, connection, number):
        reader = None
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.context:
                connection = self.secure(connection)
            reader = connection.makefile("rb")
            while (request := self.read(connection, reader, number)):
                self.act(connection, request)
        except (OSError, ValueError, Broken):
            pass
        with self.lock:
            self.sockets.discard(connection)
        if reader:
            reader.close()
        connection.close()
        with self.lock:
            self.closed += 1
            self.lock.notify_all()

    def secure(self, connection):
        wrapped = self.context.wrap_socket(connection, server_side=True,
                                           do_handshake_on_connect=False)
        with self.lock:
            self.sockets.discard(connection)
            self.sockets.add(wrapped)
        wrapped.do_handshake()
        return wrapped

    def read(self, connection, reader, number):
        line = reader.readline().decode().rstrip("\r\n")
        if not line:
            return None
        headers = {}
        while (header := reader.readline().decode("latin-1").rstrip("\r\n")):
            name, value = header.split(":", 1)
            if name.lower() in headers:
                raise Broken
            headers[name.lower()] = value.strip()
        if headers.get("x-amz-target", "").endswith(".ResetEarly"):
            self.reset(connection)
        body = reader.read(int(headers.get("content-length", 0)))
        try:
            id = json.loads(body)["id"]
        except (ValueError, KeyError, TypeError):
            id = None
        request = Request(number, line, headers, body, id)
        with self.lock:
            self.requests.append(request)
            self.lock.notify_all()
        return request

    @staticmethod
    def reset(connection):
        """The peer gets an RST."""
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise Broken

    def act(self, connection, request):
        script = json.loads(request.body or b"{}").get("script", [{}]) if request.id else [{}]
        step = dict(script[min(self.count(request.id), len(script)) - 1])
        if "clock" in step and self.accepts_time(request, step["clock"]):
            step = {}
        if "expired" in step and f"={step['expired']}/" not in request.headers["authorization"]:
            step = {}
        getattr(self, "do_" + step.get("do", "answer"))(connection, step)
        if step.get("hang_up"):
            raise Broken

    @staticmethod
    def accepts_time(request, ahead):
        signed = datetime.datetime.strptime(request.headers["x-amz-date"], "%Y%m%dT%H%M%SZ")
        signed = signed.replace(tzinfo=datetime.timezone.utc).timestamp()
        return abs(signed - (time.time() + ahead)) < 60

    # What a step does.

    def answer(self, step):
        """Head and body."""
        body = step.get("raw", json.dumps(step.get("json", {}))).encode("utf-8", "surrogateescape")
        if "type" in step:
            body = json.dumps({"__type": NAMESPACE + step["type"],
                               "message": step.get("message", "so it is")}).encode()
        status = step.get("status", 400 if "type" in step else 200)
        now = email.utils.formatdate(time.time() + step.get("clock", 0), usegmt=True)
        crc = {"good": zlib.crc32(body), "bad": zlib.crc32(body) ^ 1}.get(step.get("crc", "good"))
        headers = {"Date": now, "x-amzn-RequestId": "REQUEST-ID-1",
                   "Content-Type": "application/x-amz-json-1.0"}
        if crc is not None:
            headers["x-amz-crc32"] = crc
        if step.get("chunked"):
            headers["Transfer-Encoding"] = "chunked"
        else:
            headers["Content-Length"] = len(body)
        headers.update(step.get("headers", {}))
        head = f"HTTP/1.1 {status} Whatever\r\n" + "".join(
            f"{name}: {value}\r\n" for name, value in headers.items() if value is not None) + "\r\n"
        return head.encode(), body

    def do_answer(self, connection, step):
        head, body = self.answer(step)
        if step.get("interim"):
            connection.sendall(b"HTTP/1.1 100 Continue\r\nx-amzn-RequestId: INTERIM\r\n\r\n")
        if step.get("chunked"):
            chunks = [body[at:at + 7] for at in range(0, len(body), 7)] + [b""]
            body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
        connection.sendall(head + body)

    def do_reset(self, connection, step):
        self.reset(connection)

    def do_close(self, connection, step):
        raise Broken

    def do_stall(self, connection, step):
        """Nothing, until the client has gone or the test is over."""
        connection.recv(1)
        raise Broken

    def do_late(self, connection, step):
        """For tests that something else is over before: `late` counts the answers."""
        self.stopping.wait(4)
        self.late += 1
        self.do_answer(connection, step)

    def do_truncate(self, connection, step):
        head, body = self.answer({**step, "json": {"text": "x" * 1000}})
        connection.sendall(head + body[:500])
        raise Broken

    def do_drip(self, connection, step):
        head, body = self.answer({**step, "json": {"text": "x" * 10000}})
        for byte in head + body:
            connection.sendall(bytes([byte]))
            if self.stopping.wait(0.02):
                raise Broken

    def do_garbage(self, connection, step):
        connection.sendall(b"\x00\x01SSH-2.0-something\r\n\r\n")
        raise Broken

    def do_big(self, connection, step):
        """More than any answer may have."""
        head, _ = self.answer({"crc": "none", "headers": {"Content-Length": 65 << 20}})
        connection.sendall(head)
        for _ in range(65):
            connection.sendall(b" " * (1 << 20))


def server_context(certificate, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
