# SPDX-License-Identifier: MIT
"""Policies that allow one table and not the next, or one operation and not the other."""

import errno
import json
import os
import subprocess
import unittest

from service import ITEMCTL, Proxy, SOURCE, ServiceTest, fresh_name, wait_for
from engines import for_engine  # pylint: disable=wrong-import-order
from harness import ITEMFS  # pylint: disable=wrong-import-order
import wire  # pylint: disable=wrong-import-order

MESSAGE = "User: arn:aws:iam::123456789012:user/x is not authorized to perform: dynamodb:{}"


class Denying(Proxy):
    """Refuses operations, on one table or on all."""

    def __init__(self, endpoint):
        super().__init__(endpoint)
        self.denied = {}  # (operation, table or None) -> name of the error

    def deny(self, operation, table=None, name="AccessDeniedException"):
        self.denied[operation, table] = name

    def pass_on(self, request, body=None):
        table = request.json.get("TableName")
        name = self.denied.get((request.operation, table),
                               self.denied.get((request.operation, None)))
        if name:
            return wire.error_answer(name, MESSAGE.format(request.operation), 400)
        return super().pass_on(request, body)

    def operations(self, since=0):
        return [(call.operation, call.json.get("TableName")) for call in self.calls()[since:]]


class Access(ServiceTest):
    def setUp(self):
        super().setUp()
        self.make()
        self.put(id={"S": "a"}, v={"N": "1"})
        self.other = fresh_name()
        self.addCleanup(self.forget, self.other)
        self.boto.create_table(TableName=self.other, BillingMode="PAY_PER_REQUEST",
                               KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
                               AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}])
        wait_for("the table", lambda: self.boto.describe_table(TableName=self.other)
                 ["Table"]["TableStatus"] == "ACTIVE", 60)
        self.proxy = Denying(self.engine.endpoint).__enter__()
        self.addCleanup(self.proxy.__exit__, None, None, None)

    def start(self, *options, source=SOURCE):
        mount = self.new_mount(source, f"mnt-{self.table}", ("cache_ttl=0", *options))
        mount.env = self.environment(AWS_ENDPOINT_URL=self.proxy.url)
        mount.start()
        self.addCleanup(mount.unmount)
        return mount

    def ctl(self, *arguments, status=0, source=SOURCE):
        return self.run_tool([ITEMCTL, "-s", source, *arguments], status,
                             env=self.environment(AWS_ENDPOINT_URL=self.proxy.url))

    def reason(self, operation, table=None):
        return (f"{'table ' + table + ': ' if table else ''}{operation}: AccessDeniedException: " +
                MESSAGE.format(operation))

    def works(self, directory):
        with open(directory + "/a.json", encoding="utf-8") as file:
            self.assertEqual({"id": "a", "v": 1}, json.load(file))
        with open(directory + "/b.json", "w", encoding="utf-8") as file:
            file.write('{"v": 2}')
        self.assertEqual({"N": "2"}, self.item(id={"S": "b"})["v"])

    # One table may not be described.

    def test_a_mount_shows_the_other_tables(self):
        self.proxy.deny("DescribeTable", self.other)
        mount = self.start()
        names = os.listdir(mount.point)
        self.assertLessEqual({self.table, self.other}, set(names))
        self.works(os.path.join(mount.point, self.table))
        self.assertErrno(errno.EACCES, os.stat, os.path.join(mount.point, self.other))
        reason = self.reason("DescribeTable", self.other)
        self.assertEqual(reason, os.getxattr(mount.point, "user.itemfs.error").decode()[:len(reason)])
        self.assertIn(f"warning: tables: forbidden: {reason}", mount.log_text())

    def test_a_copy_keeps_what_is_forbidden(self):
        mount = self.start()
        out = os.path.join(self.place, "copy")
        copy = ["rsync", "-a", "--delete", "--exclude", ".itemfs", mount.point + "/", out]
        with open(f"{mount.point}/{self.other}/kept.json", "w", encoding="utf-8") as file:
            file.write("{}")
        self.run_tool(copy)
        self.proxy.deny("DescribeTable", self.other)
        path = os.path.join(mount.point, self.other)
        wait_for("the refusal", lambda: self.error_of(os.stat, path) == errno.EACCES)
        self.run_tool(copy, 23)
        self.assertTrue(os.path.exists(f"{out}/{self.other}/kept.json"))
        self.assertTrue(os.path.exists(f"{out}/{self.table}/a.json"))

    def test_a_table_that_is_forbidden_later(self):
        """Others stay; and it is there again at once where it is named."""
        mount = self.start()
        self.assertLessEqual({self.table, self.other}, set(os.listdir(mount.point)))
        self.proxy.deny("DescribeTable", self.other)
        path = os.path.join(mount.point, self.other)
        wait_for("the refusal", lambda: self.error_of(os.stat, path) == errno.EACCES)
        self.assertLessEqual({self.table, self.other}, set(os.listdir(mount.point)))
        self.proxy.denied.clear()
        wait_for("the permission", lambda: self.error_of(os.stat, path) is None)
        self.assertIn(self.other, os.listdir(mount.point))

    @staticmethod
    def error_of(function, *arguments):
        try:
            function(*arguments)
        except OSError as error:
            return error.errno
        return None

    def test_itemctl_tells_of_it_and_goes_on(self):
        self.proxy.deny("DescribeTable", self.other)
        told = f"itemctl: left out: {self.reason('DescribeTable', self.other)}"
        for command in ("tables", "estimate", "status"):
            with self.subTest(command):
                done = self.ctl(command)
                self.assertIn(f'"{self.table}"', done.stdout)
                self.assertNotIn(f'"{self.other}"', done.stdout)
                self.assertEqual([told], [line[:len(told)] for line in done.stderr.splitlines()
                                          if self.other in line])
        done = self.ctl("scan", self.other, status=1)
        self.assertIn(self.reason("DescribeTable", self.other), done.stderr)

    def test_a_table_that_is_named_needs_no_other(self):
        before = len(self.proxy.calls())
        self.assertEqual(1, len(self.ctl("scan", self.table).stdout.splitlines()))
        described = {table for operation, table in self.proxy.operations(before)
                     if operation == "DescribeTable"}
        self.assertEqual({self.table}, described)

    def test_other_errors_fail_the_listing(self):
        """A listing never looks complete when it is not."""
        mount = self.start()
        for name in ("InternalServerError", "ValidationException", "ExpiredTokenException",
                     "UnrecognizedClientException"):
            with self.subTest(name):
                self.proxy.deny("DescribeTable", self.other, name)
                self.assertIn(name, self.ctl("tables", status=1).stderr)
                self.proxy.denied.clear()
        self.proxy.deny("ListTables", None, "UnrecognizedClientException")
        self.assertIn("UnrecognizedClientException", self.ctl("scan", self.table, status=1).stderr)
        mount.alive()

    # Tables may not be listed.

    def test_without_a_list_tables_can_be_named(self):
        self.proxy.deny("ListTables")
        mount = self.start()
        self.assertErrno(errno.EACCES, os.listdir, mount.point)
        reason = self.reason("ListTables")
        self.assertEqual(reason, os.getxattr(mount.point, "user.itemfs.error").decode()[:len(reason)])
        self.works(os.path.join(mount.point, self.table))
        self.assertErrno(errno.ENOENT, os.stat, os.path.join(mount.point, "no-such-table"))
        self.assertIn(f"warning: tables: they cannot be listed: {reason}", mount.log_text())
        self.assertEqual(2, len(self.ctl("scan", self.table).stdout.splitlines()))
        self.assertIn(reason, self.ctl("tables", status=1).stderr)

    def test_one_table_that_is_mounted_needs_nothing_else(self):
        self.proxy.deny("ListTables")
        self.proxy.deny("DescribeTable", self.other)
        mount = self.start(source=f"{SOURCE}/{self.table}")
        self.assertEqual({self.table}, set(os.listdir(mount.point)) - {".itemfs"})
        self.works(os.path.join(mount.point, self.table))
        self.assertNotIn("ListTables", {operation for operation, _ in self.proxy.operations()})

    def test_a_forbidden_table_cannot_be_mounted_by_itself(self):
        self.proxy.deny("DescribeTable", self.other)
        point = os.path.join(self.place, f"alone-{self.table}")
        os.mkdir(point)
        done = subprocess.run([ITEMFS, f"{SOURCE}/{self.other}", point], capture_output=True,
                              text=True, timeout=60, check=False,
                              env=self.environment(AWS_ENDPOINT_URL=self.proxy.url))
        self.assertEqual(1, done.returncode)
        self.assertIn(self.reason("DescribeTable", self.other), done.stderr)

    def test_a_section_of_a_forbidden_table(self):
        self.proxy.deny("DescribeTable", self.other)
        config = os.path.join(self.place, f"{self.table}.conf")
        with open(config, "w", encoding="utf-8") as file:
            file.write("[backend b]\ntype = dynamodb\nregion = us-east-1\n"
                       f"[table {self.other}]\nshow_keys = no\n")
        done = self.ctl("scan", self.table, source=config)
        self.assertEqual(1, len(done.stdout.splitlines()))
        self.assertIn(f"[table {self.other}]: {self.reason('DescribeTable', self.other)}", done.stderr)

    def test_another_backend_may_have_the_name(self):
        store = os.path.join(self.place, f"{self.table}.db")
        self.run_tool([ITEMCTL, "-s", store, "create", "notes", "--key", "id"])
        config = os.path.join(self.place, f"{self.table}.conf")
        with open(config, "w", encoding="utf-8") as file:
            file.write("[backend b]\ntype = dynamodb\nregion = us-east-1\n"
                       f"[backend c]\ntype = sqlite\npath = {store}\n")
        self.proxy.deny("DescribeTable", "notes")
        self.proxy.deny("DescribeTable", self.other)
        self.assertEqual("", self.ctl("scan", "notes", source=config).stdout)
        self.assertIn(self.reason("DescribeTable", self.other),
                      self.ctl("scan", self.other, status=1, source=config).stderr)

    # The time to live is not told.

    def test_without_a_time_to_live(self):
        self.boto.update_time_to_live(TableName=self.table, TimeToLiveSpecification={
            "Enabled": True, "AttributeName": "ends"})
        self.put(id={"S": "old"}, ends={"N": "1700000000"})
        self.assertEqual(1, len(self.ctl("scan", self.table).stdout.splitlines()))
        self.proxy.deny("DescribeTimeToLive")
        told = f"table {self.table}: the service denies DescribeTimeToLive"
        done = self.ctl("scan", self.table)
        self.assertEqual(2, len(done.stdout.splitlines()))
        self.assertIn(f"itemctl: warning: tables: {told}", done.stderr)
        mount = self.start()
        directory = os.path.join(mount.point, self.table)
        self.assertEqual({"a.json", "old.json"}, set(os.listdir(directory)))
        self.works(directory)
        self.assertEqual(1, mount.log_text().count(told))


Access_dynoxide = for_engine(Access, "dynoxide")
del Access

if __name__ == "__main__":
    unittest.main()
