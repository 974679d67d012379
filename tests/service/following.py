# SPDX-License-Identifier: MIT
"""What tests of mounts share that follow the streams of a service's tables."""

import json
import os

from service import PlaceTest, Proxy, SOURCE, ServiceTest, wait_for
from harness import ITEMFS  # pylint: disable=wrong-import-order

POLL = 0.1
LONG = 3600  # no cache would be renewed for its age


class FollowTest(ServiceTest):
    """A mount of the engine behind a proxy that counts requests; self.dir is the directory of a
    table `id` (S) whose stream is on."""

    options = (f"cache_ttl={LONG}", f"stream_poll={POLL}")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.proxy = cls.enterClassContext(Proxy(cls.engine.endpoint))
        cls.mount = cls.new_follower("mnt")

    @classmethod
    def new_follower(cls, place, options=None, program=ITEMFS, **more):
        env = PlaceTest.environment.__func__(cls, **{**cls.engine.environment(),
                                                     "AWS_ENDPOINT_URL": cls.proxy.url, **more})
        mount = cls.new_mount(SOURCE, place, options or cls.options, program=program)
        mount.env = env
        mount.start()
        return mount

    @classmethod
    def tearDownClass(cls):
        cls.mount.unmount()

    def setUp(self):
        super().setUp()
        self.mount.alive()
        self.make(StreamSpecification={"StreamEnabled": True,
                                       "StreamViewType": "NEW_AND_OLD_IMAGES"})
        self.dir = os.path.join(self.mount.point, self.table)
        wait_for("the new table", lambda: os.path.isdir(self.dir), 30)
        self.await_followed()

    def status(self, mount=None):
        with open(os.path.join((mount or self.mount).point, ".itemfs/status.json"),
                  encoding="utf-8") as file:
            return json.load(file)

    def stream(self, mount=None):
        return next((s for s in self.status(mount)["streams"] if s["table"] == self.table), {})

    def await_followed(self, mount=None):
        wait_for("the stream to be followed", lambda: self.stream(mount).get("followed"), 30)

    def read(self, name):
        with open(os.path.join(self.dir, name), encoding="utf-8") as file:
            return json.load(file)
