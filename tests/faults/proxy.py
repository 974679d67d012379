# SPDX-License-Identifier: MIT
"""A proxy between a client and a real engine, which lets things go wrong on purpose.

    with Proxy(engine.endpoint, seed=7) as proxy:
        proxy.fault("PutItem", "reset-after", times=1)
        proxy.fault("*", "throttle", probability=0.2, optional=True)
        ... a client at proxy.url ...

usage: proxy.py ENDPOINT [--seed N] [--latency MS] [--alternator] [--fault OPERATION:KIND[:P]]...
  Says its address in one line and serves until its standard input ends. P: a probability.

Kinds of faults, where "before" means that the engine has not seen the request:
  throttle, throttle-503, error-500, error-503, expired, skew    an error, before
  unavailable-after   503, though the engine has applied the request
  hold, hold-after    the request, or its answer, waits until let_go() or heal(); then it goes on,
                      whether its client is still there or not
  reset, reset-after  the connection is reset: before, or after the engine applied the request
  drop-after          as reset-after, as an orderly end of file
  truncate, corrupt, bad-crc, garbage    the engine's answer, damaged
  slow, hang          the answer byte by byte; no answer at all
  close               the connection ends after the answer, unannounced
  partial             a batch: half of it is done, the rest comes back as unprocessed
  empty-page          Query and Scan after the first page: no items, and where to go on

A fault fires TIMES times (None: for ever) after AFTER matching requests, with PROBABILITY out of a
seeded generator. One that never fired fails the test at the end, unless it is OPTIONAL.
"""

import argparse
import dataclasses
import email.utils
import json
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                "engines"))

import wire

import alternator

SKEW = 3600      # seconds that the service's clock is ahead in "skew"
SLOW = (16, 0.01)

# Errors that stand in for an answer: name, status, message.
ERRORS = {
    "throttle": ("ProvisionedThroughputExceededException", 400, "The level of configured "
                 "provisioned throughput for the table was exceeded."),
    "throttle-503": ("ThrottlingException", 503, "Rate exceeded"),
    "error-500": ("InternalServerError", 500, "Internal server error"),
    "error-503": ("ServiceUnavailable", 503, "Service is unavailable"),
    "expired": ("ExpiredTokenException", 400, "The security token included in the request is "
                "expired"),
    "trimmed": ("TrimmedDataAccessException", 400, "The requested sequence number is older than "
                "the oldest that is kept"),
    "skew": ("InvalidSignatureException", 400, "Signature not yet current"),
}
# What is done to the engine's answer.
DAMAGE = {
    "reset-after": {"reset": "after"},
    "drop-after": {"reset": "after", "orderly": True},
    "truncate": {},  # to the half
    "corrupt": {},   # in the middle
    "bad-crc": {"crc": "wrong"},
    "garbage": {"body": b"<html>Bad gateway</html>", "headers": {"Content-Type": "text/html"},
                "crc": "right"},
    "slow": {"slow": SLOW},
    "hang": {"hang": True},
    "close": {"close": True},
    "unavailable-after": {},
}
HOLDING = {"hold", "hold-after"}
SPECIAL = HOLDING | {"reset", "partial", "empty-page"}


@dataclasses.dataclass
class Fault:
    operation: str
    kind: str
    times: int
    probability: float
    after: int
    optional: bool
    fired: int = 0

    def hits(self, operation):
        return self.operation == "*" or operation in self.operation.split("|")


