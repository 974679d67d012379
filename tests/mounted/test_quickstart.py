# SPDX-License-Identifier: MIT
"""tools/quickstart from a fresh copy of the tree: a release is built, mounted and shown.

It is the one optimised build of a test run, and many of the compiler's warnings depend on that: they
are errors here."""

import os
import shutil
import subprocess
import sys

from harness import ROOT, PlaceTest, is_mounted, unmount

sys.path.insert(0, os.path.join(ROOT, "tests", "style"))
from test_style import tracked  # noqa: E402  the files of the project, without build directories


class Quickstart(PlaceTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tree = os.path.join(cls.place, "tree")
        for name in tracked():
            os.makedirs(os.path.dirname(os.path.join(cls.tree, name)), exist_ok=True)
            shutil.copy(os.path.join(ROOT, name), os.path.join(cls.tree, name))
        cls.point = os.path.join(cls.tree, "build", "demo", "mnt")
        cls.addClassCleanup(subprocess.run, ["fusermount3", "-u", "-z", cls.point],
                            capture_output=True)

    def test_twice_and_after_an_unmount(self):
        for turn in range(3):
            shown = self.run_tool(["tools/quickstart"], cwd=self.tree,
                                  env=self.environment(CFLAGS="-Werror")).stdout
            self.assertTrue(is_mounted(self.point))
            self.assertIn("ada.json", shown)
            self.assertIn('"name": "Ada Lovelace"', shown)
            self.assertIn('"total": 41.50', shown)
            self.assertIn("To unmount:         fusermount3 -u build/demo/mnt", shown)
            self.assertEqual(turn == 1, "mounted already" in shown)
            # What a person has changed meanwhile is not made anew.
            path = os.path.join(self.point, "users", "alan.json")
            if turn == 0:
                os.unlink(path)
            else:
                self.assertFalse(os.path.exists(path))
            if turn:
                unmount(self.point)
        self.assertFalse(is_mounted(self.point))
