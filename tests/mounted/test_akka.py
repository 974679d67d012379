# SPDX-License-Identifier: MIT
"""Tables of akka-persistence-dynamodb in the embedded store, mounted."""

import json
import subprocess
import unittest

from akka_mounted import KINDS, AkkaMounted, sections
from harness import ITEMCTL, MountedTest


class Akka(AkkaMounted, MountedTest):
    names = {kind: kind.title() for kind in KINDS}
    config = "[backend store]\npath = {store}\n" + sections(names)

    @classmethod
    def prepare(cls):
        cls.make_tables()

    @classmethod
    def run_ctl(cls, *words, **more):
        done = subprocess.run([ITEMCTL, *words], capture_output=True, text=True, timeout=300,
                              env=cls.environment(), check=False, **more)
        if done.returncode:
            raise AssertionError(f"{words}: {done.stderr}")
        return done.stdout

    @classmethod
    def new_table(cls, kind, words):
        if words is None:
            cls.run_ctl("-s", cls.source, "create", cls.names[kind], "--profile", KINDS[kind][0])
        else:
            cls.run_ctl("-s", cls.db, "create", cls.names[kind], *words)

    def setUp(self):
        self.mount.alive()

    def fill(self, kind, items):
        self.run_ctl("-s", self.db, "put", self.names[kind], "--items", "-",
                     input="\n".join(map(json.dumps, items)))

    def remove(self, kind, item):
        key = {name: item[name] for name in ("pkey", "skey")}
        self.run_ctl("-s", self.db, "delete", self.names[kind], "-k", json.dumps(key))

    def rows(self, kind):
        return [json.loads(line)
                for line in self.run_ctl("-s", self.db, "scan", self.names[kind]).splitlines()]

    def akka_of(self, kind, command, *words):
        return self.run_ctl("-s", self.source, "akka", command, self.names[kind], *words)


if __name__ == "__main__":
    unittest.main()
