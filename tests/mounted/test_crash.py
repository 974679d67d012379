# SPDX-License-Identifier: MIT
"""The daemon is killed at random moments under load; what it had acknowledged is there, whole.

Each round: writers save items in all ways and note every acknowledgement in memory; the daemon is
killed; after a mount over the dead one each item must hold an acknowledged save or one that was
under way, nothing else may have changed, and drafts and scratch files are there.
"""

import errno
import os
import random
import re
import subprocess
import threading
import time
import unittest

from harness import LONG, MountedTest, wait_for

ROUNDS = 200 if LONG else 40
WRITERS, NAMES, QUIET = 4, 8, 50


class Writer(threading.Thread):
    """Saves its own items until the mount dies. `acknowledged` and `tried` are version numbers by
    item name: -1 is an acknowledged removal, None stands for never there."""

    def __init__(self, folder, number, start, seed):
        super().__init__()
        self.folder, self.number, self.version = folder, number, start
        self.chance = random.Random(seed)
        self.acknowledged, self.tried, self.scratch = {}, {}, {}

    def body(self, version):
        return b'{"v": %d, "pad": "%s"}' % (version, b"p" * (version * 131 % 5000))

    def save(self, name, way, version):
        path = f"{self.folder}/{name}"
        target = f"{self.folder}/.{name}.{version}" if way == "rename" else path
        fd = os.open(target, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        try:
            os.write(fd, self.body(version))
            if way == "fsync":
                os.fsync(fd)
        finally:
            os.close(fd)
        if way == "rename":
            os.rename(target, path)

    def run(self):
        try:
            while True:
                name = f"w{self.number}-{self.chance.randrange(NAMES)}.json"
                way = self.chance.choice(("close", "close", "fsync", "rename", "remove", "scratch"))
                self.version += 1
                if way == "scratch":
                    path = f"w{self.number}-notes{self.version % 3}"
                    self.scratch.pop(path, None)  # until acknowledged again, either text is right
                    with open(f"{self.folder}/{path}", "wb", buffering=0) as file:
                        file.write(self.body(self.version))
                        os.fsync(file.fileno())
                    self.scratch[path] = self.body(self.version)
                elif way == "remove":
                    self.tried[name] = -1
                    try:
                        os.unlink(f"{self.folder}/{name}")
                    except FileNotFoundError:
                        pass
                    self.acknowledged[name] = -1
                else:
                    self.tried[name] = self.version
                    self.save(name, way, self.version)
                    self.acknowledged[name] = self.version
        except OSError as error:
            if error.errno not in (errno.ENOTCONN, errno.ECONNABORTED, errno.EIO, errno.EINTR):
                self.failure = error
                raise


class Crash(MountedTest):
    def start_over(self):
        """Mounts over what the killed daemon left."""
        self.mount.start()

    def test_killed_at_random_moments(self):
        chance = random.Random(7)
        for number in range(QUIET):
            self.write(f"quiet{number}.json", f'{{"quiet": {number}}}')
        self.write("README", b"kept")
        self.assertErrno(errno.EINVAL, self.write, "refused.json", b"{half")
        state = {}  # name -> version acknowledged in earlier rounds
        version = acknowledged = 0
        for turn in range(ROUNDS):
            writers = [Writer(self.dir, number, version, turn * 100 + number)
                       for number in range(WRITERS)]
            for writer in writers:
                writer.start()
            # The one sleep: the moment of the kill is random by design.
            time.sleep(chance.uniform(0.01, 0.25))
            self.mount.kill()
            for writer in writers:
                writer.join(30)
                self.assertFalse(writer.is_alive(), "a writer hangs on the dead mount")
                self.assertIsNone(getattr(writer, "failure", None))
            self.start_over()
            version = max(writer.version for writer in writers)
            acknowledged += sum(len(writer.acknowledged) for writer in writers)
            self.check_round(turn, writers, state)
        self.assertGreater(acknowledged, 5 * ROUNDS)  # there was something to lose
        self.assertEqual("ok", self.store.sound())

    def check_round(self, turn, writers, state):
        found = {name: self.read(name) for name in self.names() if name.endswith(".json")
                 and not name.startswith(".")}
        self.assertEqual({name.removesuffix(".json"): body for name, body in found.items()},
                         self.store.bodies(self.table))
        for writer in writers:
            for number in range(NAMES):
                name = f"w{writer.number}-{number}.json"
                certain = writer.acknowledged.get(name, state.get(name, -1))
                may_be = {certain, writer.tried.get(name, certain)}
                got = found.pop(name, None)
                versions = {v: None if v == -1 else writer.body(v) for v in may_be}
                self.assertIn(got, versions.values(), f"round {turn}: {name}, one of {may_be}")
                state[name] = next(v for v, body in versions.items() if body == got)
            for name, body in writer.scratch.items():
                self.assertEqual(body, self.read(name), f"round {turn}: {name}")
        self.assertEqual({f"quiet{n}.json": f'{{"quiet": {n}}}'.encode() for n in range(QUIET)},
                         found, f"round {turn}")
        self.assertEqual(b"kept", self.read("README"))
        self.assertEqual(b"{half", self.draft("refused.json")[0])

    def test_log_agrees_with_the_items_after_a_kill(self):
        # Replaying the change records gives the items that are there.
        writers = [Writer(self.dir, number, 0, number) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        time.sleep(0.3)
        self.mount.kill()
        for writer in writers:
            writer.join(30)
        self.start_over()
        items = {}
        for record in self.store.records(self.table):
            key = record["pk"].decode()
            self.assertEqual(items.get(key), record["old"])
            if record["change"] == 3:
                del items[key]
            else:
                items[key] = record["new"]
        self.assertEqual(items, self.store.bodies(self.table))

    def test_item_renamed_away_comes_back_or_goes(self):
        # Killed within the grace period of a backup rename: the text is somewhere.
        self.write("a.json", '{"v": 1}')
        os.rename(self.path("a.json"), self.path("a.json~"))
        self.mount.kill()
        self.start_over()
        texts = [self.read(name) for name in self.names()]
        self.assertIn(b'{"v": 1}', texts)

    def test_unsaved_text_is_not_half_saved(self):
        self.write("a.json", '{"v": 1}')
        fd = os.open(self.path("a.json"), os.O_WRONLY | os.O_TRUNC)
        os.write(fd, b'{"v": 2}')
        self.mount.kill()
        try:
            os.close(fd)
        except OSError:
            pass
        self.start_over()
        self.assertBoth("a.json", '{"v": 1}')


class PowerLoss(MountedTest):
    """What fsync acknowledged was synced before: seen in the daemon's system calls."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.mount.unmount()
        cls.trace = os.path.join(cls.place, "trace")
        cls.mount = cls.new_mount(cls.db, "mnt")
        cls.mount.wrap = ["strace", "-f", "-y", "-s", "64", "-o", cls.trace, "-e",
                          "trace=pwrite64,pwritev,write,writev,fsync,fdatasync,openat,unlink"]
        # The leak check cannot work under a tracer.
        cls.mount.env = cls.environment(ASAN_OPTIONS="detect_leaks=0:exitcode=97")
        cls.mount.start()

    def calls(self, since):
        """Finished calls of the trace after position SINCE: (name, file, line), in order of end."""
        found = []
        with open(self.trace, errors="replace") as file:
            file.seek(since)
            pending = {}
            for line in file:
                match = re.match(r"(\d+) +(?:<\.\.\. (\w+) resumed>)?(.*)", line)
                if not match:
                    continue
                pid, resumed, rest = match.groups()
                if rest.rstrip().endswith("<unfinished ...>"):
                    pending[pid] = rest
                    continue
                text = pending.pop(pid, "") + rest if resumed else rest
                call = re.match(r"(\w+)\((?:\d+<([^>]*)>)?", text)
                if call:
                    found.append((call[1], os.path.basename(call[2] or ""), text.rstrip()))
        return found

    def order(self, action):
        """What the daemon wrote to the log file and synced while ACTION ran: "w", "s", and "r" for
        the replies to the kernel."""
        since = os.path.getsize(self.trace)
        action()

        def letters():
            text = ""
            for name, file, _ in self.calls(since):
                if file.endswith("-wal"):
                    text += "s" if name in ("fsync", "fdatasync") else "w"
                elif file == "fuse" and name in ("write", "writev"):
                    text += "r"
            return text
        # The tracer writes a call down when its answer may have been read already.
        wait_for("the reply in the trace", lambda: letters().endswith("r"))
        return letters()

    def test_fsync_of_an_item(self):
        self.write("a.json", '{"v": 1}')
        for number in range(3):
            fd = os.open(self.path("a.json"), os.O_WRONLY | os.O_TRUNC)
            os.write(fd, b'{"v": %d}' % (number + 10))
            got = self.order(lambda: os.fsync(fd))
            os.close(fd)
            # The commit's pages, then a sync of them, then the last reply; nothing unsynced is left.
            # (For the same reason, the reply to the write may stand among them.)
            self.assertRegex(got, "^[^s]*w.*s[^w]*r$")

    def test_fsync_after_a_save_without_one(self):
        self.write("a.json", '{"v": 1}')
        self.write("a.json", '{"v": 2}')
        fd = os.open(self.path("a.json"), os.O_RDONLY)
        got = self.order(lambda: os.fsync(fd))
        os.close(fd)
        self.assertRegex(got, "^[^r]*s[^r]*r|^.*s.*r$")

    def test_fsync_of_a_scratch_file(self):
        fd = os.open(self.path("notes"), os.O_CREAT | os.O_WRONLY)
        os.write(fd, b"text")
        got = self.order(lambda: os.fsync(fd))
        os.close(fd)
        self.assertRegex(got, "w[^r]*s[^w]*r")

    def test_fsync_of_a_directory(self):
        self.write("tmp", '{"v": 1}')
        os.rename(self.path("tmp"), self.path("a.json"))
        fd = os.open(self.dir, os.O_RDONLY | os.O_DIRECTORY)
        got = self.order(lambda: os.fsync(fd))
        os.close(fd)
        self.assertIn("s", got)

    def test_no_sync_without_fsync(self):
        # A plain save survives a kill, not a power failure: that is its price and its speed.
        # Five saves, since a checkpoint in the background may sync at any moment.
        self.write("a.json", '{"v": 1}')
        got = [self.order(lambda: self.write("a.json", '{"v": %d}' % (number + 2)))
               for number in range(5)]
        self.assertTrue(any("w" in letters and "s" not in letters for letters in got), got)

    def test_store_survives_the_loss_of_what_was_not_synced(self):
        # A copy of the files as they are right after an fsync is a store with that save.
        fd = os.open(self.path("a.json"), os.O_CREAT | os.O_WRONLY)
        os.write(fd, b'{"v": 42}')
        os.fsync(fd)
        copy = os.path.join(self.place, "copy.db")
        for suffix in ("", "-wal"):
            subprocess.run(["cp", self.db + suffix, copy + suffix], check=True)
        os.close(fd)
        got = self.run_tool(["sqlite3", copy, "SELECT body FROM item WHERE body LIKE '%42%'"])
        self.assertEqual('{"v": 42}\n', got.stdout)
        wait_for("a sound copy", lambda: self.run_tool(
            ["sqlite3", copy, "PRAGMA integrity_check"]).stdout == "ok\n")


if __name__ == "__main__":
    unittest.main()
