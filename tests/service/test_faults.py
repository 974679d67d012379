# SPDX-License-Identifier: MIT
"""The service answers late, wrongly or not at all: nothing acknowledged is lost, nothing refused is
applied silently, nothing is applied twice; and how many requests a mount makes."""

import collections
import contextlib
import errno
import json
import os
import random
import unittest

from service import Proxy, ServiceTest, SOURCE, wait_for
from engines import for_engine  # pylint: disable=wrong-import-order

# Kinds of faults under which every call must still come through, and how often they strike.
SURVIVED = {"throttle": 0.03, "throttle-503": 0.03, "error-500": 0.15, "error-503": 0.15,
            "unavailable-after": 0.15, "reset": 0.15, "reset-after": 0.15, "drop-after": 0.15,
            "truncate": 0.1, "corrupt": 0.1, "garbage": 0.1, "close": 0.3}
STEPS = 50


class Faulty(ServiceTest):
    def setUp(self):
        super().setUp()
        self.make()

    @contextlib.contextmanager
    def mounted(self, *options, **proxy_options):
        """(proxy, directory of the test's table) of a mount of its own behind a proxy."""
        with Proxy(self.engine.endpoint, **proxy_options) as proxy:
            mount = self.new_mount(SOURCE, f"mnt-{self.table}", options)
            mount.env = self.environment(AWS_ENDPOINT_URL=proxy.url)
            mount.start()
            try:
                yield proxy, os.path.join(mount.point, self.table)
            finally:
                proxy.heal()
                mount.unmount()

    def save(self, path, text):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)

    def everything(self):
        pages = self.boto.get_paginator("scan").paginate(TableName=self.table, ConsistentRead=True)
        return {item["id"]["S"]: int(item["v"]["N"]) for page in pages for item in page["Items"]}

    def names_or_errno(self, root):
        """Of a directory of tables: either says so or has all."""
        try:
            self.assertIn(self.table, os.listdir(root))
        except OSError as error:
            return error.errno
        return None

    def test_a_failed_listing_of_tables_says_so(self):
        with self.mounted("cache_ttl=0") as (proxy, directory):
            root = os.path.dirname(directory)
            proxy.fault("ListTables", "error-500")
            wait_for("a listing that asks", lambda: self.names_or_errno(root) == errno.EIO)
            self.assertIn(b"InternalServerError", os.getxattr(root, "user.itemfs.error"))
            handle = os.open(root, os.O_DIRECTORY)
            for _ in range(2):  # on one and the same handle, again
                self.assertErrno(errno.EIO, os.listdir, handle)
            os.close(handle)
            proxy.heal()
            self.assertIn(self.table, os.listdir(root))

    def test_a_failed_listing_of_what_is_only_here_says_so(self):
        self.forget(self.table)
        self.make(sort=("day", "N"))
        with self.mounted("cache_ttl=0") as (proxy, directory):
            os.mkdir(f"{directory}/new")
            proxy.fault("Query", "error-500")
            self.assertErrno(errno.EIO, os.listdir, directory)
            proxy.heal()
            self.assertEqual(["new"], os.listdir(directory))

    def test_no_request_for_each_item_after_a_listing(self):
        for number in range(300):
            self.put(id={"S": f"k{number:03}"}, v={"N": str(number)}, pad={"S": "x" * 300})
        with self.mounted("cache_ttl=600") as (proxy, directory):
            os.stat(directory)
            before = len(proxy.calls())
            self.assertEqual(300, len(os.listdir(directory)))
            listed = collections.Counter(call.operation for call in proxy.calls()[before:])
            self.assertEqual({"Scan"}, set(listed), listed)
            self.assertLess(listed["Scan"], 6)
            before = len(proxy.calls())
            out = directory.replace("mnt-", "out-")
            os.makedirs(out)
            self.sh(f"ls -l > /dev/null; grep -r nothing . || true; rsync -a ./ {out}/",
                    cwd=directory)
            again = collections.Counter(call.operation for call in proxy.calls()[before:])
            self.assertEqual({}, again)
            self.assertEqual(300, len(os.listdir(out)))

    def test_a_save_is_one_read_and_one_conditional_write(self):
        self.put(id={"S": "a"}, v={"N": "1"})
        self.put(id={"S": "b"}, v={"N": "1"})
        with self.mounted("cache_ttl=600") as (proxy, directory):
            os.stat(directory)
            for work in (lambda: self.save(directory + "/a.json", '{"v": 2}'),
                         lambda: self.save(directory + "/a.json", '{"v": 3}'),
                         lambda: self.sh("sed -i 's/1/4/' b.json", cwd=directory)):
                before = len(proxy.calls())
                work()
                self.assertEqual(["GetItem", "PutItem"],
                                 [call.operation for call in proxy.calls()[before:]])
                self.assertIn("ConditionExpression", proxy.calls()[-1].json)
        self.assertEqual({"a": 3, "b": 4}, self.everything())

    def test_unreachable_is_not_absent(self):
        self.put(id={"S": "a"}, v={"N": "1"})
        with self.mounted("cache_ttl=0") as (proxy, directory):
            self.assertIn('"v": 1', open(directory + "/a.json").read())  # pylint: disable=consider-using-with
            proxy.fault("*", "error-503")
            for path in ("a.json", "none.json"):
                self.assertErrno(errno.EIO, os.stat, f"{directory}/{path}")
            self.assertErrno(errno.EIO, os.listdir, directory)
            self.assertErrno(errno.EIO, self.save, directory + "/new.json", '{"v": 5}')
            proxy.heal()
            self.assertEqual(["a.json"], [n for n in os.listdir(directory) if n[0] != "."])
            self.assertFalse(os.path.exists(directory + "/none.json"))
            self.assertEqual({"a": 1}, self.everything())

    def test_a_listing_with_a_fault_is_never_complete(self):
        for number in range(900):
            self.put(id={"S": f"k{number:03}"}, v={"N": str(number)}, pad={"S": "x" * 2000})
        with self.mounted("cache_ttl=0") as (proxy, directory):
            os.stat(directory)
            proxy.fault("Scan", "error-500", after=1)
            with self.assertRaises(OSError) as caught:
                list(os.scandir(directory))
            self.assertEqual(errno.EIO, caught.exception.errno)
            proxy.heal()
            self.assertTrue(os.path.exists(directory + "/k899.json"))
            self.assertEqual(900, len(os.listdir(directory)))

    def test_a_save_whose_answer_is_lost(self):
        with self.mounted("cache_ttl=0") as (proxy, directory):
            for kind in ("reset-after", "drop-after", "unavailable-after", "truncate"):
                with self.subTest(kind):
                    self.save(directory + "/a.json", '{"v": 1}')
                    proxy.fault("PutItem", kind, times=1)
                    self.save(directory + "/a.json", '{"v": 2}')  # its condition fails the 2nd time
                    self.assertEqual({"a": 2}, self.everything())
                    proxy.fault("PutItem", kind, times=1)
                    self.save(directory + "/b.json", '{"v": 3}')
                    proxy.fault("DeleteItem", kind, times=1)
                    os.unlink(directory + "/b.json")
                    self.assertEqual({"a": 2}, self.everything())
            proxy.check()

    def test_random_work_under_every_fault(self):
        for kind, probability in SURVIVED.items():
            with self.subTest(kind):
                self.work(kind, probability)

    def work(self, kind, probability):
        """Saves, renames, deletions and listings; the table equals the model at the end."""
        chance = random.Random(kind)
        for name in self.everything():
            self.boto.delete_item(TableName=self.table, Key={"id": {"S": name}})
        model, unsure = {}, {}  # name -> value; name -> what a failed step may have left
        with self.mounted("cache_ttl=0", seed=11) as (proxy, directory):
            proxy.fault("*", kind, probability=probability, optional=True)
            for step in range(STEPS):
                name, other = (f"k{chance.randrange(8)}" for _ in range(2))
                way = chance.choice(["save", "save", "replace", "rename", "remove", "list"])
                try:
                    self.step(directory, way, name, other, step, model, set(unsure))
                except OSError as error:
                    self.assertIn(error.errno, (errno.EIO, errno.EBUSY, errno.ESTALE, errno.ENOENT,
                                                errno.ETIMEDOUT, errno.EHOSTUNREACH))
                    touched = {name, other} if way == "rename" else {name}
                    for each in touched:
                        unsure.setdefault(each, set()).update(map(model.get, touched), {step})
            proxy.heal()
            found = self.everything()
            for name in set(model) | set(found):
                allowed = {model.get(name)} | unsure.get(name, set())
                self.assertIn(found.get(name), allowed | ({None} if name in unsure else set()),
                              f"{kind}: {name}: {found.get(name)} of {allowed}")

    def step(self, directory, way, name, other, step, model, unsure):
        path, there = f"{directory}/{name}.json", f"{directory}/{other}.json"
        if way == "save":
            self.save(path, f'{{"v": {step}}}')
            model[name] = step
        elif way == "replace":
            self.save(directory + "/.tmp", f'{{"v": {step}}}')
            os.rename(directory + "/.tmp", path)
            model[name] = step
        elif way == "rename" and name in model and name != other:
            os.rename(path, there)
            model[other] = model.pop(name)
        elif way == "remove" and name in model:
            os.unlink(path)
            del model[name]
        elif way == "list":
            names = {n.removesuffix(".json") for n in os.listdir(directory) if n[0] != "."}
            self.assertEqual(set(model) - unsure, names - unsure)


# One engine: the faults are the proxy's. It must have transactions.
for NAME in ("dynoxide", "moto"):
    MADE = for_engine(Faulty, NAME)
    globals()[MADE.__name__] = MADE
del Faulty, MADE


if __name__ == "__main__":
    unittest.main()
