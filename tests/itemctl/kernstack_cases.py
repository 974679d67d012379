# SPDX-License-Identifier: MIT
"""Declared tables and their seeds, on whatever backend: a mixin for tests.

K-numbers are those of docs/KERNSTACK.md. Who uses it says: `ctl(*arguments, status)` runs itemctl in
`self.dir` on the source and returns (output, error), `stored(table)` lists a table's typed items as a
client sees them that shares no code with itemctl, `described(table)` its keys as
{"key": [..], "indexes": {..}}, and `name(table)` what a table may be called there."""

import json
import os

VECTORS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "vectors")

DONE, FAILED, USAGE, ABSENT, CONDITION = range(5)
USER = {"id": {"S": "user-1"}, "email": {"S": "ada@example.com"}, "visits": {"N": "3"}}


def read_cases(kind):
    with open(os.path.join(VECTORS, "kernstack.json"), encoding="utf-8") as file:
        return [case for case in json.load(file)["cases"] if case["kind"] == kind]


class KernstackStack:
    """A stack, its files, and its deploys."""

    def save(self, name, text):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text if isinstance(text, str) else json.dumps(text))

    def remove(self, name):
        os.unlink(os.path.join(self.dir, name))

    def declare(self, *tables, functions=None, **more):
        """stack.json with these tables; each is given its name."""
        entries = []
        for table in tables:
            entry = {"name": self.name("users"), "key_name": "id", "key_type": "S", "indexes": []}
            entries.append({**entry, **table})
        resources = {"tables": entries}
        if functions is not None:
            resources["functions"] = functions
        self.save("stack.json", {"resources": resources, **more})

    def seed_file(self, text, ending="json", table="users"):
        self.save(f"seed/tables/{self.name(table)}.{ending}", text)

    def deploy(self, *options, status=DONE):
        """What it says it has done, as JSON."""
        out, self.complaint = self.ctl("deploy", *options, status=status)
        return json.loads(out) if out else None

    def told(self, report, name="users"):
        return next(entry for entry in report["Tables"] if entry["TableName"] == self.name(name))

    def items(self, table="users"):
        return sorted(self.stored(self.name(table)), key=lambda item: json.dumps(item, sort_keys=True))

    def tables(self):
        return json.loads(self.ctl("tables")[0])["TableNames"] if self.has_store() else []

    def is_there(self, table="users"):
        return self.name(table) in self.tables()

    def has_store(self):
        return True


