# SPDX-License-Identifier: MIT
"""The control directory: reachable by name, never listed; what its files say."""

import errno
import json
import os
import re
import unittest

from harness import MountedTest, wait_for


class Control(MountedTest):
    def setUp(self):
        super().setUp()
        self.control = os.path.join(self.mnt, ".itemfs")
        self.write("a.json", '{"n": 1}')

    def text(self, name):
        with open(os.path.join(self.control, name)) as file:
            return file.read()

    def test_never_listed_but_there(self):
        self.assertNotIn(".itemfs", os.listdir(self.mnt))
        self.assertTrue(os.path.isdir(self.control))
        self.assertLessEqual({"status.json", "metrics", "tables", "drafts"},
                             set(os.listdir(self.control)))
        self.assertNotIn(".itemfs", self.names())
        self.assertFalse(os.path.exists(os.path.join(self.dir, ".itemfs")))

    def test_walkers_meet_items_only(self):
        for script in ("find . ", "grep -rl n .", "du -a .", "ls -aR ."):
            self.assertNotIn(".itemfs", self.sh(script, cwd=self.mnt).stdout)
        out = os.path.join(self.place, "out-" + self.table)
        self.run_tool(["rsync", "-a", self.mnt + "/", out + "/"])
        self.assertNotIn(".itemfs", os.listdir(out))

    def test_status(self):
        status = json.loads(self.text("status.json"))
        self.assertIsInstance(status, dict)
        self.assertTrue(status)
        self.assertIn(os.path.basename(self.db), json.dumps(status))

    def test_status_is_always_fresh_and_whole(self):
        for number in range(30):
            self.write("a.json", f'{{"n": {number}}}')
            json.loads(self.text("status.json"))
            size = os.stat(os.path.join(self.control, "metrics")).st_size
            self.assertGreaterEqual(size, 0)

    def metrics(self):
        found = {}
        for line in self.text("metrics").splitlines():
            if line.startswith("#") or not line:
                continue
            match = re.fullmatch(r'(itemfs_[a-z0-9_]+(?:\{[^}]*\})?) ([-+0-9.eE]+|NaN|\+Inf)', line)
            self.assertTrue(match, line)
            found[match[1]] = float(match[2])
        return found

    def test_metrics(self):
        before = self.metrics()
        self.assertTrue(before)
        for number in range(10):
            self.write("a.json", f'{{"m": {number}}}')
        after = self.metrics()
        self.assertLessEqual(set(before), set(after))
        grown = [name for name in after if after[name] >= before.get(name, 0) + 10]
        self.assertTrue(grown, "no counter saw ten saves")

    def test_metrics_have_types(self):
        text = self.text("metrics")
        names = {name.split("{")[0] for name in self.metrics()}
        for name in names:
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            self.assertRegex(text, rf"(?m)^# TYPE ({name}|{base}) (counter|gauge|histogram|summary)$")

    def test_tables(self):
        self.assertIn(self.table + ".json", os.listdir(self.control + "/tables"))
        got = json.loads(self.text(f"tables/{self.table}.json"))
        self.assertEqual(self.table, got["TableName"])
        self.assertEqual("tags", got["Keys"])
        other = self.table + "-sorted"
        self.create(other, "--key", "c:S", "--sort", "d:N", "--index", "by-x:x:S,y:N")
        wait_for("the description", lambda: os.path.exists(f"{self.control}/tables/{other}.json"), 1)
        got = json.loads(self.text(f"tables/{other}.json"))
        self.assertEqual([("c", "HASH", "S"), ("d", "RANGE", "N")],
                         [(part["AttributeName"], part["KeyType"], part["AttributeType"])
                          for part in got["KeySchema"]])
        self.assertEqual(1, len(got["Indexes"]))
        os.rmdir(os.path.join(self.mnt, other))
        self.assertFalse(os.path.exists(f"{self.control}/tables/{other}.json"))

    def test_nothing_can_be_made_or_changed(self):
        for name in ("status.json", "metrics", f"tables/{self.table}.json"):
            with self.subTest(name=name):
                for flags in (os.O_WRONLY, os.O_WRONLY | os.O_TRUNC, os.O_RDWR):
                    with self.assertRaises(OSError) as caught:
                        os.open(f"{self.control}/{name}", flags)
                    self.assertIn(caught.exception.errno, (errno.EACCES, errno.EPERM, errno.EROFS))
                with self.assertRaises(OSError):
                    os.unlink(f"{self.control}/{name}")
        for name in ("x", "drafts/x", "tables/x.json"):
            with self.assertRaises(OSError):
                os.open(f"{self.control}/{name}", os.O_CREAT | os.O_WRONLY)
            with self.assertRaises(OSError):
                os.mkdir(f"{self.control}/{name}")
        with self.assertRaises(OSError):
            os.rename(self.control, os.path.join(self.mnt, "elsewhere"))
        with self.assertRaises(OSError):
            os.rmdir(self.control)

    def test_drafts(self):
        self.assertErrno(errno.EINVAL, self.write, "bad.json", '{"x": }')
        folder = f"{self.control}/drafts/{self.table}"
        self.assertEqual(["bad.json"], os.listdir(folder))
        self.assertEqual(["user.itemfs.error"], os.listxattr(folder + "/bad.json"))
        found = os.stat(folder + "/bad.json")
        self.assertEqual(7, found.st_size)
        listed = json.loads(self.itemctl("drafts", "--json").stdout.splitlines()[0])
        self.assertIn("bad.json", json.dumps(listed))
        self.sh(f"cat {folder}/bad.json; rm {folder}/bad.json")
        self.assertEqual([], self.drafts())

    def test_a_program_replaces_its_own_draft_only(self):
        for body in ('{"x": }', "["):
            self.assertErrno(errno.EINVAL, self.write, "bad.json", body)
        self.assertEqual(["bad.json"], self.drafts())
        self.assertEqual(b"[", self.draft("bad.json")[0])
        self.sh("echo '{' | dd of=bad.json status=none", status=1)
        self.assertEqual(["bad.json", "bad.json.2"], self.drafts())
        self.assertEqual([b"[", b"{\n"], [self.draft(name)[0] for name in self.drafts()])

    def test_drafts_of_sorted_tables(self):
        other = self.table + "-sorted"
        self.create(other, "--key", "c", "--sort", "d")
        os.mkdir(os.path.join(self.mnt, other, "p"))
        self.assertErrno(errno.EINVAL, self.write, f"../{other}/p/x.json", "{")
        with open(f"{self.control}/drafts/{other}/p/x.json", "rb") as file:
            self.assertEqual(b"{", file.read())


