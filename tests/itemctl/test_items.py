# SPDX-License-Identifier: MIT
"""put, get, delete, query, scan, ttl, and how keys are written."""

import json
import os
import subprocess
import time
import unittest

from ctl import ABSENT, CONDITION, FAILED, ITEMCTL, USAGE, CtlTest, typed

LONG_NUMBER = "12345678901234567890123456789012345678"
LATER = 4_000_000_000


class Keys(CtlTest):
    def check(self, table, key, plain=None):
        """An item of KEY (a typed value), reached in every way that a key can be written."""
        item = typed(id=key, v={"N": "1"})
        self.put(table, item)
        ways = [json.dumps(key), json.dumps({"id": key}), json.dumps({"id": key}, indent=2)]
        ways = [way.replace("\\u0000", "\\u0000") for way in ways]
        for way in ways + ([plain] if plain is not None else []):
            self.assertEqual([item], self.lines("get", table, "-k", way))
        self.assertEqual([item], self.lines("query", table, "--key-name", "id", "-k", ways[0]))
        self.assertEqual([item], self.lines("query", table, "-k", ways[0]))
        self.out("delete", table, "-k", plain if plain is not None else ways[0])
        self.assertIsNone(self.body(table, b"a"))
        self.error(ABSENT, "get", table, "-k", ways[0])

    def test_strings(self):
        self.out("create", "t", "--key", "id")
        for key in ("a", "a b", "ü", "u\u0308", "日本", "😀", "a/b", "..", "-k", "b_a", "x.json",
                    "5", "[1]", '"', "\\", "\n", "\x7f", "é" * 300):
            with self.subTest(key):
                self.check("t", {"S": key}, key)
        self.check("t", {"S": "{x"})
        item = r'{"id":{"S":"nul \u0000 end"}}'
        self.put("t", item)
        self.assertEqual([item], self.lines("get", "t", "-k", r'{"S":"nul \u0000 end"}'))
        self.assertEqual([(b"nul \0 end",)], self.rows("SELECT CAST(pk AS BLOB) FROM item"))
        item = r'{"id":{"S":"lone \ud800"}}'
        self.put("t", item)
        self.assertEqual([item], self.lines("get", "t", "-k", r'{"S":"lone \ud800"}'))

    def test_numbers(self):
        self.out("create", "t", "--key", "id:N")
        for text in ("0", "5", "-5", "1.5", LONG_NUMBER, "-" + LONG_NUMBER,
                     "0." + "0" * 20 + "1", "1" + "0" * 100):
            with self.subTest(text):
                self.check("t", {"N": text}, text)
        self.put("t", typed(id={"N": "1500"}))
        for way in ("1500.00", "1.5e3", "+1500", "01500", '{"N":"15E2"}', '{"id":{"N":"1500.0"}}'):
            self.assertEqual([typed(id={"N": "1500"})], self.lines("get", "t", "-k", way))
        for bad in ("abc", "", "1" * 39, "1e200", "0x10", "NaN"):
            self.error(USAGE, "get", "t", "-k", bad)

    def test_binary(self):
        self.out("create", "t", "--key", "id:B")
        for text in ("AA==", "AAEC/w==", "+/+/"):
            self.check("t", {"B": text}, text)
        self.put("t", typed(id={"B": "AAEC/w=="}))
        self.assertEqual([(b"\0\1\2\xff",)], self.rows("SELECT pk FROM item"))
        for bad in ("_-==", "AB==", "A", "", "x y"):
            self.error(USAGE, "get", "t", "-k", bad)

    def test_sorted(self):
        self.out("create", "t", "--key", "id", "--sort", "n:N")
        item = typed(id={"S": "a"}, n={"N": "10"})
        self.put("t", item)
        for key in (("a", "10"), ("a", '{"N":"10.0"}'), ('{"S":"a"}', "10"),
                    ('{"id":{"S":"a"}}', '{"n":{"N":"10"}}')):
            self.assertEqual([item], self.lines("get", "t", "-k", key[0], "--sort-key", key[1]))
        for whole in ('{"id":{"S":"a"},"n":{"N":"10"}}', ' {"n":{"N":"10"},"id":{"S":"a"}}'[1:]):
            self.assertEqual([item], self.lines("get", "t", "-k", whole))
        self.out("delete", "t", "-k", '{"id":{"S":"a"},"n":{"N":"10"}}')
        self.assertEqual(0, self.count("t"))

    def test_usage_errors_say_why(self):
        self.out("create", "t", "--key", "id")
        self.out("create", "sorted", "--key", "id", "--sort", "n:N")
        get = lambda *arguments: self.error(USAGE, "get", *arguments)
        self.assertIn('the key attribute "id" must be of type S, not N', get("t", "-k", '{"N":"5"}'))
        self.assertIn("line 1, column 9", get("t", "-k", '{"S":"a"'))
        self.assertIn('it has no attribute "id"', get("t", "-k", '{"x":{"S":"a"}}'))
        self.assertIn('"x" is no attribute', get("t", "-k", '{"id":{"S":"a"},"x":{"S":"a"}}'))
        self.assertIn("cannot be empty", get("t", "-k", ""))
        self.assertEqual("get needs -k KEY", get("t"))
        self.assertEqual("table t has no sort key", get("t", "-k", "a", "--sort-key", "1"))
        self.assertIn("add --sort-key", get("sorted", "-k", "a"))
        self.assertIn("add --sort-key", get("sorted", "-k", '{"S":"a"}'))
        self.assertIn('it has no attribute "n"', get("sorted", "-k", '{"id":{"S":"a"}}'))
        self.assertIn('"n" is no attribute', get("sorted", "-k", '{"id":{"S":"a"},"n":{"N":"1"}}',
                                                 "--sort-key", "1"))
        self.assertIn("must be of type N, not S", get("sorted", "-k", "a", "--sort-key", '{"S":"1"}'))

    def test_tags_in_any_order(self):
        self.out("create", "t")
        self.put("t", typed(key={"S": "users_roles_10_9"}, v={"N": "1"}))
        item = typed(key={"S": "9_10_roles_users"}, v={"N": "1"})
        self.assertEqual([item], self.lines("scan", "t"))
        for way in ("roles_users_9_10", "10_users_9_roles", '{"S":"users_9_roles_10"}',
                    '{"key":{"S":"users_9_10_roles"}}'):
            self.assertEqual([item], self.lines("get", "t", "-k", way))
            self.assertEqual([item], self.lines("query", "t", "--key-name", "key", "-k", way))
        self.put("t", typed(key={"S": "roles_9_users_10"}, v={"N": "2"}))
        self.assertEqual(1, self.count("t"))
        self.out("delete", "t", "-k", "users_roles_10_9")
        self.assertEqual(0, self.count("t"))