class Proxy(wire.Server):
    """In front of ENDPOINT. LATENCY_MS is added to every answer; ALTERNATOR: see alternator.py."""

    def __init__(self, endpoint, seed=1, latency_ms=0, alternator_options=None):
        super().__init__()
        self.upstream = wire.Upstream(endpoint)
        self.random = random.Random(seed)
        self.latency_ms = latency_ms
        self.faults = []
        self.injected = []  # (operation, kind), in their order
        self.held = 0  # requests that wait
        self.released = threading.Event()
        self.alternator = None
        if alternator_options is not None:
            self.alternator = alternator.Alternator(self.upstream, **alternator_options)

    def fault(self, operation, kind, times=None, probability=1.0, after=0, optional=False):
        """OPERATION: one, several ("A|B") or all ("*")."""
        if kind not in ERRORS and kind not in DAMAGE and kind not in SPECIAL:
            raise ValueError(f"no fault of this kind: {kind}")
        if kind in HOLDING:
            self.released.clear()
        with self.lock:
            self.faults.append(Fault(operation, kind, times, probability, after, optional))

    def heal(self):
        """No more faults; those there were stay counted."""
        with self.lock:
            for fault in self.faults:
                fault.times = 0
        self.let_go()

    def let_go(self):
        """What is held goes on; returns when the engine has had it."""
        self.released.set()
        self.wait_held(0)

    def wait_held(self, count):
        """Until so many requests are held."""
        with self.seen:
            if not self.seen.wait_for(lambda: self.held == count, wire.PATIENCE):
                raise AssertionError(f"{self.held} requests are held, not {count}")

    def hold(self):
        with self.seen:
            self.held += 1
            self.seen.notify_all()
        self.released.wait()

    def held_no_more(self):
        with self.seen:
            self.held -= 1
            self.seen.notify_all()

    def stop(self):
        self.let_go()
        super().stop()

    def check(self):
        super().check()
        with self.lock:
            idle = [f"{fault.operation}: {fault.kind} never happened" for fault in self.faults
                    if not fault.fired and not fault.optional]
        problems = idle + (self.alternator.problems if self.alternator else [])
        if problems:
            raise AssertionError("\n".join(problems))

    # What happens.

    def choose(self, request, early):
        """The kind of fault that hits a request, of those that come EARLY (before its body is
        read) or of the others; None: none."""
        with self.lock:
            for fault in self.faults:
                if (not fault.hits(request.operation) or fault.times == 0
                        or (fault.kind == "reset") != early or not applies(fault.kind, request)):
                    continue
                if fault.after:
                    fault.after -= 1
                    continue
                if self.random.random() >= fault.probability:
                    continue
                if fault.times is not None:
                    fault.times -= 1
                fault.fired += 1
                self.injected.append((request.operation, fault.kind))
                return fault.kind
        return None

    def plan(self, request):
        return wire.Answer(reset="before") if self.choose(request, True) else None

    def handle(self, request):
        kind = self.choose(request, False)
        if kind in ERRORS:
            name, status, message = ERRORS[kind]
            answer = wire.error_answer(name, message, status)
            if kind == "skew":
                answer.headers["Date"] = email.utils.formatdate(time.time() + SKEW, usegmt=True)
        elif kind in HOLDING:
            answer = self.pass_on_held(request, kind)
        elif kind == "partial":
            answer = self.partial(request)
        elif kind == "empty-page":
            answer = self.empty_page(request)
        else:
            answer = self.pass_on(request)
        answer.delay += self.latency_ms / 1000
        if kind in DAMAGE:
            answer = damaged(answer, kind)
        if self.alternator:
            answer.headers = {name: value for name, value in answer.headers.items()
                              if name.lower() != "x-amz-crc32"}
            answer.crc = "absent"
        return answer

    def pass_on_held(self, request, kind):
        answer = self.pass_on(request) if kind == "hold-after" else None
        self.hold()
        try:
            return answer or self.pass_on(request)
        finally:
            self.held_no_more()

    def pass_on(self, request, body=None):
        if self.alternator:
            return self.alternator.handle(request, body)
        return self.upstream.send(request, body)

    def partial(self, request):
        """The first half of each table's part goes to the engine, at least one entry of one."""
        body = request.json
        parts = body.get("RequestItems", {})
        writes = request.operation == "BatchWriteItem"
        now, later, room = {}, {}, 1
        for table, part in parts.items():
            entries = part if writes else part["Keys"]
            keep = max(len(entries) // 2, room)
            room = 0
            for target, some in ((now, entries[:keep]), (later, entries[keep:])):
                if some:
                    target[table] = some if writes else {**part, "Keys": some}
        answer = self.pass_on(request, {**body, "RequestItems": now})
        if answer.status != 200:
            return answer
        reply = json.loads(answer.body)
        rest = reply.setdefault("UnprocessedItems" if writes else "UnprocessedKeys", {})
        for table, part in later.items():
            if table not in rest:
                rest[table] = part
            elif writes:
                rest[table] = rest[table] + part
            else:
                rest[table] = {**part, "Keys": rest[table]["Keys"] + part["Keys"]}
        return dataclasses.replace(answer, body=json.dumps(reply).encode(), crc="right")

    @staticmethod
    def empty_page(request):
        """As where a filter let nothing through: where it began, there one is to go on."""
        return wire.json_answer({"Items": [], "Count": 0, "ScannedCount": 1,
                                 "LastEvaluatedKey": request.json["ExclusiveStartKey"]})


def applies(kind, request):
    """Whether a fault can happen to a request at all."""
    if kind == "partial":
        parts = request.json.get("RequestItems", {}) if request.operation.startswith("Batch") else {}
        return sum(len(part if isinstance(part, list) else part.get("Keys", []))
                   for part in parts.values()) > 1
    if kind == "empty-page":  # the place to go on from is not known before the second page
        return request.operation in ("Query", "Scan") and "ExclusiveStartKey" in request.json
    return True


def damaged(answer, kind):
    change = dict(DAMAGE[kind])
    if kind == "truncate":
        change["truncate"] = len(answer.body) // 2
    elif kind == "corrupt":
        change["corrupt"] = len(answer.body) // 2
        # An engine without checksums must not make this fault invisible to those that check.
        change["crc"] = "right"
    elif kind == "unavailable-after":
        name, status, message = ERRORS["error-503"]
        return dataclasses.replace(wire.error_answer(name, message, status), delay=answer.delay)
    return dataclasses.replace(answer, **change)


def main(arguments):
    parser = argparse.ArgumentParser(add_help=False, usage=__doc__.split("usage: ")[1]
                                     .split("\n\n")[0])
    parser.add_argument("endpoint")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--latency", type=float, default=0)
    parser.add_argument("--alternator", action="store_true")
    parser.add_argument("--fault", action="append", default=[])
    options = parser.parse_args(arguments)
    proxy = Proxy(options.endpoint, options.seed, options.latency,
                  {} if options.alternator else None)
    for text in options.fault:
        operation, kind, *rest = text.split(":")
        proxy.fault(operation, kind, probability=float(rest[0]) if rest else 1, optional=True)
    with proxy:
        print(proxy.url, flush=True)
        sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