class ChangeRecords(MountedTest):
    """What itemctl tells of changes made through the mount."""

    def test_records_agree_with_what_was_done(self):
        self.write("b_a.json", '{"n": 1.50}')
        self.sh("sed -i s/1.50/2/ a_b.json; rm a_b.json")
        got = self.store.streamed(self.table)
        key = {"key": {"S": "a_b"}}
        self.assertEqual([("INSERT", key, None, key | {"n": {"N": "1.50"}}),
                          ("MODIFY", key, key | {"n": {"N": "1.50"}}, key | {"n": {"N": "2"}}),
                          ("REMOVE", key, key | {"n": {"N": "2"}}, None)],
                         [(record["change_type"], record["keys"], record.get("old_item"),
                           record.get("new_item")) for record in got])
        self.assertEqual(3, len({record["change_id"] for record in got}))
        self.assertEqual(sorted(record["time"] for record in got),
                         [record["time"] for record in got])

    def test_xattrs_name_the_last_record(self):
        self.write("a.json", '{"n": 1}')
        self.write("a.json", '{"n": 2}')
        last = self.store.streamed(self.table)[-1]
        self.assertEqual(last["change_id"],
                         os.getxattr(self.path("a.json"), "user.itemfs.change_id").decode())


if __name__ == "__main__":
    unittest.main()