class Items(CtlTest):
    def setUp(self):
        super().setUp()
        self.out("create", "t", "--key", "id")

    def test_every_type_comes_back(self):
        item = (r'{"b":{"B":"AAH/"},"bs":{"BS":["AA==","AQ=="]},"deep":{"M":{"l":{"L":[{"B":""},'
                r'{"M":{"":{"S":""}}},{"NULL":true},{"NS":["1","2.5"]}]}}},"e":{"S":""},'
                r'"el":{"L":[]},"em":{"M":{}},"f":{"BOOL":false},"id":{"S":"a"},'
                r'"n":{"N":"' + LONG_NUMBER + r'"},"nul":{"S":"\u0000"},"one":{"M":{"$x":{"N":"1"}}},'
                r'"ss":{"SS":["b","a"]},"u":{"S":"ü😀\ud800"},"x":{"N":"1.50"},"y":{"N":"1E+2"}}')
        self.assertEqual([item], self.lines("put", "t", "--item", "-", input=item))
        for command in (("get", "t", "-k", "a"), ("scan", "t"),
                        ("query", "t", "--key-name", "id", "-k", "a")):
            self.assertEqual([item], self.lines(*command))

    def test_bodies_are_plain_and_canonical(self):
        self.put("t", '{ "z": {"N":"1"}, "id": {"S":"a"}, "b": {"B":"AA=="} }')
        self.assertEqual(b'{\n  "id": "a",\n  "b": {\n    "$B": "AA=="\n  },\n  "z": 1\n}\n',
                         self.body("t", b"a"))
        self.put("t", typed(**{"id": {"S": "bare"}, "$value": {"N": "5"}}))
        self.assertEqual(b"5\n", self.body("t", b"bare"))

    def test_put_replaces(self):
        self.put("t", typed(id={"S": "a"}, x={"N": "1"}))
        self.put("t", typed(id={"S": "a"}, y={"N": "2"}))
        self.assertEqual([typed(id={"S": "a"}, y={"N": "2"})], self.lines("scan", "t"))
        changes = self.change_count()
        self.put("t", typed(id={"S": "a"}, y={"N": "2"}))
        self.assertEqual(changes, self.change_count())

    def test_put_usage(self):
        self.assertEqual("put needs --item FILE or --items FILE", self.error(USAGE, "put", "t"))
        self.error(USAGE, "put", "t", "--item", "a", "--items", "b")
        self.assertIn("no-file: No such file", self.error(FAILED, "put", "t", "--item", "no-file"))
        self.assertIn(".: Is a directory", self.error(FAILED, "put", "t", "--items", "."))

    def test_put_forms(self):
        items = [typed(id={"S": str(number)}) for number in range(450)]
        self.write("lines", "\n\n" + "\n".join(items) + "\n  \n")
        self.write("array", json.dumps([json.loads(item) for item in items], indent=1))
        self.write("crlf", "\r\n".join(items))
        for name in ("lines", "array", "crlf"):
            self.assertEqual(items, self.lines("put", "t", "--items", name))
            self.assertEqual(450, self.count("t"))
            self.out("drop", "t", "--force")
            self.out("create", "t", "--key", "id")
        self.assertEqual([], self.lines("put", "t", "--items", "-", input=" [ ] "))
        self.assertEqual([], self.lines("put", "t", "--items", "-", input=""))
        pretty = json.dumps(json.loads(items[0]), indent=4)
        self.assertEqual([items[0]], self.lines("put", "t", "--item", "-", input=pretty))

    def test_bad_item_in_the_middle_puts_nothing(self):
        good = [typed(id={"S": str(number)}) for number in range(500)]
        for bad, reason in (
                ('{"id":{"S":"x"}', "column 16"), ('{"id":{"N":"5"}}', "must be of type S"),
                ('{"x":{"S":"a"}}', '"id"'), ('{"id":"a"}', "column 8"), ("[]", "column 1"),
                ('{"id":{"S":"a"},"s":{"SS":[]}}', "column 28: a set may not be empty"), ('{"id":{"S":""}}', "empty"),
                ('{"id":{"S":"a"},"id":{"S":"b"}}', "twice"), ('{"id":{"S":"a"}} {}', "column 18")):
            with self.subTest(bad):
                lines = good[:450] + [bad] + good[450:]
                message = self.error(FAILED, "put", "t", "--items", "-", input="\n".join(lines))
                self.assertTrue(message.startswith("standard input:451: "), message)
                self.assertIn(reason, message)
                self.assertEqual(0, self.count("t"))
        array = "[\n" + ",\n".join(good[:450] + ['{"id":{"N":"5"}}'] + good[450:]) + "]"
        self.assertIn("standard input:452: ", self.error(FAILED, "put", "t", "--items", "-",
                                                         input=array))
        for broken in (array[:-1], array + "x", array.replace('{"id":{"N":"5"}}', "7"), "[,]"):
            self.error(FAILED, "put", "t", "--items", "-", input=broken)
        self.assertEqual((0, 0), (self.count("t"), self.change_count()))

    def test_too_large(self):
        self.write("mount.conf", "[mount]\nmax_item_size = 1K\n[backend b]\npath = items.db\n")
        item = typed(id={"S": "a"}, x={"S": "x" * 2000})
        self.assertIn("1024", self.error(FAILED, "-s", "mount.conf", "put", "t", "--items", "-",
                                         input=typed(id={"S": "b"}) + "\n" + item))
        self.assertEqual(0, self.count("t"))
        self.put("t", item)
        self.assertEqual([item], self.lines("-s", "mount.conf", "get", "t", "-k", "a"))

    def test_get_and_delete_of_nothing(self):
        self.assertIn("no such item", self.error(ABSENT, "get", "t", "-k", "a"))
        self.error(ABSENT, "delete", "t", "-k", "a")
        self.put("t", typed(id={"S": "a"}))
        self.assertEqual("", self.out("delete", "t", "-k", "a"))
        self.error(ABSENT, "delete", "t", "-k", "a")

    def test_scan(self):
        items = sorted(typed(id={"S": f"{number:04}"}, x={"S": "y" * 100}) for number in range(1300))
        self.put("t", *items)
        self.assertEqual(items, self.lines("scan", "t"))
        for limit in (1, 511, 512, 513, 1299, 5000):
            self.assertEqual(items[:limit], self.lines("scan", "t", "--limit", str(limit)))
        for bad in ("0", "-1", "x", "1.5", ""):
            self.error(USAGE, "scan", "t", "--limit", bad)

    def test_scan_of_large_items_is_bounded(self):
        items = [typed(id={"S": str(number)}, x={"S": "y" * 400_000}) for number in range(9)]
        self.put("t", *items)
        self.assertEqual(items, self.lines("scan", "t"))


