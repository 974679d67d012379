# SPDX-License-Identifier: MIT
"""HTTP/1.1 on loopback with the lid off: a server whose answers may come late, cut, wrong or never,
and a plain client for requests that no SDK would send.

A subclass of Server says what is answered: plan() sees a request's head before its body is read,
handle() sees all of it. Both may run in several threads at once, one per connection.
"""

import base64
import dataclasses
import email.utils
import http.client
import json
import select
import socket
import struct
import threading
import time
import traceback
import zlib

JSON_TYPE = "application/x-amz-json-1.0"
TARGETS = {"DynamoDB_20120810": "dynamodb", "DynamoDBStreams_20120810": "dynamodbstreams"}
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "te", "upgrade"}
HEAD_MAX, BODY_MAX = 64 << 10, 32 << 20
PATIENCE = 30   # seconds until a thread that must end counts as stuck
KEPT_FOR = 2.0  # seconds that an idle connection to an engine is trusted


class Broken(Exception):
    """What arrived is no HTTP."""


class Gone(Exception):
    """The engine behind gave no answer."""


@dataclasses.dataclass
class Request:
    method: str
    path: str
    headers: list      # (name, value) as sent, in their order
    body: bytes = b""
    connection: int = 1  # which connection of the server it came over, from 1
    turn: int = 1        # which request on that connection
    plan: object = None  # what plan() gave

    def header(self, name, default=None):
        """A header's value; repeated ones joined by a comma."""
        found = [value for key, value in self.headers if key.lower() == name.lower()]
        return ",".join(found) if found else default

    @property
    def service(self):
        """"dynamodb", "dynamodbstreams"; None for what is no call of either."""
        return TARGETS.get((self.header("x-amz-target") or "").partition(".")[0])

    @property
    def operation(self):
        """"PutItem"; for requests without a target "GET /path"."""
        target = self.header("x-amz-target")
        return target.partition(".")[2] if target else f"{self.method} {self.path}"

    @property
    def json(self):
        return json.loads(self.body)


@dataclasses.dataclass
class Answer:
    """What is sent back, and what goes wrong with it."""

    status: int = 200
    headers: dict = dataclasses.field(default_factory=dict)
    body: bytes = b""
    crc: str = "right"   # "right", "wrong", "absent", "kept" (as in headers)
    delay: float = 0     # seconds before the answer
    slow: tuple = None   # (bytes, seconds): the body in pieces, a pause after each
    truncate: int = None  # so many bytes of the body, then the connection ends
    corrupt: int = None  # the byte at this place is flipped, after the checksum was made
    reset: str = None    # "before" the body is read, "after" the request was handled
    orderly: bool = False  # a reset as an end of file, not as RST
    hang: bool = False   # no answer; until the client goes away or the server stops
    close: bool = False  # the connection ends after the answer, unannounced


def json_answer(body, status=200, **more):
    """An Answer with BODY (a structure, or bytes as they are) as DynamoDB sends it."""
    data = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
    headers = {"Content-Type": JSON_TYPE, **more.pop("headers", {})}
    return Answer(status, headers, data, **more)


def error_answer(name, message="", status=400, fields=None, namespace=None, **more):
    """An error as the service words it; FIELDS stand beside type and message."""
    if namespace is None:
        ours = name not in FRONT_ERRORS
        namespace = "com.amazonaws.dynamodb.v20120810" if ours else "com.amazon.coral.service"
    kind = f"{namespace}#{name}" if namespace else name
    return json_answer({"__type": kind, "message": message, **(fields or {})}, status, **more)


# Errors of the layer before DynamoDB itself.
FRONT_ERRORS = {"AccessDeniedException", "ExpiredTokenException", "IncompleteSignatureException",
                "InvalidSignatureException", "MissingAuthenticationTokenException",
                "SerializationException", "UnknownOperationException",
                "UnrecognizedClientException", "InternalFailure", "ServiceUnavailable"}


def tidy(sock, rst=False):
    """Ends a connection, with RST or in order; no matter what state it is in."""
    try:
        if rst:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    sock.close()


