# SPDX-License-Identifier: MIT
"""Each published case of change records and of their delivery (tests/vectors/kernstack.json), from a
write to what the function gets. K-numbers are those of docs/KERNSTACK.md.

Over another backend they are run by a class beside OverStore that has its own backend section.
"""

import json
import re

from delivery import DeliveryTest, VECTORS, unittest

CHANGES = [case for case in VECTORS if case["kind"] == "change"]
STREAMS = [case for case in VECTORS if case["kind"] == "stream"]


class Vectors:
    sweeps = True  # expired items are deleted soon
    ages = True    # the time of a change can be set back

    def case(self, cases, note):
        return next(case for case in cases if case["note"].startswith(note))

    # Change records.

    def apply(self, operation):
        kind, item = next((kind, item) for kind, item in operation.items() if kind != "sort_key")
        if kind in ("put", "update"):
            self.put(item)
        elif kind == "delete":
            key = next(iter(item.values()))
            self.itemctl("delete", self.table, "-k", json.dumps(key), status=None)

    def check_change(self, note):
        case = self.case(CHANGES, note)
        operation, before = case["op"], case["before"]
        if "sort_key" in operation:
            self.itemctl("drop", self.table)
            self.create("--sort", operation["sort_key"] + ":N")
        function = self.function()
        self.write_config(function)
        self.mounted()
        if before:
            self.put(before)
            function.wait_records(1)
        self.apply(operation)
        # What comes behind it: so that nothing that should not come can be missed.
        self.put({"id": {"S": "last"}, **({"at": {"N": "1"}} if "sort_key" in operation else {})})
        wanted = bool(before) + len(case["expect"]) + 1
        function.wait(lambda _: any(record["keys"]["id"]["S"] == "last" for record in function.taken())
                      and len(function.taken()) >= wanted)
        records = [record for record in function.taken() if record["keys"]["id"]["S"] != "last"]
        self.assertEqual(len(case["expect"]), len(records[bool(before):]), records)
        for want, got in zip(case["expect"], records[bool(before):], strict=True):
            kinds = want["change_type"] if isinstance(want["change_type"], list) else [want["change_type"]]
            self.assertIn(got["change_type"], kinds)
            self.assertTrue(got.pop("change_id"))
            self.assertRegex(got.pop("time"), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")
            got.pop("expired", None)
            self.assertEqual({**want, "change_type": got["change_type"]}, got)

    def test_put_of_a_new_item(self):
        """K-24, K-25."""
        self.check_change("put of a new item")

    def test_update_that_creates(self):
        """K-24."""
        self.check_change("update that creates")

    def test_put_over_an_existing_item(self):
        """K-24: MODIFY, with the old item."""
        self.check_change("put over an existing item")

    def test_delete_of_nothing(self):
        """K-28."""
        self.check_change("delete of nothing")

    def test_expiry_sweep_is_a_delete(self):
        """K-14."""
        if not self.sweeps:
            self.skipTest("the service sweeps when it likes")
        self.check_change("expiry sweep is a delete")

    def test_sort_key_is_in_keys(self):
        """K-25."""
        self.check_change("sort key is in keys")

    def test_all_changes_are_tested(self):
        self.assertEqual(6, len(CHANGES))

    # Delivery.

    def deliver(self, note, **keys):
        """Has the changes of a case wait, and delivers them under its replies."""
        case = self.case(STREAMS, note)
        count = int(str(case["changes"]).split()[0])
        function = self.function(script=case["replies"])
        self.put_numbers(0, count)
        self.write_config(function, **keys)
        mount = self.mounted()
        return case["expect"], function, mount

    def test_one_change(self):
        """K-17, K-18."""
        expect, function, mount = self.deliver("1 change: one batch")
        self.wait_status(mount, records=1)
        self.assertEqual(expect["batch_sizes"], [len(call.records) for call in function.deliveries])

    def test_100_changes_at_most(self):
        """K-18."""
        expect, function, mount = self.deliver("100 changes at most a batch")
        self.put_numbers(100, 250)
        self.wait_status(mount, records=250)
        sizes = [len(call.records) for call in function.deliveries]
        self.assertEqual(expect["max_batch"], max(sizes))
        self.assertEqual(250, sum(sizes))
        self.assertNotIn(0, sizes)

    def test_500_is_retried(self):
        """K-20, K-23."""
        expect, function, mount = self.deliver("500 is retried with the same change ids")
        self.wait_status(mount, records=1, state="idle")
        self.assertEqual(expect["deliveries"], len(function.deliveries))
        self.assertTrue(expect["same_change_ids"])
        self.assertEqual(function.deliveries[0].ids, function.deliveries[1].ids)
        self.assertEqual(function.deliveries[0].body, function.deliveries[1].body)

    def test_503_then_500(self):
        """K-20."""
        expect, function, mount = self.deliver("503 then 500 then fine")
        self.wait_status(mount, records=1, state="idle")
        self.assertEqual(expect["deliveries"], len(function.deliveries))

    def test_400_is_not_retried(self):
        """K-21."""
        expect, function, mount = self.deliver("400 is not retried", function_batch=1)
        self.wait_status(mount, records=1, dropped=1, state="idle")
        first = function.deliveries[0].ids
        self.assertEqual(expect["deliveries_of_first"],
                         sum(call.ids == first for call in function.deliveries))
        self.assertTrue(expect["second_delivered"])
        self.assertEqual(["k1"], [record["keys"]["id"]["S"] for record in function.taken()])

    def test_unreachable_is_retried(self):
        """K-20."""
        case = self.case(STREAMS, "unreachable function is retried")
        self.assertEqual(["unreachable", 200], case["replies"])
        function = self.function()
        function.stop()
        self.put_numbers(0, 1)
        self.write_config(function, function_retry=1)
        mount = self.mounted()
        self.wait_log(mount, "tried again")
        function.start()
        status = self.wait_status(mount, records=1, state="idle")
        self.assertEqual(1, len(function.deliveries))
        self.assertEqual(case["expect"]["deliveries"], 1 + status["retries"])

    def test_later_changes_wait(self):
        """K-19, K-20."""
        expect, function, mount = self.deliver("later changes wait", function_batch=1)
        self.wait_status(mount, records=2, state="idle")
        self.assertTrue(expect["order_kept"] and expect["second_not_before_first"])
        self.assertEqual(["k0", "k0", "k0", "k1"],
                         [call.records[0]["keys"]["id"]["S"] for call in function.deliveries])

    def test_older_than_24_hours_is_skipped(self):
        """K-22."""
        if not self.ages:
            self.skipTest("the service's clock is its own")
        case = self.case(STREAMS, "older than 24 h is skipped")
        seconds = case["replies"][0]["500_for_seconds"]
        function = self.function(reply=500)
        self.put_numbers(0, 1)
        self.make_older(seconds - 5)
        self.write_config(function, function_retry=0.5)
        mount = self.mounted()
        self.wait_status(mount, skipped=1, state="idle")
        self.assertTrue(function.deliveries)
        function.reply = 200
        self.put_numbers(1, 2)
        self.wait_status(mount, records=1, state="idle")
        self.assertEqual((False, True), (case["expect"]["delivered"], case["expect"]["later_delivered"]))
        self.assertEqual(["k1"], [record["keys"]["id"]["S"] for record in function.taken()])

    def test_backoff_grows(self):
        """K-20."""
        expect, function, mount = self.deliver("backoff grows")
        self.wait_status(mount, records=1, state="idle")
        self.assertTrue(expect["gaps_not_shrinking"])
        # How long it says that it waits, and that it has waited so long.
        said = [float(number) for number in re.findall(r"tried again in ([\d.]+) s", mount.log_text())]
        times = [call.time for call in function.deliveries]
        gaps = [later - earlier for earlier, later in zip(times, times[1:])]
        self.assertEqual(3, len(said))
        self.assertEqual(sorted(said), said)
        for told, gap in zip(said, gaps, strict=True):
            self.assertGreater(gap, told - 0.06)  # it is said in tenths

    def test_new_function_goes_on(self):
        """K-27."""
        case = self.case(STREAMS, "new function")
        first, second = self.function(reply=500), self.function(script=case["replies"])
        self.put_numbers(0, 1)
        self.write_config(first)
        mount = self.mounted()
        first.wait_calls(1)
        mount.unmount()
        self.put_numbers(1, 2)
        self.write_config(second)
        mount = self.mounted("second")
        self.wait_status(mount, records=case["expect"]["function_b_receives"], state="idle")
        self.assertEqual(["k0", "k1"], [record["keys"]["id"]["S"] for record in second.taken()])
        self.assertEqual([], first.taken())

    def test_all_streams_are_tested(self):
        self.assertEqual(10, len(STREAMS))


class OverStore(Vectors, DeliveryTest):
    pass


if __name__ == "__main__":
    unittest.main()
