# SPDX-License-Identifier: MIT
"""Bodies: byte for byte what was written, or refused with a reason and kept as a draft."""

import errno
import json
import os
import unittest

from harness import TESTS, MountedTest

BODIES = os.path.join(TESTS, "bodies")
INVALID = ["{", "}", "[1,2", '{"a":1,}', "[1,]", "{'a': 1}", "{a: 1}", "nul", "NaN", "[NaN]",
           "Infinity", "01", "1.", ".5", "+1", "0x10", '"a', '"\n"', '"\\x"', '"\\u12"', '{"a" 1}',
           '{"a":1 "b":2}', '{"a":1}{"b":2}', "1 2", "// c\n1", "/* c */ 1", "\ufeff{}", " ", "\n",
           '{"a":1,"a":2}', '{"\\u0061":1,"a":2}', '{"a":{"b":1,"b":1}}', "\0", '{"a":1}\0']
VALID = ["{}", "[]", "5", '"x"', "true", "null", "[1, 2]", ' {"a" : 1 } ', '{"a":1}\r\n', "-0",
         "1e400", "1E-5", "0." + "1" * 100, "9" * 400, '{"a":{"b":{"c":[[[]]]}}}', '"\\u0000"',
         '"\\ud800"', '{"": ""}', '{"a":1e5,"b":1E5,"c":100000.0}', '"\U0001f600"',
         '{"$B":"AA=="}', '{"$M":{"$B":5}}', '{"x":{"$SS":["a","b"]}}', '{"x":{"$NS":[1,2.50]}}']


def bodies(kind):
    """Name and bytes of each file of tests/bodies/KIND; fails where there are none."""
    folder = os.path.join(BODIES, kind)
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            yield name, file.read()


