# SPDX-License-Identifier: MIT
"""What programs do on a mounted store, once more over folders of files: there the files are what
the store has, in one folder or in two."""

import os
import unittest

import test_attributes
import test_bodies
import test_editors
import test_names
import test_rename
import test_saves
import test_scratch
import test_ttl
import test_upkeep
from folder import OverFolder


class Saves(OverFolder, test_saves.Saves):
    replicas = 2


class Handles(OverFolder, test_saves.Handles):
    pass


class Conflicts(OverFolder, test_saves.Conflicts):
    replicas = 2


class Bystanders(OverFolder, test_saves.Bystanders):
    pass


class Turns(OverFolder, test_saves.Turns):
    pass


class EmptyFiles(OverFolder, test_saves.EmptyFiles):
    pass


class Renames(OverFolder, test_rename.Rename):
    replicas = 2
    test_between_partitions = None  # there are none


class Editors(OverFolder, test_editors.Editors):
    pass


class Bodies(OverFolder, test_bodies.Bodies):
    pass


class TagKeys(OverFolder, test_names.TagKeys):
    test_longer_names_are_hashed = None  # but refused: a folder has no such names


class TimeToLive(OverFolder, test_ttl.TimeToLive):
    replicas = 2


class Times(OverFolder, test_attributes.Times):
    test_times_beyond_what_is_kept = None  # a disk keeps less than a store: ext4 begins in 1901


class InodeNumbers(OverFolder, test_attributes.InodeNumbers):
    pass


class ExtendedAttributes(OverFolder, test_attributes.ExtendedAttributes):
    pass


class Ages(OverFolder, test_upkeep.Ages):
    pass


class Capacity(OverFolder, test_upkeep.Capacity):
    replicas = 2

    def tearDown(self):
        for root in self.roots:
            self.assertEqual(self.names(), sorted(os.listdir(os.path.join(root, self.table))))
        super().tearDown()


class Several(OverFolder, test_upkeep.Several):
    replicas = 2


class Scratch(OverFolder, test_scratch.Scratch):
    test_in_partitions = test_partition_of_scratch_alone_stays = None  # there are none


if __name__ == "__main__":
    unittest.main()
