# SPDX-License-Identifier: MIT
"""deploy and seed on the embedded store: tests/vectors/kernstack.json, and what is declared in
mount.conf."""

import json
import os
import stat
import unittest

from ctl import CONDITION, DONE, FAILED, USAGE, CtlTest
from kernstack_cases import USER, KernstackCases, KernstackStack


class DeployTest(CtlTest):
    """The forms that kernstack_cases asks for, on a store that Python's own SQLite looks into."""

    def ctl(self, *arguments, status=DONE, **more):
        return self.run_ctl(*arguments, status=status, **more)

    def name(self, table):
        return table

    def has_store(self):
        return os.path.exists(self.store)

    def exported(self, table):
        out = self.out("export", table, "-")
        return [json.loads(line) for line in out.splitlines()]

    def stored(self, table):
        """As export gives them, which must be as many as the store has."""
        items = self.exported(table)
        self.assertEqual(self.count(table), len(items))
        return items

    def described(self, table):
        [(number, *key)] = self.rows("SELECT id, key_name, key_type, sort_name, sort_type FROM tables"
                                     " WHERE name = ?", table)
        indexes = self.rows("SELECT name, key_name, key_type, sort_name, sort_type FROM indexes"
                            " WHERE table_id = ?", number)

        def attributes(row):
            return [f"{name.decode()}:{kind.decode()}" for name, kind in zip(row[::2], row[1::2])
                    if name]
        return {"key": attributes(key),
                "indexes": {name.decode(): attributes(row) for name, *row in indexes}}

    def snapshot(self, table):
        """Everything that is kept of the table: description, items with their times, changes."""
        return (self.rows("SELECT * FROM tables WHERE name = ?", table),
                self.rows("SELECT item.* FROM item JOIN tables ON tables.id = table_id"
                          " WHERE tables.name = ? ORDER BY 1, 2, 3", table),
                self.rows("SELECT max(seq) FROM change"))


class Stack(DeployTest, KernstackCases):
    """Everything in a new store."""


class StackInConfiguration(DeployTest, KernstackCases):
    """Everything on a store that mount.conf names."""

    def setUp(self):
        super().setUp()
        self.env["ITEMFS_SOURCE"] = self.write("m.conf", "[backend store]\npath = items.db\n")


class Functions(DeployTest, KernstackStack):
    CALL = "exec:/bin/true --token x"

    def conf(self, text):
        path = self.write("m.conf", text)
        os.chmod(path, 0o640)
        self.env["ITEMFS_SOURCE"] = path

    def declare_function(self, url=CALL):
        self.declare({"change_stream": {"function": "f"}}, functions=[{"name": "f", "url": url}])

    def test_k17_written_into_mount_conf(self):
        self.conf("; mine\n[backend store]\npath = items.db")
        self.declare_function()
        report = self.told(self.deploy("--dry-run"))
        self.assertEqual([("function", "exec:/bin/true", "none", "change"),
                          ("types", "kernstack", "dynamodb", "change")],
                         [tuple(entry.values()) for entry in report["Differences"]])
        self.assertEqual(b"; mine\n[backend store]\npath = items.db", self.read("m.conf"))
        report = self.told(self.deploy())
        self.assertEqual({"Name": "f", "Call": "exec:/bin/true"}, report["Function"])
        self.assertIn("m.conf: functions were written into it", self.complaint)
        self.assertEqual(b"; mine\n[backend store]\npath = items.db\n\n[table users]\n"
                         b"function = exec:/bin/true --token x\ntypes = kernstack\n",
                         self.read("m.conf"))
        self.assertEqual(0o640, stat.S_IMODE(os.stat(self.path("m.conf")).st_mode))
        self.assertEqual([], self.told(self.deploy())["Differences"])
        self.assertEqual("", self.complaint)

    def test_k27_another_function(self):
        self.conf("[table users]\nfunction = exec:/bin/old\nfunction_retry = 2\n")
        self.declare_function("https://example.org/f")
        report = self.told(self.deploy())
        self.assertEqual("exec:/bin/old", report["Differences"][0]["Table"])
        self.assertEqual(b"[table users]\nfunction = https://example.org/f\ntypes = kernstack\n"
                         b"function_retry = 2\n", self.read("m.conf"))

    def test_k17_named_in_mount_conf_only(self):
        self.conf("[table users]\nfunction = exec:/bin/cat\n")
        self.declare({"change_stream": {"function": "f"}})
        self.assertEqual({"Name": "f", "Call": "exec:/bin/cat"},
                         self.told(self.deploy())["Function"])
        self.assertEqual("", self.complaint)

    def test_k17_without_mount_conf(self):
        self.declare_function()
        self.assertEqual({"Name": "f", "Call": None}, self.told(self.deploy())["Function"])
        self.assertNotIn("--token", self.complaint)  # arguments and queries may be secrets
        self.assertIn('a mount.conf that says "function = " and its url in [table users]',
                      self.complaint)

    def test_what_a_line_cannot_say(self):
        self.conf("[backend store]\npath = items.db\n")
        self.declare_function("exec:/bin/true a ;b")
        self.seed_file([USER])
        self.deploy(status=FAILED)
        self.assertIn("a line cannot say", self.complaint)
        self.assertEqual(0, self.count("users"))
        self.declare_function()  # and it can be repeated
        self.deploy()
        self.assertEqual(1, self.count("users"))


