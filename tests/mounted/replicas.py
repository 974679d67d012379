# SPDX-License-Identifier: MIT
"""What tests of replicas share."""

import json
import os

import disks
from folder import FolderTest
from harness import ITEMCTL, wait_for
from terminal import interact


class ReplicaTest(FolderTest, disks.Disks):
    replicas = 2

    def states(self):
        """Of each replica, its reason; None: it is in use."""
        return [None if replica["in_use"] else replica["reason"]
                for replica in self.status()["replicas"]]

    def wait_out(self, number):
        wait_for("the replica to be left out", lambda: self.states()[number])
        return self.states()[number]

    def wait_healed(self):
        wait_for("all replicas in use", lambda: self.states() == [None] * self.replicas)
        self.wait_alike()

    def metric(self, name):
        with open(os.path.join(self.mnt, ".itemfs", "metrics")) as file:
            return next(float(line.split()[1]) for line in file
                        if line.startswith(f"itemfs_{name} "))

    def listed(self):
        """Of each replica as `itemctl status` has it: its reason, or None."""
        [backend] = json.loads(self.itemctl("status", "--json").stdout)["Backends"]
        self.assertEqual(self.roots, [replica["Path"] for replica in backend["Replicas"]])
        return [None if replica["InUse"] else replica["Reason"] for replica in backend["Replicas"]]

    def remove(self, name, root, table="users"):
        os.unlink(os.path.join(root, table, name))

    def has(self, name, root, table="users"):
        return os.path.exists(os.path.join(root, table, name))

    def bodies(self, table="users"):
        return {name: body for name, (body, _) in self.shown(table).items()}


class DiskTest(ReplicaTest):
    """Each replica may be a disk of its own."""

    config = "replica_timeout = 2"

    def make_root(self, root):
        os.makedirs(root)

    def fill(self, count=10):
        """A table with items in all replicas, the mount started."""
        for root in self.roots:
            os.makedirs(os.path.join(root, "users"), exist_ok=True)
        self.start()
        for number in range(count):
            self.write(f"k{number}.json", b"%d" % number)

    def change(self, tag="changed"):
        """One of each kind."""
        self.write("k0.json", f'"{tag}"')
        self.write(f"new-{tag}.json", "1")
        if os.path.exists(self.path("k1.json")):
            os.unlink(self.path("k1.json"))
        os.rename(self.path("k2.json"), self.path("k3.json"))
        self.write("k2.json", f'"{tag}"')

    def check_told(self, number, reason):
        """The log, status.json, metrics and itemctl say that it is out of use."""
        self.assertRegex(self.wait_out(number), reason)
        self.assertEqual([number], [at for at, state in enumerate(self.states()) if state])
        self.assertRegex(self.mount.log_text(),
                         f"{self.roots[number]} is out of use: .*{reason}")
        self.assertEqual(1, self.metric("replicas_out"))
        self.assertRegex(self.listed()[number], reason)
        self.assertEqual([number], [at for at, state in enumerate(self.listed()) if state])
        status, shown = interact([ITEMCTL, "-s", self.source, "status"], [], self.place, self.env())
        self.assertEqual(0, status)
        self.assertRegex(shown, f"{self.roots[number]} +out of use since .*: .*{reason}")
        self.assertRegex(shown, f"{self.roots[number - 1]} +in use")

    def check_healed(self):
        self.wait_healed()
        self.assertEqual(0, self.metric("replicas_out"))
        self.assertEqual([None] * self.replicas, self.listed())
        self.assertRegex(self.mount.log_text(), "is in use again")
        self.assertEqual([], self.drafts())
