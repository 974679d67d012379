# SPDX-License-Identifier: MIT
"""doctor on embedded stores and folders. Services: tests/service/test_doctor.py."""

import contextlib
import json
import os
import sqlite3
import subprocess
import unittest

from ctl import DONE, FAILED, ITEMCTL, CtlTest

STARCH = ["--key", "__STARCH_KEY__"]
JOURNAL = ["--key", "pkey", "--sort", "skey", "--index", "GetJournalRowsIndex:persistence-id,sequence-nr:N"]
SNAPSHOT = ["--key", "pkey", "--sort", "skey", "--index", "GetSnapshotRowsIndex:persistence-id,sequence-nr:N"]
STATE = ["--key", "pkey", "--sort", "skey"]


class DoctorTest(CtlTest):
    def doctor(self, *options, status=DONE, **more):
        out, self.complaint = self.run_ctl(*options, "doctor", status=status, **more)
        self.report = json.loads(out)
        self.assertEqual(len(self.found("problem")), self.report["ProblemCount"])
        return self.report

    def found(self, level):
        return [(entry["About"], entry["Text"]) for entry in self.report["Findings"]
                if entry["Level"] == level]

    def proposed(self, section=None):
        return [entry["Line"] for entry in self.report["Lines"]
                if section is None or entry["Section"] == section]


