# SPDX-License-Identifier: MIT
"""The delivery of a service's changes, where the service does not do its part."""

import contextlib
import json
import os
import subprocess
import unittest

from service import SOURCE, Proxy, ServiceTest, each_service, wait_for
from engines import for_engine  # pylint: disable=wrong-import-order


STREAM = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}


class DeliveryTest(ServiceTest):
    function = "/bin/true"

    def setUp(self):
        super().setUp()
        self.make(StreamSpecification=STREAM)
        self.conf = os.path.join(self.place, f"{self.table}.conf")
        with open(self.conf, "w", encoding="utf-8") as file:
            file.write(f"[backend service]\ntype = dynamodb\nregion = {SOURCE.split(':')[1]}\n"
                       f"[table {self.table}]\nfunction = exec:{self.function}\n")

    def mounted(self, **environment):
        mount = self.new_mount(self.conf, f"mnt-{self.table}")
        mount.env = self.environment(**environment)
        return mount.start()

    def status(self, mount):
        with open(os.path.join(mount.point, ".itemfs", "status.json"), encoding="utf-8") as file:
            return json.load(file)["delivery"][0]


@each_service
class Hanging(DeliveryTest):
    def test_a_lease_that_cannot_be_written_is_in_no_unmount_s_way(self):
        with Proxy(self.engine.endpoint) as proxy:
            mount = self.mounted(AWS_ENDPOINT_URL=proxy.url)
            wait_for("the lease", lambda: "position" in self.status(mount))
            proxy.fault("PutItem", "hold")
            wait_for("a renewal under way", lambda: proxy.held)
            mount.terminate()  # less patient than what writes to the service
            proxy.heal()
        self.assertIn("its lease cannot be used: PutItem: interrupted", mount.log_text())


@unittest.skipUnless(os.getuid() == 0, "only root can mount a small filesystem")
class FullDisk(DeliveryTest):
    """Positions are with the service: a state database without room holds up no delivery."""

    def test_a_state_database_without_room(self):
        small = os.path.join(self.place, "small")
        os.mkdir(small)
        self.run_tool(["mount", "-t", "tmpfs", "-o", "size=2m", "none", small])
        self.addCleanup(subprocess.run, ["umount", "-l", small], check=True)
        with open(self.conf, encoding="utf-8") as file:
            text = file.read()
        with open(self.conf, "w", encoding="utf-8") as file:
            file.write(f"[mount]\nstate_dir = {small}\n{text}")
        mount = self.mounted()
        wait_for("the lease", lambda: "position" in self.status(mount))
        with open(f"{small}/filler", "wb", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(bytes(4096))
        for number in range(3):
            self.put(id={"S": f"k{number}"})
            wait_for("its delivery", lambda number=number: self.status(mount)["records"] == number + 1)
        self.assertNotIn("last_error", self.status(mount))
        os.unlink(f"{small}/filler")
        mount.terminate()


FullDisk_dynoxide = for_engine(FullDisk, "dynoxide")


class Dropped(DeliveryTest):
    """Engines differ in what of a stream survives its table: this one keeps it."""

    def test_made_anew_later_is_no_loss(self):
        mount = self.mounted()
        self.put(id={"S": "old"})
        wait_for("the first change", lambda: self.status(mount)["records"] == 1)
        self.forget(self.table)
        wait_for("the end", lambda: self.status(mount)["state"] == "off")
        before = self.status(mount)
        self.make(StreamSpecification=STREAM)
        self.put(id={"S": "new"})
        wait_for("the new table's", lambda: self.status(mount)["records"] > before["records"])
        self.assertEqual(before["lost"], self.status(mount)["lost"])
        mount.terminate()


Dropped_dynoxide = for_engine(Dropped, "dynoxide")
del DeliveryTest, Dropped, FullDisk

if __name__ == "__main__":
    unittest.main()
