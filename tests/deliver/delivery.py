# SPDX-License-Identifier: MIT
"""What the tests of delivery share: a store of its own for each test, its configuration with
functions, mounts of it, and a function.

A backend other than the embedded store has its own `backend` section and environment; the tests
themselves go through itemctl and the mount.
"""

import json
import os
import re
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "mounted")]

from harness import ITEMCTL, ITEMFS, LONG, ROOT, PlaceTest, wait_for  # noqa: E402  pylint: disable=wrong-import-position
from function import Function, make_certificates  # noqa: E402  pylint: disable=wrong-import-position
from store import Store  # noqa: E402  pylint: disable=wrong-import-position

__all__ = ["DeliveryTest", "Function", "ITEMCTL", "ITEMFS", "LONG", "ROOT", "VECTORS", "make_certificates", "unittest",
           "wait_for"]

with open(os.path.join(HERE, "..", "vectors", "kernstack.json"), encoding="utf-8") as vectors:
    VECTORS = json.load(vectors)["cases"]

RETRY = 0.1  # seconds; the usual second would make the tests long


class DeliveryTest(PlaceTest):
    table = "users"

    def setUp(self):
        name = re.sub(r"[^a-z0-9]+", "-", self.id().split(".")[-1])[:60]
        self.dir = os.path.join(self.place, name)
        os.mkdir(self.dir)
        self.db = os.path.join(self.dir, "items.db")
        self.conf = os.path.join(self.dir, "mount.conf")
        self.store = Store(self.db, ITEMCTL, self.environment())
        self.mounts = []
        self.write_config()
        self.create()

    def function(self, *arguments, **more):
        """A Function that listens until the end of the test."""
        function = Function(*arguments, **more).start()
        self.addCleanup(function.stop)
        return function

    # The store and its configuration.

    def backend_section(self):
        return f"[backend store]\npath = {self.db}\n"

    def write_config(self, function=None, *, more="", **keys):
        """The configuration of the one table. FUNCTION: a Function, or what the key says."""
        lines = [self.backend_section(), f"[table {self.table}]", "stream = on"]
        if function is not None:
            keys = {"function_retry": RETRY, **keys}
            lines.append(f"function = {getattr(function, 'url', function)}")
            lines += [f"{name} = {value}" for name, value in keys.items()]
        with open(self.conf, "w", encoding="utf-8") as file:
            file.write("\n".join([*lines, more]) + "\n")

    def itemctl(self, *arguments, status=0, **more):
        return self.run_tool([ITEMCTL, "-s", self.conf, *arguments], status, **more)

    def create(self, *options):
        self.itemctl("create", self.table, "--key", "id", *options)

    def put(self, *items, table=None):
        """Typed items, each as a dict; one save each."""
        text = "\n".join(json.dumps(item) for item in items)
        self.itemctl("put", table or self.table, "--items", "-", input=text)

    def put_numbers(self, first, last):
        self.put(*({"id": {"S": f"k{number}"}, "n": {"N": str(number)}}
                   for number in range(first, last)))

    def make_older(self, seconds):
        """All changes so far were made SECONDS earlier than they were."""
        self.run_tool(["sqlite3", self.db,
                       f"UPDATE change SET time = time - {int(seconds * 1e9)}"])

    # Mounts.

    def mounted(self, name="mnt", options=(), source=None, program=ITEMFS, **env):
        mount = self.new_mount(source or self.conf, os.path.join(self.dir, name), options, program=program)
        mount.env = self.environment(**env)
        self.mounts.append(mount)
        self.addCleanup(self.end, mount)
        return mount.start()

    def end(self, mount):
        """What a test leaves mounted ends well, and has said nothing alarming."""
        if mount.process.poll() is None:
            mount.terminate()

    def status(self, mount, table=None):
        """What status.json says of the delivery of the table."""
        with open(os.path.join(mount.point, ".itemfs", "status.json"), encoding="utf-8") as file:
            found = json.load(file)["delivery"]
        return next(entry for entry in found if entry["table"] == (table or self.table))

    def wait_status(self, mount, table=None, **wanted):
        """Until it says all of WANTED; returns it."""
        def reached():
            status = self.status(mount, table)
            good = all(status.get(name) == value for name, value in wanted.items())
            return status if good else None
        try:
            return wait_for(f"{wanted}", reached, 60)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.status(mount, table)}\n{mount.log_text()}") from None

    def metrics(self, mount):
        """name -> value, of the one table."""
        with open(os.path.join(mount.point, ".itemfs", "metrics"), encoding="utf-8") as file:
            found = re.findall(r'^itemfs_delivery_(\w+)\{table="([^"]*)"\} (\S+)$', file.read(), re.M)
        return {name: float(value) for name, table, value in found if table == self.table}

    def wait_log(self, mount, pattern):
        return wait_for(f"{pattern} in the log", lambda: re.search(pattern, mount.log_text()))
