# SPDX-License-Identifier: MIT
"""A reader of a table's stream through the backend: the program read_stream, told what to do. And
what the tests share in which a scripted server has the stream."""

import json
import os
import signal
import subprocess
import tempfile

from service import PlaceTest, wait_for
from harness import BIN  # pylint: disable=wrong-import-order
from scripted import Scripted  # pylint: disable=wrong-import-order
from streams import Streams  # pylint: disable=wrong-import-order
import engines

FAST = "stream_poll=0.1"
READ_STREAM = os.path.join(BIN, "read_stream")


class Failed(Exception):
    """What a command came to: the errno's name, and the message."""

    def __init__(self, answer):
        super().__init__(answer["code"], answer["message"])
        self.code, self.message, self.answer = answer["code"], answer["message"], answer


class Reader:
    """POSITION: the stream is opened there, None: it is not. `lost` counts how often records were."""

    def __init__(self, test, env, table, position="oldest", options=(), source="dynamodb:"):
        self.lost = 0
        self.log = tempfile.TemporaryFile()
        state = tempfile.TemporaryDirectory(prefix="itemfs-stream-")
        test.addCleanup(state.cleanup)
        self.process = subprocess.Popen(
            [READ_STREAM, source, table, f"state_dir={state.name}", *options], env=env,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)
        test.addCleanup(self.end)
        self.answer()
        if position is not None:
            self.open(position)

    def answer(self):
        line = self.process.stdout.readline()
        if not line.endswith("\n"):
            raise AssertionError(f"the reader has ended: {line}\n{self.errors()}")
        answer = json.loads(line)
        self.lost += answer.pop("lost", False)
        if answer["code"] != "0":
            raise Failed({"message": self.errors(), **answer})
        return answer

    def errors(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def begin(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def tell(self, *words):
        self.begin(*words)
        return self.answer()

    def open(self, position):
        return self.tell("open", position)

    def next(self, *limits):
        return self.tell("next", *limits)

    def read(self, *limits):
        """All records that there are now."""
        records, more = [], True
        while more:
            answer = self.next(*limits)
            records += answer["records"]
            more = answer["more"]
        return records

    def position(self):
        return self.tell("position")["position"]

    def call_off(self):
        self.process.send_signal(signal.SIGUSR1)

    def end(self):
        """Ends it in order, so that leaks are found."""
        if self.process.stdin.closed:
            return
        self.process.stdin.close()
        self.process.stdout.read()
        self.process.stdout.close()
        status, errors = self.process.wait(), self.errors()
        self.log.close()
        if status or "Sanitizer" in errors or "runtime error" in errors:
            raise AssertionError(f"read_stream ended with {status}:\n{errors}")


def told(records):
    """["ada 1>2", ...] of records: key, old and new number; "-": there is none."""
    def number(item):
        return item["n"]["N"] if item else "-"
    return [f'{one["keys"]["id"]["S"]} {number(one.get("old_item"))}>{number(one.get("new_item"))}'
            for one in records]


def some(reader, count=1):
    """COUNT records, waited for; and what comes with them."""
    found = []

    def enough():
        found.extend(reader.read())
        return len(found) >= count
    wait_for(f"{count} records", enough)
    return found


class ScriptedStreams(PlaceTest):
    def setUp(self):
        self.server = self.enterContext(Scripted())
        self.table = Streams(self.server)
        self.addCleanup(self.table.check)

    def reader(self, position="oldest", **more):
        env = self.environment(**{**engines.KEYS, "AWS_ENDPOINT_URL": self.server.url})
        return Reader(self, env, self.table.name, position, options=(FAST,), **more)

    def calls(self, operation):
        return len(self.server.calls(operation))
