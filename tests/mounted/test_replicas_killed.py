# SPDX-License-Identifier: MIT
"""The daemon is killed at each place in a batch of files over two replicas: whatever each of them
has done until then, after the next start both hold the same, and that is what was there before the
batch or what it was to make, whole."""

import itertools
import os
import subprocess
import sys
import unittest

from folder import FolderTest
from harness import BIN

OLD, NEW, OTHER = b'{"old":1}', b'{"new":"new"}', b'{"other":true}'
SAVE = "import os,sys\n" \
       "fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)\n" \
       f"os.write(fd, {NEW!r})\n" \
       "os.close(fd)\n"
UNLINK = "import os,sys; os.unlink(sys.argv[1])"
RENAME = "import os,sys; os.rename(sys.argv[1], sys.argv[2])"


class Killed(FolderTest):
    replicas = 2
    config = "replica_timeout = 300"  # nobody is late

    def setUp(self):
        super().setUp()
        self.mount.program = os.path.join(BIN, "itemfs_stopping")
        self.stops = os.path.join(self.home_dir, "stops")
        self.mount.env = self.mount.env | {"ITEMFS_STOPS": self.stops}
        self.start()

    def end(self):
        if os.path.exists(self.stops):
            os.unlink(self.stops)
        super().end()

    def places(self, steps, batches):
        """Where the two replicas and the state database may be: STEPS a replica, BATCHES of rows,
        the last of which is the end."""
        for counts in itertools.product(range(steps + 1), repeat=2):
            yield [(root, count, int(count < steps)) for root, count in zip(self.roots, counts)]
        for count in range(batches + 1):
            yield [("store", count, int(count < batches))]

    def prepare(self, files):
        """The table holds FILES and nothing else, everywhere."""
        for name in os.listdir(self.dir):
            if name not in files:
                os.unlink(self.path(name))
        for name, body in files.items():
            self.write(name, body)
        self.assertAlike()

    def kill_at(self, place, script, *names):
        with open(self.stops + ".new", "w") as file:
            file.write("".join("%s %d %d\n" % actor for actor in place))
        os.rename(self.stops + ".new", self.stops)
        program = subprocess.Popen([sys.executable, "-c", script, *map(self.path, names)],
                                   stderr=subprocess.DEVNULL)
        self.mount.process.wait(60)
        self.assertNotEqual(0, program.wait(60))  # nothing was acknowledged
        self.assertEqual(-9, self.mount.process.returncode, self.mount.log_text())
        self.mount.log.close()
        os.unlink(self.stops)

    def check(self, before, after, steps, batches, script, *names):
        kept = made = 0
        for place in self.places(steps, batches):
            with self.subTest(place=place):
                self.prepare(before)
                self.kill_at(place, script, *names)
                self.mount.start()
                self.wait_alike()
                found = {name: body for name, (body, _) in self.files().items()}
                self.assertIn(found, (before, after))
                kept, made = kept + (found == before), made + (found == after)
                self.assertTrue(all(replica["in_use"] for replica in self.status()["replicas"]))
                self.assertEqual([], self.drafts())
        # The first place is before anything was done, the last one after everything was.
        self.assertGreater(kept, 0)
        self.assertGreater(made, 0)

    def test_a_new_item(self):
        self.check({"b.json": OTHER}, {"a.json": NEW, "b.json": OTHER}, 2, 1, SAVE, "a.json")

    def test_a_save(self):
        self.check({"a.json": OLD}, {"a.json": NEW}, 2, 1, SAVE, "a.json")

    def test_a_delete(self):
        self.check({"a.json": OLD, "b.json": OTHER}, {"b.json": OTHER}, 1, 1, UNLINK, "a.json")

    def test_a_rename(self):
        self.check({"a.json": OLD}, {"b.json": OLD}, 3, 2, RENAME, "a.json", "b.json")

    def test_a_rename_over_another(self):
        self.check({"a.json": OLD, "b.json": OTHER}, {"b.json": OLD}, 3, 2, RENAME, "a.json",
                   "b.json")


if __name__ == "__main__":
    unittest.main()
