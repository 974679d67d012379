# SPDX-License-Identifier: MIT
"""Saves beside other writers: what somebody else adds or changes is never overwritten, however the
requests fall, and whoever is refused is told so."""

import errno
import os
import threading
import unittest

from service import Proxy, ServiceTest, SOURCE, each_service

SAVE = "UpdateItem"


@each_service
class Saves(ServiceTest):
    def setUp(self):
        super().setUp()
        self.make()
        self.proxy = Proxy(self.engine.endpoint).__enter__()
        self.addCleanup(self.proxy.stop)
        self.mount = self.new_mount(SOURCE, f"mnt-{self.table}", ("cache_ttl=600",))
        self.mount.env = self.environment(AWS_ENDPOINT_URL=self.proxy.url)
        self.mount.start()
        self.addCleanup(self.mount.unmount)
        self.addCleanup(self.proxy.check)
        self.addCleanup(self.proxy.heal)
        self.path = os.path.join(self.mount.point, self.table, "a.json")

    def known(self, **attributes):
        """The item holds numbers, and the mount has read it."""
        self.put(id={"S": "a"}, **{name: {"N": str(value)} for name, value in attributes.items()})
        with open(self.path, encoding="utf-8") as file:
            file.read()

    def foreign(self, **attributes):
        """Somebody else sets attributes of the item."""
        for name, value in attributes.items():
            self.boto.update_item(TableName=self.table, Key={"id": {"S": "a"}},
                                  UpdateExpression="SET #n = :v",
                                  ExpressionAttributeNames={"#n": name},
                                  ExpressionAttributeValues={":v": {"N": str(value)}})

    def save(self, text):
        fd = os.open(self.path, os.O_WRONLY | os.O_TRUNC)
        os.write(fd, text.encode())
        os.close(fd)

    def now(self):
        item = self.item(id={"S": "a"})
        self.assertEqual({"S": "a"}, item.pop("id"))
        return {name: int(value["N"]) for name, value in item.items()}

    def assertRefused(self, code, text, reason=""):
        self.assertErrno(code, self.save, text)
        folder = os.path.join(self.mount.point, ".itemfs", "drafts", self.table)
        [name] = os.listdir(folder)
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            self.assertEqual(text, file.read())
        self.assertIn(reason, os.getxattr(os.path.join(folder, name), "user.itemfs.error").decode())

    def held(self, text, meanwhile):
        """The save's first request has been applied when MEANWHILE happens; gives the errno."""
        result = []

        def run():
            try:
                self.save(text)
                result.append(0)
            except OSError as error:
                result.append(error.errno)
        self.proxy.fault(SAVE, "hold-after", times=1)
        thread = threading.Thread(target=run)
        thread.start()
        try:
            self.proxy.wait_held(1)
            meanwhile()
        finally:
            self.proxy.let_go()
            thread.join()
        return result[0]

    def test_only_what_differs_is_written(self):
        self.known(a=1, b=2, c=3)
        self.save('{"a": 1, "b": 5, "d": 4}')
        self.assertEqual({"a": 1, "b": 5, "d": 4}, self.now())
        [call] = self.proxy.calls(SAVE)
        self.assertEqual({"#a0": "b", "#a1": "d", "#a2": "c", "#a3": "a", "#p": "id"},
                         call.json["ExpressionAttributeNames"])
        self.assertEqual("SET #a0 = :s0, #a1 = :s1 REMOVE #a2", call.json["UpdateExpression"])
        self.assertEqual("attribute_exists(#p) AND #a0 = :a0 AND attribute_not_exists(#a1) AND "
                         "#a2 = :a2 AND #a3 = :a3", call.json["ConditionExpression"])

    def test_an_added_attribute_is_a_conflict(self):
        self.known(a=1)
        self.foreign(b=7)
        self.assertRefused(errno.ESTALE, '{"a": 2}')
        self.assertEqual({"a": 1, "b": 7}, self.now())

    def test_the_same_attribute_added_is_a_conflict(self):
        self.known(a=1)
        self.foreign(b=7)
        self.assertRefused(errno.ESTALE, '{"a": 1, "b": 8}')
        self.assertEqual({"a": 1, "b": 7}, self.now())
        self.assertEqual(1, len(self.proxy.calls(SAVE)))  # refused at once

    def test_an_attribute_added_before_the_save_is_taken_back(self):
        self.known(a=1, old=4)
        self.foreign(b=7)
        self.assertEqual(errno.ESTALE, self.held('{"a": 2, "new": 5}', lambda: self.foreign(c=8)))
        self.assertEqual({"a": 1, "old": 4, "b": 7, "c": 8}, self.now())

    def test_a_save_that_cannot_be_taken_back(self):
        self.known(a=1)
        self.foreign(b=7)
        self.proxy.fault(SAVE, "throttle", after=1)
        self.assertRefused(errno.EIO, '{"a": 2}', "was changed meanwhile, and what was saved over "
                                                  "it is not taken back: UpdateItem")
        self.assertEqual({"a": 2, "b": 7}, self.now())

    def test_what_was_saved_is_changed_before_it_is_taken_back(self):
        self.known(a=1)
        self.foreign(b=7)
        self.assertEqual(errno.EIO, self.held('{"a": 2, "c": 3}', lambda: self.foreign(a=9)))
        self.assertEqual({"a": 9, "b": 7, "c": 3}, self.now())

    def test_a_lost_answer(self):
        for kind in ("reset-after", "unavailable-after"):
            with self.subTest(kind):
                self.known(a=1)
                self.proxy.fault(SAVE, kind, times=1)
                self.save('{"a": 2}')
                self.assertEqual({"a": 2}, self.now())
                self.proxy.fault(SAVE, kind, times=1)
                self.save('{"a": 2, "b": 5}')
                self.assertEqual({"a": 2, "b": 5}, self.now())
                self.proxy.fault(SAVE, kind, times=1)
                self.save('{"b": 5}')
                self.assertEqual({"b": 5}, self.now())

    def test_a_lost_answer_and_a_conflict(self):
        self.known(a=1)
        self.foreign(b=7)
        self.proxy.fault(SAVE, "reset-after", times=1)
        self.assertRefused(errno.ESTALE, '{"a": 2}')
        self.assertEqual({"a": 1, "b": 7}, self.now())

    def test_many_attributes(self):
        """More than fit into a condition: what differs is in it before all others."""
        names = [f"n{number:03}" for number in range(300)]
        for place in (0, 150, 299):
            with self.subTest(place):
                self.known(**{name: 1 for name in names})
                self.foreign(**{names[place]: 7})
                other = names[place - 1]
                text = ", ".join(f'"{name}": {2 if name == other else 1}' for name in names)
                self.assertErrno(errno.ESTALE, self.save, "{" + text + "}")
                self.assertEqual({**{name: 1 for name in names}, names[place]: 7}, self.now())

    def test_many_changes_at_once(self):
        names = [f"n{number:03}" for number in range(150)]
        self.known(**{name: 1 for name in names})
        self.save("{" + ", ".join(f'"{name}": 2' for name in names) + "}")
        self.assertEqual({name: 2 for name in names}, self.now())

    def test_nothing_that_is_added_beside_an_editor_is_lost(self):
        self.known(a=0)
        added = threading.Thread(target=lambda: self.foreign(**{f"x{n}": n for n in range(60)}))
        added.start()
        saved = number = 0
        while added.is_alive() or saved == 0:
            number += 1
            try:
                with open(self.path, "r+", encoding="utf-8") as file:
                    text = file.read().replace(f'"a": {saved}', f'"a": {number}')
                    file.seek(0)
                    file.write(text)
                    file.truncate()
                saved = number
            except OSError as error:
                self.assertEqual(errno.ESTALE, error.errno)
        added.join()
        self.assertEqual({"a": saved, **{f"x{n}": n for n in range(60)}}, self.now())


if __name__ == "__main__":
    unittest.main()
