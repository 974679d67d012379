# SPDX-License-Identifier: MIT
"""changes and drafts."""

import contextlib
import json
import signal
import sqlite3
import subprocess
import time
import unittest

from ctl import ABSENT, FAILED, ITEMCTL, USAGE, CtlTest, typed

TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$"


class Changes(CtlTest):
    def changes(self, *arguments):
        return [json.loads(line) for line in self.lines("changes", "t", *arguments)]

    def setUp(self):
        super().setUp()
        self.out("create", "t", "--key", "id")
        self.out("create", "other", "--key", "id")

    def test_records(self):
        first = typed(id={"S": "a"}, n={"N": "1.0"}, b={"BS": ["AA=="]})
        second = typed(id={"S": "a"}, n={"N": "2"})
        self.put("t", first)
        self.put("other", first)
        self.put("t", second)
        self.out("delete", "t", "-k", "a")
        raw = self.lines("changes", "t")
        self.assertTrue(raw[0].startswith('{"change_type":"INSERT","keys":{"id":{"S":"a"}},'
                                          f'"new_item":{first},"change_id":"'), raw[0])
        self.assertTrue(raw[1].startswith('{"change_type":"MODIFY","keys":{"id":{"S":"a"}},'
                                          f'"old_item":{first},"new_item":{second},'), raw[1])
        records = self.changes()
        self.assertEqual(["INSERT", "MODIFY", "REMOVE"], [r["change_type"] for r in records])
        self.assertNotIn("old_item", records[0])
        self.assertNotIn("new_item", records[2])
        self.assertNotIn("expired", records[2])
        for record in records:
            self.assertRegex(record["time"], TIME)
            self.assertRegex(record["change_id"], "^[0-9a-f]{32}$")
        self.assertEqual(sorted(r["time"] for r in records), [r["time"] for r in records])
        self.assertAlmostEqual(time.time(), time.mktime(time.strptime(
            records[0]["time"][:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone, delta=60)
        self.assertEqual(3, len({r["change_id"] for r in records}))

    def test_from(self):
        for number in range(700):
            if number % 100 == 0:
                self.put("other", typed(id={"S": str(number)}))
        self.put("t", *(typed(id={"S": f"{number:03}"}) for number in range(700)))
        records = self.changes()
        self.assertEqual([f"{number:03}" for number in range(700)],
                         [r["keys"]["id"]["S"] for r in records])
        for place in (0, 255, 256, 698, 699):
            self.assertEqual(records[place + 1:],
                             self.changes("--from", records[place]["change_id"]))
        self.assertIn("older than what is kept",
                      self.error(ABSENT, "changes", "t", "--from", "0" * 32))

    def test_stream_off(self):
        self.out("create", "off", "--key", "id", "--stream", "off")
        self.assertIn("is off", self.error(FAILED, "changes", "off"))

    def test_values_beside_their_ttl(self):
        item = typed(**{"id": {"S": "a"}, "$value": {"N": "5"}, "-ttl": {"N": "4000000000"}})
        self.put("t", item)
        self.put("t", typed(**{"id": {"S": "a"}, "$value": {"N": "6"}}))
        records = self.changes()
        self.assertEqual(json.loads(item), records[0]["new_item"])
        self.assertEqual(json.loads(item), records[1]["old_item"])
        self.assertNotIn("-ttl", records[1]["new_item"])


    def test_safe_on_a_terminal(self):
        self.put("t", typed(id={"S": "\x1b\x7f\x9b\n"}))
        shown = self.on_terminal("changes", "t")
        self.assertIn(r'{"id":{"S":"\u001b\x7F\xC2\x9B\n"}}', shown)
        self.assertEqual(1, shown.count("\n"))
        self.assertTrue(shown[:-1].isprintable())


class Follow(CtlTest):
    """changes --follow: its lines as they come."""

    def setUp(self):
        super().setUp()
        self.out("create", "t", "--key", "id")

    def save(self, *names):
        self.put("t", *(typed(id={"S": name}) for name in names))

    def follow(self, *more, **how):
        process = self.start("changes", "t", "--follow", *more, stdin=subprocess.DEVNULL,
                             stdout=how.pop("stdout", subprocess.PIPE), stderr=subprocess.PIPE,
                             text=True, **how)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        process.kill()
        process.wait()
        for file in (process.stdout, process.stderr):
            if file:
                file.close()

    def next(self, process, *names):
        """The next lines are the records of these items."""
        for name in names:
            line = process.stdout.readline()
            self.assertTrue(line.endswith("}\n"), (line, name))
            self.assertEqual(name, json.loads(line)["keys"]["id"]["S"])

    def test_what_is_kept_and_what_comes(self):
        self.save("a", "b")
        process = self.follow()
        self.next(process, "a", "b")
        for number in range(20):
            self.save(f"k{number}")
            self.next(process, f"k{number}")
        self.out("delete", "t", "-k", "a")
        self.assertEqual("REMOVE", json.loads(process.stdout.readline())["change_type"])
        self.assertIsNone(process.poll())

    def test_from(self):
        self.save("a", "b", "c")
        second = json.loads(self.lines("changes", "t")[1])["change_id"]
        process = self.follow("--from", second)
        self.next(process, "c")
        self.save("d")
        self.next(process, "d")
        self.assertIn("older than what is kept",
                      self.error(ABSENT, "changes", "t", "--follow", "--from", "0" * 32))

    def test_signals(self):
        self.save("a")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = self.follow()
            self.next(process, "a")
            process.send_signal(number)
            self.assertEqual(("", ""), process.communicate(timeout=60))
            self.assertEqual(-number, process.returncode)

    def test_ignored_signals_stay_so(self):
        process = self.follow(preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        self.save("a")
        self.next(process, "a")
        process.send_signal(signal.SIGINT)
        self.save("b")
        self.next(process, "b")

    def test_signal_while_nobody_reads(self):
        self.put("t", *(typed(id={"S": f"{number}"}, pad={"S": "p" * 1000})
                        for number in range(200)))
        process = self.follow()
        self.next(process, "0")  # the rest does not fit into the pipe
        process.send_signal(signal.SIGTERM)
        self.assertEqual(-signal.SIGTERM, process.wait(60))

    def test_reader_that_goes_away(self):
        """It need not have anything to print to see that."""
        for names in (["a"], ["b", "c"]):
            self.save(*names)
            done = subprocess.run(["bash", "-c", f"{ITEMCTL} changes t --follow | head -n 1; "
                                   "echo ${PIPESTATUS[@]}"], env=self.env, cwd=self.dir, text=True,
                                  capture_output=True, timeout=60)
            record, status = done.stdout.splitlines()
            self.assertEqual(("a", "141 0", ""), (json.loads(record)["keys"]["id"]["S"], status,
                                                  done.stderr))

    def test_into_a_file(self):
        """Lines reach it when there is nothing more to print."""
        with open(self.path("out"), "w") as file:
            process = self.follow(stdout=file)
        for number in range(3):
            self.save(f"k{number}")
            end = time.monotonic() + 60
            while self.read("out").count(b"\n") <= number and time.monotonic() < end:
                time.sleep(0.01)
            self.assertEqual(number + 1, self.read("out").count(b"\n"))
        self.assertIsNone(process.poll())

    def test_stream_that_is_off(self):
        self.out("create", "off", "--key", "id", "--stream", "off")
        process = self.start("changes", "off", "--follow", stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        self.assertIn("the stream of table off is off: waiting", process.stderr.readline())
        self.put("off", typed(id={"S": "unseen"}))
        with contextlib.closing(sqlite3.connect(self.store)) as db, db:
            db.execute("UPDATE tables SET stream = 1 WHERE name = 'off'")
        self.put("off", typed(id={"S": "a"}))
        self.next(process, "a")

    def test_table_dropped(self):
        self.save("a")
        for again in (False, True):  # another table of that name is not this one
            process = self.follow()
            self.next(process, "a")
            self.save("last")
            self.out("drop", "t", "--force")
            if again:
                self.out("create", "t", "--key", "id")
            out, err = process.communicate(timeout=60)
            self.assertEqual(["last"], [json.loads(line)["keys"]["id"]["S"]
                                        for line in out.splitlines()])
            self.assertEqual((FAILED, "itemctl: table t was dropped\n"),
                             (process.returncode, err))
            if not again:
                self.out("create", "t", "--key", "id")
                self.save("a")

    def test_gap(self):
        """What was lost is told, and it goes on with what is there."""
        self.save("a")
        process = self.follow()
        self.next(process, "a")
        process.send_signal(signal.SIGSTOP)
        self.save("b", "c", "d")
        with contextlib.closing(sqlite3.connect(self.store)) as db, db:
            last, = db.execute("SELECT max(seq) FROM change WHERE kind = 0").fetchone()
            db.execute("DELETE FROM change WHERE seq < ?", (last,))
            db.execute("UPDATE meta SET value = ? WHERE name = 'dropped_seq'", (last - 1,))
        process.send_signal(signal.SIGCONT)
        self.assertEqual("itemctl: changes of table t were gone before they could be read\n",
                         process.stderr.readline())
        self.next(process, "d")
        self.save("e")
        self.next(process, "e")


class Drafts(CtlTest):
    def setUp(self):
        super().setUp()
        self.out("create", "t")
        self.add(("t", "a.json", "line 1, column 2: \x1b[31m", b'{"x": \x1b[2J\n\xff\0\n'),
                 ("t", "p/b.json", "too large", b"b"), ("u", "a.json", "conflict", b"old"),
                 ("u", "a.json", "conflict again", b"new"))

    def add(self, *drafts):
        with contextlib.closing(sqlite3.connect(self.store)) as db, db:
            for table, path, reason, body in drafts:
                db.execute("INSERT INTO draft(table_name, path, code, reason, time, size, body)"
                           " VALUES(?, ?, ?, ?, ?, ?, ?)",
                           (table, path, 22, reason, 1_700_000_000_000_000_001, len(body), body))

    def drafts(self, *arguments):
        return json.loads(self.out("drafts", *arguments))["Drafts"]

    def test_list(self):
        found = self.drafts()
        self.assertEqual([("t", "a.json"), ("t", "p/b.json"), ("u", "a.json"), ("u", "a.json")],
                         [(draft["Table"], draft["Path"]) for draft in found])
        self.assertEqual({"Id": 1, "Table": "t", "Path": "a.json", "Error": "EINVAL",
                          "Reason": "line 1, column 2: \x1b[31m", "Size": 14,
                          "Time": "2023-11-14T22:13:20.000000001Z"}, found[0])
        self.assertEqual(found[:2], self.drafts("t"))
        self.error(ABSENT, "drafts", "nothing")
        self.out("create", "empty")
        self.assertEqual([], self.drafts("empty"))
        shown = self.on_terminal("drafts")
        self.assertIn("t      p/b.json  1      2023-11-14T22:13:20Z  too large\n", shown)
        self.assertNotIn("\x1b", shown)

    def test_print(self):
        self.assertEqual('{"x": \x1b[2J\n\udcff\0\n', self.out("drafts", "t", "a.json"))
        self.assertEqual("new", self.out("drafts", "u", "a.json"))
        self.assertEqual('{"x": \\x1B[2J\n\\xFF\\x00\n', self.on_terminal("drafts", "t", "a.json"))
        self.error(ABSENT, "drafts", "t", "c.json")

    def test_delete(self):
        self.out("drafts", "--delete", "t", "p/b.json")
        self.out("drafts", "--delete", "u", "a.json")
        self.assertEqual([("t", "a.json"), ("u", "a.json")],
                         [(draft["Table"], draft["Path"]) for draft in self.drafts()])
        self.assertEqual("old", self.out("drafts", "u", "a.json"))
        self.error(ABSENT, "drafts", "--delete", "t", "p/b.json")
        self.error(USAGE, "drafts", "--delete", "t")
        self.assertEqual(2, json.loads(self.out("status"))["Backends"][0]["DraftCount"])

    def test_paths_are_exact(self):
        """Further drafts of a file have numbers, as a mount gives them."""
        names = ["x.json", "x.json.2", "x.json.3"]
        self.add(*(("v", name, "conflict", name.encode()) for name in names))
        for name in names:
            self.assertEqual(name, self.out("drafts", "v", name))
        self.out("drafts", "--delete", "v", "x.json.2")
        self.error(ABSENT, "drafts", "v", "x.json.2")
        self.out("drafts", "--delete", "v", "x.json")
        for name in ("x.json", "x.jso", "x"):
            self.error(ABSENT, "drafts", "v", name)
            self.error(ABSENT, "drafts", "--delete", "v", name)
        self.assertEqual(["x.json.3"], [draft["Path"] for draft in self.drafts("v")])


if __name__ == "__main__":
    unittest.main()
