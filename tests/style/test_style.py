# SPDX-License-Identifier: MIT
"""The rules of the tree: which way includes go, how long files are, what must not stand in them."""

import collections
import os
import re
import subprocess
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Which directories a directory's files may include, besides itself.
MAY_INCLUDE = {
    "base": set(),
    "net": {"base"},
    "backend": {"net", "base"},
    "deliver": {"backend", "net", "base"},
    "upkeep": {"backend", "base"},
    "cache": {"base"},
    "fs": {"cache", "deliver", "upkeep", "backend", "base"},
    "tools": {"upkeep", "backend", "base"},
}
# The one place that owns a third-party header.
OWNERS = [
    (re.compile(r"<(fuse|cuse).*\.h>"), re.compile(r"^(fs/|tools/bench/floor\.c$)")),
    (re.compile(r"<sqlite3.*\.h>"), re.compile(r"^backend/sqlite/")),
    (re.compile(r"<openssl/"), re.compile(r"^base/(text|md5)\.c$")),
    (re.compile(r"<ini\.h>"), re.compile(r"^base/config\w*\.c$")),
    (re.compile(r"<curl/"), re.compile(r"^(net/http|tools/bench/service_floor)\.c$")),
    (re.compile(r"<libxml/"), re.compile(r"^base/schemas\.c$")),
    (re.compile(r"<zlib\.h>"), re.compile(r"^tools/itemctl/gzip\.c$")),
    (re.compile(r"<(jansson|archive|glib)"), re.compile(r"^$")),
]
LINES_WANTED, LINES_MAX = 500, 600
# Spelled in parts, so that this file passes its own check.
UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3]) + r")\b(?!X)")
MACHINE_PATH = re.compile(r"(?<![\w.$}/-])/(work|root)/\w")
INCLUDE = re.compile(r'^\s*#\s*include\s+(<[^>]+>|"[^"]+")', re.M)
CLEANED_UP = re.compile(r"\s+cleanup\w*(\(\w+\))? [^=(]*;")
SOURCE = re.compile(r"\.(c|h|py)$")


def tracked():
    """Every file of the project, as paths from its root: what git would commit."""
    try:
        listing = subprocess.run(
            ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True, check=True).stdout.decode()
        names = [name for name in listing.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        names = []
        for folder, folders, files in os.walk(ROOT):
            folders[:] = [f for f in folders if not f.startswith(("build", ".git"))]
            names += [os.path.relpath(os.path.join(folder, f), ROOT) for f in files]
    return sorted(name for name in set(names) if os.path.isfile(os.path.join(ROOT, name)))


def text_of(name):
    """The file's text; None for what is no text (test bodies, pictures)."""
    with open(os.path.join(ROOT, name), "rb") as file:
        data = file.read()
    try:
        return data.decode() if b"\0" not in data else None
    except UnicodeDecodeError:
        return None


def uninitialised(text):
    """(line, name) of variables with a cleanup that a return may reach before they are mentioned."""
    lines, found = text.split("\n"), []
    for number, line in enumerate(lines, 1):
        line = line.split(";")[0] + ";"
        if not CLEANED_UP.match(line):
            continue
        for name in re.findall(r"(\w+)(?:\[\w+\])*(?=[,;])", line):
            telling = re.compile(rf"\b({name}|return)\b|^}}")
            first = next(filter(telling.search, lines[number:]), "")
            if not re.search(rf"\b{name}\b", first):
                found.append((number, name))
    return found


class Style(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.texts = {name: text for name in tracked() if (text := text_of(name)) is not None}
        cls.sources = {name: text for name, text in cls.texts.items() if SOURCE.search(name)}

    def none(self, complaints):
        self.assertEqual([], sorted(complaints), "\n" + "\n".join(sorted(complaints)))

    def test_includes_go_one_way(self):
        complaints = []
        for name, text in self.sources.items():
            here = name.split("/")[0]
            for include in INCLUDE.findall(text) if here in MAY_INCLUDE else []:
                there = include.strip('<>"')
                if include.startswith('"'):
                    top = there.split("/")[0]
                    if "/" not in there:
                        complaints.append(f"{name}: {include} is not a path from the root")
                    elif top != here and top not in MAY_INCLUDE[here]:
                        complaints.append(f"{name}: {here}/ may not include {there}")
        self.none(complaints)

    def test_backends_do_not_know_each_other(self):
        complaints = []
        for name, text in self.sources.items():
            parts = name.split("/")
            if parts[0] != "backend" or len(parts) < 3:
                continue
            for include in INCLUDE.findall(text):
                there = include.strip('<>"').split("/")
                if there[0] == "backend" and len(there) > 2 and there[1] != parts[1]:
                    complaints.append(f"{name}: includes its sibling {include}")
        self.none(complaints)

    def test_third_party_headers_stay_with_their_owner(self):
        complaints = []
        for name, text in self.sources.items():
            if name.startswith("tests/"):
                continue
            for include in INCLUDE.findall(text):
                for header, owner in OWNERS:
                    if header.match(include) and not owner.match(name):
                        complaints.append(f"{name}: {include}")
        self.none(complaints)

    def test_files_are_short(self):
        lines = {name: text.count("\n") for name, text in self.sources.items()}
        for name in sorted(lines):
            if LINES_WANTED < lines[name] <= LINES_MAX:
                print(f"warning: {name} has {lines[name]} lines")
        self.none(f"{name}: {count} lines" for name, count in lines.items() if count > LINES_MAX)

    def test_licence_line_comes_first(self):
        complaints = []
        for name, text in self.texts.items():
            script = text.startswith("#!")
            if not (script or SOURCE.search(name)):
                continue
            lines = text.split("\n", 2)
            if "SPDX-License-Identifier: MIT" not in lines[1 if script else 0]:
                complaints.append(name)
        self.none(complaints)

    def test_nothing_is_left_unfinished(self):
        self.none(f"{name}:{text[:found.start()].count(chr(10)) + 1}: {found[0]}"
                  for name, text in self.texts.items() for found in UNFINISHED.finditer(text))

    def test_no_paths_of_one_machine(self):
        self.none(f"{name}:{text[:found.start()].count(chr(10)) + 1}: {found[0]}"
                  for name, text in self.texts.items() for found in MACHINE_PATH.finditer(text))

    def test_what_is_cleaned_up_is_initialised(self):
        self.none(f"{name}:{line}: {variable} may be released before it has a value"
                  for name, text in self.sources.items() if name.endswith(".c")
                  for line, variable in uninitialised(text))

    def test_an_early_return_is_found(self):
        body = "    cleanup(buf_release) struct buf one, two;\n%s    return 0;\n"
        self.assertEqual([(1, "one"), (1, "two")], uninitialised(body % ""))
        self.assertEqual([(1, "two")], uninitialised(body % "    buf_init(&one, 1);\n"))

    def test_header_guards_are_unique(self):
        guards = collections.Counter(
            found[1] for name, text in self.sources.items() if name.endswith(".h")
            for found in [re.search(r"^#ifndef (\w+)$", text, re.M)] if found)
        self.none(f"{guard} stands in {count} headers" for guard, count in guards.items()
                  if count > 1)
