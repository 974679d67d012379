# SPDX-License-Identifier: MIT
"""export and import: round trips, bad lines, kills in between, and readers that go away."""

import contextlib
import fcntl
import json
import os
import signal
import sqlite3
import stat
import subprocess
import time
import unittest

from ctl import FAILED, ITEMCTL, LOCKED, USAGE, CtlTest, typed

ROUNDS = 40 if os.environ.get("ITEMFS_LONG") == "1" else 6


def many(count, size=60, start=0):
    return [typed(id={"S": f"{number:07}"}, x={"S": "x" * size}) for number in range(start, start + count)]


def size_of(path):
    """0 also where there is no such file."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.getsize(path)
    return 0


RECORD_AT = 4 << 20  # of a position's second record


def record_of(path):
    """The newer record of a position: bytes, lines and items done; zeros where there is none."""
    found = [(0, 0, 0, 0)]
    with open(path, "rb") as file:
        for at in (0, RECORD_AT):
            file.seek(at)
            lines = file.read(RECORD_AT).split(b"\n")
            if len(lines) > 1:
                offset, line, items, _, _, turn = map(int, lines[1].split())
                found.append((turn, offset, line, items))
    return max(found)[1:]


class Transfer(CtlTest):
    def setUp(self):
        super().setUp()
        self.out("create", "t", "--key", "id")

    def side_files(self):
        """What export and import keep beside their work."""
        found = [name for name in os.listdir(self.dir) if ".partial" in name]
        folder = os.path.join(self.state, "itemfs", "import")
        return found + (os.listdir(folder) if os.path.isdir(folder) else [])

    def kill_while(self, condition, *arguments):
        """Starts it and kills it (-9) once CONDITION holds, unless it is done before."""
        process = self.start(*arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and not condition():
            time.sleep(0.001)
        process.kill()
        process.wait()


class RoundTrips(Transfer):
    def test_every_type(self):
        items = [
            r'{"b":{"B":""},"deep":{"M":{"l":{"L":[{"B":"AAH/"},{"BS":["","AA=="]},{"M":{}}]}}},'
            r'"id":{"S":"a"},"n":{"N":"12345678901234567890123456789012345678"}}',
            r'{"":{"S":""},"id":{"S":"b/\u0000\ud800"},"ns":{"NS":["1","2.50","-1E-3"]},'
            r'"ss":{"SS":["","é"]}}',
            r'{"$value":{"L":[]},"-ttl":{"N":"4000000000"},"id":{"S":"bare"}}',
            r'{"-ttl":{"N":"4000000000"},"id":{"S":"c"},"t":{"BOOL":true},"z":{"NULL":true}}',
            r'{"id":{"S":"empty"}}',
        ]
        self.put("t", *items)
        self.out("export", "t", "out")
        self.assertEqual("\n".join(items) + "\n", self.read("out").decode())
        self.out("create", "u", "--key", "id")
        self.assertEqual('{"TableName": "u", "ItemCount": 5}\n', self.out("import", "u", "out"))
        self.assertEqual(items, self.lines("export", "u", "-"))
        self.assertEqual([], self.side_files())

    def test_every_key_type(self):
        for table, options, items in (
                ("n", ("id:N",), [typed(id={"N": n}) for n in ("-5", "0", "1.5", "1" * 38)]),
                ("b", ("id:B",), [typed(id={"B": b}) for b in ("AA==", "AAE=", "/w==")]),
                ("sorted", ("id", "--sort", "n:N"), [
                    typed(id={"S": i}, n={"N": n}) for i in "ab" for n in ("-1", "2", "10")])):
            self.out("create", table, "--key", *options)
            self.put(table, *items[::-1])
            self.out("export", table, "out")
            self.assertEqual(items, self.read("out").decode().splitlines())
            self.out("drop", table, "--force")
            self.out("create", table, "--key", *options)
            self.out("import", table, "-", input=self.read("out"))
            self.assertEqual(items, self.lines("export", table, "-"))

    def test_tags_are_sorted(self):
        self.out("create", "tags")
        self.out("import", "tags", "-", input=typed(key={"S": "b_a"}))
        self.assertEqual([typed(key={"S": "a_b"})], self.lines("export", "tags", "-"))

    def test_many(self):
        items = many(5000)
        self.write("in", "\n".join(items))
        self.out("import", "t", "in")
        self.assertEqual(5000, self.count("t"))
        self.assertSound()
        self.out("export", "t", "out")
        self.assertEqual(items, self.read("out").decode().splitlines())

    def test_large_lines(self):
        items = [typed(id={"S": str(n)}, x={"S": "y" * 3_000_000}) for n in range(4)]
        self.out("import", "t", "-", input="\n".join(items))
        self.assertEqual(items, self.lines("export", "t", "-"))

    def test_empty(self):
        self.out("export", "t", "out")
        self.assertEqual(b"", self.read("out"))
        for text in ("", "\n\n", "   "):
            self.assertEqual('{"TableName": "t", "ItemCount": 0}\n',
                             self.out("import", "t", "-", input=text))

    def test_terminal(self):
        self.put("t", *many(3))
        self.assertEqual("3 items exported\n", self.on_terminal("export", "t", "out"))
        self.assertEqual("3 items imported\n", self.on_terminal("import", "t", "out"))


class Exports(Transfer):
    def test_file_is_replaced_whole(self):
        self.put("t", *many(3))
        self.write("out", "old")
        os.symlink("out", self.path("link"))
        self.out("export", "t", "link")
        self.assertTrue(os.path.islink(self.path("link")))
        self.assertEqual(many(3), self.read("out").decode().splitlines())
        self.assertEqual(0o644, stat.S_IMODE(os.stat(self.path("out")).st_mode))

    def test_what_is_no_file(self):
        self.put("t", *many(3))
        self.assertEqual("", self.out("export", "t", "/dev/null"))
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))
        os.mkfifo(self.path("pipe"))
        reader = subprocess.Popen(["cat", self.path("pipe")], stdout=subprocess.PIPE)
        self.out("export", "t", "pipe")
        self.assertEqual(many(3), reader.communicate()[0].decode().splitlines())
        self.error(FAILED, "export", "t", ".")
        self.error(FAILED, "export", "t", "no/out")
        self.assertIn("No space left", self.error(FAILED, "export", "t", "/dev/full"))
        self.assertIn("No space left", self.full("scan", "t"))
        self.assertIn("No space left", self.full("export", "t", "-"))

    def full(self, *arguments):
        with open("/dev/full", "wb") as out:
            done = subprocess.run([ITEMCTL, *arguments], env=self.env, stdout=out,
                                  stderr=subprocess.PIPE, text=True)
        self.assertEqual(FAILED, done.returncode)
        return done.stderr

    def test_one_at_a_time(self):
        self.put("t", *many(3))
        with open(self.path("out.partial-position"), "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.assertIn("another itemctl", self.error(LOCKED, "export", "t", "out"))
        self.out("export", "t", "out")

    def test_killed(self):
        """Killed anywhere and run again: the file is right, and was never there half."""
        items = many(30000)
        self.out("import", "t", "-", input="\n".join(items))
        want = ("\n".join(items) + "\n").encode()
        partial = self.path("out.partial")
        for round in range(ROUNDS):
            size = len(want) * (round + 1) // (ROUNDS + 1)
            self.kill_while(lambda: size_of(partial) >= size, "export", "t", "out")
            if os.path.exists(self.path("out")):  # it was done before it could be killed
                self.assertEqual(want, self.read("out"))
                os.unlink(self.path("out"))
        self.out("export", "t", "out")
        self.assertEqual(want, self.read("out"))
        self.assertEqual([], self.side_files())

    def killed_in_the_middle(self):
        """Leaves an export behind that has recorded its position; what it had written then."""
        record = self.path("out.partial-position")
        for _ in range(20):
            self.kill_while(lambda: size_of(record), "export", "t", "out")
            if size_of(record):
                return record_of(record)[0]
            os.unlink(self.path("out"))
        self.fail("no export took long enough to record its position")

    def test_goes_on(self):
        items = many(30000, 500)
        self.out("import", "t", "-", input="\n".join(items))
        done = self.killed_in_the_middle()
        self.assertGreater(done, 0)
        # What was written before is taken as it is: a mark in it shows that it was not read again.
        with open(self.path("out.partial"), "r+b") as file:
            file.write(b"#")
        err = self.run_ctl("export", "t", "out")[1]
        self.assertIn("going on behind", err)
        self.assertEqual(("#" + "\n".join(items)[1:] + "\n").encode(), self.read("out"))

    def test_begins_anew_when_the_store_changed(self):
        items = many(30000, 500)
        self.out("import", "t", "-", input="\n".join(items))
        self.killed_in_the_middle()
        self.out("delete", "t", "-k", "0000000")
        err = self.run_ctl("export", "t", "out")[1]
        self.assertIn("beginning anew", err)
        self.assertEqual(("\n".join(items[1:]) + "\n").encode(), self.read("out"))
        self.killed_in_the_middle()
        self.out("drop", "t", "--force")
        self.out("create", "t", "--key", "id")
        self.out("export", "t", "out")
        self.assertEqual(b"", self.read("out"))

    def test_position_that_was_cut_short(self):
        items = many(30000, 500)
        self.out("import", "t", "-", input="\n".join(items))
        self.killed_in_the_middle()
        os.truncate(self.path("out.partial-position"), 70)
        self.out("export", "t", "out")
        self.assertEqual(("\n".join(items) + "\n").encode(), self.read("out"))


class Imports(Transfer):
    def test_bad_lines(self):
        good = many(450)
        for bad, reason in (('{"id":{"S":"x"}', "column 16"), ('{"id":{"N":"1"}}', "type S"),
                            ("[]", "column 1"), ("x" * 100, "column 1")):
            self.write("in", "\n".join(good[:301] + ["", bad] + good[301:]))
            out, err = self.run_ctl("import", "t", "in", status=FAILED)
            self.assertEqual("", out)
            self.assertIn("itemctl: in:303: ", err)
            self.assertIn(reason, err)
            self.assertIn("302 lines before the bad one are in the table", err)
            self.assertEqual(good[:301], self.lines("scan", "t"))
        # Repaired, all of it is imported, for the file is another one now.
        self.write("in", "\n".join(good))
        self.assertEqual('{"TableName": "t", "ItemCount": 450}\n', self.out("import", "t", "in"))
        self.assertEqual(good, self.lines("scan", "t"))
        self.assertEqual([], self.side_files())

    def test_first_line_bad(self):
        err = self.run_ctl("import", "t", "-", input="[", status=FAILED)[1]
        self.assertEqual("itemctl: standard input:1: ", err[:27])
        self.assertEqual(0, self.count("t"))

    def test_what_cannot_be_read(self):
        self.assertIn("No such file", self.error(FAILED, "import", "t", "nothing"))
        self.assertIn(".: no export of DynamoDB", self.error(FAILED, "import", "t", "."))
        self.error(USAGE, "import", "t")

    def test_line_that_is_too_long(self):
        self.write("mount.conf", "[mount]\nmax_item_size = 1K\n[backend b]\npath = items.db\n")
        line = typed(id={"S": "x" * 3_000_000})
        self.assertIn("standard input:2: the line is too long", self.run_ctl(
            "-s", "mount.conf", "import", "t", "-", input=many(1)[0] + "\n" + line,
            status=FAILED)[1])
        self.assertEqual(1, self.count("t"))

    def position(self):
        found = self.side_files()
        return os.path.join(self.state, "itemfs", "import", found[0]) if found else None

    def test_killed(self):
        items = many(20000)
        self.write("in", "\n".join(items))
        for round in range(ROUNDS):
            count = len(items) * (round + 1) // (ROUNDS + 1)
            self.kill_while(lambda: self.count("t") >= count, "import", "t", "in")
            self.assertSound()
            self.assertEqual(items[:self.count("t")], self.lines("scan", "t"))
        self.assertEqual('{"TableName": "t", "ItemCount": 20000}\n', self.out("import", "t", "in"))
        self.assertEqual(items, self.lines("scan", "t"))
        self.assertEqual([], self.side_files())

    def killed_in_the_middle(self, items):
        """Leaves an import behind that has recorded its position; the lines it had done then."""
        self.write("in", "\n".join(items))
        recorded = lambda: self.position() and size_of(self.position())
        for _ in range(20):
            self.kill_while(recorded, "import", "t", "in")
            if recorded():
                return record_of(self.position())[1]
            self.out("drop", "t", "--force")
            self.out("create", "t", "--key", "id")
        self.fail("no import took long enough to record its position")

    def test_goes_on(self):
        items = many(40000)
        lines = self.killed_in_the_middle(items)
        self.assertGreater(lines, 0)
        self.assertLessEqual(lines, self.count("t"))
        # An item of the lines that are done is gone: going on does not bring it back.
        self.out("delete", "t", "-k", "0000000")
        out, err = self.run_ctl("import", "t", "in")
        self.assertIn(f"going on at line {lines + 1} of in", err)
        self.assertEqual('{"TableName": "t", "ItemCount": 40000}\n', out)
        self.assertEqual(items[1:], self.lines("scan", "t"))

    def test_begins_anew_for_another_file_or_table(self):
        items = many(40000)
        self.killed_in_the_middle(items)
        self.write("in", "\n".join(items))  # the same again, but who knows
        self.assertNotIn("going on", self.run_ctl("import", "t", "in")[1])
        self.out("drop", "t", "--force")
        self.out("create", "t", "--key", "id")
        self.killed_in_the_middle(items)
        self.out("drop", "t", "--force")
        self.out("create", "t", "--key", "id")
        self.assertNotIn("going on", self.run_ctl("import", "t", "in")[1])
        self.assertEqual(items, self.lines("scan", "t"))

    def test_one_at_a_time(self):
        self.killed_in_the_middle(many(40000))
        with open(self.position(), "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.assertIn("another itemctl", self.error(LOCKED, "import", "t", "in"))
        self.out("import", "t", "in")

    def test_without_a_state_directory(self):
        self.write("state", "a file stands in the way")
        self.write("in", "\n".join(many(10)))
        err = self.run_ctl("import", "t", "in")[1]
        self.assertIn("this import will begin anew", err)
        self.assertEqual(10, self.count("t"))

    def test_interrupt_leaves_whole_batches(self):
        items = many(40000)
        self.write("in", "\n".join(items))
        process = self.start("import", "t", "in", stdout=subprocess.DEVNULL)
        while process.poll() is None and self.count("t") < 2000:
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        self.assertIn(process.wait(), (-signal.SIGINT, 0))
        self.assertSound()
        self.assertEqual(items[:self.count("t")], self.lines("scan", "t"))

    def test_beside_other_writers(self):
        """The store is held by another writer for a while: the import waits and says nothing."""
        self.write("in", "\n".join(many(1000)))
        with contextlib.closing(sqlite3.connect(self.store, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            process = self.start("import", "t", "in", stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE)
            time.sleep(1)
            self.assertIsNone(process.poll())
            other.execute("ROLLBACK")
        self.assertEqual((None, b""), process.communicate(timeout=60))
        self.assertEqual((0, 1000), (process.returncode, self.count("t")))


class BrokenPipes(Transfer):
    def test_reader_that_goes_away(self):
        self.out("import", "t", "-", input="\n".join(many(20000)))
        for arguments in (("scan", "t"), ("export", "t", "-"), ("changes", "t"),
                          ("query", "t", "--key-name", "id", "-k", "0000001")):
            for restore in (True, False):
                with self.subTest((arguments, restore)):
                    process = self.start(*arguments, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, restore_signals=restore)
                    if arguments[0] != "query":
                        process.stdout.read(10)
                    process.stdout.close()
                    err = process.stderr.read()
                    process.stderr.close()
                    self.assertIn(process.wait(), (0, 141, -signal.SIGPIPE))
                    self.assertEqual(b"", err)


class Progress(Transfer):
    def test_bar_on_a_terminal_only(self):
        self.write("in", "\n".join(many(20000)))
        self.assertEqual("", self.run_ctl("import", "t", "in")[1])
        master, slave = os.openpty()
        process = self.start("import", "t", "in", stdout=subprocess.DEVNULL, stderr=slave)
        os.close(slave)
        seen = b""
        with contextlib.suppress(OSError):
            while piece := os.read(master, 65536):
                seen += piece
        os.close(master)
        self.assertEqual(0, process.wait())
        self.assertRegex(seen.decode(), r"\[#* *\] +\d+ %  \d+ items imported")
        self.assertTrue(seen.endswith(b"\r\x1b[K"), seen[-50:])


if __name__ == "__main__":
    unittest.main()
