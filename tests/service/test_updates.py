# SPDX-License-Identifier: MIT
"""incr, decr and append on services: one conditional request each, sent once, whatever is there."""

import concurrent.futures
import errno
import json
import os
import sys
import unittest

from service import HERE, ITEMCTL, MountedServiceTest, Proxy, ServiceTest, SOURCE, each_service

sys.path.insert(0, os.path.join(HERE, "..", "itemctl"))

from append_cases import AppendCases  # noqa: E402  pylint: disable=wrong-import-position

UPDATE, READ = "UpdateItem", "GetItem"
LONG_NUMBER = "12345678901234567890123456789012345678"
FAILED, ABSENT, LOCKED = 1, 3, 5
WRITERS = 8


class Updated(ServiceTest):
    def setUp(self):
        super().setUp()
        self.make()
        self.proxy = Proxy(self.engine.endpoint).__enter__()
        self.addCleanup(self.proxy.stop)
        self.addCleanup(self.proxy.check)
        self.addCleanup(self.proxy.heal)

    def run_ctl(self, *arguments, status=0):
        """Standard output, or error."""
        done = self.run_tool([ITEMCTL, "-s", SOURCE, *arguments], status,
                             env=self.environment(AWS_ENDPOINT_URL=self.proxy.url))
        return done.stderr if status else done.stdout

    def count(self, command, *arguments, **more):
        return json.loads(self.run_ctl(command, self.table, "a", *arguments, **more))

    def operations(self):
        """What was asked of items since the last call."""
        asked = [request.operation for request in self.proxy.requests
                 if request.operation in (UPDATE, READ, "PutItem")]
        del self.proxy.requests[:]
        return asked

    def n(self):
        return self.item(id={"S": "a"})["n"]["N"]


@each_service
class Counters(Updated):
    def test_one_request(self):
        self.put(id={"S": "a"}, n={"N": "1.5"}, big={"N": LONG_NUMBER}, l={"L": [{"S": "x"}]})
        self.operations()
        self.assertEqual({"N": "2.5"}, self.count("incr", "--attr", "n"))
        self.assertEqual([UPDATE], self.operations())
        self.assertEqual({"N": "-1"}, self.count("decr", "--attr", "new"))
        self.assertEqual([UPDATE], self.operations())
        self.assertEqual({"N": LONG_NUMBER[:-1] + "9"}, self.count("incr", "--attr", "big"))
        self.run_ctl("append", self.table, "-k", "a", "l", '"y"', "--unique")
        self.assertEqual([UPDATE, UPDATE], self.operations())
        self.assertEqual(
            {"id": {"S": "a"}, "n": {"N": "2.5"}, "new": {"N": "-1"},
             "big": {"N": LONG_NUMBER[:-1] + "9"}, "l": {"L": [{"S": "x"}, {"S": "y"}]}},
            self.item(id={"S": "a"}))

    def test_bare_values_and_null(self):
        self.put(id={"S": "a"}, **{"$value": {"NULL": True}})
        self.operations()
        self.assertEqual({"N": "3"}, self.count("incr", "3"))
        self.assertEqual([UPDATE, READ, UPDATE], self.operations())
        self.assertEqual({"N": "1"}, self.count("decr", "2"))
        self.assertEqual([UPDATE], self.operations())
        self.assertEqual({"N": "1"}, self.item(id={"S": "a"})["$value"])

    def test_missing(self):
        for command in ("incr", "decr"):
            self.assertIn(f"{self.table}/a: does not exist",
                          self.run_ctl(command, self.table, "a", status=ABSENT))
        self.run_ctl("append", self.table, "-k", "a", "l", "1", status=ABSENT)
        self.assertIsNone(self.item(id={"S": "a"}))

    def test_refused(self):
        item = {"id": {"S": "a"}, "s": {"S": "abc"}, "ns": {"NS": ["1"]}, "m": {"M": {}}}
        self.put(**item)
        for attribute, kind in (("s", "S"), ("ns", "NS"), ("m", "M")):
            self.assertIn(f'"{attribute}" is of type {kind}, and only a number',
                          self.run_ctl("incr", self.table, "a", "--attr", attribute, status=FAILED))
            self.assertIn(f'"{attribute}" is of type {kind}, and only a list',
                          self.run_ctl("append", self.table, "-k", "a", attribute, '"b"', "--unique",
                                       status=FAILED))
        self.assertIn("(itemctl: --attr NAME)", self.run_ctl("incr", self.table, "a", status=FAILED))
        self.assertEqual(item, self.item(id={"S": "a"}))

    def test_sorted_tables(self):
        self.forget(self.table)
        self.make(sort=("day", "N"))
        self.put(id={"S": "a"}, day={"N": "5"}, n={"N": "1"})
        self.assertEqual({"N": "2"}, self.count("incr", "--sort-key", "5.0", "--attr", "n"))
        self.run_ctl("incr", self.table, "a", "--sort-key", "6", "--attr", "n", status=ABSENT)
        self.assertEqual("2", self.item(id={"S": "a"}, day={"N": "5"})["n"]["N"])

    def test_lost_answers(self):
        """Nobody knows whether it was applied: it is not sent again, and that is said."""
        self.put(id={"S": "a"}, n={"N": "1"})
        for kind in ("reset-after", "drop-after", "unavailable-after"):
            before = int(self.n())
            self.proxy.fault(UPDATE, kind, times=1)
            self.operations()
            error = self.run_ctl("incr", self.table, "a", "--attr", "n", status=FAILED)
            self.assertIn("UpdateItem may have been applied", error)
            self.assertEqual([UPDATE], self.operations())
            self.assertEqual(before + 1, int(self.n()))

    def test_what_was_not_applied_is_sent_again(self):
        self.put(id={"S": "a"}, n={"N": "1"})
        self.proxy.fault(UPDATE, "throttle", times=1)
        self.assertEqual({"N": "2"}, self.count("incr", "--attr", "n"))
        self.assertEqual("2", self.n())

    def test_throttled_to_the_end(self):
        self.put(id={"S": "a"}, n={"N": "1"})
        self.proxy.fault(UPDATE, "throttle")
        self.run_ctl("incr", self.table, "a", "--attr", "n", status=LOCKED)
        self.assertEqual("1", self.n())

    def test_many_processes(self):
        if self.engine.name == "moto":
            self.skipTest("its conditional writes are not atomic")
        self.put(id={"S": "a"}, n={"NULL": True})
        def write(at):
            for _ in range(5):
                self.count("incr", "0.1", "--attr", "n")
            self.run_ctl("append", self.table, "-k", "a", "l", str(at))
        with concurrent.futures.ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(write, range(WRITERS)))
        item = self.item(id={"S": "a"})
        self.assertEqual({"N": "4"}, item["n"])
        self.assertEqual(list(range(WRITERS)), sorted(int(value["N"]) for value in item["l"]["L"]))


