# SPDX-License-Identifier: MIT
"""A DynamoDB server that says what a test tells it to, alone or in front of a real engine.

    with Scripted() as server:
        server.error("GetItem", "ProvisionedThroughputExceededException")
        server.answer("GetItem", {"Item": {"id": {"S": "a"}}}, delay=0.1)
        ... a client at server.url ...
        server.wait_for_calls(2, "GetItem")

Answers are queued per operation ("PutItem"; "GET /path" for what is no call of DynamoDB, as the
credential services are; "*" for any) and used once each, or for ever with times=None. Without one a
request goes to the engine behind; without an engine that is a problem. At the end of the with
statement each problem fails the test: a request that botocore's model refuses, a signature that
does not hold, an answer that nobody asked for, an operation without an answer.

Damage to any answer (see wire.Answer): delay, slow, truncate, corrupt, crc, reset, orderly, hang,
close.
"""

import collections
import dataclasses
import email.utils
import time

import model
import wire

FOR_EVER = None


@dataclasses.dataclass
class Rule:
    """One entry of a queue: MAKE gives the answer to a request, None: the engine does."""

    make: object
    damage: dict
    left: int  # None: for ever


class Scripted(wire.Server):
    """ENGINE: URL of what stands behind. KEYS: access key -> secret or (secret, session token):
    signatures are verified, a wrong one is refused as the service would. CLOCK: by how many
    seconds this server's clock is ahead. LENIENT: what the model refuses is no problem (for tests
    of odd requests)."""

    def __init__(self, engine=None, keys=None, clock=0, lenient=False):
        super().__init__()
        self.upstream = wire.Upstream(engine) if engine else None
        self.keys, self.clock, self.lenient = keys, clock, lenient
        self.queues = collections.defaultdict(collections.deque)
        self.refused = []  # (request, error name) of signatures that did not hold

    # What a test says.

    def answer(self, operation, body=None, *, status=200, headers=None, times=1, **damage):
        """Queues an answer. BODY: a structure, bytes as they are, or a function of the request
        that gives either or a wire.Answer."""
        def make(request):
            found = body(request) if callable(body) else body
            if isinstance(found, wire.Answer):
                return found
            return wire.json_answer({} if found is None else found, status,
                                    headers=dict(headers or {}))
        self.rule(operation, make, times, damage)

    def error(self, operation, name, message="as the test says", *, status=400, fields=None,
              namespace=None, headers=None, times=1, **damage):
        """Queues an error; NAME without namespace."""
        def make(_request):
            return wire.error_answer(name, message, status, fields, namespace,
                                     headers=dict(headers or {}))
        self.rule(operation, make, times, damage)

    def through(self, operation, times=1, **damage):
        """Queues that the engine answers, and what happens to its answer: with reset="after" it
        has applied the request, and nobody hears of it."""
        self.rule(operation, None, times, damage)

    def rule(self, operation, make, times, damage):
        unknown = set(damage) - {field.name for field in dataclasses.fields(wire.Answer)}
        if unknown or (make is None and self.upstream is None):
            raise ValueError(f"{operation}: {unknown or 'there is no engine behind'}")
        with self.lock:
            self.queues[operation].append(Rule(make, damage, times))

    def unused(self):
        """Operations with answers that nobody has asked for."""
        with self.lock:
            return [name for name, queue in self.queues.items() if any(rule.left for rule in queue)]

    def check(self):
        with self.lock:
            left = [f"{name}: an answer that nobody asked for" for name in self.unused()]
            super().check()
            if left:
                raise AssertionError("\n".join(left))

    # What happens.

    def plan(self, request):
        with self.lock:
            rule = self.take(request, look=True)
            if rule and rule.damage.get("reset") == "before":
                return wire.Answer(**self.take(request).damage)
        return None

    def take(self, request, look=False):
        """The rule for a request, used up unless this is only a LOOK; None: there is none."""
        with self.lock:
            queue = self.queues[request.operation] or self.queues["*"]
            if not queue:
                return None
            rule = queue[0]
            if not look and rule.left is not None:
                rule.left -= 1
                if not rule.left:
                    queue.popleft()
            return rule

    def handle(self, request):
        if not self.lenient and request.header("x-amz-target"):
            for text in model.complaints(request):
                self.problem(f"{request.operation} is no valid request: {text}\n"
                             f"  {request.body[:400]!r}")
        answer = self.verify(request) or self.reply(request)
        if self.clock:
            answer.headers["Date"] = email.utils.formatdate(self.now(), usegmt=True)
        return answer

    def now(self):
        return time.time() + self.clock

    def verify(self, request):
        if self.keys is None or not request.header("x-amz-target"):
            return None
        error = model.signature_error(request, self.keys, self.now())
        if error is None:
            return None
        with self.lock:
            self.refused.append((request, error[0]))
        return wire.error_answer(*error)

    def reply(self, request):
        rule = self.take(request) or Rule(None, {}, None)
        if rule.make:
            answer = rule.make(request)
        elif self.upstream:
            answer = self.upstream.send(request)
        else:
            self.problem(f"{request.operation}: no answer is queued")
            answer = wire.error_answer("InternalFailure", "no answer is queued", 500)
        return dataclasses.replace(answer, **rule.damage)
