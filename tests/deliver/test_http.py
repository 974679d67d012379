# SPDX-License-Identifier: MIT
"""Delivery to URLs: what a request looks like, who may have made it, and what replies bring about."""

import json
import os
import re
import socket
import threading

from delivery import DeliveryTest, ITEMFS, ROOT, make_certificates, unittest, wait_for

SECRET = "w0rd of the tests"


class Requests(DeliveryTest):
    def test_what_a_request_is(self):
        function = self.function()
        self.write_config(function)
        mount = self.mounted()
        self.put({"id": {"S": "ada"}, "born": {"N": "1815"}, "tags": {"SS": ["a", "b"]}})
        self.put({"id": {"S": "ada"}})
        self.itemctl("delete", self.table, "-k", "ada")
        function.wait_records(3)
        call = function.deliveries[0]
        self.assertEqual("application/json", call.headers["Content-Type"])
        self.assertNotIn("Itemfs-Signature", call.headers)
        self.assertRegex(call.headers["User-Agent"], "^itemfs/")
        self.assertEqual(["trigger_type", "change_table", "change_records"], list(call.payload))
        self.assertEqual("change_stream", call.payload["trigger_type"])
        self.assertEqual(self.table, call.payload["change_table"])
        # As itemctl tells the same changes, which knows nothing of delivery.
        told = [json.loads(line) for line in self.itemctl("changes", self.table).stdout.splitlines()]
        self.assertEqual(told, function.taken())
        self.assertEqual(["INSERT", "MODIFY", "REMOVE"], [record["change_type"] for record in told])
        self.assertNotIn("old_item", told[0])
        self.assertNotIn("new_item", told[2])
        self.wait_status(mount, state="idle", behind=0)

    def test_writes_through_the_mount(self):
        function = self.function()
        self.write_config(function)
        mount = self.mounted()
        os.mkdir(f"{mount.point}/notes")
        with open(f"{mount.point}/{self.table}/a.json", "w", encoding="utf-8") as file:
            file.write('{"v": 1}')
        os.rename(f"{mount.point}/{self.table}/a.json", f"{mount.point}/{self.table}/b.json")
        function.wait_records(3)
        self.assertEqual([("INSERT", "a"), ("REMOVE", "a"), ("INSERT", "b")],
                         [(record["change_type"], record["keys"]["id"]["S"])
                          for record in function.taken()])

    def test_names_and_values_of_all_kinds(self):
        self.table = 'we"ird näme'
        function = self.function()
        self.write_config(function)
        self.create()
        self.put({"id": {"S": 'q"\u2028\\ \u0001'}, "b": {"B": "AAEC"}, "n": {"N": "9" * 38}})
        self.mounted()
        function.wait_records(1)
        self.assertEqual('we"ird näme', function.deliveries[0].payload["change_table"])
        self.assertEqual({"id": {"S": 'q"\u2028\\ \u0001'}, "b": {"B": "AAEC"}, "n": {"N": "9" * 38}},
                         function.taken()[0]["new_item"])

    def test_large_records_come_in_smaller_batches(self):
        function = self.function()
        self.put(*({"id": {"S": f"k{number}"}, "text": {"S": "x" * 100000}} for number in range(20)))
        self.put({"id": {"S": "huge"}, "text": {"S": "x" * 3000000}})
        self.write_config(function)
        self.mounted()
        function.wait_records(21)
        for call in function.deliveries:
            if len(call.records) > 1 and call.records[-1]["keys"]["id"]["S"] != "huge":
                self.assertLess(len(call.body), 1 << 20)
        self.assertGreater(len(function.deliveries[0].records), 1)
        self.assertEqual(21, sum(len(call.records) for call in function.deliveries))