@each_service
class Appends(AppendCases, Updated):
    def put_item(self, item):
        self.put(id={"S": "a"}, **item)

    def get_item(self):
        item = self.item(id={"S": "a"})
        self.assertEqual({"S": "a"}, item.pop("id"))
        return {name: {"NS": sorted(value["NS"])} if "NS" in value else value
                for name, value in item.items()}

    def append(self, attribute, value, *options):
        return self.run_tool([ITEMCTL, "-s", SOURCE, "append", self.table, "-k", "a", *options, "--",
                              attribute, value], None).returncode

    def test_concurrent_vectors(self):
        if self.engine.name == "moto":
            self.skipTest("its conditional writes are not atomic")
        super().test_concurrent_vectors()


@each_service
class Mounted(MountedServiceTest):
    options = ("cache_ttl=600",)  # only what is known to be old is asked for again

    def set(self, name, value):
        os.setxattr(self.path("a.json"), "user.itemfs." + name, value.encode())

    def test_attributes(self):
        self.write("a.json", '{"n": 1.5}')
        before = os.stat(self.path("a.json"))
        self.set("add.n", "1")
        self.assertEqual(2.5, json.loads(self.read("a.json"))["n"])
        self.set("append_unique.l", "7")
        self.assertErrno(errno.EEXIST, self.set, "append_unique.l", "7.0")
        self.set("append.l", '"x"')
        self.assertErrno(errno.EINVAL, self.set, "add.l", "1")
        self.assertEqual({"id": "a", "n": 2.5, "l": [7, "x"]}, json.loads(self.read("a.json")))
        self.assertEqual({"id": {"S": "a"}, "n": {"N": "2.5"}, "l": {"L": [{"N": "7"}, {"S": "x"}]}},
                         self.item(id={"S": "a"}))
        after = os.stat(self.path("a.json"))
        self.assertEqual(len(self.read("a.json")), after.st_size)
        self.assertGreater(after.st_mtime_ns, before.st_mtime_ns)
        self.write("a.json", '{"n": 9}', os.O_TRUNC)  # over what it shows
        self.assertEqual("9", self.item(id={"S": "a"})["n"]["N"])


del Updated


if __name__ == "__main__":
    unittest.main()
