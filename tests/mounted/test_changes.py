# SPDX-License-Identifier: MIT
"""Change streams as files: read by the tools that read logs, while changes come."""

import contextlib
import errno
import json
import os
import random
import select
import subprocess
import threading
import time
import unittest

from follow import Follower, described, fill
from harness import LONG, MountedTest, has_tool, wait_for
from terminal import interact


class ChangesTest(MountedTest):
    def setUp(self):
        super().setUp()
        self.folder = os.path.join(self.mnt, ".itemfs", "changes")
        self.file = os.path.join(self.folder, self.table + ".jsonl")

    def save(self, *names):
        for name in names:
            self.write(f"{name}.json", json.dumps({"name": name}))

    def lines(self):
        with open(self.file) as file:
            return file.read().splitlines()

    def follow(self, *command):
        return Follower(self, list(command), cwd=self.dir)

    def switch(self, state):
        os.setxattr(self.dir, "user.itemfs.stream", state)


class Reading(ChangesTest):
    def test_every_change_once(self):
        self.save("a", "b")
        self.write("a.json", '{"name": "c"}')
        self.sh("mv b.json c.json; rm c.json")
        want = ["INSERT a", "INSERT b", "MODIFY a", "INSERT c", "REMOVE b", "REMOVE c"]
        self.assertEqual(sorted(want), sorted(self.store.changes(self.table)))
        lines = self.sh(f"cat {self.file}").stdout.splitlines()
        self.assertEqual(self.store.changes(self.table), described(lines))
        self.assertEqual(lines, self.itemctl("changes", self.table).stdout.splitlines())
        record = json.loads(lines[2])
        self.assertEqual({"key": {"S": "a"}, "name": {"S": "a"}}, record["old_item"])
        self.assertEqual({"key": {"S": "a"}, "name": {"S": "c"}}, record["new_item"])

    def test_what_was_saved_is_there(self):
        """An open waits for it, also where the file was open before."""
        names = [f"k{number}" for number in range(30)]
        with open(self.file) as held:
            for count, name in enumerate(names, 1):
                self.save(name)
                if count > len(names) // 2:
                    held.close()
                self.assertEqual(count, len(self.lines()))
        self.assertEqual([f"INSERT {name}" for name in names], described(self.lines()))

    def test_changes_made_elsewhere(self):
        self.itemctl("put", self.table, "--item", "-", input='{"key":{"S":"far"}}')
        self.assertEqual(["INSERT far"], described(self.lines()))

    def test_tail_from_the_beginning(self):
        for command in (["-n", "+1"], ["-c", "+0"]):
            with self.subTest(command=command):
                self.save("a", "b")
                self.sh("rm a.json b.json")
                before = self.store.changes(self.table)
                tail = self.follow("tail", *command, "-f", self.file)
                self.assertEqual(before, described(tail.wait(len(before))))
                self.save("a", "b", "c")
                self.sh("rm c.json")
                want = self.store.changes(self.table)
                self.assertEqual(want, described(tail.wait(len(want))))
                tail.stop()

    def test_tail_of_the_last_ten(self):
        self.save(*(f"k{number:02}" for number in range(25)))
        tail = self.follow("tail", "-f", self.file)
        self.assertEqual([f"INSERT k{number:02}" for number in range(15, 25)],
                         described(tail.wait(10)))
        self.save("more")
        self.assertEqual("INSERT more", described(tail.wait(11))[10])
        self.assertTrue(tail.none())

    def test_tail_by_name(self):
        self.save("a")
        tail = self.follow("tail", "-n", "+1", "-F", "-s", "0.05", self.file)
        tail.wait(1)
        for number in range(20):  # it opens the file again and again meanwhile
            self.save(f"k{number}")
            self.assertEqual(f"INSERT k{number}", described(tail.wait(number + 2))[-1])
            time.sleep(0.02)
        self.assertTrue(tail.none())

    def test_several_files_by_one_tail(self):
        other = self.table + "-2"
        os.mkdir(os.path.join(self.mnt, other))
        tail = self.follow("tail", "-q", "-f", self.file, self.file.replace(".jsonl", "-2.jsonl"))
        self.save("a")
        self.assertEqual(["INSERT a"], described(tail.wait(1)))
        self.write(f"../{other}/b.json", "{}")
        self.assertEqual(["INSERT a", "INSERT b"], described(tail.wait(2)))

    def test_jq_behind_tail(self):
        jq = self.follow("sh", "-c", f"tail -n +1 -f {self.file} |"
                         " jq --unbuffered -c '[.change_type, .new_item.name.S]'")
        self.save("a")
        self.assertEqual(['["INSERT","a"]'], jq.wait(1))
        self.sh("rm a.json")
        self.assertEqual('["REMOVE",null]', jq.wait(2)[1])
        subprocess.run(["pkill", "-P", str(jq.process.pid), "tail"], check=True)
        self.assertEqual(0, jq.ended()[0])

    def test_head_ends_tail(self):
        head = self.follow("bash", "-c", f"set -o pipefail; tail -n +1 -f {self.file} | head -n 1")
        self.save("a", "b")
        status, said, lines = head.ended()
        self.assertEqual((141, "", ["INSERT a"]), (status, said, described(lines)))

    def test_copies_and_counts(self):
        self.save(*(f"k{number}" for number in range(300)))
        copy = os.path.join(self.place, "copy")
        self.assertEqual("300", self.sh(f"wc -l < {self.file}").stdout.strip())
        for script in ("cp {0} {1}", "rsync {0} {1}", "dd if={0} of={1} bs=1000 status=none",
                       "cat < {0} > {1}", "sed -n p {0} > {1}"):
            with self.subTest(script=script):
                self.sh(script.format(self.file, copy))
                self.assertEqual(self.store.changes(self.table), described(open(copy)))
                self.sh(f"cmp {copy} {self.file}")
        self.assertEqual("1", self.sh(f"grep -c '\"S\":\"k299\"}}}},' {self.file}").stdout.strip())

    def test_reads_anywhere(self):
        self.save(*(f"k{number}" for number in range(100)))
        whole = "\n".join(self.lines()).encode() + b"\n"
        chance = random.Random(5)
        with open(self.file, "rb", buffering=0) as file:
            self.assertEqual(len(whole), os.fstat(file.fileno()).st_size)
            for _ in range(300):
                at, size = chance.randrange(len(whole) + 50), chance.randrange(1, 5000)
                self.assertEqual(whole[at:at + size], os.pread(file.fileno(), size, at))
            self.save("more")
            wait_for("growth", lambda: os.fstat(file.fileno()).st_size > len(whole))
            self.assertEqual(whole[:70], os.pread(file.fileno(), 70, 0))  # nothing has moved
            file.seek(-1, os.SEEK_END)
            self.assertEqual(b"\n", file.read())
            file.seek(len(whole))
            self.assertEqual(["INSERT more"], described(file.read().splitlines()))

    @unittest.skipUnless(has_tool("less"), "less is not installed")
    def test_less(self):
        self.save(*(f"k{number}" for number in range(200)))
        status, seen = interact(["less", "-S", self.file],
                                [('"k0"', "G"), ('"k199"', "g"), ('"k0"', "F"), ("Waiting", "\x03"),
                                 (":", "q")], self.dir, self.environment())
        self.assertEqual(0, status, seen)

    def test_size_and_time(self):
        self.assertEqual(0, os.stat(self.file).st_size)
        self.save("a")
        self.assertEqual(0, os.stat(self.file).st_size)  # nobody has it open
        with open(self.file) as file:
            text = file.read()
            found = os.stat(self.file)
            self.assertEqual((len(text), 0o100444), (found.st_size, found.st_mode))
            self.assertEqual(self.store.records(self.table)[0]["time"], found.st_mtime_ns)
        self.assertEqual(0, os.stat(self.file).st_size)

    def test_listing(self):
        self.create(self.table + "-off", "--stream", "off")
        listed = os.listdir(self.folder)
        self.assertLessEqual({self.table + ".jsonl", self.table + "-off.jsonl"}, set(listed))
        self.assertEqual(sorted(table + ".jsonl" for table in os.listdir(self.mnt)), sorted(listed))
        for name in (self.table, self.table + ".json", "nothing.jsonl", ".jsonl", "x/y.jsonl"):
            self.assertErrno(errno.ENOENT, os.stat, os.path.join(self.folder, name))

    def test_nothing_can_be_written(self):
        for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND):
            self.assertErrno(errno.EACCES, os.open, self.file, flags)
        self.assertErrno(errno.EPERM, os.truncate, self.file, 0)
        self.assertErrno(errno.EPERM, os.chmod, self.file, 0o600)
        self.assertErrno(errno.EPERM, os.unlink, self.file)
        self.assertErrno(errno.EPERM, os.rmdir, self.folder)
        for name in ("x", "x.jsonl"):
            self.assertErrno(errno.EPERM, os.open, f"{self.folder}/{name}", os.O_CREAT | os.O_WRONLY)
        with self.assertRaises(OSError):
            os.rename(self.file, self.file + "2")
        self.save("a")
        self.assertEqual(1, len(self.lines()))

    def test_keys_of_all_kinds(self):
        number, binary = self.table + "-n", self.table + "-b"
        self.create(number, "--key", "p:N", "--sort", "s:N")
        self.create(binary, "--key", "p:B")
        self.itemctl("put", number, "--item", "-", input='{"p":{"N":"-1.50"},"s":{"N":"1e3"}}')
        self.itemctl("put", binary, "--item", "-", input='{"p":{"B":"/wA="}}')
        for table, keys in ((number, {"p": {"N": "-1.5"}, "s": {"N": "1000"}}),
                            (binary, {"p": {"B": "/wA="}})):
            with open(f"{self.folder}/{table}.jsonl") as file:
                self.assertEqual(keys, json.loads(file.read())["keys"])

    def test_stream_switched(self):
        """Changes while it is off are in no stream; whoever reads goes on when it is on again."""
        self.save("a")
        tail = self.follow("tail", "-n", "+1", "-f", self.file)
        tail.wait(1)
        self.switch(b"disabled")
        self.save("b")
        self.assertEqual(["INSERT a"], described(self.lines()))  # what was recorded is still there
        self.switch(b"enabled")
        self.save("c")
        self.assertEqual(["INSERT a", "INSERT c"], described(tail.wait(2)))
        self.assertEqual(["INSERT a", "INSERT c"], described(self.lines()))

    def test_stream_that_was_never_on(self):
        self.create(self.table + "-off", "--stream", "off")
        file = f"{self.folder}/{self.table}-off.jsonl"
        self.write(f"../{self.table}-off/a.json", "{}")
        self.assertEqual("", self.sh(f"cat {file}").stdout)
        tail = self.follow("tail", "-f", file)
        os.setxattr(f"{self.mnt}/{self.table}-off", "user.itemfs.stream", b"enabled")
        self.write(f"../{self.table}-off/b.json", "{}")
        self.assertEqual(["INSERT b"], described(tail.wait(1)))


