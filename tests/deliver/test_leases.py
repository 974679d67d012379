# SPDX-License-Identifier: MIT
"""Several daemons over one store: one of them delivers, and another goes on when it ends, however it
does. Nothing is lost on the way, and no order of an item's changes."""

import contextlib
import os
import re
import signal
import sqlite3
import threading
import time

from delivery import DeliveryTest, unittest, wait_for


class Leases(DeliveryTest):
    def two(self, function, **keys):
        """Two mounts: the first of them has the lease."""
        self.write_config(function, **keys)
        first = self.mounted("first")
        self.wait_status(first, state="idle")
        second = self.mounted("second")
        status = self.wait_status(second, state="standby")
        return first, second, status

    def test_one_of_two_delivers(self):
        function = self.function()
        first, second, _ = self.two(function)
        self.assertRegex(wait_for("the holder's name", lambda: self.status(second).get("reason")),
                         rf"^delivered by \S+, pid {first.process.pid} on {first.point} \([0-9a-f]+\)$")
        for number in range(10):
            folder = (first, second)[number % 2].point
            with open(f"{folder}/{self.table}/k{number}.json", "w", encoding="utf-8") as file:
                file.write("{}")
            function.wait_records(number + 1)
        self.wait_status(first, records=10)
        self.assertEqual(10, sum(len(call.records) for call in function.deliveries))
        self.assertEqual((0, "standby"), (self.status(second)["records"], self.status(second)["state"]))
        self.assertEqual((1, 0), (self.metrics(first)["active"], self.metrics(second)["active"]))
        self.assertNotIn("lag_seconds", self.status(second))

    def test_the_holder_is_a_text(self):
        self.write_config(self.function())
        mount = self.mounted("mnt\x1b[31m")
        self.wait_status(mount, state="idle")
        ((holder,),) = self.store.rows("SELECT holder FROM lease")
        self.assertIn(rf", pid {mount.process.pid} on {self.dir}/mnt\x1B[31m (", holder.decode())

    def test_handed_over_at_the_unmount(self):
        function = self.function()
        first, second, _ = self.two(function)
        self.put_numbers(0, 3)
        self.wait_status(first, records=3)
        first.unmount()
        self.wait_status(second, state="idle")
        self.put_numbers(3, 5)
        self.wait_status(second, records=2)
        self.assertEqual([f"k{number}" for number in range(5)],
                         [record["keys"]["id"]["S"] for call in function.deliveries
                          for record in call.records])

    def test_kill_in_the_middle_of_a_batch(self):
        release = threading.Event()
        self.addCleanup(release.set)
        function = self.function(script=[{"hold": release}])
        first, second, _ = self.two(function)
        self.put_numbers(0, 3)
        function.wait_calls(1)
        before = time.monotonic()
        first.kill()
        self.wait_status(second, state="idle")
        self.assertLess(time.monotonic() - before, 30)  # promised; it takes 10 to 15
        function.wait_records(3)
        under_way, again = function.deliveries[0], function.deliveries[1:]
        self.assertEqual(3, sum(len(call.records) for call in again))
        self.assertEqual(under_way.ids, [id for call in again for id in call.ids][:len(under_way.ids)])

    def test_stopped_for_longer_than_others_wait(self):
        release = threading.Event()
        self.addCleanup(release.set)
        function = self.function(script=[{"hold": release}])
        first, second, _ = self.two(function)
        self.put_numbers(0, 1)
        function.wait_calls(1)
        first.process.send_signal(signal.SIGSTOP)
        self.addCleanup(first.process.send_signal, signal.SIGCONT)
        self.wait_status(second, state="idle", records=1)
        self.put_numbers(1, 2)
        self.wait_status(second, state="idle", records=2)
        first.process.send_signal(signal.SIGCONT)
        release.set()  # what was under way there is answered now
        self.wait_status(first, state="standby")
        self.put_numbers(2, 3)
        self.wait_status(second, records=3)
        # It wrote no position, and has called nobody since.
        self.assertEqual([["k0"], ["k0"], ["k1"], ["k2"]],
                         [[record["keys"]["id"]["S"] for record in call.records]
                          for call in function.deliveries])
        self.assertIn(f"pid {second.process.pid} ".encode(),
                      self.store.rows("SELECT holder FROM lease")[0][0])

    def test_stopped_while_waiting_for_the_next_try(self):
        # When it wakes up its time to wait is over; the lease is too, and that counts.
        function = self.function(script=[500])
        first, second, _ = self.two(function, function_retry=5)
        self.put_numbers(0, 1)
        self.wait_status(first, state="waiting")
        first.process.send_signal(signal.SIGSTOP)
        self.addCleanup(first.process.send_signal, signal.SIGCONT)
        self.wait_status(second, state="idle", records=1)
        with contextlib.closing(sqlite3.connect(self.db, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # nobody can write: it cannot find out
            first.process.send_signal(signal.SIGCONT)
            time.sleep(1)  # in which it must not call
            other.execute("ROLLBACK")
        self.wait_status(first, state="standby")
        self.put_numbers(1, 2)
        self.wait_status(second, records=2)
        self.assertEqual([500, 200, 200], [call.reply for call in function.deliveries])

    def take_away(self):
        """As another daemon would take the lease that has stood still."""
        self.run_tool(["sqlite3", self.db,
                       "UPDATE lease SET count = count + 1, holder = 'another'"])

    def test_lost_while_a_call_is_under_way(self):
        release = threading.Event()
        self.addCleanup(release.set)
        function = self.function(script=[{"hold": release}])
        self.put_numbers(0, 1)
        self.write_config(function, function_timeout=600)
        mount = self.mounted()
        function.wait_calls(1)
        self.take_away()
        # It is broken off: the function has not replied.
        self.wait_status(mount, state="standby", reason="delivered by another", retries=0)
        self.assertIn("the lease is lost: another delivers", mount.log_text())
        self.wait_status(mount, state="idle", records=1)  # after "another" has stood still
        self.assertFalse(release.is_set())
        self.assertEqual(2, len(function.deliveries))

    def test_a_call_ends_where_the_lease_cannot_be_renewed(self):
        # So it has ended when another daemon takes the lease, which it can where this one cannot.
        release = threading.Event()
        self.addCleanup(release.set)
        function = self.function(script=[{"hold": release}])
        self.put_numbers(0, 1)
        self.write_config(function, function_timeout=600)
        mount = self.mounted()
        function.wait_calls(1)
        with contextlib.closing(sqlite3.connect(self.db, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            began = time.monotonic()
            status = self.wait_status(mount, state="waiting")
            self.assertLess(time.monotonic() - began, 10)  # promised; it takes 4 to 7
            self.assertEqual("the call was broken off, since the lease could not be renewed",
                             status["reason"])
            self.assertEqual(1, len(function.deliveries))
            other.execute("ROLLBACK")
        self.wait_status(mount, state="idle", records=1, retries=1)
        self.assertFalse(release.is_set())
        self.assertEqual(function.deliveries[0].body, function.deliveries[1].body)

    def test_lost_while_waiting_for_the_next_try(self):
        function = self.function(reply=500)
        first, second, _ = self.two(function, function_retry=3600)
        self.put_numbers(0, 1)
        self.wait_status(first, state="waiting")
        self.take_away()
        self.wait_status(first, state="standby", reason="delivered by another")
        function.reply = 200
        function.wait_records(1)  # by the one that sees first that "another" stands still
        self.assertEqual(2, len(function.deliveries))
        self.assertEqual(function.deliveries[0].body, function.deliveries[1].body)
        # Counted once the answer has come back.
        wait_for("one record", lambda: 1 == sum(self.status(each)["records"]
                                                for each in (first, second)))

    def test_read_only_mounts_deliver_nothing(self):
        function = self.function()
        self.put_numbers(0, 1)
        self.write_config(function)
        read_only = self.mounted("ro", options=["ro"])
        status = self.status(read_only)
        self.assertEqual(("off", "the mount is read-only"), (status["state"], status["reason"]))
        self.assertEqual(1, read_only.log_text().count("read-only: it delivers no changes"))
        self.itemctl("tables")
        self.itemctl("changes", self.table)
        self.assertEqual([], self.store.rows("SELECT * FROM lease"))
        self.wait_status(self.mounted(), records=1)
        self.assertEqual(1, len(function.deliveries))


class Positions(DeliveryTest):
    def keys(self, function):
        return [record["keys"]["id"]["S"] for record in function.taken()]

    def test_restarts_go_on(self):
        function = self.function()
        self.write_config(function)
        for number in range(3):
            mount = self.mounted(f"mnt{number}")
            self.put_numbers(number, number + 1)
            self.wait_status(mount, records=1)
            mount.unmount()
        self.assertEqual(["k0", "k1", "k2"], self.keys(function))
        self.assertEqual(3, len(function.deliveries))

    def test_an_older_copy_of_the_store(self):
        # It counts changes from where it was; a function that knows a change by its id must not take
        # the new ones for those that the copy has undone.
        function = self.function()
        self.write_config(function)
        self.put_numbers(0, 1)
        mount = self.mounted()
        self.wait_status(mount, state="idle", records=1)
        mount.unmount()
        self.run_tool(["sqlite3", self.db, f".backup {self.dir}/copy.db"])
        mount.start()
        self.put_numbers(1, 2)
        self.wait_status(mount, state="idle", records=1)
        mount.unmount()
        self.run_tool(["cp", f"{self.dir}/copy.db", self.db])
        self.put_numbers(2, 3)
        mount.start()
        self.wait_status(mount, state="idle", records=1, lost=0)
        self.assertEqual(["k0", "k1", "k2"], self.keys(function))
        first, undone, new = (record["change_id"] for record in function.taken())
        self.assertEqual(undone[:16], new[:16])  # the number came again
        self.assertEqual(3, len({first, undone, new}))

    def test_stream_off_and_on_again(self):
        function = self.function()
        self.write_config(function)
        mount = self.mounted()
        self.put_numbers(0, 1)
        self.wait_status(mount, records=1)
        folder = f"{mount.point}/{self.table}"
        mount.unmount()
        with open(self.conf, encoding="utf-8") as file:
            text = file.read()
        with open(self.conf, "w", encoding="utf-8") as file:
            file.write(text.replace("stream = on\n", ""))  # the store's own setting counts
        mount = self.mounted()
        os.setxattr(folder, "user.itemfs.stream", b"disabled")
        self.wait_status(mount, state="off", reason="the table's stream is off")
        self.put_numbers(1, 2)
        os.setxattr(folder, "user.itemfs.stream", b"enabled")
        self.put_numbers(2, 3)
        self.wait_status(mount, state="idle", records=1)
        self.assertEqual(["k0", "k2"], self.keys(function))

    def test_a_table_that_comes_later(self):
        function = self.function()
        self.itemctl("drop", self.table)
        self.write_config(function)
        mount = self.mounted()
        self.wait_status(mount, state="off", reason='there is no table "users"')
        os.mkdir(f"{mount.point}/{self.table}")
        with open(f"{mount.point}/{self.table}/a.json", "w", encoding="utf-8") as file:
            file.write("{}")
        self.wait_status(mount, state="idle", records=1)
        self.assertEqual({"S": "a"}, function.taken()[0]["keys"]["key"])

    def test_dropped_and_made_anew(self):
        self.itemctl("drop", self.table)
        self.itemctl("create", self.table, "--key", "n:N")
        function = self.function()
        self.write_config(function)
        mount = self.mounted()
        self.wait_status(mount, state="idle")
        function.reply = 500
        self.put({"n": {"N": "12"}})
        function.wait_calls(1)
        # What is not delivered yet of the old table still is, with its own keys.
        self.itemctl("delete", self.table, "-k", "12")
        self.itemctl("drop", self.table)
        self.create()
        self.put({"id": {"S": "new"}})
        function.reply = 200
        self.wait_status(mount, state="idle", records=3, lost=0)
        self.assertEqual([("INSERT", {"n": {"N": "12"}}), ("REMOVE", {"n": {"N": "12"}}),
                          ("INSERT", {"id": {"S": "new"}})],
                         [(record["change_type"], record["keys"]) for record in function.taken()])

    def test_dropped_and_made_anew_later(self):
        function = self.function()
        self.write_config(function)
        mount = self.mounted()
        for number in range(2):
            self.wait_status(mount, state="idle", lost=0)
            self.put({"id": {"S": f"k{number}"}})
            self.itemctl("delete", self.table, "-k", f"k{number}")
            self.itemctl("drop", self.table)
            self.wait_status(mount, state="off", records=2 * number + 2)
            self.create()
        self.wait_status(mount, state="idle", lost=0)
        self.assertEqual(["k0", "k0", "k1", "k1"], self.keys(function))

    def test_lost_changes_are_told(self):
        # The log was trimmed behind the position, as after a day without a daemon.
        function = self.function()
        self.write_config(function)
        mount = self.mounted()
        self.put_numbers(0, 1)
        self.wait_status(mount, records=1)
        mount.unmount()
        self.put_numbers(1, 3)
        self.run_tool(["sqlite3", self.db,
                       "DELETE FROM change WHERE seq < (SELECT max(seq) FROM change);"
                       "INSERT OR REPLACE INTO meta(name, value)"
                       " SELECT 'dropped_seq', max(seq) - 1 FROM change"])
        mount = self.mounted()
        status = self.wait_status(mount, state="idle", lost=1, records=1)
        self.assertEqual("the stream no longer has what comes next", status["last_error"])
        self.assertIn("changes may have been missed, nobody knows how many", mount.log_text())
        self.assertEqual(["k0", "k2"], self.keys(function))

    def test_changes_that_cannot_be_read_are_waited_for(self):
        self.itemctl("drop", self.table)
        self.itemctl("create", self.table, "--key", "n:N")
        function = self.function()
        self.put({"n": {"N": "12"}})
        key = self.store.rows("SELECT quote(pk) FROM change ORDER BY seq DESC LIMIT 1")[0][0].decode()
        damage, repair = (f"UPDATE change SET pk = {pk} WHERE seq = (SELECT max(seq) FROM change)"
                          for pk in ("x'00'", key))
        self.run_tool(["sqlite3", self.db, damage])
        self.write_config(function)
        mount = self.mounted()
        status = self.wait_status(mount, state="waiting")
        self.assertRegex(status["reason"], "entry \\d+ of the change log cannot be read")
        self.run_tool(["sqlite3", self.db, repair])
        self.wait_status(mount, state="idle", records=1, lost=0)
        waits = re.findall(r"changes cannot be read: .*: tried again in ([\d.]+) s", mount.log_text())
        self.assertGreaterEqual(float(waits[0]), 0.7)
        self.assertLessEqual(len(waits), 5)

    def test_a_quiet_table_is_not_taken_for_a_late_one(self):
        # Its position moves with the log, though nothing of it is delivered.
        function = self.function()
        self.itemctl("create", "others", "--key", "id")
        self.write_config(function)
        mount = self.mounted()
        self.put({"id": {"S": "x"}}, table="others")
        newest = self.store.rows("SELECT max(seq) FROM change")[0][0]

        def place():
            return int(self.store.rows("SELECT position FROM lease")[0][0][16:32] or b"0", 16)
        wait_for("the position", lambda: place() >= newest, 60)
        self.assertEqual([], function.deliveries)
        mount.unmount()


if __name__ == "__main__":
    unittest.main()