class Queries(CtlTest):
    def setUp(self):
        super().setUp()
        self.out("create", "t", "--key", "id", "--sort", "n:N", "--index", "by-city:city,when:N",
                 "--index", "by-mail:mail", "--index", "other-mail:mail,n:N")
        self.items = [typed(id={"S": "a"}, n={"N": str(n)}, city={"S": "x" if n % 2 else "y"},
                            when={"N": str(-n)}, mail={"S": "m"}) for n in (-3, 1, 2, 10, 20)]
        self.put("t", *self.items, typed(id={"S": "b"}, n={"N": "1"}))

    def query(self, *arguments):
        return self.lines("query", "t", *arguments)

    def test_partition_in_order(self):
        key = ("--key-name", "id", "-k")
        self.assertEqual(self.items, self.query(*key, "a"))
        self.assertEqual(self.items[::-1], self.query(*key, "a", "--reverse"))
        self.assertEqual(self.items[:2], self.query(*key, "a", "--limit", "2"))
        self.assertEqual(self.items[-1:], self.query(*key, "a", "--reverse", "--limit", "1"))
        self.assertEqual([], self.query(*key, "c"))

    def test_bounds(self):
        between = lambda *arguments: self.query("--key-name", "id", "-k", "a", "--sort-between",
                                                *arguments)
        self.assertEqual(self.items[1:4], between("1", "10"))
        self.assertEqual(self.items[:2], between("-5", '{"N":"1.5"}'))
        self.assertEqual(self.items[3:0:-1], between("1", "10", "--reverse"))
        self.assertEqual(self.items[3:1:-1], between("1", "10", "--reverse", "--limit", "2"))
        self.assertEqual([], between("10", "1"))
        self.error(USAGE, "query", "t", "--key-name", "id", "-k", "a", "--sort-between", "x", "5")

    def test_indexes(self):
        odd = [self.items[0], self.items[1]]
        self.assertEqual(odd[::-1], self.query("--key-name", "city", "-k", "x"))
        self.assertEqual(odd, self.query("--index", "by-city", "--key-name", "city", "-k",
                                         '{"S":"x"}', "--reverse"))
        self.assertEqual([self.items[4], self.items[3]],
                         self.query("--key-name", "city", "-k", "y", "--sort-between", "-20", "-10"))
        self.assertEqual(odd[::-1], self.query("--index", "by-city", "-k", "x"))
        self.assertEqual(self.items, self.query("--index", "other-mail", "--key-name", "mail", "-k",
                                                "m"))
        self.assertEqual(set(self.items), set(self.query("--index", "by-mail", "--key-name", "mail",
                                                         "-k", "m")))

    def test_refused(self):
        query = lambda status, *arguments: self.error(status, "query", "t", *arguments)
        self.assertIn("say which with --index", query(USAGE, "--key-name", "mail", "-k", "m"))
        self.assertIn('"n" is neither', query(USAGE, "--key-name", "n", "-k", "1"))
        self.assertIn('is "city", not "id"', query(USAGE, "--index", "by-city", "--key-name", "id",
                                                   "-k", "a"))
        self.assertIn('no index "nope"', query(ABSENT, "--index", "nope", "--key-name", "id", "-k",
                                               "a"))
        self.assertIn("needs -k KEY", query(USAGE, "--key-name", "id"))
        self.assertIn("there is no sort key", query(USAGE, "--index", "by-mail", "--key-name", "mail",
                                                    "-k", "m", "--sort-between", "1", "2"))
        self.assertIn("must be of type S", query(USAGE, "--key-name", "id", "-k", '{"N":"1"}'))


