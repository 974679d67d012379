# SPDX-License-Identifier: MIT
"""Many processes at once: readers during writes, lockers, listings during deletions, mmap."""

import ctypes
import errno
import json
import mmap
import multiprocessing
import os
import random
import sqlite3
import threading
import time
import traceback
import unittest

from harness import LONG, MountedTest

SECONDS = 30 if LONG else 3


def processes(count, work):
    """Runs WORK(number) in COUNT processes; the list of what failed."""
    pids = []
    for number in range(count):
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read_end)
            try:
                work(number)
                os._exit(0)
            except BaseException:  # everything must end up with the parent
                os.write(write_end, traceback.format_exc(limit=-1)[-3000:].encode())
                os._exit(1)
        os.close(write_end)
        pids.append((pid, read_end))
    failures = []
    for pid, read_end in pids:
        with open(read_end, "rb") as pipe:
            text = pipe.read().decode()
        _, status = os.waitpid(pid, 0)
        if status:
            failures.append(text or f"status {status}")
    return failures


class ManyProcesses(MountedTest):
    def until(self):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            yield

    def test_hard_reads_during_writes(self):
        # Each body says its own length and a sum over it: half of one is noticed.
        def body(seed):
            pad = chr(97 + seed % 26) * (seed * 37 % 9000)
            return json.dumps({"length": len(pad), "pad": pad, "first": pad[:1]}).encode()

        for number in range(20):
            self.write(f"k{number}.json", body(number))

        def work(number):
            chance = random.Random(number)
            for _ in self.until():
                name = f"k{chance.randrange(20)}.json"
                if number < 4:
                    # By rename: an item being written in place shows as it stands, here.
                    tmp = f".{name}.{number}"
                    self.write(tmp, body(chance.randrange(1000)))
                    os.rename(self.path(tmp), self.path(name))
                else:
                    text = self.read(name)
                    item = json.loads(text)
                    if item["length"] != len(item["pad"]) or set(item["pad"]) - {item["first"]}:
                        raise AssertionError(f"half an item: {text[:100]}")
                    if chance.randrange(50) == 0:
                        found = [n for n in os.listdir(self.dir) if n.startswith("k")]
                        if len(found) != 20:
                            raise AssertionError(f"a listing shows {len(found)} of 20: {found}")
        self.assertEqual([], processes(8, work))
        for number in range(20):
            json.loads(self.read(f"k{number}.json"))
            self.assertStored(f"k{number}", self.read(f"k{number}.json"))

    def test_writers_on_items_of_their_own(self):
        # The release of one handle may come after the next open: no save is disturbed by it.
        turns = 600

        def body(turn):
            return f'{{"turn": {turn}, "pad": "{"x" * (turn * 37 % 200)}"}}'.encode()

        def work(number):
            for turn in range(turns):
                self.write(f"p{number}.json", body(turn))
                if number % 2:
                    got = self.read(f"p{number}.json")
                    if got != body(turn):
                        raise AssertionError(f"turn {turn}: {len(got)} bytes {got[:20]}, not "
                                             f"{len(body(turn))} bytes {body(turn)[:20]}")
        self.assertEqual([], processes(8, work))
        got = self.store.changes(self.table)
        for number in range(8):
            self.assertStored(f"p{number}", body(turns - 1))
            own = [change for change in got if change.endswith(f" p{number}")]
            self.assertEqual([f"INSERT p{number}"] + [f"MODIFY p{number}"] * (turns - 1), own)
        self.assertEqual([], self.drafts())
        own = [line for line in self.mount.log_text().splitlines() if self.table in line]
        self.assertNotIn("emptied", "\n".join(own))

    def test_blocked_saves_hold_up_nobody_else(self):
        self.itemctl("put", self.table, "--items", self.items_file(50))
        for turn in range(2):  # the second time, the daemon has its threads already
            self.block_saves([f"w{turn}-{number}" for number in range(5)])

    def block_saves(self, names):
        """Items that cannot be saved for now; meanwhile everything else goes on."""
        with sqlite3.connect(self.db, isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            written = multiprocessing.Semaphore(0)

            def save(name):
                descriptor = os.open(self.path(f"{name}.json"), os.O_WRONLY | os.O_CREAT)
                os.write(descriptor, b'{"saved": true}')
                written.release()
                os.close(descriptor)

            children = [multiprocessing.Process(target=save, args=(name,)) for name in names]
            for child in children:
                child.start()
            for _ in children:
                written.acquire()
            for number in range(50):
                self.assertEqual(number, json.loads(self.read(f"i{number}.json"))["n"])
                self.assertFalse(os.path.exists(self.path(f"none-{names[0]}-{number}.json")))
            self.assertEqual(50, len([n for n in self.names() if n.startswith("i")]))
            self.assertTrue(all(child.is_alive() for child in children))
            other.execute("ROLLBACK")
        for name, child in zip(names, children):
            child.join()
            self.assertEqual(0, child.exitcode)
            self.assertStored(name, b'{"saved": true}')

    def items_file(self, count):
        path = os.path.join(self.place, f"{self.table}.jsonl")
        with open(path, "w") as file:
            for number in range(count):
                file.write(json.dumps({"key": {"S": f"i{number}"}, "n": {"N": str(number)}}) + "\n")
        return path

    def test_fsync_of_refused_saves_beside_renames(self):
        # fsync is answered under the lock of an inode that rename and unlink wait for.
        turns = 300

        def quietly(function, *arguments):
            try:
                function(*arguments)
            except OSError:
                pass

        def work(number):
            for turn in range(turns):
                if number < 2:
                    text = (b"{bad", b'{"key":"other"}')[(turn + number) % 2]
                    quietly(lambda: self.write("a.json", text, fsync=True, flags=os.O_CREAT))
                elif number == 2:
                    self.write(".tmp", '{"v": 2}')
                    quietly(os.rename, self.path(".tmp"), self.path("a.json"))
                else:
                    quietly(os.unlink, self.path("a.json"))
                    os.stat(self.dir)
        self.assertEqual([], processes(4, work))
        self.write("b.json", "{}")
        self.assertBoth("b.json", "{}")

    def test_counter_under_flock(self):
        import fcntl
        self.write("n.json", '{"n": 0}')

        def work(_):
            for _ in range(50):
                with open(self.path("lock"), "w") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX)
                    value = json.loads(self.read("n.json"))["n"]
                    self.write("n.json", json.dumps({"n": value + 1}))
        self.assertEqual([], processes(8, work))
        self.assertBoth("n.json", '{"n": 400}')

    def test_counter_under_posix_locks_on_the_item(self):
        import fcntl
        self.write("n.json", '{"n": 0}')

        def work(_):
            for _ in range(50):
                with open(self.path("n.json"), "r+b", buffering=0) as file:
                    fcntl.lockf(file, fcntl.LOCK_EX)
                    value = json.loads(file.read())["n"]
                    text = json.dumps({"n": value + 1}).encode()
                    os.pwrite(file.fileno(), text, 0)
                    os.fsync(file.fileno())
                    fcntl.lockf(file, fcntl.LOCK_UN)
        self.assertEqual([], processes(4, work))
        self.assertBoth("n.json", '{"n": 200}')

    def test_exclusive_creates_have_one_winner(self):
        for turn in range(20):
            def work(number):
                try:
                    fd = os.open(self.path(f"t{turn}.json"), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
                except FileExistsError:
                    return
                os.write(fd, b'{"winner": %d}' % number)
                os.close(fd)
                raise AssertionError("won")
            failures = processes(4, work)
            self.assertEqual(1, len(failures), failures)
            self.assertIn("AssertionError: won", failures[0])
        self.assertEqual(20, len(self.store.changes(self.table)))

    def test_listings_during_changes(self):
        # What stays is in every listing exactly once.
        for number in range(300):
            self.write(f"stay{number}.json", "{}")

        def work(number):
            for turn, _ in enumerate(self.until()):
                if number < 2:
                    name = self.path(f"x{number}-{turn % 50}.json")
                    self.write(name, "{}")
                    if turn % 2:
                        os.unlink(name)
                else:
                    stay = [name for name in os.listdir(self.dir) if name.startswith("stay")]
                    if len(stay) != 300 or len(set(stay)) != 300:
                        raise AssertionError(f"{len(set(stay))} of 300, {len(stay)} entries")
        self.assertEqual([], processes(4, work))

    def test_removal_while_listing(self):
        for number in range(2000):
            self.write(f"k{number}.json", "{}")
        with os.scandir(self.dir) as entries:
            for entry in entries:
                os.unlink(entry.path)
        self.assertEqual([], self.names())
        self.assertEqual({}, self.store.bodies(self.table))

    def test_two_removers_of_one_tree(self):
        for number in range(1000):
            self.write(f"k{number}.json", "{}")
        self.sh("rm -rf k*.json & find . -name '*.json' -delete 2>/dev/null || true; wait")
        self.assertEqual([], self.names())

    def test_seeking_in_a_directory(self):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.opendir.restype = ctypes.c_void_p
        libc.readdir.restype = ctypes.c_void_p
        libc.readdir.argtypes = libc.telldir.argtypes = libc.rewinddir.argtypes = [ctypes.c_void_p]
        libc.closedir.argtypes = [ctypes.c_void_p]
        libc.telldir.restype = ctypes.c_long
        libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
        for number in range(500):
            self.write(f"k{number}.json", "{}")
        stream = libc.opendir(self.dir.encode())

        def step():
            entry = libc.readdir(stream)
            return ctypes.string_at(entry + 19) if entry else None
        order = []
        while True:
            place = libc.telldir(stream)
            name = step()
            if name is None:
                break
            order.append((place, name))
        self.assertEqual(502, len(order))
        for place, name in random.Random(1).sample(order, 100):
            libc.seekdir(stream, place)
            self.assertEqual(name, step())
        os.unlink(self.path("k7.json"))
        for place, name in order[::50]:
            libc.seekdir(stream, place)
            got = step()
            if name != b"k7.json":
                self.assertEqual(name, got)
        libc.closedir(stream)

    def test_mapped_readers(self):
        body = b'{"v": "' + b"m" * 50_000 + b'"}'
        self.write("a.json", body)
        with open(self.path("a.json"), "rb") as file, \
                mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
            self.assertEqual(body, memory[:])
            self.write("tmp", b'{"v": 2}')
            os.rename(self.path("tmp"), self.path("a.json"))
            with open(self.path("a.json"), "rb") as new, \
                    mmap.mmap(new.fileno(), 0, prot=mmap.PROT_READ) as fresh:
                self.assertEqual(b'{"v": 2}', fresh[:])

    def test_threads_of_one_process(self):
        failures = []

        def work(number):
            try:
                chance = random.Random(number)
                for _ in range(150):
                    name = f"k{chance.randrange(10)}.json"
                    what = chance.randrange(5)
                    try:
                        if what == 0:
                            self.write(name, json.dumps({"by": number}))
                        elif what == 1:
                            self.read(name)  # perhaps while it is being written
                        elif what == 2:
                            os.rename(self.path(name), self.path(f"k{chance.randrange(10)}.json"))
                        elif what == 3:
                            os.unlink(self.path(name))
                        else:
                            os.listdir(self.dir)
                            os.stat(self.path(name))
                    except FileNotFoundError:
                        pass
                    except OSError as error:
                        # Removed while it was being written, or emptied by another writer.
                        if error.errno not in (errno.ESTALE, errno.EINVAL):
                            raise
            except BaseException:
                failures.append(traceback.format_exc(limit=-1))
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([], failures)
        for name in self.names():
            self.assertStored(name, self.read(name))
        self.assertEqual("ok", self.store.sound())


class Memory(MountedTest):
    """What the daemon keeps for a directory that is open."""

    @classmethod
    def environment(cls, **more):
        more.setdefault("ASAN_OPTIONS", "detect_leaks=1:exitcode=97:quarantine_size_mb=4")
        return super().environment(**more)

    def most_resident(self):
        with open(f"/proc/{self.mount.process.pid}/status", encoding="utf-8") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))

    def test_jump_in_a_directory(self):
        """As of who goes on where another listing ended: what is passed over is not kept."""
        body = b'{"v": "' + b"m" * 250_000 + b'"}'
        for number in range(400):
            self.write(f"k{number:03}.json", body)
        self.mount.remount()
        before = self.most_resident()
        fd = os.open(self.dir, os.O_RDONLY | os.O_DIRECTORY)
        os.lseek(fd, 402, os.SEEK_SET)  # behind all, and the dots
        libc = ctypes.CDLL(None, use_errno=True)
        libc.fdopendir.restype = libc.readdir.restype = ctypes.c_void_p
        libc.readdir.argtypes = libc.closedir.argtypes = [ctypes.c_void_p]
        stream = libc.fdopendir(fd)
        last = libc.readdir(stream)
        libc.closedir(stream)
        self.assertIsNone(last)
        self.assertLess(self.most_resident() - before, 50 << 20)


if __name__ == "__main__":
    unittest.main()
