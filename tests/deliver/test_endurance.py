# SPDX-License-Identifier: MIT
"""What delivery promises, all at once: a function that fails one call in ten and restarts twice, a
daemon that is killed three times. With ITEMFS_LONG=1 of 100,000 changes (about a minute)."""

import json
import random
import sys
import threading
import time

from delivery import DeliveryTest, LONG, unittest


class Endurance(DeliveryTest):
    CHANGES = 100000 if LONG else 5000
    ITEMS = 97
    FAILURES = (500, 429, {"close": True}, {"body": '{"error": "busy"}'})

    def write_all(self):
        """Changes of a few items, by itemctl: values count up, so that their order can be seen."""
        step = self.CHANGES // 20
        for first in range(0, self.CHANGES, step):
            self.put(*({"id": {"S": f"k{number % self.ITEMS}"}, "n": {"N": str(number)}}
                       for number in range(first, first + step)))

    def test_every_change_arrives(self):
        chance = random.Random(11)
        function = self.function(
            reply=lambda _: chance.choice(self.FAILURES) if chance.random() < 0.1 else 200)
        self.write_config(function, function_retry=0.05)
        began = time.monotonic()
        writer = threading.Thread(target=self.write_all)
        mount = self.mounted()
        writer.start()
        for event in ("kill", "restart", "kill", "restart", "kill"):
            share = min(function.count_taken() + self.CHANGES // 8, self.CHANGES - 1)
            function.wait(lambda _, share=share: function.count_taken() >= share, 600)
            if event == "restart":
                function.stop()
                self.wait_status(mount, state="waiting")
                function.start()
            else:
                mount.kill()
                mount.start()
        writer.join()
        function.wait(lambda _: function.count_taken() >= self.CHANGES, 600)
        self.wait_status(mount, state="idle", behind=0)
        took = time.monotonic() - began
        self.check(function, mount)
        if LONG:
            calls = len(function.deliveries)
            failed = sum(call.reply != 200 for call in function.deliveries)
            records = sum(len(call.records) for call in function.deliveries)
            print(f"{self.CHANGES} changes in {took:.0f} s: {calls} calls, {failed} of them failed; "
                  f"{records} records, {records - self.CHANGES} of them again", file=sys.stderr)

    def check(self, function, mount):
        told = [json.loads(line) for line in self.itemctl("changes", self.table).stdout.splitlines()]
        self.assertEqual(self.CHANGES, len(told))
        self.assertEqual([(self.CHANGES,)], self.store.rows("SELECT count(*) FROM change WHERE streamed = 1"))
        taken = {record["change_id"]: record for record in function.taken()}
        self.assertEqual(len(told), len(taken))
        for record in told:
            self.assertEqual(record, taken[record["change_id"]])
        # The same id is the same record, whenever it was delivered.
        first = {}
        for call in function.deliveries:
            for record in call.records:
                self.assertEqual(first.setdefault(record["change_id"], record), record)
        # In order, those that came first and those that were taken first.
        for records in (first, taken):
            last = {}
            for record in records.values():
                key, value = record["keys"]["id"]["S"], int(record["new_item"]["n"]["N"])
                self.assertLess(last.get(key, -1), value)
                last[key] = value
        self.assertTrue(any(call.reply != 200 for call in function.deliveries))
        self.assertEqual(0, self.status(mount)["dropped"] + self.status(mount)["skipped"])


if __name__ == "__main__":
    unittest.main()
