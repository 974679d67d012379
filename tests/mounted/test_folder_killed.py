# SPDX-License-Identifier: MIT
"""Daemons of folders that are killed in the middle of saves."""

import json
import os
import subprocess
import sys
import unittest

from folder import FolderTest


class Killed(FolderTest):
    """kill -9 in the middle of saves: what was acknowledged is in the files, and nothing is half."""

    WRITER = ("import os,sys\n"
              "i = 0\n"
              "while True:\n"
              "  i += 1\n"
              "  name = sys.argv[1] + '/k%d.json' % (i % 7)\n"
              "  fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)\n"
              "  os.write(fd, b'{\"v\":%d,\"pad\":\"%s\"}' % (i, b'p' * (i * 131 % 9000)))\n"
              "  os.close(fd)\n"
              "  os.write(1, b'%d\\n' % i)\n"
              "  if i % 5 == 0:\n"
              "    os.rename(name, sys.argv[1] + '/moved.json')\n")

    def test_acknowledged_saves_survive(self):
        for _ in range(10):
            self.start()
            writer = subprocess.Popen([sys.executable, "-c", self.WRITER, self.dir],
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            for line in writer.stdout:
                if int(line) >= 30:
                    break
            self.mount.kill()
            rest = writer.stdout.read().split()
            writer.wait()
            writer.stdout.close()
            last = int(rest[-1]) if rest else int(line)
            self.mount.start()
            shown = self.shown()
            self.assertEqual(self.files(), shown)
            versions = {name: json.loads(body)["v"] for name, (body, _) in shown.items()}
            # The last that was acknowledged is there, under its name or moved; or what came after.
            self.assertTrue({last, last + 1} & set(versions.values()), (last, versions))
            self.assertEqual([], [n for n in os.listdir(self.folder) if n.startswith(".itemfs-")])
            self.mount.unmount()


if __name__ == "__main__":
    unittest.main()