class TimeToLive(CtlTest):
    def setUp(self):
        super().setUp()
        self.out("create", "t", "--key", "id", "--ttl", "expires")

    def ttl(self, key, *more, **options):
        return self.out("ttl", "t", "-k", key, *more, **options)

    def test_set_print_and_remove(self):
        self.put("t", typed(id={"S": "a"}, x={"N": "1.0"}))
        self.assertEqual('{"TimeToLive": null}\n', self.ttl("a"))
        self.assertEqual("", self.ttl("a", str(LATER)))
        self.assertEqual(f'{{"TimeToLive": {LATER}}}\n', self.ttl("a"))
        self.assertEqual(f'{{\n  "id": "a",\n  "x": 1.0,\n  "expires": {LATER}\n}}\n'.encode(),
                         self.body("t", b"a"))
        self.assertEqual([(LATER,)], self.rows("SELECT expires FROM item"))
        self.ttl("a", "none")
        self.assertEqual(b'{\n  "id": "a",\n  "x": 1.0\n}\n', self.body("t", b"a"))
        self.ttl("a", "none")
        self.assertEqual('{"TimeToLive": null}\n', self.ttl("a"))

    def test_from_now_on(self):
        self.put("t", typed(id={"S": "a"}))
        before = int(time.time())
        self.ttl("a", "+3600")
        told = json.loads(self.ttl("a"))["TimeToLive"]
        self.assertIn(told - 3600, range(before, int(time.time()) + 1))

    def test_value_that_is_no_object(self):
        self.put("t", typed(**{"id": {"S": "a"}, "$value": {"L": []}}))
        self.ttl("a", str(LATER))
        self.assertEqual(b"[]\n", self.body("t", b"a"))
        self.assertEqual([typed(**{"id": {"S": "a"}, "$value": {"L": []},
                                   "expires": {"N": str(LATER)}})], self.lines("get", "t", "-k", "a"))
        self.ttl("a", "none")
        self.assertEqual([typed(**{"id": {"S": "a"}, "$value": {"L": []}})],
                         self.lines("get", "t", "-k", "a"))

    def test_expired_items_are_gone(self):
        self.put("t", typed(id={"S": "b"}, expires={"N": "5"}),
                 typed(id={"S": "a"}, expires={"N": str(int(time.time()) - 5)}))
        self.assertEqual([], self.lines("scan", "t"))
        self.error(ABSENT, "get", "t", "-k", "a")
        self.error(ABSENT, "ttl", "t", "-k", "a")
        self.error(ABSENT, "delete", "t", "-k", "b")

    def test_refused(self):
        self.put("t", typed(id={"S": "a"}))
        for bad in ("0", "-5", "soon", "1.5", "", "1e30"):
            self.error(USAGE, "ttl", "t", "-k", "a", "--", bad)
        self.assertEqual("3600 is a time in the past, at which the item is gone at once: from now "
                         "on is +3600, and delete removes an item",
                         self.error(USAGE, "ttl", "t", "-k", "a", "3600"))
        for bad in ("+0", "+-5", "+x", "+", "+9223372036854775807"):
            self.assertEqual(f'"{bad}" is no time: give seconds since 1970, +SECONDS, or none',
                             self.error(USAGE, "ttl", "t", "-k", "a", bad))
        self.assertEqual('{"TimeToLive": null}\n', self.ttl("a"))
        self.error(ABSENT, "ttl", "t", "-k", "b", str(LATER))
        self.out("create", "u", "--key", "id", "--ttl", "none")
        self.put("u", typed(id={"S": "a"}))
        self.assertIn("no TTL attribute", self.error(FAILED, "ttl", "u", "-k", "a", str(LATER)))

    def test_sorted_table_and_tags(self):
        self.out("create", "s", "--key", "id", "--sort", "n:N")
        self.put("s", typed(id={"S": "a"}, n={"N": "1"}))
        self.out("ttl", "s", "-k", "a", "--sort-key", "1.0", str(LATER))
        self.assertEqual([typed(**{"id": {"S": "a"}, "n": {"N": "1"}, "-ttl": {"N": str(LATER)}})],
                         self.lines("scan", "s"))
        self.out("create", "tags")
        self.put("tags", typed(key={"S": "b_a"}))
        self.out("ttl", "tags", "-k", "b_a", str(LATER))
        self.assertEqual(f'{{"TimeToLive": {LATER}}}\n', self.out("ttl", "tags", "-k", "a_b"))

    def test_concurrent_changes_are_kept(self):
        """Eight set the TTL at once: each of them does, and nothing else of the item moves."""
        self.put("t", typed(id={"S": "a"}, x={"N": "0"}))
        setters = [self.start("ttl", "t", "-k", "a", str(LATER + n), stderr=subprocess.PIPE)
                   for n in range(8)]
        for process in setters:
            self.assertEqual((0, b""), (process.wait(), process.stderr.read()))
            process.stderr.close()
        item = json.loads(self.out("get", "t", "-k", "a"))
        self.assertEqual({"N": "0"}, item["x"])
        self.assertIn(int(item["expires"]["N"]), range(LATER, LATER + 8))


