# SPDX-License-Identifier: MIT
"""What a stack declares is delivered: from stack.json by `itemctl deploy` to the function's calls
(K-17 .. K-27 of docs/KERNSTACK.md; the rest of them is test_vectors.py's)."""

import json
import os
import re

from delivery import RETRY, DeliveryTest, unittest


class Deployed(DeliveryTest):
    def create(self, *options):
        """The stack makes it."""

    def write_config(self, *arguments, **keys):
        with open(self.conf, "w", encoding="utf-8") as file:
            file.write(f"{self.backend_section()}[table {self.table}]\nfunction = exec:/bin/false\n"
                       f"function_retry = {RETRY}\n")

    def deploy(self, function=None, *options, seed=()):
        tables = [{"name": self.table, "key_name": "id", "key_type": "S", "indexes": []}]
        if function:
            tables[0]["change_stream"] = {"function": "on-user"}
        os.makedirs(os.path.join(self.dir, "seed", "tables"), exist_ok=True)
        with open(os.path.join(self.dir, "seed", "tables", f"{self.table}.json"), "w",
                  encoding="utf-8") as file:
            json.dump(seed, file)
        stack = os.path.join(self.dir, "stack.json")
        with open(stack, "w", encoding="utf-8") as file:
            json.dump({"resources": {"tables": tables, "functions": [
                {"name": "on-user", **({"url": function.url} if function else {})}]}}, file)
        return json.loads(self.itemctl("deploy", stack, *options).stdout)["Tables"][0]

    def test_k17_k23_k25_k26_from_the_stack_to_the_call(self):
        function = self.function()
        item = {"id": {"S": "k0"}, "ok": {"B": True}, "raw": {"BIN": "aGk="}}
        self.deploy(function, seed=[item])
        mount = self.mounted()
        self.itemctl("delete", self.table, "-k", "k0")
        self.wait_status(mount, records=2, state="idle")
        call = json.loads(function.deliveries[0].body)
        self.assertEqual(("change_stream", self.table), (call["trigger_type"], call["change_table"]))
        first, last = function.taken()
        ids = [record.pop("change_id") for record in (first, last)]
        for record in (first, last):
            record.pop("time")
        # The types are called as Kernstack has them: B is a boolean, and no BOOL.
        self.assertEqual({"change_type": "INSERT", "keys": {"id": {"S": "k0"}}, "new_item": item}, first)
        self.assertEqual({"change_type": "REMOVE", "keys": {"id": {"S": "k0"}}, "old_item": item}, last)
        self.assertEqual(2, len(set(ids)))
        for change_id in ids:
            self.assertTrue(re.fullmatch("[0-9a-f]{32}", change_id))

    def test_k27_another_function_goes_on_where_the_first_was(self):
        first, second = self.function(reply=500), self.function()
        self.deploy(first)
        self.put_numbers(0, 1)
        mount = self.mounted()
        first.wait_calls(1)
        mount.unmount()
        self.assertEqual("change", self.deploy(second)["Action"])
        self.put_numbers(1, 2)
        mount = self.mounted("second")
        self.wait_status(mount, records=2, state="idle")
        self.assertEqual(["k0", "k1"], [record["keys"]["id"]["S"] for record in second.taken()])

    def test_k27_what_was_changed_while_it_was_off_is_not_delivered(self):
        function = self.function()
        self.deploy(function)
        mount = self.mounted()
        self.put_numbers(0, 1)
        self.wait_status(mount, records=1, state="idle")
        self.deploy(None, "--force")
        self.put_numbers(1, 2)
        self.deploy(function)
        self.put_numbers(2, 3)
        function.wait(lambda _: len(function.taken()) >= 2)
        self.assertEqual(["k0", "k2"], [record["keys"]["id"]["S"] for record in function.taken()])

    def test_k24_put_over_an_item_is_modify_and_k28_an_equal_put_is_nothing(self):
        function = self.function()
        self.deploy(function)
        mount = self.mounted()
        for status in ("new", "paid", "paid"):
            self.put({"id": {"S": "o"}, "status": {"S": status}})
        self.put_numbers(0, 1)
        self.wait_status(mount, records=3, state="idle")
        self.assertEqual([("INSERT", False, True), ("MODIFY", True, True), ("INSERT", False, True)],
                         [(record["change_type"], "old_item" in record, "new_item" in record)
                          for record in function.taken()])


if __name__ == "__main__":
    unittest.main()