class Server:
    """Serves on a free port of loopback from the with statement on to its end, where everything is
    closed and what went wrong within raises AssertionError."""

    def __init__(self):
        self.problems = []  # texts: what no client should have done, and errors of our own
        self.connections = 0
        self.requests = []
        self.lock = threading.RLock()
        self.seen = threading.Condition(self.lock)
        self.stopping = threading.Event()
        self.open, self.threads = set(), []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    # For subclasses.

    def plan(self, _request):
        """Called with a request's head; what it returns stands in request.plan. An Answer with
        reset="before" ends the connection before the body is read."""

    def handle(self, request):
        raise NotImplementedError

    # Life.

    def __enter__(self):
        self.spawn(self.accept)
        return self

    def __exit__(self, kind, _value, _trace):
        self.stop()
        if kind is None:
            self.check()

    def check(self):
        """Raises AssertionError where something was wrong so far."""
        with self.lock:
            if self.problems:
                raise AssertionError("\n".join(self.problems))

    def stop(self):
        self.stopping.set()
        tidy(self.listener)
        with self.lock:
            for sock in self.open:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
            threads = list(self.threads)
        for thread in threads:
            thread.join(PATIENCE)
            if thread.is_alive():
                raise AssertionError(f"a thread of the server at {self.url} does not end")

    def spawn(self, function, *arguments):
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        with self.lock:
            self.threads = [old for old in self.threads if old.is_alive()] + [thread]
            thread.start()

    def problem(self, text):
        with self.lock:
            self.problems.append(text)

    def calls(self, operation=None):
        """The requests so far, of all operations or of one."""
        with self.lock:
            return [one for one in self.requests if operation in (None, one.operation)]

    def wait_for_calls(self, count, operation=None, seconds=PATIENCE):
        """Until COUNT requests have come; gives them."""
        with self.seen:
            if not self.seen.wait_for(lambda: len(self.calls(operation)) >= count, seconds):
                raise AssertionError(f"waited {seconds} s for {count} x {operation or 'a request'}, "
                                     f"came: {[one.operation for one in self.requests]}")
            return self.calls(operation)

    # Connections.

    def accept(self):
        while not self.stopping.is_set():
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                if self.stopping.is_set():
                    tidy(sock)
                    return
                self.connections += 1
                self.open.add(sock)
                self.spawn(self.serve, sock, self.connections)

    def serve(self, sock, number):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        turn, rst = 1, False
        try:
            with sock.makefile("rb") as stream:
                while not self.stopping.is_set():
                    request = read_head(stream)
                    if request is None:
                        break
                    request.connection, request.turn = number, turn
                    end = self.exchange(sock, stream, request)
                    if end:
                        rst = end == "rst"
                        break
                    turn += 1
        except Broken as error:
            self.problem(f"connection {number}, request {turn}: {error}")
        except OSError:
            pass  # the client has gone
        except Exception:
            self.problem(f"connection {number}, request {turn}: {traceback.format_exc()}")
        finally:
            with self.lock:
                self.open.discard(sock)
                tidy(sock, rst)

    def exchange(self, sock, stream, request):
        """One request and its answer; gives how the connection is to end, None: not yet."""
        request.plan = self.plan(request)
        early = isinstance(request.plan, Answer) and request.plan.reset == "before"
        if not early:
            read_body(sock, stream, request)
        with self.seen:
            self.requests.append(request)
            self.seen.notify_all()
        try:
            answer = request.plan if early else self.handle(request)
        except Gone:  # what is behind has no connection: neither has what is in front
            return "rst"
        except OSError as error:
            raise RuntimeError(f"within the server: {error}") from error
        if answer.reset:
            return "fin" if answer.orderly else "rst"
        if answer.hang:
            wait_for_hangup(sock)
            return "fin"
        self.stopping.wait(answer.delay)
        return self.send(sock, request, answer)

    def send(self, sock, request, answer):
        headers = {name: value for name, value in answer.headers.items()
                   if name.lower() not in HOP_BY_HOP}
        lower = {name.lower(): name for name in headers}
        if "date" not in lower:
            headers["Date"] = email.utils.formatdate(usegmt=True)
        if answer.crc != "kept":
            headers.pop(lower.get("x-amz-crc32"), None)
            if answer.crc != "absent":
                flip = 1 if answer.crc == "wrong" else 0
                headers["x-amz-crc32"] = str(zlib.crc32(answer.body) ^ flip)
        body = bytearray(answer.body)
        if answer.corrupt is not None and body:
            body[answer.corrupt % len(body)] ^= 0x01
        wanted = len(body)
        if answer.truncate is not None:
            del body[answer.truncate:]
        reason = http.client.responses.get(answer.status, "Unknown")
        head = f"HTTP/1.1 {answer.status} {reason}\r\nContent-Length: {wanted}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n"
        head = head.encode("latin-1")
        if answer.slow:
            size, pause = answer.slow
            sock.sendall(head)
            for start in range(0, len(body), size):
                sock.sendall(body[start:start + size])
                self.stopping.wait(pause)
        else:
            sock.sendall(head + body)
        asked = "close" in (request.header("connection") or "").lower()
        return "fin" if answer.close or asked or len(body) < wanted else None