class Polling(ChangesTest):
    def setUp(self):
        super().setUp()
        self.fd = os.open(self.file, os.O_RDONLY)
        self.addCleanup(os.close, self.fd)

    def read_all(self):
        data = b""
        while piece := os.read(self.fd, 4096):
            data += piece
        return described(data.decode().splitlines())

    def check(self, poll, register):
        """POLL(seconds) tells whether there is something."""
        self.save("a", "b")
        register()
        self.assertTrue(poll(20))
        self.assertEqual(["INSERT a", "INSERT b"], self.read_all())
        self.assertFalse(poll(0.2))
        for number in range(20):
            timer = threading.Timer(0.02 * (number % 3), self.save, [f"k{number}"])
            timer.start()
            self.assertTrue(poll(20))
            self.assertEqual([f"INSERT k{number}"], self.read_all())
            self.assertFalse(poll(0))
            timer.join()
        os.lseek(self.fd, 0, os.SEEK_SET)
        self.assertEqual(22, len(self.read_all()))

    def test_epoll(self):
        with contextlib.closing(select.epoll()) as epoll:
            self.check(epoll.poll, lambda: epoll.register(self.fd, select.EPOLLIN))

    def test_epoll_of_edges(self):
        with contextlib.closing(select.epoll()) as epoll:
            self.check(epoll.poll, lambda: epoll.register(self.fd, select.EPOLLIN | select.EPOLLET))

    def test_poll(self):
        poller = select.poll()
        self.check(lambda seconds: poller.poll(seconds * 1000),
                   lambda: poller.register(self.fd, select.POLLIN))

    def test_select(self):
        self.check(lambda seconds: select.select([self.fd], [], [], seconds)[0], lambda: None)

    def test_empty_file(self):
        with contextlib.closing(select.epoll()) as epoll:
            epoll.register(self.fd, select.EPOLLIN)
            self.assertEqual([], epoll.poll(0.2))
            self.save("a")
            self.assertEqual([(self.fd, select.EPOLLIN)], epoll.poll(20))

    def test_one_file_opened_many_times(self):
        epoll, fds = select.epoll(), [os.open(self.file, os.O_RDONLY) for _ in range(50)]
        self.addCleanup(epoll.close)
        for fd in fds:
            self.addCleanup(os.close, fd)
            epoll.register(fd, select.EPOLLIN)
        for fd in fds[::2]:
            epoll.unregister(fd)
        self.assertEqual([], epoll.poll(0.1))
        self.save("a")
        woken = set()
        while len(woken) < 25:
            found = epoll.poll(20)
            self.assertTrue(found)
            for fd, _ in found:
                self.assertEqual(1, os.read(fd, 9999).count(b"\n"))
                woken.add(fd)
        self.assertEqual(set(fds[1::2]), woken)
        self.assertEqual([], epoll.poll(0.1))

    def test_other_files_are_always_ready(self):
        self.save("a")
        poller = select.poll()
        with open(self.path("a.json")) as item, open(self.path("../.itemfs/metrics")) as control:
            poller.register(item, select.POLLIN)
            poller.register(control, select.POLLIN)
            self.assertEqual({(item.fileno(), select.POLLIN), (control.fileno(), select.POLLIN)},
                             set(poller.poll(0)))