class Configured(DeployTest):
    def conf(self, text):
        return self.write("m.conf", text)

    def deploy(self, *arguments, status=DONE):
        env = {name: value for name, value in self.env.items() if name != "ITEMFS_SOURCE"}
        out, self.complaint = self.ctl("deploy", *arguments, status=status, env=env)
        return json.loads(out) if out else None

    def test_declared_tables_are_made_and_seeded(self):
        self.conf("[table users]\nkey = id\n[table orders]\nkey = c\nsort = at:N\nindex = by-u:u,at:N\n"
                  "index = by-n:n:N\nstream = off\nttl = gone\nseed = o.jsonl\n[table other]\nttl = x\n")
        os.makedirs(self.path("seed/tables"))
        self.write("seed/tables/users.json", json.dumps([USER]))
        self.write("o.jsonl", '{"c":{"S":"a"},"at":{"N":"1"}}\n')
        report = self.deploy("m.conf")
        self.assertEqual(["users", "orders"], [entry["TableName"] for entry in report["Tables"]])
        self.assertEqual({"key": ["c:S", "at:N"],
                          "indexes": {"by-u": ["u:S", "at:N"], "by-n": ["n:N"]}},
                         self.described("orders"))
        told = json.loads(self.out("describe", "orders"))
        self.assertEqual((False, "gone", "plain"), (told["Stream"], told["TimeToLive"], told["Keys"]))
        self.assertEqual((1, 1), (self.count("users"), self.count("orders")))
        for arguments in (("m.conf",), ("-s", "m.conf"), ("-s", "m.conf", "m.conf")):
            report = self.deploy(*arguments)
            self.assertEqual(["none", "none"], [entry["Action"] for entry in report["Tables"]])
            self.assertEqual([0, 0], [entry["Seed"]["PutCount"] for entry in report["Tables"]])

    def test_tables_of_profiles_are_made(self):
        """As their applications make them; one that is there and fits is left as it is."""
        self.out("create", "Old", "--key", "pkey", "--sort", "sequence-nr:N")
        self.conf("[table starch_states]\nprofile = starch\n[table Journal]\nprofile = akka-journal\n"
                  "[table Old]\nprofile = akka-journal\n")
        report = self.deploy("m.conf")
        self.assertEqual([("starch_states", "make"), ("Journal", "make"), ("Old", "none")],
                         [(entry["TableName"], entry["Action"]) for entry in report["Tables"]])
        self.assertEqual({"key": ["__STARCH_KEY__:S"], "indexes": {}}, self.described("starch_states"))
        self.assertEqual({"key": ["pkey:S", "skey:S"],
                          "indexes": {"TagsIndex": ["tags:S"],
                                      "GetJournalRowsIndex": ["persistence-id:S", "sequence-nr:N"]}},
                         self.described("Journal"))
        self.assertEqual({"key": ["pkey:S", "sequence-nr:N"], "indexes": {}}, self.described("Old"))
        for options in ((), ("--force",)):
            report = self.deploy("m.conf", *options)
            self.assertEqual(["none"] * 3, [entry["Action"] for entry in report["Tables"]])

    def test_settings_are_shown_and_made(self):
        self.out("create", "users", "--key", "id", "--stream", "off", "--ttl", "none")
        self.put("users", json.dumps(USER))
        self.conf("[table users]\nkey = id\nstream = on\nttl = gone\n")
        report = self.deploy("m.conf", "--dry-run")
        self.assertEqual([("ttl", "gone", "none", "change"), ("stream", "on", "off", "change")],
                         [tuple(entry.values()) for entry in report["Tables"][0]["Differences"]])
        self.assertIn('"Stream": false', self.out("describe", "users"))
        self.deploy("m.conf")
        told = json.loads(self.out("describe", "users"))
        self.assertEqual((True, "gone"), (told["Stream"], told["TimeToLive"]))

    def test_k17_a_function_in_mount_conf_needs_the_stream(self):
        self.out("create", "users", "--key", "id", "--stream", "off")
        self.conf("[table users]\nkey = id\nfunction = exec:/bin/true\n")
        self.assertEqual([("stream", "on", "off", "change")],
                         [tuple(entry.values()) for entry in self.deploy("m.conf")["Tables"][0]["Differences"]])
        self.assertIn('"Stream": true', self.out("describe", "users"))

    def test_what_is_not_said_is_left(self):
        self.out("create", "users", "--key", "id", "--keys", "tags", "--stream", "off", "--ttl", "x")
        self.conf("[table users]\nkey = id\n")
        self.assertEqual(("none", []), tuple(self.deploy("m.conf")["Tables"][0][member]
                                             for member in ("Action", "Differences")))

    def test_differences_of_keys_need_force(self):
        self.out("create", "users", "--key", "id")
        self.conf("[table users]\nkey = id:N\n")
        self.assertEqual("refuse", self.deploy("m.conf", status=CONDITION)["Tables"][0]["Action"])
        self.assertEqual("replace", self.deploy("m.conf", "--force")["Tables"][0]["Action"])
        self.assertEqual(["id:N"], self.described("users")["key"])

    def test_mkdir_and_create_make_them_as_declared(self):
        self.conf("[table users]\nkey = id\nsort = at:N\nindex = by-u:u\n")
        self.out("-s", "m.conf", "create", "users")
        self.assertEqual({"key": ["id:S", "at:N"], "indexes": {"by-u": ["u:S"]}},
                         self.described("users"))
        self.out("drop", "users")
        self.assertIn("[table users] says otherwise of keys, indexes, ttl or stream",
                      self.error(USAGE, "-s", "m.conf", "create", "users", "--key", "id"))
        self.out("-s", "m.conf", "create", "users", "--key", "id", "--sort", "at:N", "--index", "by-u:u")

    def test_usage(self):
        self.conf("[table users]\nkey = id\n")
        self.write("n.conf", "")
        self.deploy("-s", "n.conf", "m.conf", status=USAGE)
        self.assertIn("m.conf declares tables of its own backends: leave -s n.conf out", self.complaint)
        self.deploy("-s", "items.db", status=USAGE)
        self.assertIn("there is no stack.json here, and items.db is no mount.conf", self.complaint)
        self.deploy("-s", "items.db", "none.json", status=FAILED)
        self.assertIn("none.json: No such file or directory", self.complaint)
        self.write("stack.json", "{")
        self.deploy("-s", "items.db", status=FAILED)
        self.assertIn("stack.json: line 1, column 2", self.complaint)

    def test_a_stack_and_mount_conf_that_disagree(self):
        self.conf("[table users]\nttl = other\n")
        self.write("stack.json", json.dumps({"resources": {"tables": [
            {"name": "users", "key_name": "id", "key_type": "S", "indexes": []}]}}))
        self.deploy("-s", "m.conf", "stack.json", status=FAILED)
        self.assertIn("m.conf: [table users] says otherwise of keys, indexes, ttl or stream than "
                      "stack.json", self.complaint)
        self.assertFalse(os.path.exists(self.store))

    def test_nothing_is_made_until_all_is_checked(self):
        for text in ("{", json.dumps({"resources": {"tables": [
                {"name": "users", "key_name": "id", "key_type": "S", "seed": "bad.json"}]}})):
            self.write("stack.json", text)
            self.write("bad.json", "[5]")
            self.deploy("-s", "items.db", status=FAILED)
            self.assertEqual(["bad.json", "stack.json"], sorted(os.listdir(self.dir)))

    def test_nothing_declared(self):
        self.write("stack.json", '{"resources": {"tables": []}}')
        self.assertEqual([], self.deploy("-s", "items.db")["Tables"])
        self.write("stack.json", '{"tables": []}')
        self.deploy("-s", "items.db", status=FAILED)
        self.assertIn("stack.json: there is no list resources.tables: it declares nothing", self.complaint)

    def test_a_stack_elsewhere_names_files_beside_itself(self):
        os.makedirs(self.path("app/seed/tables"))
        self.write("app/stack.json", json.dumps({"resources": {"tables": [
            {"name": "users", "key_name": "id", "key_type": "S", "indexes": []},
            {"name": "b", "key_name": "id", "key_type": "S", "indexes": [], "seed": "b.json"}]}}))
        self.write("app/seed/tables/users.jsonl", json.dumps(USER))
        self.write("app/b.json", json.dumps([USER]))
        self.deploy("-s", "items.db", "app/stack.json")
        self.assertEqual([USER], self.exported("users"))
        self.assertEqual([USER], self.exported("b"))

    def test_ttl_and_keys_of_a_table_with_items(self):
        """What nothing expires by is changed, else force is needed."""
        self.write("stack.json", json.dumps({"resources": {"tables": [
            {"name": "users", "key_name": "id", "key_type": "S", "indexes": []}]}}))
        self.out("create", "users", "--key", "id", "--ttl", "none", "--keys", "tags")
        self.put("users", *(json.dumps({"id": {"S": f"u{n}"}}) for n in range(2000)),
                 json.dumps({"id": {"S": "z"}, "-ttl": {"N": "1"}}))
        report = self.deploy("-s", "items.db", status=CONDITION)["Tables"][0]
        self.assertEqual([("ttl", "-ttl", "none", "refuse"), ("keys", "plain", "tags", "refuse"),
                          ("stream", "off", "on", "leave")],
                         [tuple(entry.values()) for entry in report["Differences"]])
        self.assertEqual(2001, len(self.exported("users")))
        self.put("users", json.dumps({"id": {"S": "z"}, "-ttl": {"N": "4102444800"}}))
        report = self.deploy("-s", "items.db", status=CONDITION)["Tables"][0]
        self.assertEqual([("ttl", "change"), ("keys", "refuse"), ("stream", "leave")],
                         [(entry["Setting"], entry["Action"]) for entry in report["Differences"]])
        self.deploy("-s", "items.db", "--force")
        told = json.loads(self.out("describe", "users"))
        self.assertEqual(("-ttl", "plain", False), (told["TimeToLive"], told["Keys"], told["Stream"]))
        self.assertEqual(2001, len(self.exported("users")))

    def test_for_people(self):
        self.write("stack.json", json.dumps({"resources": {"tables": [
            {"name": "users", "key_name": "id", "key_type": "S", "indexes": [], "seed": "u.json",
             "change_stream": {"function": "f"}}]}}))
        self.write("u.json", json.dumps([USER]))
        self.assertEqual(["users    to be made", "  users  changes go to f: not told where",
                          "  users  1 item in u.json"],
                         self.on_terminal("deploy", "--dry-run").splitlines())
        self.assertFalse(os.path.exists(self.store))
        self.assertEqual(["users    made", "  users  changes go to f: not told where",
                          "  users  1 item in u.json, 1 put"], self.on_terminal("deploy").splitlines())
        self.assertEqual("1 item, 0 put\n", self.on_terminal("seed", "users", "u.json"))


if __name__ == "__main__":
    unittest.main()