class ForPeople(CtlTest):
    def test_items(self):
        self.out("create", "t", "--key", "id", "--sort", "n:N")
        self.put("t", typed(id={"S": "ada"}, n={"N": "1"}, x={"S": "y" * 100}),
                 typed(id={"S": "ü"}, n={"N": "100"}, b={"BOOL": True}),
                 typed(**{"id": {"S": "z"}, "n": {"N": "2"}, "$value": {"N": "5"}}))
        want = ("id   n    ITEM\n"
                'ada  1    {"x":"' + "y" * 63 + "…\n"
                "z    2    5\n"
                'ü    100  {"b":true}\n')
        self.assertEqual(want, self.on_terminal("scan", "t"))
        self.assertEqual("id  n  ITEM\nz   2  5\n",
                         self.on_terminal("query", "t", "--key-name", "id", "-k", "z"))
        self.assertEqual("ATTRIBUTE  TYPE  VALUE\n"
                         "id         S     ü\n"
                         "n          N     100\n"
                         "b          BOOL  true\n",
                         self.on_terminal("get", "t", "-k", "ü", "--sort-key", "100"))
        self.assertEqual("none\n", self.on_terminal("ttl", "t", "-k", "ü", "--sort-key", "100"))
        self.out("ttl", "t", "-k", "ü", "--sort-key", "100", str(LATER))
        self.assertEqual(f"{LATER} (2096-10-02T07:06:40Z)\n",
                         self.on_terminal("ttl", "t", "-k", "ü", "--sort-key", "100"))
        self.assertEqual("1 item put\n", self.on_terminal(
            "put", "t", "--item", self.write("one", typed(id={"S": "q"}, n={"N": "1"}))))

    def test_terminals_are_safe(self):
        self.out("create", "t", "--key", "id")
        evil = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\n"
        self.put("t", typed(id={"S": evil}, **{evil: {"S": evil}}))
        for command in (("scan", "t"), ("get", "t", "-k", evil)):
            shown = self.on_terminal(*command, columns=300)
            self.assertNotIn("\x1b", shown)
            self.assertNotIn("\x9b", shown)
            self.assertNotIn("\x07", shown)
            self.assertNotIn("\r", shown)
            self.assertIn("owned", shown)
        for status, command in ((ABSENT, ("describe", evil)), (USAGE, ("get", "t", "-k", "{" + evil))):
            done = subprocess.run([ITEMCTL, *command], env=self.env, capture_output=True)
            self.assertEqual(status, done.returncode)
            self.assertNotIn(b"\x1b", done.stderr)


if __name__ == "__main__":
    unittest.main()