class Replies(DeliveryTest):
    def test_an_error_in_the_reply_is_a_failure(self):
        function = self.function(script=[{"body": '{"error": "table is locked"}'},
                                         {"body": '{"ok": true, "error": null}'}])
        self.put_numbers(0, 2)
        self.write_config(function)
        mount = self.mounted()
        status = self.wait_status(mount, records=2, state="idle")
        self.assertEqual(function.deliveries[0].body, function.deliveries[1].body)
        self.assertEqual('the handler\'s error: "table is locked"', status["last_error"])
        self.assertEqual(1, status["retries"])
        self.assertIn("taken at last, after 1 failure", mount.log_text())

    def test_a_reply_without_end_is_cut_off(self):
        function = self.function(script=[{"body": "x" * (3 << 20)}])
        self.put_numbers(0, 1)
        self.write_config(function)
        self.wait_status(self.mounted(), records=1, retries=0)

    def test_retry_after_is_heeded(self):
        function = self.function(script=[{"status": 429, "headers": {"Retry-After": "2"}}])
        self.put_numbers(0, 1)
        self.write_config(function)
        mount = self.mounted()
        self.wait_status(mount, records=1)
        self.assertIn("HTTP status 429: tried again in 2.0 s", mount.log_text())
        self.assertGreaterEqual(function.deliveries[1].time - function.deliveries[0].time, 2)

    def test_redirects_are_not_followed(self):
        elsewhere = self.function()
        function = self.function(script=[{"status": 307, "headers": {"Location": elsewhere.url}},
                                         {"status": 301, "headers": {"Location": elsewhere.url}}])
        self.put_numbers(0, 3)
        self.write_config(function, function_batch=1)
        mount = self.mounted()
        self.wait_status(mount, dropped=2, records=1)
        self.assertEqual(([], []), (elsewhere.deliveries, elsewhere.others))

    def test_what_is_dropped_is_named(self):
        function = self.function(reply=422)
        self.put_numbers(0, 1000)
        self.write_config(function)
        mount = self.mounted()
        self.wait_status(mount, dropped=1000, state="idle", behind=0)
        ids = [id for delivery in function.deliveries for id in delivery.ids]
        self.assertEqual(1000, len(ids))
        told = re.findall(rf"table {self.table}, {function.url}: HTTP status 422: (\d+) changes?"
                          r" dropped:((?: [0-9a-f]+)+)", mount.log_text())
        self.assertEqual(ids, [id for _, text in told for id in text.split()])
        self.assertEqual(1000, sum(int(count) for count, _ in told))

    def test_a_connection_that_breaks(self):
        function = self.function(script=[{"close": True}])
        self.put_numbers(0, 1)
        self.write_config(function)
        self.wait_status(self.mounted(), records=1, retries=1)

    def test_kept_connections_are_used_again(self):
        function = self.function()
        self.write_config(function)
        mount = self.mounted()
        for number in range(5):
            self.put_numbers(number, number + 1)
            function.wait_records(number + 1)
        self.wait_status(mount, records=5, retries=0)
        self.assertEqual(1, len(function.sockets))

    def test_timeout(self):
        release = threading.Event()
        self.addCleanup(release.set)
        function = self.function(script=[{"hold": release}])
        self.put_numbers(0, 1)
        self.write_config(function, function_timeout=0.5)
        mount = self.mounted()
        status = self.wait_status(mount, records=1, retries=1)
        self.assertRegex(status["last_error"], "timed out")


class Proxies(DeliveryTest):
    def test_http_goes_by_no_proxy(self):
        name = socket.gethostname()  # one that curl does not know to be this machine
        try:
            near = "." not in name and socket.gethostbyname(name) == "127.0.0.1"
        except OSError:
            near = False
        if not near:
            self.skipTest(f"{name} is not known as 127.0.0.1")
        proxy, function = self.function(), self.function()
        self.put_numbers(0, 1)
        self.write_config(function.url.replace("localhost", name))
        mount = self.mounted(http_proxy=proxy.url, all_proxy=proxy.url)
        self.wait_status(mount, records=1)
        self.assertEqual((1, 0), (len(function.deliveries), len(proxy.deliveries)))


