# SPDX-License-Identifier: MIT
"""Arguments, sources, and the commands that concern tables."""

import contextlib
import json
import os
import sqlite3
import subprocess
import unittest

from ctl import ABSENT, CONDITION, FAILED, ITEMCTL, USAGE, CtlTest, typed


class Arguments(CtlTest):
    def test_help_and_version(self):
        self.assertIn("usage: itemctl [-s SOURCE] [--json] COMMAND", self.out("--help"))
        self.assertIn("usage: itemctl [-s SOURCE] [--json] get TABLE -k KEY", self.out("get", "--help"))
        self.assertEqual(self.out("get", "-h"), self.out("--help", "get"))
        self.assertEqual("usage: itemctl [-s SOURCE] [--json] tables", self.lines("tables", "-h")[0])
        self.assertRegex(self.out("--version"), r"^itemctl \d+\.\d+\.\d+\n$")
        self.assertIn("ttl", self.out("--help"))

    def test_usage_errors(self):
        for arguments, message in (
                ((), "no command given"),
                (("frobnicate",), 'there is no command "frobnicate"'),
                (("--frob", "tables"), "there is no option --frob before the command"),
                (("tables", "--force"), "there is no option --force"),
                (("tables", "x"), 'tables: one argument too many: "x"'),
                (("get",), "get needs more arguments"),
                (("get", "t", "-k"), "-k needs a value"),
                (("get", "t", "-k", "a", "-k", "b"), "-k is given twice"),
                (("query", "t", "--sort-between", "1"), "--sort-between needs two values"),
                (("query", "t", "--sort-between=1"),
                 "--sort-between takes two values, each a word of its own"),
                (("drop", "t", "--force=yes"), "--force takes no value"),
                (("-s", "a", "tables", "-s", "b"), "-s is given twice"),
        ):
            with self.subTest(arguments):
                self.assertEqual(message, self.error(USAGE, *arguments))
        self.assertFalse(os.path.exists(self.store))

    def test_usage_is_shown(self):
        err = self.run_ctl("get", status=USAGE)[1]
        self.assertIn("usage: itemctl [-s SOURCE] [--json] get TABLE", err)

    def test_options_stand_anywhere(self):
        self.out("create", "--key", "id", "t")
        self.put("t", typed(id={"S": "--limit"}))
        del self.env["ITEMFS_SOURCE"]
        for arguments in (("-s", self.store, "scan", "t"), ("scan", "-s", self.store, "t"),
                          ("scan", "t", "-s", self.store, "--json"),
                          ("--json", "scan", "--limit=1", "t", f"--source={self.store}"),
                          ("-s", self.store, "get", "-k", "--limit", "--", "t")):
            with self.subTest(arguments):
                self.assertEqual([typed(id={"S": "--limit"})], self.lines(*arguments))


