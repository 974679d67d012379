# SPDX-License-Identifier: MIT
"""A store and a service in one mount."""

import errno
import os
import subprocess
import unittest

from service import ITEMCTL, ServiceTest, wait_for
from engines import for_engine  # pylint: disable=wrong-import-order

CONFIG = """[mount]
cache_ttl = 0
[backend local]
type = sqlite
path = {store}
[backend remote]
type = dynamodb
region = us-east-1
tables = {table}, {table}-new
[table {table}-new]
backend = remote
"""


class TwoBackends(ServiceTest):
    def setUp(self):
        super().setUp()
        self.make()
        self.store = os.path.join(self.place, f"{self.table}.db")
        config = os.path.join(self.place, "both.conf")
        with open(config, "w", encoding="utf-8") as out:
            out.write(CONFIG.format(store=self.store, table=self.table))
        self.run_tool([ITEMCTL, "-s", self.store, "create", "notes", "--key", "id"])
        self.mount = self.new_mount(config, f"both-{self.table}", ())
        self.mount.env = self.environment()
        self.mount.start()
        self.addCleanup(self.mount.unmount)
        self.addCleanup(self.forget, self.table + "-new")

    def path(self, *parts):
        return os.path.join(self.mount.point, *parts)

    def in_store(self, sql):
        done = subprocess.run(["sqlite3", self.store, sql], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def test_tables_of_both(self):
        self.assertEqual({"notes", self.table}, set(os.listdir(self.mount.point)) - {".itemfs"})
        for folder in ("notes", self.table):
            with open(self.path(folder, "a.json"), "w", encoding="utf-8") as file:
                file.write('{"v": 1}')
        self.assertEqual({"id": {"S": "a"}, "v": {"N": "1"}}, self.item(id={"S": "a"}))
        self.assertEqual("1", self.in_store("SELECT count(*) FROM items"))

    def test_new_tables_go_where_they_belong(self):
        os.mkdir(self.path("here"))
        os.mkdir(self.path(self.table + "-new"))
        names = self.boto.list_tables()["TableNames"]
        self.assertIn(self.table + "-new", names)
        self.assertNotIn("here", names)

    def test_a_table_that_is_dropped_elsewhere(self):
        os.mkdir(self.path(self.table + "-new"))
        self.forget(self.table)
        self.wait_for_names({"notes", self.table + "-new"})

    def wait_for_names(self, names):
        wait_for(names, lambda: set(os.listdir(self.mount.point)) - {".itemfs"} == names)

    def test_moving_between_them_is_copying(self):
        with open(self.path("notes", "a.json"), "w", encoding="utf-8") as file:
            file.write('{"v": 1}')
        self.assertErrno(errno.EXDEV, os.rename, self.path("notes", "a.json"),
                         self.path(self.table, "a.json"))
        self.sh(f"mv notes/a.json {self.table}/b.json", cwd=self.mount.point)
        self.assertEqual([], [n for n in os.listdir(self.path("notes")) if n[0] != "."])
        self.assertEqual({"N": "1"}, self.item(id={"S": "b"})["v"])


TwoBackends_dynoxide = for_engine(TwoBackends, "dynoxide")
del TwoBackends

if __name__ == "__main__":
    unittest.main()