class Hanging(DeliveryTest):
    """A function that never answers is in nobody's way."""

    def setUp(self):
        super().setUp()
        self.release = threading.Event()
        self.addCleanup(self.release.set)
        self.called = self.function(reply={"hold": self.release})
        self.put_numbers(0, 1)
        self.write_config(self.called, function_timeout=600)
        self.mount = self.mounted()
        self.called.wait_calls(1)

    def test_saves_and_listings_go_on(self):
        folder = f"{self.mount.point}/{self.table}"
        for number in range(100):
            with open(f"{folder}/n{number}.json", "w", encoding="utf-8") as file:
                file.write(f'{{"n": {number}}}')
        self.assertEqual(101, len(os.listdir(folder)))
        status = self.status(self.mount)
        self.assertEqual(("delivering", 101, 0), (status["state"], status["behind"], status["records"]))
        self.assertGreater(status["lag_seconds"], 0)

    def test_the_lease_is_renewed_meanwhile(self):
        def count():
            return self.store.rows("SELECT count FROM lease WHERE name = ?", self.table)[0][0]
        first = count()
        wait_for("two renewals", lambda: count() >= first + 2, 60)
        self.assertEqual("delivering", self.status(self.mount)["state"])

    def test_unmount(self):
        self.mount.unmount()
        self.check_delivered_again()

    def test_sigterm(self):
        self.mount.terminate()
        self.check_delivered_again()

    def check_delivered_again(self):
        self.assertEqual([(b"",)], self.store.rows("SELECT holder FROM lease"))
        self.called.reply = 200
        self.wait_status(self.mounted("again"), records=1, state="idle")
        first, second = self.called.deliveries
        self.assertEqual(first.body, second.body)

    def test_a_call_that_ends_at_the_unmount_counts(self):
        ended = threading.Thread(target=self.mount.terminate)
        ended.start()
        # The daemon waits for the call by now, or will: either way the reply comes in time.
        self.release.set()
        ended.join()
        self.called.reply = 200
        self.put_numbers(1, 2)
        self.wait_status(self.mounted("again"), records=1, state="idle")
        self.assertEqual([["k0"], ["k1"]], [[record["keys"]["id"]["S"] for record in call.records]
                                            for call in self.called.deliveries])


class Signatures(DeliveryTest):
    def setUp(self):
        super().setUp()
        self.secret = os.path.join(self.dir, "secret")
        self.write_secret(SECRET + "\n")

    def write_secret(self, text, mode=0o600):
        with open(self.secret + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.secret + ".new", mode)
        os.rename(self.secret + ".new", self.secret)

    def verify(self, call, secret):
        """By the lines that README.md shows."""
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
            code = re.search(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)[1]
        shown = {}
        exec(code, shown)  # pylint: disable=exec-used
        return shown["verify"](secret, call.headers["Itemfs-Signature"], call.body)

    def test_verified(self):
        function = self.function(script=[500])
        self.put_numbers(0, 3)
        self.write_config(function, function_secret_file=self.secret, function_retry=1.5)
        self.wait_status(self.mounted(), records=3)
        first, second = function.deliveries
        self.assertTrue(self.verify(first, SECRET) and self.verify(second, SECRET))
        # Signed anew, since it is a second later.
        self.assertNotEqual(first.headers["Itemfs-Signature"], second.headers["Itemfs-Signature"])
        self.assertFalse(self.verify(first, SECRET + "x"))
        first.headers.replace_header("Itemfs-Signature",
                                     first.headers["Itemfs-Signature"].replace("t=1", "t=2"))
        self.assertFalse(self.verify(first, SECRET))
        self.assertEqual(first.body, second.body)

    def test_rotated(self):
        function = self.function()
        self.write_config(function, function_secret_file="secret")
        self.mounted()
        self.put_numbers(0, 1)
        function.wait_records(1)
        self.write_secret("another")
        self.put_numbers(1, 2)
        function.wait_records(2)
        self.assertTrue(self.verify(function.deliveries[0], SECRET))
        self.assertTrue(self.verify(function.deliveries[1], "another"))

    def test_others_may_not_read_it(self):
        os.chmod(self.secret, 0o640)
        function = self.function()
        self.put_numbers(0, 1)
        self.write_config(function, function_secret_file=self.secret)
        mount = self.mounted()
        status = self.wait_status(mount, state="waiting")
        self.assertEqual(f"secret {self.secret}: mode 0640 lets others in; only its owner may read it"
                         " (chmod 600)", status["reason"])
        self.assertEqual([], function.deliveries)
        os.chmod(self.secret, 0o600)
        self.wait_status(mount, records=1, state="idle")

    def test_it_is_nowhere_to_be_seen(self):
        function = self.function(script=[500, {"body": '{"error": 1}'}, 404])
        self.put_numbers(0, 2)
        self.write_config(f"{function.url}?token={SECRET.replace(' ', '+')}", function_batch=1,
                          function_secret_file=self.secret)
        mount = self.mounted(options=["log_level=debug"])
        self.wait_status(mount, records=1, dropped=1)
        texts = [mount.log_text(), self.itemctl("status", "--json").stdout]
        for path in (f"{mount.point}/.itemfs/status.json", f"{mount.point}/.itemfs/metrics",
                     f"/proc/{mount.process.pid}/environ", f"/proc/{mount.process.pid}/cmdline"):
            with open(path, encoding="utf-8", errors="replace") as file:
                texts.append(file.read())
        for text in texts:
            self.assertNotIn(SECRET, text)
            self.assertNotIn(SECRET.replace(" ", "+"), text)
        self.assertIn(f'"function": "{function.url}"', texts[2])

    def test_it_is_not_in_memory(self):
        function = self.function()
        self.put_numbers(0, 1)
        self.write_config(function, function_secret_file=self.secret)
        mount = self.mounted()
        self.wait_status(mount, records=1, state="idle")
        found = [region for region in memory_of(mount.process.pid) if SECRET.encode() in region]
        self.assertEqual([], found)
        with open(self.conf, "rb") as file:  # what is there is found
            self.assertIn(b"function_secret_file", file.read())
        self.assertTrue(any(self.secret.encode() in region
                            for region in memory_of(mount.process.pid)))