class Sources(CtlTest):
    def test_order(self):
        self.out("create", "from-environment")
        self.out("-s", "here.db", "create", "from-configuration")
        self.write("mount.conf", "[backend here]\n")
        names = lambda *arguments: json.loads(self.out("tables", *arguments))["TableNames"]
        self.assertEqual(["from-environment"], names())
        self.env["ITEMFS_SOURCE"] = ""
        self.assertEqual(["from-configuration"], names())
        self.assertEqual(["from-environment"], names("-s", "items.db"))
        os.unlink(self.path("mount.conf"))
        if not os.path.exists("/etc/itemfs/mount.conf"):
            self.assertIn("no source", self.error(USAGE, "tables"))

    def test_missing_store_is_no_missing_item(self):
        for command in (("tables",), ("get", "t", "-k", "a"), ("put", "t", "--item", "/dev/null")):
            self.assertIn("No such file", self.error(FAILED, *command))
        self.assertFalse(os.path.exists(self.store))
        self.assertIn("No such file", self.error(FAILED, "-s", "no.conf", "tables"))
        self.assertIn("No such file", self.error(FAILED, "-s", "no/where.db", "create", "t"))

    def test_what_is_no_store(self):
        self.write("text.db", "this is a text, and it stays one\n" * 10)
        before = self.read("text.db")
        self.assertIn("is not an itemfs store", self.error(FAILED, "-s", "text.db", "tables"))
        self.assertIn("is not an itemfs store", self.error(FAILED, "-s", "text.db", "create", "t"))
        self.assertEqual(before, self.read("text.db"))
        subprocess.run(["sqlite3", self.path("other.db"), "CREATE TABLE x(y)"], check=True)
        before = self.read("other.db")
        self.assertIn("another program", self.error(FAILED, "-s", "other.db", "create", "t"))
        self.assertEqual(before, self.read("other.db"))
        self.assertIn("No such file", self.error(FAILED, "-s", "nowhere/", "tables"))
        self.env["AWS_EC2_METADATA_DISABLED"] = "true"
        self.assertIn("dynamodb:eu-central-1: there are no credentials",
                      self.error(FAILED, "-s", "dynamodb:eu-central-1", "tables"))

    def test_configuration_errors_name_the_line(self):
        self.write("m.conf", "[mount]\n\ncash = 5\n")
        self.assertEqual('m.conf:3: no key "cash" in [mount]',
                         self.error(FAILED, "-s", "m.conf", "tables"))
        self.write("m.conf", "[mount]\nuid = ada\n")
        self.assertIn("m.conf:2: uid:", self.error(FAILED, "-s", "m.conf", "tables"))

    def test_two_backends(self):
        self.write("m.conf", "[mount]\nread_only = yes\n[backend a]\n[backend b]\n"
                             "[table t]\nbackend = b\nttl = gone\n")
        self.out("-s", "m.conf", "create", "t")
        self.out("-s", "m.conf", "create", "u")
        names = lambda source: json.loads(self.out("-s", source, "tables"))["TableNames"]
        self.assertEqual((["t", "u"], ["u"], ["t"]), (names("m.conf"), names("a.db"), names("b.db")))
        self.assertEqual("gone", json.loads(self.out("-s", "b.db", "describe", "t"))["TimeToLive"])
        self.assertIn("already exists", self.error(CONDITION, "-s", "m.conf", "create", "u"))
        self.out("-s", "m.conf", "drop", "t")
        self.assertEqual("m.conf: [table t] says otherwise of keys, indexes, ttl or stream",
                         self.error(USAGE, "-s", "m.conf", "create", "t", "--ttl", "other"))
        self.out("-s", "m.conf", "create", "t", "--ttl", "gone")

    def test_reading_needs_no_right_to_write(self):
        """Another user may look into a store that is in use, but not change it."""
        if os.getuid() != 0:
            self.skipTest("needs root, to become somebody else")
        self.out("create", "t")
        self.put("t", typed(key={"S": "a"}))
        os.chmod(self.store, 0o644)
        os.chmod(self.dir, 0o755)
        run = lambda *arguments: subprocess.run(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", ITEMCTL, *arguments],
            env=self.env, capture_output=True, text=True)
        if run("--version").returncode != 0:
            self.skipTest("the binary lies where other users cannot run it")
        with contextlib.closing(sqlite3.connect(self.store)) as in_use:
            in_use.execute("SELECT * FROM item").fetchall()
            done = run("get", "t", "-k", "a")
            self.assertEqual((0, typed(key={"S": "a"}) + "\n"), (done.returncode, done.stdout), done)
            done = run("delete", "t", "-k", "a")
            self.assertEqual((FAILED, f"itemctl: {self.store} can only be read\n"),
                             (done.returncode, done.stderr))
        self.assertEqual(1, self.count("t"))


