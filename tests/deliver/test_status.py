# SPDX-License-Identifier: MIT
"""How delivery stands, as the mount and itemctl tell it."""

import datetime
import json
import os
import pty
import re
import subprocess
import threading

from delivery import DeliveryTest, ITEMCTL, unittest


class Status(DeliveryTest):
    def delivery(self):
        tables = json.loads(self.itemctl("status").stdout)["Backends"][0]["Tables"]
        return next(table for table in tables if table["TableName"] == self.table).get("Delivery")

    def test_of_a_mount(self):
        release = threading.Event()
        self.addCleanup(release.set)
        function = self.function(script=[200, 500, {"hold": release}])
        self.put_numbers(0, 1)
        self.write_config(function, function_batch=1)
        mount = self.mounted()
        self.wait_status(mount, state="idle", records=1)
        self.put_numbers(1, 4)
        function.wait_calls(3)
        status = self.status(mount)
        position, last = status.pop("position"), status.pop("last_error_time")
        self.assertRegex(position, r"^[0-9a-f]{48}$")
        done = function.deliveries[0].records[0]["time"]
        self.assertEqual(done, status.pop("position_time"))
        self.assertRegex(last, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z$")
        self.assertGreater(status.pop("lag_seconds"), 0)
        self.assertEqual({"table": self.table, "function": function.url, "state": "delivering",
                          "behind": 3, "records": 1, "batches": 1, "retries": 1, "dropped": 0,
                          "skipped": 0, "lost": 0, "last_error": "HTTP status 500"}, status)
        metrics = self.metrics(mount)
        self.assertGreater(metrics.pop("lag_seconds"), 0)
        self.assertAlmostEqual(datetime.datetime.fromisoformat(done[:26] + "+00:00").timestamp(),
                               metrics.pop("position_timestamp_seconds"), delta=0.001)
        self.assertEqual({"records_total": 1, "batches_total": 1, "retries_total": 1,
                          "dropped_records_total": 0, "skipped_records_total": 0, "lost_total": 0,
                          "behind_records": 3, "active": 1, "failing": 0}, metrics)
        release.set()
        status = self.wait_status(mount, state="idle", records=4, behind=0, lag_seconds=0)
        self.assertNotEqual(position, status["position"])
        self.assertNotIn("reason", status)

    def test_metrics_are_well_formed(self):
        self.write_config(self.function())
        mount = self.mounted()
        with open(f"{mount.point}/.itemfs/metrics", encoding="utf-8") as file:
            text = file.read()
        for name in set(re.findall(r"^(itemfs_delivery_\w+)\{", text, re.M)):
            self.assertEqual(1, len(re.findall(rf"^# HELP {name} .*\n# TYPE {name} (counter|gauge)$",
                                               text, re.M)), name)

    def test_without_functions(self):
        mount = self.mounted()
        with open(f"{mount.point}/.itemfs/status.json", encoding="utf-8") as file:
            self.assertNotIn("delivery", json.load(file))
        self.assertIsNone(self.delivery())

    def test_of_a_store(self):
        function = self.function()
        self.put_numbers(0, 3)
        self.assertIsNone(self.delivery())
        self.write_config(f"{function.url}?token=x")
        found = self.delivery()
        self.assertGreater(found.pop("SecondsBehind"), 0)
        none = {"Delivered": 0, "Retried": 0, "Dropped": 0, "Skipped": 0, "Lost": 0}
        self.assertEqual({"Function": function.url, "RecordsBehind": 3, **none}, found)
        mount = self.mounted()
        status = self.wait_status(mount, state="idle", records=3)
        found = self.delivery()
        self.assertRegex(found.pop("Holder"), rf"pid {mount.process.pid} on {mount.point} \(")
        # The lease may lag behind by a renewal, where only others' changes have come since.
        self.assertRegex(found.pop("Position"), rf"^{status['position'][:16]}")
        self.assertEqual({"Function": function.url, "RecordsBehind": 0, "SecondsBehind": 0, **none,
                          "Delivered": 3}, found)
        mount.unmount()
        self.make_older(10)
        self.put_numbers(3, 4)
        self.make_older(1000)
        found = self.delivery()
        self.assertNotIn("Holder", found)
        self.assertEqual(1, found["RecordsBehind"])
        self.assertGreaterEqual(found["SecondsBehind"], 1000)

    def test_counts_go_on_with_the_lease(self):
        # Whoever delivers: of each mount they begin anew, in the store they do not.
        function = self.function(script=[500, 200, 422])
        self.write_config(function, function_batch=1)
        self.put_numbers(0, 2)
        mount = self.mounted()
        self.wait_status(mount, state="idle", records=1, retries=1, dropped=1)
        self.put_numbers(2, 3)
        self.wait_status(mount, state="idle", records=2)
        mount.kill()
        self.put_numbers(3, 5)
        function.script = [500]
        mount = self.mounted("again")
        self.wait_status(mount, state="idle", records=2, retries=1, dropped=0)
        mount.unmount()
        found = self.delivery()
        self.assertEqual((4, 2, 1, 0, 0), tuple(found[name] for name in (
            "Delivered", "Retried", "Dropped", "Skipped", "Lost")))

    def test_of_a_store_for_people(self):
        self.put_numbers(0, 2)
        self.make_older(100)
        self.write_config("exec:/opt/handler --token word")
        main, side = pty.openpty()
        self.addCleanup(os.close, main)
        subprocess.run([ITEMCTL, "-s", self.conf, "status"], stdout=side, stderr=side,
                       env=self.environment(), check=True)
        os.close(side)
        text = os.read(main, 65536).decode().replace("\r\n", "\n")
        rows = dict(re.findall(r"^(  \w[\w ]*?) {2,}(.*)$", text, re.M))
        self.assertEqual("exec:/opt/handler", rows["  delivered to"])
        self.assertEqual("nobody", rows["  by"])
        heads, numbers = (re.split(" {2,}", line) for line in text.splitlines()[-2:])
        self.assertEqual(["Delivery", "To come", "Oldest", "Delivered", "Retried", "Dropped", "Skipped",
                          "Lost"], heads)
        self.assertEqual([self.table, "2", "0", "0", "0", "0", "0"], numbers[:2] + numbers[3:])
        self.assertRegex(numbers[2], r"^1\d\d s$")
        self.assertNotIn("word", text)


if __name__ == "__main__":
    unittest.main()