class Stores(DoctorTest):
    def test_a_store_where_all_is_well(self):
        self.out("create", "users", "--key", "id:N", "--sort", "at", "--index", "by-x:x")
        self.doctor()
        size = os.path.getsize(self.store)
        self.assertEqual([("store", f"An embedded store (SQLite), {self.store}, {size} bytes."),
                          ("table users", 'Key "id" (N), sorted by "at" (S), plain; 1 index; items expire by '
                           '"-ttl"; the stream is on. It has no items.')], self.found("fine"))
        self.assertEqual(([], [], ""), (self.found("note"), self.report["Lines"], self.complaint))

    def test_an_empty_store(self):
        self.out("create", "users")
        self.out("drop", "users")
        self.doctor()
        self.assertEqual([("tables", "There are none yet: mkdir in a mount makes one, and so do itemctl "
                           "create and deploy.")], self.found("note"))

    def test_it_changes_nothing(self):
        self.out("create", "users", "--key", "id")
        self.put("users", '{"id":{"S":"a"}}')
        conf = self.write("m.conf", "[backend store]\npath = items.db\n[table users]\nttl = other\n"
                          "keys = tags\nstream = off\n")
        before = self.rows("SELECT * FROM tables"), self.rows("SELECT max(seq) FROM change")
        self.doctor("-s", conf)
        self.assertEqual(before, (self.rows("SELECT * FROM tables"), self.rows("SELECT max(seq) FROM change")))

    def test_a_store_that_is_not_made_yet(self):
        self.doctor()
        self.assertEqual([("store", f"The store {self.store} is not there yet: a mount makes it, and so do itemctl "
                           "create and deploy.")], self.found("note")[:1])
        self.assertFalse(os.path.exists(self.store))

    def test_no_configuration(self):
        self.assertIn("none.conf: No such file or directory", self.error(FAILED, "-s", "none.conf", "doctor"))

    def test_tag_keys_that_cannot_be(self):
        self.out("create", "users", "--key", "id")
        self.put("users", '{"id":{"S":"b_a"}}')
        self.write("m.conf", "[backend store]\npath = items.db\n[table users]\nkeys = tags\nstream = off\n")
        self.doctor("-s", "m.conf", status=FAILED)
        self.assertEqual([("table users", 'm.conf says keys = tags, and it cannot have them: the tags of "b_a" are '
                           "not in their order. Nothing that uses this configuration works, until that item is "
                           'renamed to "a_b", or keys are plain.')], self.found("problem"))
        self.assertIn("the stream is off", str(self.found("fine")))
        self.assertIn("cannot have tag keys", self.error(FAILED, "-s", "m.conf", "describe", "users"))

    def test_tag_keys_of_numbers(self):
        self.out("create", "users", "--key", "id:N")
        self.write("m.conf", "[backend store]\npath = items.db\n[table users]\nkeys = tags\n")
        self.doctor("-s", "m.conf", status=FAILED)
        self.assertEqual([("table users", "m.conf says of it what it cannot have: tag keys need a partition key of "
                           "type S. Nothing that uses this configuration works.")], self.found("problem"))

    def test_no_store_but_something_else(self):
        self.write("items.db", "this is no database" * 100)
        self.doctor(status=FAILED)
        [(about, text)] = self.found("problem")
        self.assertEqual("source", about)
        self.assertIn(self.store, text)

    def test_a_store_that_can_only_be_read(self):
        self.out("create", "users")
        os.chmod(self.dir, 0o777)
        os.chmod(self.store, 0o444)
        other = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        done = subprocess.run([ITEMCTL, "doctor"], env=self.env, cwd=self.dir, capture_output=True,
                              check=False, **other)
        self.assertEqual(FAILED, done.returncode, done.stderr)
        self.report = json.loads(done.stdout)
        self.assertIn(("store", f"A right is missing: {self.store} can only be read by this user."),
                      self.found("problem"))

    def test_profiles_that_fit(self):
        for name, options in (("starch_states", STARCH), ("Journal", JOURNAL), ("Snapshot", SNAPSHOT),
                              ("State", STATE), ("other", STATE)):
            self.out("create", name, *options)
        self.put("State", '{"pkey":{"S":"a"},"skey":{"S":"a"},"revision-nr":{"N":"1"},"payload":{"B":"aGk="}}')
        self.put("other", '{"pkey":{"S":"a"},"skey":{"S":"a"},"v":{"N":"1"}}')
        self.doctor()
        self.assertEqual([("table Journal", "The profile akka-journal fits."),
                          ("table Snapshot", "The profile akka-snapshot fits."),
                          ("table State", "The profile akka-state fits."),
                          ("table starch_states", "The profile starch fits.")], self.found("note"))
        self.assertEqual({"[table Journal]": "profile = akka-journal",
                          "[table Snapshot]": "profile = akka-snapshot",
                          "[table State]": "profile = akka-state",
                          "[table starch_states]": "profile = starch"},
                         {entry["Section"]: entry["Line"] for entry in self.report["Lines"]
                          if entry["Section"].startswith("[table")})
        self.assertEqual(["type = sqlite", f"path = {self.store}"], self.proposed("[backend store]"))
        self.write_lines()
        self.doctor("-s", "m.conf")
        self.assertEqual(([], []), (self.found("note"), self.report["Lines"]))
        self.assertIn(" Its profile is starch. It has no items.", str(self.found("fine")))

    def test_tags(self):
        for name, keys, wanted in (
                ("tags", ("roles_users", "a_b-c_d", "users"), True),
                ("unsorted", ("roles_users", "b_a"), False),
                ("words", ("users", "roles", "a", "b_c"), False),
                ("others", ("Ada_Lovelace", "user_", "_x", "a__b"), False)):
            with self.subTest(name):
                self.out("create", name, "--key", "id")
                self.put(name, *(json.dumps({"id": {"S": key}}) for key in keys))
                self.doctor()
                self.assertEqual(["keys = tags"] if wanted else [], self.proposed(f"[table {name}]"))
        self.out("create", "known", "--key", "id", "--keys", "tags")
        self.put("known", '{"id":{"S":"a_b"}}')
        self.doctor()
        self.assertEqual([], self.proposed("[table known]"))

    def test_time_to_live(self):
        for name, attribute, value, wanted in (
                ("kernstack", "-ttl", {"N": "1790607695"}, "-ttl"),
                ("other", "expiresAt", {"N": "1790607695"}, "expiresAt"),
                ("millis", "ttl", {"N": "1790607695000"}, None), ("small", "ttl", {"N": "30"}, None),
                ("text", "-ttl", {"S": "1790607695"}, None)):
            with self.subTest(name):
                self.out("create", name, "--key", "id", "--ttl", "none")
                self.put(name, json.dumps({"id": {"S": "a"}, attribute: value}), '{"id":{"S":"b"}}')
                self.doctor()
                self.assertEqual([f"ttl = {wanted}"] if wanted else [], self.proposed(f"[table {name}]"))
        self.assertIn(("table kernstack", '1 of 2 items that were looked at have "-ttl", a number that may be '
                       "a time, and it is not the table's time to live."), self.found("note"))

    def test_a_change_of_the_future(self):
        self.out("create", "users", "--key", "id")
        self.put("users", '{"id":{"S":"a"}}')
        with contextlib.closing(sqlite3.connect(self.store)) as db:
            db.execute("UPDATE change SET time = time + 3600000000000 WHERE seq = (SELECT max(seq) FROM change)")
            db.commit()
        self.doctor(status=FAILED)
        [(about, text)] = self.found("problem")
        self.assertEqual("store", about)
        self.assertRegex(text, r"^Its last change was made 3\d\d\d seconds from now: this machine's clock is "
                         "behind, or was ahead then.$")

    def test_drafts(self):
        self.out("create", "users", "--key", "id")
        with contextlib.closing(sqlite3.connect(self.store)) as db:
            columns = [row[1] for row in db.execute("PRAGMA table_info(draft)")]
            values = {"table_name": "users", "path": "a.json", "code": 22, "reason": "no JSON", "time": 1,
                      "body": "{", "size": 1, "name": "users", "tbl": "users"}
            chosen = [name for name in columns if name != "id"]
            db.execute(f"INSERT INTO draft ({', '.join(chosen)}) VALUES ({', '.join('?' * len(chosen))})",
                       [values.get(name, "users") for name in chosen])
            db.commit()
        self.doctor()
        self.assertEqual([("store", "1 save was refused and kept: itemctl drafts lists it with the reason.")],
                         self.found("note"))

    def test_what_mount_conf_says(self):
        self.out("create", "users", "--key", "id")
        self.out("create", "orders", "--key", "id", "--stream", "off")
        self.write("m.conf", "[backend store]\npath = items.db\n[table users]\nkey = id\nsort = at\n"
                   "[table orders]\nfunction = exec:/nowhere/p\n[table gone]\nkey = id\n[table old]\nttl = x\n")
        self.doctor("-s", "m.conf", status=FAILED)
        self.assertEqual([
            ("table gone", "m.conf declares it, and it is not there: itemctl deploy makes it."),
            ("table orders", "It has a function, and its stream is off: nothing is delivered."),
            ("table orders", "Its function exec:/nowhere/p cannot be run by this user: No such file or directory."),
            ("table users", "Its keys or indexes are not those that m.conf declares: itemctl deploy --dry-run "
             "shows the differences.")], sorted(self.found("problem")))
        self.assertEqual([("table old", "m.conf has a section for it, and it is not there.")],
                         self.found("note"))
        self.assertEqual([("[table orders]", "stream = on")],
                         [(entry["Section"], entry["Line"]) for entry in self.report["Lines"]])
        self.assertEqual("itemctl: 4 things are wrong\n", self.complaint)

    def test_changes_that_nobody_delivers(self):
        self.out("create", "users", "--key", "id")
        self.put("users", '{"id":{"S":"a"}}', '{"id":{"S":"b"}}')
        self.write("m.conf", "[backend store]\npath = items.db\n[table users]\nfunction = exec:/bin/true\n")
        self.doctor("-s", "m.conf", status=FAILED)
        self.assertEqual([("table users", "2 changes wait for exec:/bin/true, and nobody delivers: a mount of "
                           "this configuration would.")], self.found("problem"))

    def test_a_state_directory_that_cannot_be_used(self):
        os.mkdir(self.path("f"))
        self.write("blocked", "")
        self.write("m.conf", f"[mount]\nstate_dir = {self.path('blocked')}/x\n[backend f]\ntype = folder\npath = f\n")
        self.doctor("-s", "m.conf", status=FAILED)
        self.assertEqual({"source", "state_dir"}, {about for about, _ in self.found("problem")})

    def test_for_people(self):
        self.out("create", "users", "--key", "id", "--ttl", "none")
        self.put("users", '{"id":{"S":"a"},"-ttl":{"N":"1790607695"}}')
        text = self.on_terminal("doctor")
        self.assertIn("\ntable users\n         Key \"id\" (S), plain; items do not expire; the stream is on.\n"
                      "  note:  1 of 1 items that were looked at have \"-ttl\", a number that may be a\n"
                      "         time, and it is not the table's time to live.\n", text)
        self.assertIn("\nLines of mount.conf that would suit:\n\n[table users]\n"
                      "; if they are to expire by it: those whose time has passed are gone then\nttl = -ttl\n", text)
        self.assertTrue(text.endswith("\nNothing is wrong.\n"), text)
        self.assertLessEqual(max(map(len, text.splitlines())), max(80, len(self.store) + 60))

    def write_lines(self):
        """What was proposed, as m.conf."""
        sections = {}
        for entry in self.report["Lines"]:
            sections.setdefault(entry["Section"], []).append(entry["Line"])
        self.write("m.conf", "".join("\n".join([section, *lines]) + "\n" for section, lines in sections.items()))

    def test_proposed_lines_are_a_mount_conf(self):
        self.out("create", "users", "--key", "id", "--ttl", "none")
        self.put("users", '{"id":{"S":"a_b"},"-ttl":{"N":"4102444800"}}')
        self.doctor()
        self.write_lines()
        told = json.loads(self.out("-s", "m.conf", "describe", "users"))
        self.assertEqual(("tags", "-ttl"), (told["Keys"], told["TimeToLive"]))
        self.doctor("-s", "m.conf")
        self.assertEqual([], self.report["Lines"])


