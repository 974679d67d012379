# SPDX-License-Identifier: MIT
"""The delivery of a service's changes, where the service does not do its part."""

import json
import os

from service import SOURCE, Proxy, ServiceTest, each_service, wait_for


@each_service
class Hanging(ServiceTest):
    def setUp(self):
        super().setUp()
        self.make(StreamSpecification={"StreamEnabled": True,
                                       "StreamViewType": "NEW_AND_OLD_IMAGES"})
        self.conf = os.path.join(self.place, f"{self.table}.conf")
        with open(self.conf, "w", encoding="utf-8") as file:
            file.write(f"[backend service]\ntype = dynamodb\nregion = {SOURCE.split(':')[1]}\n"
                       f"[table {self.table}]\nfunction = exec:/bin/true\n")

    def holds_the_lease(self, mount):
        with open(os.path.join(mount.point, ".itemfs", "status.json"), encoding="utf-8") as file:
            return "position" in json.load(file)["delivery"][0]

    def test_a_lease_that_cannot_be_written_is_in_no_unmount_s_way(self):
        with Proxy(self.engine.endpoint) as proxy:
            mount = self.new_mount(self.conf, f"mnt-{self.table}")
            mount.env = self.environment(AWS_ENDPOINT_URL=proxy.url)
            mount.start()
            wait_for("the lease", lambda: self.holds_the_lease(mount))
            proxy.fault("PutItem", "hold")
            wait_for("a renewal under way", lambda: proxy.held)
            mount.terminate()  # less patient than what writes to the service
            proxy.heal()
        self.assertIn("its lease cannot be used: PutItem: interrupted", mount.log_text())