class KernstackCases(KernstackStack):
    # K-03 .. K-10: the published seeds.

    def test_seed_vectors(self):
        cases = read_cases("seed")
        self.assertEqual(12, len(cases))
        for number, case in enumerate(cases):
            with self.subTest(case["note"]):
                expect, name = case["expect"], f"users{number}"
                self.declare({"name": self.name(name), "key_name": case["key"]["name"],
                              "key_type": case["key"]["type"]})
                self.assertTrue(case["file"].startswith("seed/tables/users."))
                ending = case["file"].rsplit(".", 1)[1]
                self.seed_file(case["text"], ending, name)
                if expect.get("error"):
                    self.deploy(status=FAILED)
                    self.assertIn(f"seed/tables/{self.name(name)}.{ending}:1: ", self.complaint)
                    self.assertFalse(self.is_there(name))
                    continue
                for _ in range(expect.get("deploys", 1)):
                    report = self.deploy()
                self.assertEqual(expect["items"], self.told(report, name)["Seed"]["ItemCount"])
                wanted = (json.loads(case["text"]) if ending == "json" else
                          [json.loads(line) for line in case["text"].splitlines()])
                self.assertEqual(sorted(wanted, key=str), sorted(self.items(name), key=str))

    # K-01, K-02: what is declared is what is made.

    def test_k01_k02_tables_are_made(self):
        self.declare(
            {},
            {"name": self.name("orders"), "sort_key_name": "at", "sort_key_type": "N",
             "indexes": [{"name": "by-user", "key_name": "uID", "key_type": "S",
                          "sort_key_name": "at", "sort_key_type": "N"},
                         {"key_name": "n", "key_type": "N"}],
             "change_stream": {"function": "f"}})
        report = self.deploy()
        self.assertEqual(["make", "make"], [entry["Action"] for entry in report["Tables"]])
        self.assertEqual({"key": ["id:S"], "indexes": {}}, self.described(self.name("users")))
        self.assertEqual({"key": ["id:S", "at:N"],
                          "indexes": {"by-user": ["uID:S", "at:N"], "by-n": ["n:N"]}},
                         self.described(self.name("orders")))
        for name, stream in (("users", False), ("orders", True)):
            told = json.loads(self.ctl("describe", self.name(name))[0])
            self.assertEqual(("-ttl", stream, "plain"),
                             (told["TimeToLive"], told["Stream"], told["Keys"]))

    def test_repeated_deploys_change_nothing(self):
        self.declare({"indexes": [{"name": "by-email", "key_name": "email"}],
                      "change_stream": {"function": "f"}})
        self.seed_file([{**USER, "id": {"S": f"u{n}"}} for n in range(30)])
        self.assertEqual({"File": f"seed/tables/{self.name('users')}.json", "ItemCount": 30,
                          "PutCount": 30}, self.told(self.deploy())["Seed"])
        before = self.snapshot(self.name("users"))
        for _ in range(2):
            report = self.told(self.deploy())
            self.assertEqual(("none", [], 0), (report["Action"], report["Differences"],
                                               report["Seed"]["PutCount"]))
            self.assertEqual(before, self.snapshot(self.name("users")))

    # K-03, K-04: where seeds are.

    def test_k03_both_places_are_refused(self):
        self.declare({})
        self.seed_file([USER])
        self.seed_file(json.dumps(USER), "jsonl")
        self.deploy(status=CONDITION)
        self.assertIn('are there: name one with "seed"', self.complaint)
        self.assertFalse(self.is_there())

    def test_k04_a_named_file_wins(self):
        self.seed_file([USER])
        self.seed_file("broken", "jsonl")
        self.save("data/other.txt", json.dumps({"id": {"S": "other"}}))
        self.declare({"seed": "data/other.txt"})
        self.deploy()
        self.assertEqual([{"id": {"S": "other"}}], self.items())
        self.declare({"seed": os.path.join(self.dir, "data/other.txt")})
        self.assertEqual(0, self.told(self.deploy())["Seed"]["PutCount"])

    def test_k04_a_named_file_must_be_there(self):
        self.declare({"seed": "data/none.json"})
        self.deploy(status=FAILED)
        self.assertIn("data/none.json: No such file or directory", self.complaint)
        self.assertFalse(self.is_there())

    # K-05: when and how.

    def test_k05_changed_items_are_overwritten_and_others_left(self):
        self.declare({})
        self.seed_file([USER, {"id": {"S": "user-2"}}])
        self.deploy()
        name = self.name("users")
        self.ctl("put", name, "--item", "-", input=json.dumps({**USER, "visits": {"N": "4"}}))
        self.ctl("put", name, "--item", "-", input=json.dumps({"id": {"S": "mine"}}))
        self.ctl("delete", name, "-k", "user-2")
        self.assertEqual(2, self.told(self.deploy())["Seed"]["PutCount"])
        self.assertEqual([{"id": {"S": "mine"}}, USER, {"id": {"S": "user-2"}}],
                         sorted(self.items(), key=lambda item: item["id"]["S"]))

    def test_k05_a_failed_deploy_seeds_nothing(self):
        self.ctl("create", self.name("orders"), "--key", "other")
        self.declare({}, {"name": self.name("orders")})
        self.seed_file([USER])
        report = self.deploy(status=CONDITION)
        self.assertEqual("refuse", self.told(report, "orders")["Action"])
        self.assertFalse(self.is_there())

    def test_k06_endings_say_what_a_file_is(self):
        self.declare({})
        for text, ending, complaint in (
                (json.dumps(USER), "json", "a .json file of seeds is an array of items"),
                ("", "json", "a .json file of seeds is an array of items"),
                (json.dumps([USER]), "jsonl", "a .jsonl file of seeds has an item a line")):
            with self.subTest(ending=ending, text=text):
                self.seed_file(text, ending)
                self.deploy(status=FAILED)
                self.assertIn(complaint, self.complaint)
                self.remove(f"seed/tables/{self.name('users')}.{ending}")
        self.seed_file("\n" + json.dumps(USER) + "\r\n\n", "jsonl")
        self.deploy()
        self.assertEqual([USER], self.items())

    # K-07 .. K-10: typed values.

    def test_k07_nothing_is_put_where_one_item_is_wrong(self):
        good = [{"id": {"S": f"u{n}"}} for n in range(40)]
        for bad in ({"id": "u"}, {"id": {"S": "u"}, "n": 3}, {"id": {"S": "u"}, "x": {"N": 3}},
                    {"id": {"S": "u"}, "x": {"N": "three"}}, {"id": {"S": "u"}, "x": {}},
                    {"id": {"S": "u"}, "x": {"Q": "1"}}, {"id": {"S": "u"}, "x": {"L": ["a"]}},
                    {"id": {"S": "u"}, "x": {"M": {"a": "b"}}}, {"id": {"N": "1"}}, {"x": {"S": "u"}},
                    {"id": {"S": ""}}, ["id"], {"id": {"S": "u0"}},
                    {"id": {"S": "u"}, "x": {"M": {"l": {"L": [{"NS": ["1"]}]}}}}):
            with self.subTest(bad=bad):
                self.declare({})
                self.seed_file([*good, bad])
                self.deploy(status=FAILED)
                self.assertFalse(self.is_there())
                self.seed_file("\n".join(json.dumps(item) for item in [*good, bad]), "jsonl")
                self.remove(f"seed/tables/{self.name('users')}.json")
                self.deploy(status=FAILED)
                self.assertIn(".jsonl:41: ", self.complaint)
                self.assertFalse(self.is_there())
                self.remove(f"seed/tables/{self.name('users')}.jsonl")

    def test_k08_numbers_keep_their_digits(self):
        item = {"id": {"S": "u"}, "n": {"N": "12345678901234567890123456789012345678"}}
        self.declare({})
        self.seed_file([item])
        self.deploy()
        self.assertEqual([item], self.items())

    def test_k09_b_bin_and_bool(self):
        self.declare({})
        self.seed_file([{"id": {"S": "u"}, "yes": {"B": True}, "no": {"B": False}, "raw": {"BIN": "aGk="},
                         "b": {"B": "aGk="}, "old": {"BOOL": True},
                         "in": {"L": [{"B": True}, {"M": {"x": {"BIN": "aGk="}}}, {"NULL": True}]}}])
        self.deploy()
        self.assertEqual([{"id": {"S": "u"}, "yes": {"BOOL": True}, "no": {"BOOL": False},
                           "raw": {"B": "aGk="}, "b": {"B": "aGk="}, "old": {"BOOL": True},
                           "in": {"L": [{"BOOL": True}, {"M": {"x": {"B": "aGk="}}}, {"NULL": True}]}}],
                         self.items())
        name = self.name("users")
        kernstack = {"id": {"S": "u"}, "yes": {"B": True}, "no": {"B": False}, "raw": {"BIN": "aGk="},
                     "b": {"BIN": "aGk="}, "old": {"B": True},
                     "in": {"L": [{"B": True}, {"M": {"x": {"BIN": "aGk="}}}, {"NULL": True}]}}
        for arguments in (("get", name, "-k", '{"S":"u"}'), ("scan", name),
                          ("query", name, "--key-name", "id", "-k", '{"S":"u"}')):
            out = self.ctl("inspect", "tables", *arguments)[0]
            self.assertEqual(kernstack, json.loads(out))
        # What was written for a Kernstack reader is read again as the same.
        self.ctl("inspect", "tables", "put", name, "--item", "-", input=json.dumps(kernstack))
        self.assertEqual(0, self.told(self.deploy())["Seed"]["PutCount"])

    def test_k10_sets_are_refused(self):
        self.declare({})
        for kind, value in (("SS", ["a"]), ("NS", ["1"]), ("BS", ["aGk="])):
            self.seed_file([{"id": {"S": "u"}, "s": {kind: value}}])
            self.deploy(status=FAILED)
            self.assertIn(f'.json:1: "s" holds a set ({kind}): seeds have S, N, B, BIN, L, M, NULL',
                          self.complaint)
            self.assertFalse(self.is_there())

    # K-11, K-12, K-15, K-16.

    def test_k11_to_k16_names_with_a_dash(self):
        item = {"-id": {"S": "-ttl"}, "-ttl": {"N": "4102444800"}, "ttl": {"N": "1"},
                "expiresAt": {"N": "1"}, "-x": {"S": "-"}}
        self.save("-ttl", json.dumps(item))
        self.declare({"key_name": "-id"})
        self.deploy()
        name = self.name("users")
        self.ctl("put", name, "--item", "-ttl")
        self.assertEqual([item], self.items())
        self.assertEqual({"TimeToLive": 4102444800}, json.loads(self.ctl("ttl", name, "-k", "-ttl")[0]))
        self.ctl("delete", name, "-k", '{"S":"-ttl"}')
        self.assertEqual([], self.items())
        for ttl in ({"S": "1"}, {"N": "1.5"}, {"NULL": True}, {"N": "-1"}, {"N": "0"}):
            self.ctl("put", name, "--item", "-", input=json.dumps({"-id": {"S": "a"}, "-ttl": ttl}))
            self.ctl("get", name, "-k", "a")
        self.ctl("put", name, "--item", "-",
                 input=json.dumps({"-id": {"S": "a"}, "m": {"M": {"-ttl": {"N": "1"}}}}))
        self.ctl("get", name, "-k", "a")

    # Differences.

    def test_differences_are_shown_and_nothing_is_done(self):
        name = self.name("users")
        for declaration, differences in (
                ({"key_type": "N"}, [("key", "id:N", "id:S")]),
                ({"key_name": "uid"}, [("key", "uid:S", "id:S")]),
                ({"sort_key_name": "at"}, [("sort key", "at:S", "none")]),
                ({"indexes": []}, [("index by-email", "none", "email:S")]),
                ({"indexes": [{"name": "by-email", "key_name": "email", "sort_key_name": "at"}]},
                 [("index by-email", "email:S,at:S", "email:S")])):
            with self.subTest(declaration=declaration):
                index = {"indexes": [{"name": "by-email", "key_name": "email"}]}
                self.declare(index)
                self.seed_file([USER])
                self.deploy()
                before = self.snapshot(name)
                self.declare({**index, **declaration})
                for options in ((), ("--dry-run",)):
                    report = self.told(self.deploy(*options, status=CONDITION))
                    self.assertEqual("refuse", report["Action"])
                    self.assertEqual(differences, [(entry["Setting"], entry["Declared"], entry["Table"])
                                                   for entry in report["Differences"]])
                    setting, declared, there = differences[0]
                    self.assertIn(f"table {name} differs from its declaration: {setting} is {there}, "
                                  f"declared {declared}. Nothing was done; --force", self.complaint)
                self.assertEqual(before, self.snapshot(name))

    def found(self, index, key):
        """What a query of the index has."""
        lines = self.ctl("query", self.name("users"), "--index", index, "-k", json.dumps(key))[0]
        return [json.loads(line) for line in lines.splitlines()]

    def test_indexes_change_beside_the_items(self):
        name = self.name("users")
        self.declare({"indexes": [{"name": "by-email", "key_name": "email"}]})
        self.deploy()
        users = [{"id": {"S": f"u{n}"}, "email": {"S": f"{n % 3}@x"}, "at": {"N": str(n)}}
                 for n in range(7)]
        for user in users:
            self.ctl("put", name, "--item", "-", input=json.dumps(user))
        self.ctl("put", name, "--item", "-", input='{"id":{"S":"odd"},"at":{"S":"no number"}}')
        before = self.items()

        more = {"indexes": [{"name": "by-email", "key_name": "email"},
                            {"name": "by-at", "key_name": "at", "key_type": "N"}]}
        self.declare(more)
        report = self.told(self.deploy("--dry-run"))
        self.assertEqual("change", report["Action"])
        self.assertEqual({"by-email": ["email:S"]}, self.described(name)["indexes"])
        self.assertEqual("change", self.told(self.deploy())["Action"])
        self.assertEqual({"by-email": ["email:S"], "by-at": ["at:N"]}, self.described(name)["indexes"])
        self.assertEqual([users[4]], self.found("by-at", {"N": "4"}))
        self.assertEqual("none", self.told(self.deploy())["Action"])

        self.declare({"indexes": [{"name": "by-email", "key_name": "email", "sort_key_name": "at",
                                   "sort_key_type": "N"}]})
        self.assertEqual("refuse", self.told(self.deploy(status=CONDITION))["Action"])
        self.assertNotIn("items", self.complaint)
        self.assertEqual("change", self.told(self.deploy("--force"))["Action"])
        self.assertEqual({"by-email": ["email:S", "at:N"]}, self.described(name)["indexes"])
        self.assertEqual([users[1], users[4]], self.found("by-email", {"S": "1@x"}))
        self.ctl("delete", name, "-k", "u1")
        self.assertEqual([users[4]], self.found("by-email", {"S": "1@x"}))
        self.assertEqual([item for item in before if item != users[1]], self.items())

    def test_force_makes_it_anew(self):
        self.declare({})
        self.deploy()
        self.ctl("put", self.name("users"), "--item", "-", input=json.dumps(USER))
        self.declare({"key_name": "email"})
        self.assertEqual("replace", self.told(self.deploy("--force", "--dry-run"))["Action"])
        self.assertEqual([USER], self.items())
        self.seed_file([{"email": {"S": "x"}}])
        self.assertEqual("replace", self.told(self.deploy("--force"))["Action"])
        self.assertEqual([{"email": {"S": "x"}}], self.items())
        self.assertEqual(["email:S"], self.described(self.name("users"))["key"])
        self.assertEqual("none", self.told(self.deploy())["Action"])

    def test_a_bad_seed_is_found_before_a_table_is_dropped(self):
        self.declare({})
        self.deploy()
        self.ctl("put", self.name("users"), "--item", "-", input=json.dumps(USER))
        self.declare({"key_name": "email"})
        self.seed_file([{"id": {"S": "x"}}])
        self.deploy("--force", status=FAILED)
        self.assertEqual([USER], self.items())

    # K-17, K-27: streams.

    def test_k17_a_stream_is_switched_on(self):
        self.declare({})
        self.deploy()
        self.declare({"change_stream": {"function": "f"}})
        report = self.told(self.deploy())
        self.assertEqual(("change", [{"Setting": "stream", "Declared": "on", "Table": "off",
                                      "Action": "change"}]), (report["Action"], report["Differences"]))
        self.assertTrue(json.loads(self.ctl("describe", self.name("users"))[0])["Stream"])
        self.assertEqual("none", self.told(self.deploy())["Action"])

    def test_k27_a_stream_is_switched_off_with_force_only(self):
        self.declare({"change_stream": {"function": "f"}})
        self.deploy()
        self.declare({})
        report = self.told(self.deploy())
        self.assertEqual(("none", [{"Setting": "stream", "Declared": "off", "Table": "on",
                                    "Action": "leave"}]), (report["Action"], report["Differences"]))
        self.assertTrue(json.loads(self.ctl("describe", self.name("users"))[0])["Stream"])
        self.assertEqual("change", self.told(self.deploy("--force"))["Action"])
        self.assertFalse(json.loads(self.ctl("describe", self.name("users"))[0])["Stream"])

    def test_k17_functions_are_never_passed_over(self):
        self.declare({"change_stream": {"function": "on-user"}})
        report = self.told(self.deploy())
        self.assertEqual({"Name": "on-user", "Call": None}, report["Function"])
        self.assertIn("delivered to nobody: where on-user is called is said neither by", self.complaint)
        self.declare({"change_stream": {"function": "on-user"}}, functions=[{"name": "other"}])
        self.deploy(status=FAILED)
        self.assertIn('names the function "on-user", which resources.functions does not have',
                      self.complaint)

    # --dry-run.

    def test_dry_run_does_nothing(self):
        self.declare({})
        self.seed_file([USER])
        report = self.deploy("--dry-run")
        self.assertEqual((True, "make", 1, 0),
                         (report["DryRun"], self.told(report)["Action"],
                          self.told(report)["Seed"]["ItemCount"], self.told(report)["Seed"]["PutCount"]))
        self.assertFalse(self.is_there())
        self.deploy()
        self.ctl("delete", self.name("users"), "-k", "user-1")
        self.deploy("--dry-run")
        self.assertEqual([], self.items())

    # seed.

    def test_seed_command(self):
        name = self.name("users")
        self.declare({})
        self.deploy()
        self.save("more.json", json.dumps([USER, {"id": {"S": "user-2"}}]))
        wanted = {"TableName": name, "ItemCount": 2, "PutCount": 2}
        self.assertEqual(wanted, json.loads(self.ctl("seed", name, "more.json")[0]))
        self.assertEqual({**wanted, "PutCount": 0}, json.loads(self.ctl("seed", name, "more.json")[0]))
        self.assertEqual([USER, {"id": {"S": "user-2"}}], self.items())
        out = self.ctl("seed", name, "-", input='{"id":{"S":"user-3"}}\n')[0]
        self.assertEqual(1, json.loads(out)["PutCount"])
        self.save("bad.json", json.dumps([{"id": {"S": "user-4"}}, {"id": {"S": "user-5"}, "n": 3}]))
        error = self.ctl("seed", name, "bad.json", status=FAILED)[1]
        self.assertIn("bad.json:1: column 30: expected a typed value", error)
        self.assertIn("No such file", self.ctl("seed", name, "none.json", status=FAILED)[1])
        self.ctl("seed", self.name("other"), "more.json", status=ABSENT)
        self.assertEqual(3, len(self.items()))

    # K-29 .. K-33: the published command lines.

    def test_k29_to_k33_cli_vectors(self):
        cases = {case["note"]: case["args"] for case in read_cases("cli")}
        self.assertEqual(6, len(cases))
        names = {"users": self.name("users"), "t": self.name("t")}

        def run(note, status=DONE):
            return self.ctl(*[names.get(word, word) for word in cases[note]], status=status)
        self.declare({}, {"name": names["t"], "sort_key_name": "at", "sort_key_type": "N",
                          "indexes": [{"key_name": "uID", "key_type": "S"}]})
        self.deploy()
        listed = run("list")[0]
        self.assertLessEqual(set(names.values()), set(json.loads(listed)["TableNames"]))
        self.save("user.json", USER)
        run("put one")
        self.assertEqual([USER], self.items())
        self.assertEqual(USER, json.loads(run("get")[0]))
        run("delete")
        self.assertEqual([], self.items())
        self.assertEqual("", run("get", status=ABSENT)[0])  # K-33
        self.assertEqual("", run("delete", status=ABSENT)[0])
        items = [{"id": {"S": "a"}, "at": {"N": "5"}, "uID": {"S": "user-1"}},
                 {"id": {"S": "a"}, "at": {"N": "6"}, "uID": {"S": "user-1"}},
                 {"id": {"S": "b"}, "at": {"N": "5"}, "uID": {"S": "user-2"}}]
        self.save("items.json", items)
        self.ctl("inspect", "tables", "put", names["t"], "--items", "./items.json")
        found = [json.loads(line) for line in run("query by an index key")[0].splitlines()]
        self.assertEqual(items[:2], sorted(found, key=lambda item: item["at"]["N"]))
        run("delete with sort key")
        scanned = self.ctl("inspect", "tables", "scan", names["t"])[0].splitlines()
        self.assertEqual(items[1:], sorted(map(json.loads, scanned), key=lambda item: item["id"]["S"]))
        self.assertEqual(items[1:], sorted(self.items("t"), key=lambda item: item["id"]["S"]))
