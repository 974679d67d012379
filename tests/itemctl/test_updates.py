# SPDX-License-Identifier: MIT
"""incr, decr and append on the embedded store: numbers exact, lists in order, however many write."""

import json
import subprocess
import unittest

from append_cases import AppendCases, read_vectors
from ctl import ABSENT, CONDITION, FAILED, ITEMCTL, USAGE, CtlTest, typed

LONG_NUMBER = "12345678901234567890123456789012345678"
PROCESSES = 16

# Where itemctl does otherwise than the tag store's client, whose reasons are PHP's: a bare 0 works,
# only numbers and null are counted with, the new number is told as it is, and white space stays.
# By what the body was: what it becomes, what is told (None: refused).
DEVIATIONS = {
    "0": ("-1", "-1"),
    '"7"': ('"7"', None),
    "true": ("true", None),
    "1.5": ("2.5", "2.5"),
    "5\n": ("6\n", "6"),
    "  8": ("  9", "9"),
}
# No JSON document: nothing that the store could have.
IMPOSSIBLE = {"5\n6"}


def number(text):
    return json.dumps({"N": text}, separators=(",", ":")) + "\n"


class Counters(CtlTest):
    def bare(self, table, key, body):
        """An item whose body is BODY, byte for byte: written as a mount writes it."""
        self.put(table, typed(key={"S": key}, **{"$value": {"S": "other"}}))
        subprocess.run(["sqlite3", self.store, "UPDATE item SET body = CAST(x'%s' AS TEXT), size = %d"
                        " WHERE pk = '%s'" % (body.encode().hex(), len(body), key)], check=True)

    def test_vectors(self):
        self.out("create", "t")
        seen = set()
        for at, case in enumerate(read_vectors("lucinda.json", "update")):
            before, expect, key = case["before"], case["expect"], f"k{at}"
            if before in IMPOSSIBLE:
                seen.add(before)
                continue
            with self.subTest(before=before, op=case["op"], step=case["step"]):
                if before is not None:
                    self.bare("t", key, before)
                after, told = expect["after"], expect.get("returns")
                told = None if told is None else str(told)
                if before in DEVIATIONS:
                    seen.add(before)
                    self.assertNotEqual((after, told), DEVIATIONS[before])
                    after, told = DEVIATIONS[before]
                command = (case["op"][:4], "t", key, str(case["step"]))
                if told is None:
                    self.error(ABSENT if before is None else FAILED, *command)
                else:
                    self.assertEqual(number(told), self.out(*command))
                self.assertEqual(after and after.encode() if before != "" else b"",
                                 self.body("t", key.encode()))
        self.assertEqual(set(DEVIATIONS) | IMPOSSIBLE, seen)

    def test_steps(self):
        self.out("create", "t", "--key", "id")
        self.put("t", typed(id={"S": "a"}, **{"$value": {"N": "1.5"}}))
        for command, step, told in (("incr", (), "2.5"), ("decr", (), "1.5"), ("incr", ("-3",), "-1.5"),
                                    ("decr", ("-3",), "1.5"), ("incr", ("+.5",), "2"),
                                    ("decr", ("1e3",), "-998"), ("incr", ("-0",), "-998"),
                                    ("decr", ("--", "-998.25"), "0.25"), ("decr", ("0.25",), "0"),
                                    ("incr", (LONG_NUMBER,), LONG_NUMBER),
                                    ("incr", ("1",), LONG_NUMBER[:-1] + "9")):
            self.assertEqual(number(told), self.out(command, "t", "a", *step))
        for bad in ("", "x", "1x", "0x10", "NaN", "1 ", "1" * 39, "1e126"):
            self.assertIn("step ", self.error(USAGE, "incr", "t", "a", bad))
        self.assertIn("has more than 38 significant digits",
                      self.error(FAILED, "incr", "t", "a", "0.1"))
        self.assertEqual(LONG_NUMBER[:-1].encode() + b"9", self.body("t", b"a").strip())

    def test_which_attribute(self):
        self.out("create", "t", "--key", "id")
        self.put("t", typed(id={"S": "a"}, hits={"N": "1"}, s={"S": "7"}))
        self.assertEqual("t/a: it is no bare value: name one of its attributes"
                         " (itemctl: --attr NAME)", self.error(FAILED, "incr", "t", "a"))
        self.assertEqual(number("2"), self.out("incr", "t", "a", "--attr", "hits"))
        self.assertEqual(number("-1"), self.out("decr", "t", "a", "--attr", "new"))
        self.assertEqual('t/a: "s" is of type S, and only a number (N) can be added to',
                         self.error(FAILED, "incr", "t", "a", "--attr", "s"))
        self.assertEqual('"id" is the key: that stays as it is',
                         self.error(FAILED, "incr", "t", "a", "--attr", "id"))
        self.assertEqual([typed(id={"S": "a"}, hits={"N": "2"}, s={"S": "7"}, new={"N": "-1"})],
                         self.lines("get", "t", "-k", "a"))

    def test_missing_items_stay_so(self):
        self.out("create", "t", "--key", "id")
        self.assertEqual("t/a: does not exist", self.error(ABSENT, "incr", "t", "a"))
        self.assertEqual("t/a: does not exist", self.error(ABSENT, "decr", "t", "a", "--attr", "n"))
        self.assertEqual("t/a: does not exist", self.error(ABSENT, "append", "t", "-k", "a", "l", "1"))
        self.error(ABSENT, "incr", "nosuch", "a")
        self.assertEqual(0, self.count("t"))
        self.assertEqual(0, self.change_count())

    def test_keys(self):
        self.out("create", "tags")
        self.put("tags", typed(key={"S": "b_a"}, **{"$value": {"N": "1"}}))
        self.assertEqual(number("2"), self.out("incr", "tags", "a_b"))
        self.assertEqual(number("3"), self.out("incr", "tags", "b_a"))
        self.assertEqual(number("4"), self.out("incr", "tags", '{"S":"b_a"}'))
        self.out("create", "sorted", "--key", "id", "--sort", "n:N")
        self.put("sorted", typed(id={"S": "a"}, n={"N": "-5"}, hits={"N": "1"}))
        for key in (("a", "--sort-key", "-5.0"), ('{"id":{"S":"a"},"n":{"N":"-5"}}',)):
            self.out("incr", "sorted", *key, "--attr", "hits")
        self.assertEqual([typed(id={"S": "a"}, n={"N": "-5"}, hits={"N": "3"})],
                         self.lines("get", "sorted", "-k", "a", "--sort-key", "-5"))
        self.assertIn("add --sort-key", self.error(USAGE, "incr", "sorted", "a"))
        self.out("create", "numbers", "--key", "n:N")
        self.put("numbers", typed(n={"N": "-5"}, **{"$value": {"N": "1"}}))
        self.assertEqual(number("0"), self.out("incr", "numbers", "-5", "-1"))

    def test_output(self):
        self.out("create", "t", "--key", "id")
        self.put("t", typed(id={"S": "a"}, **{"$value": {"N": "1"}}))
        self.assertEqual("2\n", self.on_terminal("incr", "t", "a"))
        self.assertEqual('{"N":"3"}\n', self.on_terminal("--json", "incr", "t", "a"))
        self.assertEqual('{"N":"4"}\n', self.out("incr", "t", "a"))

    def test_changes(self):
        self.out("create", "t", "--key", "id", "--stream", "on")
        self.put("t", typed(id={"S": "a"}, n={"N": "1"}))
        self.out("incr", "t", "a", "--attr", "n")
        self.out("append", "t", "-k", "a", "l", '"x"')
        self.error(CONDITION, "append", "t", "-k", "a", "l", '"x"', "--unique")
        records = [json.loads(line) for line in self.lines("changes", "t")]
        self.assertEqual(["INSERT", "MODIFY", "MODIFY"], [record["change_type"] for record in records])
        self.assertEqual({"id": {"S": "a"}, "n": {"N": "2"}}, records[2]["old_item"])
        self.assertEqual({"id": {"S": "a"}, "n": {"N": "2"}, "l": {"L": [{"S": "x"}]}},
                         records[2]["new_item"])

    def test_many_processes(self):
        self.out("create", "t", "--key", "id")
        self.put("t", typed(id={"S": "a"}, n={"N": "0"}, **{"$value": {"N": "0"}}))
        script = 'for i in 1 2 3 4 5; do "$0" incr t a 0.1 && "$0" decr t a 2 --attr n || exit 1; done'
        processes = [subprocess.Popen(["sh", "-c", script, ITEMCTL], env=self.env, cwd=self.dir,
                                      stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)]
        told = [line for process in processes for line in process.communicate()[0].splitlines()]
        self.assertEqual([0] * PROCESSES, [process.returncode for process in processes])
        total = PROCESSES * 5
        self.assertEqual([typed(id={"S": "a"}, n={"N": str(-2 * total)},
                                **{"$value": {"N": str(total // 10)}})],
                         self.lines("get", "t", "-k", "a"))
        sums = sorted(float(json.loads(line)["N"]) for line in told)
        self.assertEqual(sorted([-2.0 * at for at in range(1, total + 1)]
                                + [at / 10 for at in range(1, total + 1)]), sums)
        self.assertSound()


class Appends(AppendCases, CtlTest):
    def setUp(self):
        super().setUp()
        self.out("create", "t", "--key", "id")

    def put_item(self, item):
        self.put("t", typed(id={"S": "a"}, **item))

    def get_item(self):
        [line] = self.lines("get", "t", "-k", "a")
        item = json.loads(line)
        self.assertEqual({"S": "a"}, item.pop("id"))
        return item

    def append(self, attribute, value, *options):
        return subprocess.run([ITEMCTL, "append", "t", "-k", "a", *options, "--", attribute, value],
                              env=self.env, cwd=self.dir, stderr=subprocess.PIPE).returncode

    def test_values(self):
        self.put_item({"n": {"N": "1"}})
        values = ('"x"', "1.50", "null", "true", '{"$B":"aGk="}', '{"$SS":["b","a"]}', '{"a":[]}',
                  "[1]", " 7 ", LONG_NUMBER)
        for value in values:
            self.assertEqual(0, self.append("l", value))
        self.assertEqual(
            [{"S": "x"}, {"N": "1.50"}, {"NULL": True}, {"BOOL": True}, {"B": "aGk="},
             {"SS": ["b", "a"]}, {"M": {"a": {"L": []}}}, {"L": [{"N": "1"}]}, {"N": "7"},
             {"N": LONG_NUMBER}], self.get_item()["l"]["L"])
        for value in values:
            self.assertEqual(CONDITION, self.append("l", value, "--unique"))

    def test_reasons(self):
        self.put_item({"s": {"S": "abc"}, "l": {"L": [{"N": "1"}]}})
        append = lambda status, *more: self.error(status, "append", "t", "-k", "a", *more)
        self.assertEqual('t/a: "s" is of type S, and only a list (L) can be appended to',
                         append(FAILED, "s", '"b"', "--unique"))
        self.assertEqual('t/a: "l" holds that value already',
                         append(CONDITION, "l", "1.0", "--unique"))
        self.assertIn('value 1 2: line 1, column 3', append(USAGE, "l", "1 2"))
        self.assertIn("append needs -k KEY", self.error(USAGE, "append", "t", "l", "1"))


if __name__ == "__main__":
    unittest.main()
