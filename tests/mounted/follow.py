# SPDX-License-Identifier: MIT
"""What tests of change streams share: a program whose lines are waited for, and what records say."""

import contextlib
import json
import queue
import sqlite3
import subprocess
import threading
import time

from harness import PATIENCE


def described(lines):
    """["INSERT a", ..] of record lines, as Store.changes has it; of sorted tables "INSERT a/b"."""
    found = []
    for line in lines:
        record = json.loads(line)
        parts = [next(iter(value.values())) for value in record["keys"].values()]
        found.append(f"{record['change_type']} {'/'.join(parts)}")
    return found


def fill(db, table, count, size):
    """COUNT records with a new item of SIZE bytes, made by another client of the store."""
    body = json.dumps({"pad": "p" * (size - 12)})
    with contextlib.closing(sqlite3.connect(db, timeout=30)) as store, store:
        number, = store.execute("SELECT id FROM tables WHERE name = ?", (table,)).fetchone()
        store.executemany(
            "INSERT INTO change(table_id, kind, pk, sk, change, time, origin, streamed, expired, new)"
            " VALUES(?, 0, ?, '', 1, ?, 0, 1, 0, ?)",
            ((number, f"f{at}", time.time_ns(), body.encode()) for at in range(count)))


def is_opening(pid):
    """Whether a program waits for the answer to a request, which is its first that takes long."""
    with open(f"/proc/{pid}/wchan") as file:
        return file.read() in ("request_wait_answer", "fuse_simple_request")


class Follower:
    """A program that goes on printing; what it prints is read all the time."""

    def __init__(self, test, command, **more):
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True,
                                        env=more.pop("env", None) or test.environment(), **more)
        test.addCleanup(self.stop)
        self.arrived, self.lines = queue.Queue(), []
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            self.arrived.put(line.rstrip("\n"))
        self.arrived.put(None)

    def wait(self, count):
        """All lines so far, once there are COUNT."""
        while len(self.lines) < count:
            line = self.arrived.get(timeout=PATIENCE)
            if line is None:
                raise AssertionError(f"it ended after {self.lines}: {self.process.stderr.read()}")
            self.lines.append(line)
        return self.lines

    def none(self):
        """Whether it has printed nothing since."""
        return self.arrived.empty()

    def ended(self):
        """(exit status, what it has said, lines) once it has ended by itself."""
        status = self.process.wait(PATIENCE)
        while (line := self.arrived.get(timeout=PATIENCE)) is not None:
            self.lines.append(line)
        return status, self.process.stderr.read(), self.lines

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.thread.join()
        self.process.stdout.close()
        self.process.stderr.close()