class Bodies(MountedTest):
    def test_valid_bodies_come_back_exactly(self):
        for number, (name, body) in enumerate(bodies("valid")):
            with self.subTest(name=name):
                self.write(f"v{number}.json", body)
                if name.startswith("key_"):  # these name a key: the file's name wins
                    self.assertEqual(f"v{number}", json.loads(self.read(f"v{number}.json"))["key"])
                elif body and b'"-ttl"' not in body:  # expired ones are not there
                    self.assertBoth(f"v{number}.json", body)

    def test_valid_texts_come_back_exactly_after_a_remount(self):
        for number, body in enumerate(VALID):
            self.write(f"t{number}.json", body)
        self.mount.remount()
        for number, body in enumerate(VALID):
            with self.subTest(body=body[:40]):
                self.assertBoth(f"t{number}.json", body)
        self.assertEqual([], self.drafts())

    def refused(self, name, body):
        """As a new item, as a change of an item, and by rename: refused, kept, nothing changed."""
        new, old = f"n{name}.json", f"o{name}.json"
        self.assertErrno(errno.EINVAL, self.write, new, body)
        self.assertFalse(os.path.exists(self.path(new)))
        kept, reason = self.draft(new)
        self.assertEqual(body, kept)
        self.assertRegex(reason, r"\bline \d+\b.*\bcolumn \d+\b|\S")
        self.write(old, '{"old": 1}')
        self.assertErrno(errno.EINVAL, self.write, old, body)
        self.assertBoth(old, '{"old": 1}')
        self.assertEqual(body, self.draft(old)[0])
        self.write("tmp", body)
        self.assertErrno(errno.EINVAL, os.rename, self.path("tmp"), self.path(old))
        self.assertBoth(old, '{"old": 1}')

    def test_invalid_bodies_are_refused(self):
        for number, (name, body) in enumerate(bodies("invalid")):
            with self.subTest(name=name):
                self.refused(number, body)
                self.assertRegex(self.draft(f"n{number}.json")[1], r"\S")

    def test_invalid_texts_are_refused(self):
        for number, body in enumerate(INVALID):
            with self.subTest(body=body):
                self.refused(number, body.encode())

    def test_reason_has_line_and_column(self):
        cases = (('{\n  "a": 1,\n  "b": tru\n}', "line 3"), ('{"a": 1,}', "line 1"),
                 ('{"a": 1,\n "a": 2}', "line 2"))
        for number, (body, place) in enumerate(cases):
            self.assertErrno(errno.EINVAL, self.write, f"r{number}.json", body)
            reason = self.draft(f"r{number}.json")[1]
            self.assertIn(place, reason)
            self.assertRegex(reason, r"column \d+")

    def test_draft_stays_until_it_is_removed(self):
        # A later good save may hold less than the refused one.
        self.assertErrno(errno.EINVAL, self.write, "a.json", '{"a":1,}')
        folder = f"{self.mnt}/.itemfs/drafts/{self.table}"
        self.sh(f"sed 's/,}}/}}/' {folder}/a.json > tmp && mv tmp a.json")
        self.assertBoth("a.json", '{"a":1}')
        self.assertEqual(["a.json"], self.drafts())
        os.unlink(folder + "/a.json")
        self.assertEqual([], self.drafts())

    def test_the_same_refusal_makes_one_draft(self):
        # A backup that is tried again every night.
        for _ in range(3):
            self.sh(f"printf '{{' > {self.path('a.json')}", status=None)
            self.sh(f"printf '{{]' > {self.path('a.json')}", status=None)
        self.assertEqual(["a.json", "a.json.2"], self.drafts())
        self.assertEqual([b"{", b"{]"], [self.draft(name)[0] for name in self.drafts()])

    def test_a_text_that_names_another_key(self):
        text = b'{"key":"SECRET-1","v":1}'
        self.write("conf.json", text)
        self.assertBoth("conf.json", '{"key":"conf","v":1}')
        self.write("tmp", text)
        os.rename(self.path("tmp"), self.path("other.json"))
        self.assertBoth("other.json", '{"key":"other","v":1}')
        self.assertEqual(["conf.json", "other.json"], self.drafts())
        kept, reason = self.draft("conf.json")
        self.assertEqual(text, kept)
        self.assertEqual(f"saved as {self.table}/conf: the file's name gives the key, and the text "
                         f"named {self.table}/SECRET-1", reason)
        self.assertEqual(text, self.draft("other.json")[0])
        self.assertIn(reason, self.mount.log_text())

    def test_a_copy_of_an_item_that_shows_its_key(self):
        self.write("a.json", '{"key":"a","v":1}')
        self.sh("cp a.json b.json; cp a.json tmp; mv tmp c.json; mv a.json d.json")
        for name in "bcd":
            self.assertBoth(f"{name}.json", f'{{"key":"{name}","v":1}}')
        self.assertEqual([], self.drafts())

    def test_drafts_survive_a_remount(self):
        self.assertErrno(errno.EINVAL, self.write, "a.json", "{")
        before = self.draft("a.json")
        self.mount.remount()
        self.assertEqual(before, self.draft("a.json"))
        listed = self.itemctl("drafts", "--json").stdout
        self.assertIn(self.table, listed)

    def test_utf16_is_refused(self):
        for encoding in ("utf-16-le", "utf-16-be", "utf-16", "utf-32-le"):
            self.assertErrno(errno.EINVAL, self.write, "a.json", '{"a": 1}'.encode(encoding))
        self.assertEqual([], self.names())

    def test_nesting(self):
        self.write("a.json", "[" * 500 + "]" * 500)
        self.assertBoth("a.json", "[" * 500 + "]" * 500)
        self.assertErrno(errno.EINVAL, self.write, "b.json", "[" * 10_000 + "]" * 10_000)
        self.assertErrno(errno.EINVAL, self.write, "b.json", '{"a":' * 10_000 + "1" + "}" * 10_000)
        self.assertEqual(["a.json"], self.names())

    def test_large_body(self):
        body = json.dumps({"pad": [f"line {n}" for n in range(200_000)]}).encode()
        self.write("a.json", body)
        self.assertBoth("a.json", body)
        with open(self.path("a.json"), "rb") as file:  # at odd offsets too
            for offset in (1, 4095, 4097, 131_071, 1_000_003):
                self.assertEqual(body[offset:offset + 70_000],
                                 os.pread(file.fileno(), 70_000, offset))

    def test_numbers_keep_their_digits(self):
        body = '{"n": 12345678901234567890123456789012345678, "m": 1.10, "e": 1E+2, "z": -0.0}'
        self.write("a.json", body)
        typed = json.loads(self.itemctl("get", self.table, "-k", "a").stdout)
        self.assertEqual("12345678901234567890123456789012345678", typed["n"]["N"])
        self.assertEqual({"N": "1.10"}, typed["m"])
        self.assertBoth("a.json", body)

    def test_typed_forms(self):
        body = ('{"s":"x","b":{"$B":"AAH/"},"ss":{"$SS":["a","b"]},"ns":{"$NS":[1,2]},'
                '"bs":{"$BS":["AA==","AQ=="]},"m":{"k":null},"l":[true,{}],"q":{"$M":{"$B":1}}}')
        self.write("a.json", body)
        typed = json.loads(self.itemctl("get", self.table, "-k", "a").stdout)
        self.assertEqual({
            "key": {"S": "a"}, "s": {"S": "x"}, "b": {"B": "AAH/"}, "ss": {"SS": ["a", "b"]},
            "ns": {"NS": ["1", "2"]}, "bs": {"BS": ["AA==", "AQ=="]},
            "m": {"M": {"k": {"NULL": True}}},
            "l": {"L": [{"BOOL": True}, {"M": {}}]}, "q": {"M": {"$B": {"N": "1"}}}}, typed)

    def test_wrong_typed_forms_are_refused(self):
        for body in ('{"x":{"$B":5}}', '{"x":{"$B":"?"}}', '{"x":{"$SS":[]}}', '{"x":{"$SS":[1]}}',
                     '{"x":{"$SS":["a","a"]}}', '{"x":{"$NS":[1,1.0]}}'):
            with self.subTest(body=body):
                self.assertErrno(errno.EINVAL, self.write, "a.json", body)

    def test_other_dollar_names_are_names(self):
        for body in ('{"$ref":"#/a"}', '{"$schema":"s","p":[{"$ref":"#/b"}]}', '{"x":{"$Q":1}}'):
            self.write("a.json", body)
            self.assertBoth("a.json", body)
        typed = json.loads(self.itemctl("get", self.table, "-k", "a").stdout)
        self.assertEqual({"key": {"S": "a"}, "x": {"M": {"$Q": {"N": "1"}}}}, typed)

    def test_values_that_are_no_objects(self):
        for body in ("5", "[1,2]", '"x"', "null", "true"):
            self.write("a.json", body)
            self.assertBoth("a.json", body)
        typed = json.loads(self.itemctl("get", self.table, "-k", "a").stdout)
        self.assertEqual({"key": {"S": "a"}, "$value": {"BOOL": True}}, typed)


