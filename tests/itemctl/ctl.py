# SPDX-License-Identifier: MIT
"""What the tests of itemctl share: a private directory with a store in it, and a second look at that
store by Python's own SQLite.

ITEMFS_BIN names the directory of the binaries.
"""

import contextlib
import json
import os
import pty
import shutil
import sqlite3
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("ITEMFS_BIN", os.path.join(ROOT, "build-tests", "bin"))
ITEMCTL = os.path.join(BIN, "itemctl")

DONE, FAILED, USAGE, ABSENT, CONDITION, LOCKED = range(6)
CHANGE_KIND_ITEM = 0


def typed(**attributes):
    """A typed item as itemctl prints it: members sorted, no spaces."""
    return json.dumps(attributes, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


class CtlTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="itemctl-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.store = self.path("items.db")
        self.state = self.path("state")
        self.env = {"PATH": os.environ["PATH"], "HOME": self.dir, "XDG_STATE_HOME": self.state,
                    "ITEMFS_SOURCE": self.store, "LC_ALL": "C.UTF-8", "TERM": "xterm",
                    "ASAN_OPTIONS": "detect_leaks=1:exitcode=97"}

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text):
        with open(self.path(name), "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    # The program.

    def start(self, *arguments, **more):
        return subprocess.Popen([ITEMCTL, *arguments], env=self.env, cwd=self.dir, **more)

    def run_ctl(self, *arguments, status=DONE, input=None, env=None):
        """Runs it, insists on its exit status, and returns standard output and error as text."""
        data = input.encode("utf-8", "surrogatepass") if isinstance(input, str) else input
        done = subprocess.run([ITEMCTL, *arguments], env=env or self.env, cwd=self.dir, input=data,
                              stdin=subprocess.DEVNULL if data is None else None,
                              capture_output=True, timeout=120)
        out, err = (text.decode("utf-8", "surrogateescape") for text in (done.stdout, done.stderr))
        self.assertEqual(status, done.returncode, f"{arguments}: {out}{err}")
        if status in (DONE,):
            self.assertFalse("Sanitizer" in err, err)
        else:
            self.assertTrue(err.startswith("itemctl: "), err)
        return out, err

    def out(self, *arguments, **more):
        return self.run_ctl(*arguments, **more)[0]

    def error(self, status, *arguments, **more):
        """The first line on standard error, without the program's name."""
        return self.run_ctl(*arguments, status=status, **more)[1].splitlines()[0][len("itemctl: "):]

    def lines(self, *arguments, **more):
        return self.out(*arguments, **more).splitlines()

    def put(self, table, *items):
        self.out("put", table, "--items", "-", input="\n".join(items))

    def on_terminal(self, *arguments, columns=80, status=DONE):
        """What a person sees: standard output on a terminal that is COLUMNS wide."""
        master, slave = pty.openpty()
        subprocess.run(["stty", "cols", str(columns), "-onlcr"], stdin=slave, check=True)
        process = self.start(*arguments, stdin=slave, stdout=slave, stderr=subprocess.PIPE)
        os.close(slave)
        seen = b""
        with contextlib.suppress(OSError):
            while piece := os.read(master, 65536):
                seen += piece
        os.close(master)
        err = process.stderr.read()
        process.stderr.close()
        self.assertEqual(status, process.wait(), err)
        return seen.decode()

    # The store, seen without the program.

    def rows(self, sql, *values):
        with contextlib.closing(sqlite3.connect(f"file:{self.store}?mode=ro", uri=True,
                                                timeout=30)) as db:
            db.text_factory = bytes
            return db.execute(sql, values).fetchall()

    def count(self, table):
        return self.rows("SELECT count(*) FROM item JOIN tables ON tables.id = table_id"
                         " WHERE tables.name = ?", table)[0][0]

    def body(self, table, key, sort=b""):
        found = self.rows("SELECT body FROM item JOIN tables ON tables.id = table_id WHERE"
                          " tables.name = ? AND CAST(pk AS BLOB) = ? AND CAST(sk AS BLOB) = ?",
                          table, key, sort)
        return found[0][0] if found else None

    def change_count(self):
        return self.rows("SELECT count(*) FROM change WHERE kind = ?", CHANGE_KIND_ITEM)[0][0]

    def assertSound(self):
        self.assertEqual(b"ok", self.rows("PRAGMA integrity_check")[0][0])