class Tables(CtlTest):
    def test_default_table(self):
        self.out("create", "cache")
        found = json.loads(self.out("describe", "cache"))
        self.assertRegex(found.pop("Created"), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual({
            "TableName": "cache", "Keys": "tags", "TimeToLive": "-ttl", "Stream": True, "Indexes": [],
            "KeySchema": [{"AttributeName": "key", "KeyType": "HASH", "AttributeType": "S"}],
        }, found)
        self.assertEqual([(b"cache", b"key", b"S", None, b"-ttl", b"tags", 1)], self.rows(
            "SELECT name, key_name, key_type, sort_name, ttl, keys, stream FROM tables"))

    def test_everything_given(self):
        self.out("create", "orders", "--key", "customer", "--sort", "day:N", "--index",
                 "by-status:status,day:N", "--index", "by-blob:blob:B", "--ttl", "expires",
                 "--stream", "off", "--keys", "plain")
        found = json.loads(self.out("describe", "orders"))
        attribute = lambda name, kind, type: {"AttributeName": name, "KeyType": kind,
                                              "AttributeType": type}
        self.assertEqual([attribute("customer", "HASH", "S"), attribute("day", "RANGE", "N")],
                         found["KeySchema"])
        self.assertEqual([
            {"IndexName": "by-status", "KeySchema": [attribute("status", "HASH", "S"),
                                                     attribute("day", "RANGE", "N")]},
            {"IndexName": "by-blob", "KeySchema": [attribute("blob", "HASH", "B")]},
        ], found["Indexes"])
        self.assertEqual(("plain", "expires", False),
                         (found["Keys"], found["TimeToLive"], found["Stream"]))

    def test_key_of_its_own_is_plain(self):
        keys = lambda table: json.loads(self.out("describe", table))["Keys"]
        self.out("create", "a", "--key", "id")
        self.out("create", "b", "--key", "id", "--keys", "tags", "--ttl", "none")
        self.out("create", "c", "--sort", "n:N")
        self.assertEqual(["plain", "tags", "plain"], [keys(name) for name in "abc"])
        self.assertIsNone(json.loads(self.out("describe", "b"))["TimeToLive"])

    def test_refused(self):
        self.out("create", "t")
        for arguments in (("a/b",), (".hidden",), ("",), ("x" * 256,), ("a\nb",),
                          ("u", "--key", "id:X"), ("u", "--key", ""), ("u", "--index", "nope"),
                          ("u", "--key", "a", "--sort", "a"), ("u", "--stream", "maybe"),
                          ("u", "--keys", "tag"), ("u", "--key", "n:N", "--keys", "tags"),
                          ("u", "--index", "i:a", "--index", "i:b")):
            with self.subTest(arguments):
                self.error(USAGE, "create", *arguments)
        self.assertEqual('--index i:a,b,c: "i:a,b,c": an index has at most two attributes, PK and SK',
                         self.error(USAGE, "create", "u", "--index", "i:a,b,c"))
        self.assertEqual("table t already exists", self.error(CONDITION, "create", "t"))
        self.assertEqual({"TableNames": ["t"]}, json.loads(self.out("tables")))

    def test_names_are_bytes(self):
        for name in ("ü", "u\u0308", "a b", "-dash", "[x]"):
            self.out("create", "--", name)
        self.assertEqual({"TableNames": sorted(["ü", "u\u0308", "a b", "-dash", "[x]"],
                                               key=lambda name: name.encode())},
                         json.loads(self.out("tables")))

    def test_units_are_for_services(self):
        self.assertEqual("table t: the sqlite backend counts no units", self.error(
            FAILED, "create", "t", "--read-units", "5", "--write-units", "5"))
        self.assertEqual("--read-units and --write-units go together",
                         self.error(USAGE, "create", "t", "--write-units", "5"))
        for wrong in ("0", "-1", "1.5", "x", "99999999999999999999"):
            self.assertEqual(f'--read-units is a number from 1, not "{wrong}"', self.error(
                USAGE, "create", "t", f"--read-units={wrong}", "--write-units", "5"))
        self.assertEqual('{"TableNames": []}\n', self.out("tables"))

    def test_drop(self):
        self.out("create", "t")
        self.put("t", typed(key={"S": "a"}))
        self.assertIn("has items", self.error(CONDITION, "drop", "t"))
        self.assertEqual(1, self.count("t"))
        self.out("drop", "t", "--force")
        self.assertEqual([], self.rows("SELECT * FROM item"))
        self.assertEqual('there is no table "t"', self.error(ABSENT, "drop", "t"))
        self.out("create", "t")
        self.out("drop", "t")
        self.assertEqual('{"TableNames": []}\n', self.out("tables"))

    def test_commands_on_no_table(self):
        self.out("create", "t")
        for command in (("describe", "x"), ("get", "x", "-k", "a"), ("delete", "x", "-k", "a"),
                        ("scan", "x"), ("query", "x", "--key-name", "id", "-k", "a"),
                        ("ttl", "x", "-k", "a"), ("export", "x", "out"), ("import", "x", "-"),
                        ("put", "x", "--item", "-"), ("changes", "x")):
            with self.subTest(command):
                self.assertEqual('there is no table "x"', self.error(ABSENT, *command))
        self.assertFalse(os.path.exists(self.path("out")))

    def test_status(self):
        self.out("create", "t")
        self.put("t", typed(key={"S": "a"}), typed(key={"S": "b"}))
        found = json.loads(self.out("status"))
        backend = found["Backends"][0]
        self.assertEqual(self.store, found["Source"])
        self.assertEqual(("store", "sqlite", self.store, 0), (backend["Name"], backend["Kind"],
                                                              backend["Path"], backend["DraftCount"]))
        self.assertEqual([{"TableName": "t", "ItemCount": 2}], backend["Tables"])
        self.assertGreater(backend["FreeBytes"], 0)
        self.assertGreaterEqual(backend["Bytes"], os.path.getsize(self.store))
        self.assertEqual(self.rows("SELECT max(seq) FROM change")[0][0], backend["LogPosition"])

    def test_for_people(self):
        self.out("create", "orders", "--key", "c", "--sort", "d:N", "--index", "by:x,y:N")
        self.out("create", "cache")
        self.assertEqual("TABLE   KEY    SORT  KEYS   TTL   STREAM  INDEXES\n"
                         "cache   key:S  -     tags   -ttl  on      0\n"
                         "orders  c:S    d:N   plain  -ttl  on      1\n", self.on_terminal("tables"))
        shown = self.on_terminal("describe", "orders")
        self.assertIn("Partition key  c:S\n", shown)
        self.assertIn("Index          by on x:S, sorted by y:N\n", shown)
        self.out("create", "long", "--key", "k" * 100)
        self.assertIn(f"Partition key  {'k' * 100}:S\n", self.on_terminal("describe", "long"))
        self.assertIn("Table orders  0 items\n", self.on_terminal("status"))
        self.assertEqual(json.loads(self.out("tables")),
                         json.loads(self.on_terminal("tables", "--json")))


if __name__ == "__main__":
    unittest.main()
