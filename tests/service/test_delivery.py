# SPDX-License-Identifier: MIT
"""Delivery of a service's changes: the published cases on each engine that has streams, and which of
two mounts delivers."""

import os
import sys
import unittest

from service import each_service
from engines import each_engine, fresh_name  # pylint: disable=wrong-import-order

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "deliver"))

from delivery import DeliveryTest  # noqa: E402  pylint: disable=wrong-import-position
from test_vectors import Vectors  # noqa: E402  pylint: disable=wrong-import-position


class ServiceDeliveryTest(DeliveryTest):
    engine = None

    def environment(self, **more):  # pylint: disable=arguments-differ
        return DeliveryTest.environment.__func__(type(self), **{**self.engine.environment(), **more})

    def backend_section(self):
        return "[backend b]\ntype = dynamodb\nregion = us-east-1"

    def setUp(self):
        streams = self.engine.client("dynamodbstreams")
        try:
            streams.list_streams()
        except Exception as error:  # pylint: disable=broad-exception-caught
            self.skipTest(f"{self.engine.name} has no streams: {error}")
        self.table = fresh_name()
        super().setUp()

    def create(self, *options):
        super().create(*options)
        told = self.itemctl("changes", self.table, status=None)
        if "backend has no streams" in told.stderr:
            self.skipTest(told.stderr)


class Published(Vectors, ServiceDeliveryTest):
    sweeps = ages = False


class TwoMounts(ServiceDeliveryTest):
    def test_killed_holder(self):
        function = self.function()
        self.write_config(function)
        first = self.mounted("first")
        self.wait_status(first, state="idle")
        second = self.mounted("second")
        self.put_numbers(0, 3)
        function.wait_records(3)
        first.kill()
        self.put_numbers(3, 5)
        function.wait_records(5)
        self.wait_status(second, state="idle", lost=0)
        self.assertEqual([f"k{number}" for number in range(5)],
                         sorted(record["keys"]["id"]["S"] for record in function.taken()))


each_engine(Published)
each_service(TwoMounts)
del Published, TwoMounts


if __name__ == "__main__":
    unittest.main()