def read_head(stream):
    """A Request without its body; None where the client has ended the connection in order."""
    lines, size = [], 0
    while True:
        line = stream.readline(HEAD_MAX)
        size += len(line)
        if not line:
            if lines:
                raise Broken("the connection ended within a request's head")
            return None
        if size >= HEAD_MAX or not line.endswith(b"\r\n"):
            raise Broken(f"a line of a request's head is no line: {line[:80]!r}")
        if line == b"\r\n":
            break
        lines.append(line[:-2].decode("latin-1"))
    parts = lines[0].split(" ") if lines else []
    if len(parts) != 3 or parts[2] != "HTTP/1.1":
        raise Broken(f"not a request of HTTP/1.1: {lines[:1]}")
    headers = []
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise Broken(f"not a header: {line!r}")
        headers.append((name, value.strip(" \t")))
    return Request(parts[0], parts[1], headers)


def read_body(sock, stream, request):
    if request.header("transfer-encoding"):
        raise Broken("a chunked request: its length must be said before")
    length = request.header("content-length", "0")
    if not length.isdecimal() or int(length) > BODY_MAX:
        raise Broken(f"Content-Length: {length}")
    if "100-continue" in (request.header("expect") or "").lower():
        sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.body = stream.read(int(length))
    if len(request.body) != int(length):
        raise ConnectionResetError("the client ended within a request's body")


def wait_for_hangup(sock):
    poller = select.poll()
    poller.register(sock, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
    poller.poll()


class Upstream:
    """Passes requests on to an engine: one kept connection per thread. One that has idled is not
    trusted, so that nothing is ever sent twice."""

    def __init__(self, endpoint):
        self.address = endpoint.removeprefix("http://").rstrip("/")
        self.local = threading.local()

    def send(self, request, body=None):
        """The engine's answer to REQUEST, with another BODY where one is given."""
        data = request.body if body is None else json.dumps(body).encode()
        link = getattr(self.local, "link", None)
        if link is None or time.monotonic() - self.local.used > KEPT_FOR:
            if link is not None:
                link.close()
            link = self.local.link = http.client.HTTPConnection(self.address, timeout=PATIENCE)
        try:
            link.putrequest(request.method, request.path, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers:
                if name.lower() not in HOP_BY_HOP | {"expect"}:
                    link.putheader(name, value)
            link.putheader("Content-Length", str(len(data)))
            link.endheaders(data)
            reply = link.getresponse()
            headers = {name: value for name, value in reply.getheaders()
                       if name.lower() not in HOP_BY_HOP}
            answer = Answer(reply.status, headers, reply.read(), crc="kept")
        except (OSError, http.client.HTTPException) as error:
            link.close()
            raise Gone(f"{type(error).__name__}: {error}") from error
        self.local.used = time.monotonic()
        return answer


class Reply:
    """What came back to call(): status, headers (lower case), body, data (None: no JSON)."""

    def __init__(self, status, headers, body):
        self.status, self.body = status, body
        self.headers = {name.lower(): value for name, value in headers}
        try:
            self.data = json.loads(body)
        except ValueError:
            self.data = None

    @property
    def error(self):
        """The error's bare name; None where there is none."""
        if self.status < 400:
            return None
        kind = (self.data or {}).get("__type", "") if isinstance(self.data, dict) else ""
        return kind.split(":")[0].split("#")[-1] or f"HTTP {self.status}"


AUTHORIZATION = ("AWS4-HMAC-SHA256 Credential=test/20240101/us-east-1/dynamodb/aws4_request, "
                 "SignedHeaders=host;x-amz-date;x-amz-target, Signature=" + "0" * 64)


def call(endpoint, operation, body, headers=None, streams=False, seconds=PATIENCE):
    """One request over a connection of its own, signed for show only. BODY: a structure, or bytes
    as they are; a header of None is left out."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    service = "DynamoDBStreams_20120810" if streams else "DynamoDB_20120810"
    sent = {"Content-Type": JSON_TYPE, "X-Amz-Target": f"{service}.{operation}",
            "X-Amz-Date": "20240101T000000Z", "Authorization": AUTHORIZATION, **(headers or {})}
    link = http.client.HTTPConnection(endpoint.removeprefix("http://"), timeout=seconds)
    try:
        link.request("POST", "/", data, {name: value for name, value in sent.items()
                                         if value is not None})
        reply = link.getresponse()
        return Reply(reply.status, reply.getheaders(), reply.read())
    finally:
        link.close()


def binary(data):
    """Bytes as they stand in JSON."""
    return base64.b64encode(data).decode()
