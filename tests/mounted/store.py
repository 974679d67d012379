# SPDX-License-Identifier: MIT
"""A look into a store file by a client that shares no code with itemfs: Python's own SQLite.

The schema is documented in docs/STORE.md.
"""

import contextlib
import json
import sqlite3
import subprocess
import urllib.parse

CHANGES = {1: "INSERT", 2: "MODIFY", 3: "REMOVE"}
LOG_ITEM = 0


def text(part):
    """A key part as text; binary ones come as bytes."""
    return part.decode("utf-8", "surrogatepass") if isinstance(part, bytes) else part


def key_of(name):
    """The key of a file name, where it is neither a hashed one nor of a binary key."""
    return urllib.parse.unquote(name.removesuffix(".json"))


class Store:
    def __init__(self, path, itemctl, env):
        self.path, self.itemctl, self.env = path, itemctl, env

    @contextlib.contextmanager
    def connection(self):
        db = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=30)
        db.text_factory = bytes
        try:
            yield db
        finally:
            db.close()

    def rows(self, sql, *values):
        with self.connection() as db:
            return db.execute(sql, values).fetchall()

    def body(self, table, key, sort=""):
        """The bytes of an item's body; None where there is no such item."""
        found = self.rows("SELECT body FROM item JOIN tables ON tables.id = table_id"
                          " WHERE tables.name = ? AND pk = ? AND sk = ?", table, key, sort)
        return found[0][0] if found else None

    def bodies(self, table):
        """Key -> body of all items; the key of a sorted table is "partition/sort"."""
        found = self.rows("SELECT pk, sk, body FROM item JOIN tables ON tables.id = table_id"
                          " WHERE tables.name = ?", table)
        return {self.key(pk, sk): body for pk, sk, body in found}

    @staticmethod
    def key(pk, sk):
        return text(pk) + (f"/{text(sk)}" if sk not in (b"", "") else "")

    def changes(self, table):
        """The change records of the table's items, in order: ["INSERT a", "MODIFY a", ..]."""
        found = self.rows("SELECT change, pk, sk FROM change JOIN tables ON tables.id = table_id"
                          " WHERE tables.name = ? AND kind = ? ORDER BY seq", table, LOG_ITEM)
        return [f"{CHANGES[change]} {self.key(pk, sk)}" for change, pk, sk in found]

    def records(self, table):
        """The same as whole rows with names."""
        columns = ("seq", "change", "pk", "sk", "time", "streamed", "expired", "old", "new")
        found = self.rows(f"SELECT change.{', change.'.join(columns)} FROM change JOIN tables"
                          " ON tables.id = table_id WHERE tables.name = ? AND kind = ?"
                          " ORDER BY seq", table, LOG_ITEM)
        return [dict(zip(columns, row)) for row in found]

    def streamed(self, table):
        """What `itemctl changes` gives: one document a line."""
        done = subprocess.run([self.itemctl, "-s", self.path, "changes", table], env=self.env,
                              capture_output=True, text=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def sound(self):
        """SQLite's own check of the file: "ok"."""
        return self.rows("PRAGMA integrity_check")[0][0].decode()