def memory_of(pid):
    """The contents of a process's writable memory, as a core file would have them."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            span, flags = line.split()[:2]
            begin, end = (int(number, 16) for number in span.split("-"))
            if "rw" not in flags or end - begin > 1 << 30:  # a sanitizer's shadow
                continue
            try:
                memory.seek(begin)
                yield memory.read(end - begin)
            except (OSError, ValueError, OverflowError):
                pass


class Tls(DeliveryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.ca, cls.good = make_certificates(cls.place)
        cls.other_ca, cls.other = make_certificates(cls.place, "elsewhere.example")

    def refused(self, function, **keys):
        self.put_numbers(0, 1)
        self.write_config(function, **keys)
        mount = self.mounted()
        status = self.wait_status(mount, state="waiting")
        self.assertRegex(status["reason"], "(?i)certificate|SSL")
        self.assertEqual([], function.deliveries)
        return mount

    def test_private_ca(self):
        function = self.function(tls=self.good)
        self.put_numbers(0, 1)
        self.write_config(function, function_ca_file=self.ca)
        self.wait_status(self.mounted(), records=1, retries=0)

    def test_unknown_ca(self):
        self.refused(self.function(tls=self.good))

    def test_other_ca(self):
        self.refused(self.function(tls=self.good), function_ca_file=self.other_ca)

    def test_other_name(self):
        self.refused(self.function(tls=self.other), function_ca_file=self.other_ca)

    def test_no_ca_file(self):
        self.refused(self.function(tls=self.good), function_ca_file=self.ca + ".absent")


class BadConfigurations(DeliveryTest):
    def test_named_with_their_line(self):
        for value, reason in (
                ("ftp://localhost/", "a function is https://..., http://... or exec:/PATH/PROGRAM"),
                ("exec:relative/program", "exec: wants the whole path of a program: exec:/PATH/PROGRAM"),
                ("http://example.com/", "http:// to example.com, which is not this machine, a private"
                                        " address or a name of one word: use https://")):
            self.write_config(value)
            with open(self.conf, encoding="utf-8") as file:
                line = file.read().split("\n").index(f"function = {value}") + 1
            os.makedirs(f"{self.dir}/mnt", exist_ok=True)
            done = self.run_tool([ITEMFS, self.conf, f"{self.dir}/mnt"], 1)
            self.assertEqual(f"itemfs: {self.conf}:{line}: function: {reason}\n", done.stderr)


if __name__ == "__main__":
    unittest.main()