class Many(ChangesTest):
    def test_many_readers_see_the_same(self):
        self.save("a")
        tails = [self.follow("tail", "-n", "+1", "-f", "-s", "0.1", self.file) for _ in range(40)]
        names = [f"k{number}" for number in range(100)]
        self.save(*names)
        want = self.lines()
        self.assertEqual(101, len(want))
        for tail in tails:
            self.assertEqual(want, tail.wait(101))

    def test_many_tables(self):
        tables = [f"{self.table}-{number}" for number in range(30)]
        for table in tables:
            os.mkdir(os.path.join(self.mnt, table))
        tail = self.follow("tail", "-q", "-f", "-s", "0.1",
                           *(f"{self.folder}/{table}.jsonl" for table in tables))
        for table in tables:
            self.write(f"../{table}/{table}.json", "{}")
        self.assertEqual({f"INSERT {table}" for table in tables}, set(described(tail.wait(30))))

    def test_openers_wait_and_others_work(self):
        """Many open a large stream at once; the mount answers all others meanwhile."""
        fill(self.db, self.table, 3000, 5000)
        counts = [self.follow("wc", "-l", self.file) for _ in range(40)]
        for number in range(20):
            self.save(f"k{number}")
        for count in counts:
            status, said, lines = count.ended()
            self.assertEqual((0, ""), (status, said))
            self.assertGreaterEqual(int(lines[0].split()[0]), 3000)