class Folders(DoctorTest):
    def setUp(self):
        super().setUp()
        for name in ("r1", "r2"):
            os.makedirs(self.path(f"{name}/t"))
            self.write(f"{name}/t/a.json", "1")
        self.write("m.conf", "[backend f]\ntype = folder\nreplicas = r1, r2\n")

    def test_replicas_in_step(self):
        self.doctor("-s", "m.conf")
        self.assertIn(("f", "The replicas have the same files."), self.found("fine"))
        for name in ("r1", "r2"):
            self.assertTrue(any(about == "f" and text.startswith(f"A folder of files, {self.path(name)}: a file is "
                                                                 "written and read back in ")
                                for about, text in self.found("fine")))

    def test_replicas_out_of_step(self):
        self.write("r1/t/a.json", "2")
        self.write("r2/t/a.json", "3")
        self.doctor("-s", "m.conf", status=FAILED)
        self.assertIn(("f", "The replicas are out of step: 1 file is not the same in all of them. itemctl verify "
                       "shows them, and --repair makes them alike."), self.found("problem"))
        self.assertEqual((b"2", b"3"), (self.read("r1/t/a.json"), self.read("r2/t/a.json")))

    def test_a_replica_that_is_missing(self):
        self.out("-s", "m.conf", "tables")
        os.rename(self.path("r2"), self.path("away"))
        out, _ = self.run_ctl("-s", "m.conf", "doctor", status=FAILED)  # with a warning of the folders' own
        self.report = json.loads(out)
        texts = [text for about, text in self.found("problem") if about == "f"]
        self.assertEqual([f"The replica {self.path('r2')} is OFFLINE: {self.path('r2')}: No such file or directory."],
                         texts)
        self.assertNotIn("The replicas have the same files", out)

    def test_names_that_are_none(self):
        for name in ("r1", "r2"):
            self.write(f"{name}/t/a%zz.json", "1")
        out, _ = self.run_ctl("-s", "m.conf", "doctor")
        self.report = json.loads(out)
        self.assertIn(("f", "1 name looks like that of an item, and stands for none: no key is written so, or it "
                       "is no regular file. itemctl says which; they are left alone."), self.found("note"))


if __name__ == "__main__":
    unittest.main()
