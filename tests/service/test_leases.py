# SPDX-License-Identifier: MIT
"""Leases on a service: whoever sees the count that stands may take one, and no other; a lost answer
looks like nobody else's doing."""

import contextlib
import os
import unittest

from service import ITEMCTL, MountedServiceTest, ServiceTest, each_service
from engines import fresh_name  # pylint: disable=wrong-import-order
from scripted import Scripted  # pylint: disable=wrong-import-order
from stream_reader import Failed, Reader

LEASES = "itemfs-leases"


class Leases(ServiceTest):
    def setUp(self):
        self.name = fresh_name("lease")

    def holder(self, url=None, options=()):
        """Somebody who takes leases, perhaps at the address URL."""
        more = {"AWS_ENDPOINT_URL": url} if url else {}
        return Reader(self, self.environment(**more), "none", None, options)

    def lease(self, holder):
        found = holder.tell("lease", self.name)
        return found["count"], found["holder"], found["position"]

    def hold(self, holder, count, who, position="-"):
        return holder.tell("hold", self.name, count, who, position)

    def refused(self, *arguments):
        with self.assertRaisesRegex(Failed, f"ESTALE.*the lease of {self.name} has moved on"):
            self.hold(*arguments)

    @contextlib.contextmanager
    def server(self):
        """In front of the engine."""
        with Scripted(self.engine.endpoint) as server:
            yield server

    def test_an_item_of_a_table_made_on_demand(self):
        self.forget(LEASES)
        me, you = self.holder(), self.holder()
        self.assertEqual((0, "", ""), self.lease(me))
        self.refused(me, 5, "me")
        self.assertNotIn(LEASES, self.boto.list_tables()["TableNames"])
        self.hold(me, 0, "me", "behind,5")
        self.assertEqual((1, "me", "behind,5"), self.lease(you))
        found = self.boto.describe_table(TableName=LEASES)["Table"]
        self.assertEqual([{"AttributeName": "table", "KeyType": "HASH"}], found["KeySchema"])
        self.assertEqual("PAY_PER_REQUEST", found["BillingModeSummary"]["BillingMode"])
        self.assertFalse(found.get("StreamSpecification", {}).get("StreamEnabled", False))
        self.hold(you, 1, "you")
        self.assertEqual(
            {"table": {"S": self.name}, "count": {"N": "2"}, "holder": {"S": "you"},
             "position": {"S": ""}},
            self.boto.get_item(TableName=LEASES, Key={"table": {"S": self.name}})["Item"])
        self.refused(me, 1, "me")

    def test_hidden(self):
        """Where it is not asked for by name."""
        self.hold(self.holder(), 0, "me")
        self.assertNotIn(LEASES, self.itemctl("tables").stdout)
        self.assertIn(LEASES, self.itemctl("describe", LEASES).stdout)
        self.assertNotIn(LEASES, self.itemctl("tables").stdout)
        path = os.path.join(self.place, f"{self.name}.conf")
        with open(path, "w") as file:
            file.write(f"[backend x]\ntype = dynamodb\nregion = us-east-1\ntables = {LEASES}\n")
        self.assertIn(LEASES, self.run_tool([ITEMCTL, "-s", path, "tables"], 0).stdout)

    def test_both_at_once(self):
        """Also where the table has to be made."""
        if self.engine.name == "moto":
            self.skipTest("moto's conditional writes are not atomic")
        self.forget(LEASES)
        holders = [self.holder() for _ in range(4)]
        for count in range(3):
            for number, one in enumerate(holders):
                one.begin("hold", self.name, count, f"h{number}", "-")
            codes = []
            for one in holders:
                try:
                    codes.append(one.answer()["code"])
                except Failed as failed:
                    codes.append(failed.code)
            self.assertEqual(["0"] + ["ESTALE"] * 3, sorted(codes))
            self.assertEqual((count + 1, f"h{codes.index('0')}", ""), self.lease(holders[0]))

    def test_an_answer_that_was_lost(self):
        with self.server() as server:
            me = self.holder(server.url)
            self.hold(me, 0, "me")
            for count in (1, 2):
                server.through("PutItem", reset="after")
                self.hold(me, count, "me" if count == 1 else "-", "p")
            self.assertEqual((3, "", "p"), self.lease(me))

    def test_the_last_answer_was_lost(self):
        with self.server() as server:
            me = self.holder(server.url)
            self.hold(me, 0, "me")
            server.through("PutItem", reset="after")
            server.error("PutItem", "InternalServerError", status=500, times=3)
            self.hold(me, 1, "me", "p")
            self.assertEqual((2, "me", "p"), self.lease(me))

    def test_a_request_that_was_lost(self):
        """And somebody else was quicker than its second sending."""
        with self.server() as server:
            me, you = self.holder(server.url), self.holder()
            self.hold(me, 0, "me")

            def take(request):
                self.hold(you, 1, "you", "q")
                return server.upstream.send(request)
            server.through("PutItem", reset="before")
            server.answer("PutItem", take)
            self.refused(me, 1, "me", "p")
            self.assertEqual((2, "you", "q"), self.lease(me))

    def test_one_that_was_never_applied(self):
        with self.server() as server:
            me = self.holder(server.url)
            self.hold(me, 0, "me")
            server.error("PutItem", "InternalServerError", status=500, times=4)
            with self.assertRaisesRegex(Failed, "EIO.*PutItem, tried 4 times"):
                self.hold(me, 1, "me", "p")
            self.assertEqual((1, "me", ""), self.lease(me))
            self.hold(me, 1, "me", "p")

    def test_an_item_that_is_none(self):
        self.hold(self.holder(), 0, "me")
        for bad in ({"count": {"N": "1.5"}}, {"count": {"S": "1"}}, {"holder": {"N": "1"}},
                    {"position": {"NULL": True}}):
            item = {"table": {"S": self.name}, "count": {"N": "1"}, "holder": {"S": "me"},
                    "position": {"S": ""}, **bad}
            self.boto.put_item(TableName=LEASES, Item=item)
            with self.assertRaisesRegex(Failed, f"EIO.*the lease of {self.name}: the item is no"):
                self.lease(self.holder())

    def test_reading_only(self):
        me = self.holder(options=("ro",))
        with self.assertRaisesRegex(Failed, "EROFS"):
            self.hold(me, 0, "me")
        self.hold(self.holder(), 0, "you")
        self.assertEqual((1, "you", ""), self.lease(me))


each_service(Leases)
del Leases


class Mounted(MountedServiceTest):
    def test_not_among_the_directories(self):
        Reader(self, self.environment(), "none", None).tell("hold", self.table, 0, "me", "-")
        self.assertNotIn(LEASES, os.listdir(self.mount.point))
        self.assertIn(self.table, os.listdir(self.mount.point))


each_service(Mounted)
del Mounted


if __name__ == "__main__":
    unittest.main()