class KeysInBodies(MountedTest):
    """The key stands in the name; what a body says otherwise is rewritten."""

    def make_table(self):
        self.create(self.table, "--key", "id")

    def test_matching_key_is_kept_as_written(self):
        self.write("a.json", '{ "id" : "a" ,"n":1}')
        self.assertBoth("a.json", '{ "id" : "a" ,"n":1}')

    def test_body_without_key_is_kept_as_written(self):
        self.write("a.json", '{"n":1}')
        self.assertBoth("a.json", '{"n":1}')

    def test_other_key_is_rewritten(self):
        self.write("a.json", '{"n": 1,  "id": "zzz", "m":2}\n')
        self.assertBoth("a.json", '{"n": 1,  "id": "a", "m":2}\n')
        self.assertChanges("INSERT a")

    def test_copy_clones(self):
        self.write("a.json", '{"id": "a", "n": 1}')
        self.sh("cp a.json b.json")
        self.assertBoth("b.json", '{"id": "b", "n": 1}')

    def test_rename_rewrites(self):
        self.write("a.json", '{"id": "a", "n": 1}')
        os.rename(self.path("a.json"), self.path("b.json"))
        self.assertBoth("b.json", '{"id": "b", "n": 1}')
        self.assertEqual(["b.json"], self.names())

    def test_size_is_right_at_once_for_a_holder(self):
        with open(self.path("a.json"), "wb", buffering=0) as file:
            file.write(b'{"id": "much longer than the name"}')
            os.fsync(file.fileno())
        self.assertBoth("a.json", '{"id": "a"}')

    def test_key_of_another_type_is_rewritten_or_refused(self):
        self.write("a.json", '{"id": 5, "n": 1}')
        self.assertBoth("a.json", '{"id": "a", "n": 1}')
        self.assertErrno(errno.EINVAL, self.write, "b.json", '{"id": {"x": 1}}')
        self.assertErrno(errno.EINVAL, self.write, "b.json", '{"id": null}')

    def test_escaped_key_in_a_body(self):
        self.write("a%2Fb.json", '{"id": "a\\/b"}')
        self.assertBoth("a%2Fb.json", '{"id": "a\\/b"}')

    def test_sorted_table_rewrites_both_parts(self):
        table = self.table + "-sorted"
        self.create(table, "--key", "c", "--sort", "d:N")
        os.mkdir(f"{self.mnt}/{table}/p")
        with open(f"{self.mnt}/{table}/p/5.json", "w") as file:
            file.write('{"d": 7, "c": "q", "v": 1}')
        with open(f"{self.mnt}/{table}/p/5.json") as file:
            self.assertEqual('{"d": 5, "c": "p", "v": 1}', file.read())


class TypedFiles(MountedTest):
    config = "[backend store]\ntype = sqlite\npath = {store}\n\n[table typed]\nformat = typed\n"

    def make_table(self):
        self.table, self.dir = "typed", os.path.join(self.mnt, "typed")
        os.mkdir(self.dir)

    def test_typed_json_is_shown_and_taken(self):
        self.write("a.json", '{"n": {"N": "1.50"}, "l": {"L": [{"S": "x"}]}}')
        self.assertEqual({"n": {"N": "1.50"}, "l": {"L": [{"S": "x"}]}},
                         {name: value for name, value in json.loads(self.read("a.json")).items()
                          if name != "key"})
        self.assertEqual(len(self.read("a.json")), os.stat(self.path("a.json")).st_size)
        self.assertErrno(errno.EINVAL, self.write, "b.json", '{"n": 1}')
        self.sh("sed -i s/1.50/2.5/ a.json")
        typed = json.loads(self.itemctl("get", "typed", "-k", "a").stdout)
        self.assertEqual({"N": "2.5"}, typed["n"])


if __name__ == "__main__":
    unittest.main()