class Memory(ChangesTest):
    """The daemon keeps nothing in memory for those who read slowly."""

    @classmethod
    def environment(cls, **more):
        more.setdefault("ASAN_OPTIONS", "detect_leaks=1:exitcode=97:quarantine_size_mb=4")
        return super().environment(**more)

    def resident(self):
        with open(f"/proc/{self.mount.process.pid}/status") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmRSS"))

    def test_slow_reader(self):
        rounds, each, size = (20 if LONG else 4), 4000, 10_000
        fill(self.db, self.table, each, size)
        with open(self.file, "rb", buffering=0) as slow:
            slow.read(10)
            before = self.resident()
            for turn in range(rounds):
                fill(self.db, self.table, each, size)
                with open(self.file, "rb") as fast:
                    self.assertEqual((turn + 2) * each, sum(1 for _ in fast))
            self.assertLess(self.resident() - before, 48 << 20)
            self.assertEqual((rounds + 1) * each, slow.read(50).count(b"\n") +
                             sum(1 for _ in open(slow.fileno(), "rb", closefd=False)))


class ReadOnly(MountedTest):
    options = ("ro",)

    @classmethod
    def setUpClass(cls):
        cls.made = False
        super().setUpClass()

    @classmethod
    def new_mount(cls, source, name, options=(), **more):
        subprocess.run([os.path.join(os.path.dirname(cls.store.itemctl), "itemctl"), "-s", source,
                        "create", "t"], env=cls.environment(), check=True)
        return super().new_mount(source, name, options, **more)

    def make_table(self):
        pass

    def test_there_are_no_files_of_changes(self):
        control = os.path.join(self.mnt, ".itemfs")
        self.assertEqual(["t.json"], os.listdir(control + "/tables"))
        self.assertNotIn("changes", os.listdir(control))
        for path in ("/changes", "/changes/t.jsonl"):
            self.assertErrno(errno.EOPNOTSUPP, os.stat, control + path)
        self.assertIn("itemctl changes --follow", self.mount.log_text())


if __name__ == "__main__":
    unittest.main()
