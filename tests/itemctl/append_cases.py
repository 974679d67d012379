# SPDX-License-Identifier: MIT
"""tests/vectors/append.json, on whatever backend: a mixin for tests. Who uses it says how an item is
put and read, and gives itemctl's exit status."""

import concurrent.futures
import json
import os

VECTORS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "vectors")

# What the vectors' errors are as exit statuses.
STATUSES = {"ConditionalCheckFailed": 4, "Validation": 1}
REFUSED, BAD = 4, 2


def read_vectors(name, *kinds):
    with open(os.path.join(VECTORS, name), encoding="utf-8") as file:
        return [case for case in json.load(file)["cases"] if case["kind"] in kinds]


def plain(value):
    """A typed scalar as it is written in JSON."""
    [(kind, text)] = value.items()
    return text if kind == "N" else json.dumps(text)


def numbers(values):
    return [{"N": str(value)} for value in values]


class AppendCases:
    """put_item(item without key), get_item() -> the same, append(attribute, value, *options) ->
    exit status."""

    def list(self):
        return self.get_item()["subscribers"]["L"]

    def test_append_vectors(self):
        for case in read_vectors("append.json", "append"):
            with self.subTest(case["note"]):
                self.put_item(case["before"])
                expect = case["expect"]
                self.assertEqual(STATUSES.get(expect.get("error"), 0), self.append(
                    case["attribute"], plain(case["value"]), "--unique"))
                self.assertEqual(expect["after"], self.get_item())

    def test_sequence_vectors(self):
        for case in read_vectors("append.json", "sequence"):
            with self.subTest(case["note"]):
                self.put_item(case["before"])
                statuses = [self.append("subscribers", str(value), "--unique")
                            for value in case["values"]]
                self.assertEqual([REFUSED if at in case["expect"]["errors"] else 0
                                  for at in range(len(statuses))], statuses)
                self.assertEqual(numbers(case["expect"]["list"]), self.list())

    def test_concurrent_vectors(self):
        def write(values):
            return [self.append("subscribers", str(value), "--unique") for value in values]
        for case in read_vectors("append.json", "concurrent"):
            with self.subTest(case["note"]):
                self.put_item(case["before"])
                with concurrent.futures.ThreadPoolExecutor(len(case["writers"])) as pool:
                    statuses = [status for part in pool.map(write, case["writers"])
                                for status in part]
                self.assertEqual((case["expect"]["succeed"], case["expect"]["fail"]),
                                 (statuses.count(0), statuses.count(REFUSED)))
                found = [int(value["N"]) for value in self.list()]
                self.assertEqual(case["expect"]["set"], sorted(found))

    def test_variant_vectors(self):
        """Without a condition; what a recipe with a wrong one does cannot be asked for."""
        cases = [case for case in read_vectors("append.json", "variant") if not case["condition"]]
        self.assertEqual(2, len(cases))
        for case in cases:
            with self.subTest(case["note"]):
                self.put_item({"subscribers": {"L": numbers(case["before"])}})
                self.assertEqual(0, self.append("subscribers", str(case["value"])))
                self.assertEqual(numbers(case["expect"]), self.list())

    def test_input_vectors(self):
        for case in read_vectors("append.json", "input_text"):
            with self.subTest(case["note"]):
                self.put_item({"subscribers": {"L": []}})
                bad = "error" in case["expect"]
                self.assertEqual(BAD if bad else 0, self.append("subscribers", case["text"]))
                self.assertEqual([] if bad else [case["expect"]], self.list())
