# SPDX-License-Identifier: MIT
"""Renames on a service without transactions: a journalled sequence (backend/beside_journal.c). The
daemon is killed at each step, others write in between, requests of the dead come late."""

import contextlib
import ctypes
import errno
import os
import threading
import unittest

from service import Alternator, ServiceTest, SOURCE, wait_for

# Where a rename is cut short: the request, or the answer to it, that is on its way.
PUT, PUT_DONE = ("PutItem|UpdateItem", "hold"), ("PutItem|UpdateItem", "hold-after")
DELETE, DELETE_DONE = ("DeleteItem", "hold"), ("DeleteItem", "hold-after")
MOVE = (PUT, PUT_DONE, DELETE, DELETE_DONE)

LIBC = ctypes.CDLL(None, use_errno=True)
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2


def rename(old, new, flags):
    if LIBC.renameat2(-100, os.fsencode(old), -100, os.fsencode(new), flags):
        raise OSError(ctypes.get_errno(), "rename")


class Journal(ServiceTest):
    @classmethod
    def setUpClass(cls):
        cls.engine = Alternator()
        cls.proxy = cls.engine.proxy
        cls.addClassCleanup(cls.proxy.stop)
        super().setUpClass()
        cls.mount = cls.new_mount(SOURCE, "mnt", ("cache_ttl=0",))
        cls.mount.env = cls().environment()

    def setUp(self):
        super().setUp()
        self.make()
        self.mount.start()
        self.addCleanup(self.mount.unmount)
        self.addCleanup(self.engine.check)
        self.addCleanup(self.proxy.heal)

    def path(self, name):
        return os.path.join(self.mount.point, self.table, name)

    def has(self, **values):
        """What the table holds from now on, written by somebody else; None: not there."""
        for name, value in values.items():
            if value is None:
                self.boto.delete_item(TableName=self.table, Key={"id": {"S": name}})
            else:
                self.put(id={"S": name}, v={"N": str(value)})

    def items(self):
        found = self.boto.scan(TableName=self.table, ConsistentRead=True)["Items"]
        return {item["id"]["S"]: int(item["v"]["N"]) for item in found}

    def drafts(self):
        """{name without its suffix: body}."""
        folder = os.path.join(self.mount.point, ".itemfs", "drafts", self.table)
        bodies = {}
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                bodies[name.rpartition(".")[0]] = file.read()
            reason = os.getxattr(os.path.join(folder, name), "user.itemfs.error").decode()
            self.assertIn("a change of several files was cut short", reason)
        return bodies

    @staticmethod
    def body(name, value):
        return f'{{\n  "id": "{name}",\n  "v": {value}\n}}\n'

    @contextlib.contextmanager
    def held(self, step, work, after=0):
        """WORK under way, and held at STEP; gives the list that gets its error, None: it came
        through. In the end it goes on."""
        operation, kind = step
        errors = []

        def run():
            try:
                work()
                errors.append(None)
            except OSError as error:
                errors.append(error.errno)
        self.proxy.fault(operation, kind, times=1, after=after)
        thread = threading.Thread(target=run)
        thread.start()
        try:
            self.proxy.wait_held(1)
            yield errors
        finally:
            self.proxy.let_go()
            thread.join()

    def kill(self, step, work, after=0, meanwhile=None):
        """The daemon dies at STEP of WORK; MEANWHILE happens, and it is started again. Gives what
        the table holds then, and after the dead daemon's request has come."""
        with self.held(step, work, after):
            self.mount.kill()
            self.mount.rescue()
            self.has(**meanwhile or {})
            self.mount.start()
            settled = self.items()
        return settled, self.items()

    def put_item(self, name, value, status=0):
        """By another process with the same state database."""
        return self.itemctl("put", self.table, "--item", "-", status=status,
                            input=f'{{"id":{{"S":"{name}"}},"v":{{"N":"{value}"}}}}')

    def move(self):
        os.rename(self.path("a.json"), self.path("b.json"))

    def exchange(self):
        rename(self.path("a.json"), self.path("b.json"), RENAME_EXCHANGE)

    def test_a_killed_move_is_completed(self):
        for before in ({"a": 1}, {"a": 1, "b": 2}):
            for step in MOVE:
                with self.subTest(before=before, step=step):
                    self.has(**{"a": None, "b": None, **before})
                    self.assertEqual(({"b": 1}, {"b": 1}), self.kill(step, self.move))
                    self.assertEqual({}, self.drafts())

    def test_a_killed_exchange_is_completed(self):
        for step in (PUT, PUT_DONE):
            for after in (0, 1):
                with self.subTest(step=step, after=after):
                    self.has(a=1, b=2)
                    want = {"a": 2, "b": 1}
                    self.assertEqual((want, want), self.kill(step, self.exchange, after))
                    self.assertEqual({}, self.drafts())

    def test_a_killed_move_that_others_have_met_is_undone(self):
        for step, before, meanwhile, settled, late, drafts in (
                # The target is somebody else's now.
                (PUT, {"a": 1}, {"b": 9}, {"a": 1, "b": 9}, {}, {}),
                (PUT_DONE, {"a": 1}, {"b": 9}, {"a": 1, "b": 9}, {}, {}),
                (DELETE, {"a": 1}, {"b": 9}, {"a": 1, "b": 9}, {"a": None}, {}),
                (DELETE, {"a": 1, "b": 2}, {"b": 9}, {"a": 1, "b": 9}, {"a": None}, {"b": 2}),
                # What was to be moved is another item now, and stays.
                (PUT, {"a": 1}, {"a": 9}, {"a": 9}, {"b": 1}, {}),
                (PUT_DONE, {"a": 1}, {"a": 9}, {"a": 9}, {}, {"a": 1}),
                (PUT_DONE, {"a": 1, "b": 2}, {"a": 9}, {"a": 9, "b": 2}, {}, {"a": 1}),
                (DELETE, {"a": 1}, {"a": 9}, {"a": 9}, {}, {"a": 1}),
                (DELETE_DONE, {"a": 1}, {"a": 9}, {"a": 9}, {}, {"a": 1}),
                # It is gone: either all is done, or there is nothing to do.
                (PUT, {"a": 1}, {"a": None}, {}, {"b": 1}, {}),
                (DELETE, {"a": 1}, {"a": None}, {"b": 1}, {}, {})):
            with self.subTest(step=step, before=before, meanwhile=meanwhile):
                self.has(**{"a": None, "b": None, **before})
                after = {n: v for n, v in {**settled, **late}.items() if v is not None}
                self.assertEqual((settled, after), self.kill(step, self.move, 0, meanwhile))
                self.assertEqual({f"{n}.json": self.body(n, v) for n, v in drafts.items()},
                                 self.drafts())
                self.forget_drafts()

    def test_a_killed_exchange_that_others_have_met_is_undone(self):
        for step, after, meanwhile, settled, drafts in (
                (PUT, 1, {"a": 9}, {"a": 9, "b": 2}, {"a": 1}),
                (PUT, 1, {"b": 9}, {"a": 1, "b": 9}, {"b": 2}),
                (PUT_DONE, 1, {"a": 9}, {"a": 9, "b": 2}, {"a": 1}),
                (PUT_DONE, 1, {"b": 9}, {"a": 1, "b": 9}, {"b": 2})):
            with self.subTest(step=step, meanwhile=meanwhile):
                self.has(a=1, b=2)
                self.assertEqual(settled, self.kill(step, self.exchange, after, meanwhile)[0])
                self.assertEqual({f"{n}.json": self.body(n, v) for n, v in drafts.items()},
                                 self.drafts())
                self.forget_drafts()

    def test_an_exchange_with_a_file_is_undone(self):
        """What is put beside the items is not in the journal. A request of the dead daemon can
        still overwrite the item, so what it was is kept in any case."""
        for step, late, drafts in ((PUT, 5, {"a.json": self.body("a", 1)}), (PUT_DONE, 1, {})):
            with self.subTest(step=step):
                self.has(a=1)
                with open(self.path(".tmp"), "w", encoding="utf-8") as file:
                    file.write('{"v": 5}')
                self.assertEqual(({"a": 1}, {"a": late}), self.kill(step, lambda: rename(
                    self.path("a.json"), self.path(".tmp"), RENAME_EXCHANGE)))
                self.assertEqual(drafts, self.drafts())
                self.forget_drafts()
                with open(self.path(".tmp"), encoding="utf-8") as file:
                    self.assertEqual('{"v": 5}', file.read())

    def test_a_table_that_is_gone(self):
        self.has(a=1)
        with self.held(DELETE, self.move):
            self.mount.kill()
            self.mount.rescue()
            self.forget(self.table)
            self.make()
            self.has(c=3)
            self.mount.start()
            self.assertEqual({"c": 3}, self.items())
            self.assertEqual({"item.json": '{"id":{"S":"a"},"v":{"N":"1"}}'}, self.drafts())
        self.assertEqual({"c": 3}, self.items())
        self.forget_drafts()

    def test_others_change_an_item_under_way(self):
        """The batch is undone, and the kernel looks again: what is moved then is what they wrote."""
        for step, meanwhile in ((PUT, {"a": 9}), (PUT_DONE, {"a": 9}), (DELETE, {"a": 9})):
            with self.subTest(step=step):
                self.has(a=1, b=None)
                before = len(self.proxy.calls("PutItem"))
                with self.held(step, self.move) as errors:
                    self.has(**meanwhile)
                self.assertEqual(([None], {"b": 9}), (errors, self.items()))
                self.assertEqual(["1", "9", "9"], [call.json["Item"]["v"]["N"] for call in
                                                   self.proxy.calls("PutItem")[before:]])
                self.assertEqual({}, self.drafts())

    def test_others_take_a_name_under_way(self):
        self.has(a=1)
        with self.held(PUT, lambda: rename(self.path("a.json"), self.path("b.json"),
                                           RENAME_NOREPLACE)) as errors:
            self.has(b=9)
        self.assertEqual(([errno.EEXIST], {"a": 1, "b": 9}), (errors, self.items()))
        self.assertEqual({}, self.drafts())

    def test_nobody_ends_what_is_under_way(self):
        self.has(a=1)
        with self.held(DELETE, self.move) as errors:
            self.assertEqual(2, len(self.lines("scan", self.table)))
            self.put_item("c", 3)
            self.assertEqual({"a": 1, "b": 1, "c": 3}, self.items())
        self.assertEqual(([None], {"b": 1, "c": 3}), (errors, self.items()))

    def test_whoever_comes_first_ends_what_was_cut_short(self):
        for comes in (lambda: self.lines("scan", self.table),
                      lambda: self.put_item("c", 3)):
            self.has(a=1, b=None, c=3)
            with self.held(DELETE, self.move):
                self.mount.kill()
                self.mount.rescue()
                self.mount.options.append("ro")  # which changes nothing, not even this
                self.mount.start()
                self.assertEqual({"a.json", "b.json", "c.json"},
                                 set(os.listdir(os.path.dirname(self.path("")))))
                self.mount.unmount()
                self.mount.options.remove("ro")
                self.assertEqual({"a": 1, "b": 1, "c": 3}, self.items())
                comes()
                self.assertEqual({"b": 1, "c": 3}, self.items())
            self.mount.start()

    def test_a_service_that_breaks_in_between(self):
        self.has(a=1)
        self.proxy.fault("DeleteItem", "error-503")
        self.assertErrno(errno.EIO, self.move)
        self.assertEqual({"a": 1, "b": 1}, self.items())
        # Neither item is written before that is settled; others are.
        refused = self.put_item("b", 5, status=1)
        self.assertEqual(f"itemctl: -: {self.table}/b: a change that was cut short cannot be ended "
                         "yet: DeleteItem, tried 4 times: ServiceUnavailable: Service is "
                         "unavailable\n", refused.stderr)
        self.put_item("c", 3)
        self.assertEqual({"a": 1, "b": 1, "c": 3}, self.items())
        self.proxy.heal()
        wait_for("the keeper", lambda: self.items() == {"b": 1, "c": 3})
        os.rename(self.path("b.json"), self.path("a.json"))
        self.assertEqual({"a": 1, "c": 3}, self.items())
        self.assertEqual({}, self.drafts())

    def forget_drafts(self):
        folder = os.path.join(self.mount.point, ".itemfs", "drafts", self.table)
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            os.unlink(os.path.join(folder, name))


if __name__ == "__main__":
    unittest.main()
