# SPDX-License-Identifier: MIT
"""The console examples of the documents do what they show."""

import os
import re
import subprocess
import tempfile
import unittest

from harness import BIN, ROOT, environment

DOCUMENTS = ("README.md",)


def examples(path):
    """The (command, expected output) pairs of a document's console blocks, in order."""
    with open(path) as file:
        blocks = re.findall(r"^```console\n(.*?)^```$", file.read(), re.M | re.S)
    steps = []
    for line in "".join(blocks).splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        elif line.startswith("> "):
            steps[-1] = (steps[-1][0] + "\n" + line[2:], [])
        else:
            steps[-1][1].append(line)
    return steps


class Examples(unittest.TestCase):
    maxDiff = None

    def run_document(self, path):
        """One shell runs all of it, so that later examples build on earlier ones."""
        steps = examples(os.path.join(ROOT, path))
        self.assertTrue(steps, path)
        script = "".join(f"{command}\nprintf '\\0'\n" for command, _ in steps)
        with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="itemfs-docs-") as place:
            env = environment(PATH=f"{BIN}:{os.environ['PATH']}", HOME=place)
            try:
                done = subprocess.run(["bash"], input=script, cwd=place, env=env, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
            finally:
                for mount in (os.path.join(place, name) for name in ("mnt", "web", "tags")):
                    if os.path.ismount(mount):
                        subprocess.run(["umount", "-l", mount], check=False)
        outputs = done.stdout.split("\0")
        for (command, expected), output in zip(steps, outputs, strict=False):
            with self.subTest(document=path, command=command):
                self.assertEqual(expected, output.splitlines())
        self.assertEqual(len(steps), len(outputs) - 1, outputs[-1])

    def test_documents(self):
        for path in DOCUMENTS:
            self.run_document(path)


if __name__ == "__main__":
    unittest.main()
