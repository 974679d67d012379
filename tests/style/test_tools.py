# SPDX-License-Identifier: MIT
"""clang-format and clang-tidy find nothing to say. ITEMFS_BUILD: a build with compile commands."""

import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import unittest

from test_style import ROOT, tracked

BUILD = os.environ.get("ITEMFS_BUILD", os.path.join(ROOT, "build-tests"))
# Beside other tests, with what time they leave.
TIDY = ["nice", "-n", "10", "clang-tidy", "--quiet", "-p", BUILD]
# A third of the paths through a function that clang would follow: with all checks on, that found 52
# of 54 things, in two fifths of the time. A long run has the time.
if os.environ.get("ITEMFS_LONG") != "1":
    TIDY += ["--extra-arg=" + word
             for word in ("-Xclang", "-analyzer-config", "-Xclang", "max-nodes=75000")]


def run_all(commands):
    """Output of each failed command, run on all cores."""
    def one(command):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace")
        return done.returncode, done.stdout + done.stderr
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(one, commands))


class Tools(unittest.TestCase):
    def test_clang_format_changes_nothing(self):
        names = [name for name in tracked() if re.search(r"\.[ch]$", name)]
        found = run_all([["clang-format", "--dry-run", "--Werror", name] for name in names])
        complaints = [text for status, text in found if status]
        self.assertEqual([], complaints, "\n" + "\n".join(complaints))

    def test_clang_tidy_is_silent(self):
        with open(os.path.join(BUILD, "compile_commands.json")) as file:
            compiled = {os.path.relpath(entry["file"], ROOT) for entry in json.load(file)}
        names = sorted(compiled & set(tracked()))
        self.assertTrue(names, "no source file was compiled")
        # A file is looked at again only when it, any header or the rules have changed.
        shared = hashlib.sha256(" ".join(TIDY).encode())
        for name in [".clang-tidy", "tests/.clang-tidy"] + [name for name in tracked() if name.endswith(".h")]:
            with open(os.path.join(ROOT, name), "rb") as file:
                shared.update(file.read())
        stamps = os.path.join(BUILD, "tidy")
        os.makedirs(stamps, exist_ok=True)
        todo = []
        for name in names:
            with open(os.path.join(ROOT, name), "rb") as file:
                key = hashlib.sha256(shared.digest() + name.encode() + file.read()).hexdigest()
            if not os.path.exists(os.path.join(stamps, key)):
                todo.append((name, os.path.join(stamps, key)))
        found = run_all([[*TIDY, name] for name, _ in todo])
        complaints = []
        for (name, stamp), (status, text) in zip(todo, found):
            if status == 0:
                open(stamp, "w").close()
            else:
                complaints.append(f"{name}:\n{text}")
        self.assertEqual([], complaints, "\n" + "\n".join(complaints))
