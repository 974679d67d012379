# SPDX-License-Identifier: MIT
"""A mount of a DynamoDB-compatible service: names, bodies, saves, conflicts, verified with boto3."""

import errno
import json
import os
import subprocess
import unittest

from service import MountedServiceTest, each_service, wait_for


@each_service
class Mounted(MountedServiceTest):
    def test_write_and_read(self):
        self.write("ada.json", '{"name": "Ada", "n": 1.50, "tags": {"$SS": ["b", "a"]}}')
        stored = self.item(id={"S": "ada"})
        self.assertEqual(({"S": "Ada"}, {"a", "b"}), (stored["name"], set(stored["tags"]["SS"])))
        text = ('{\n  "id": "ada",\n  "n": 1.5,\n  "name": "Ada",\n  "tags": {\n    "$SS": [\n'
                '      "a",\n      "b"\n    ]\n  }\n}\n')
        self.assertEqual(text, self.read("ada.json"))
        self.assertEqual(len(text), os.stat(self.path("ada.json")).st_size)

    def test_listing_and_removal(self):
        for number in range(30):
            self.put(id={"S": f"k{number:02}"}, n={"N": str(number)})
        self.assertEqual([f"k{n:02}.json" for n in range(30)], sorted(os.listdir(self.dir)))
        self.sh("ls -l > /dev/null; grep -l '\"n\": 7$' *.json; rm k0*.json", cwd=self.dir)
        self.assertEqual(20, len(os.listdir(self.dir)))
        self.assertIsNone(self.item(id={"S": "k05"}))

    def test_names(self):
        for key in ("a/b", ".hidden", "100%", "ünï", "a b", "x" * 300, "t\tab"):
            self.put(id={"S": key}, v={"S": key})
        names = os.listdir(self.dir)
        self.assertEqual(7, len(names))
        for name in names:
            item = json.loads(self.read(name))
            self.assertEqual(item["v"], item["id"])
        self.assertIn("a%2Fb.json", names)

    def test_editing(self):
        self.put(id={"S": "a"}, name={"S": "Ada"}, keep={"B": b"\0\1"})
        self.sh("sed -i s/Ada/Augusta/ a.json", cwd=self.dir)
        self.assertEqual({"id": {"S": "a"}, "name": {"S": "Augusta"}, "keep": {"B": b"\0\1"}},
                         self.item(id={"S": "a"}))
        self.assertEqual(["a.json"], os.listdir(self.dir))

    def test_change_elsewhere_is_a_conflict(self):
        for change in ({"name": {"S": "Bob"}},                        # a value
                       {"name": {"S": "Ada"}, "added": {"N": "1"}},  # an attribute more
                       {}):                                          # one less
            with self.subTest(change=change):
                self.put(id={"S": "a"}, name={"S": "Ada"})
                fd = os.open(self.path("a.json"), os.O_RDWR)
                os.read(fd, 1000)
                self.put(id={"S": "a"}, **change)
                os.ftruncate(fd, 0)
                os.pwrite(fd, b'{"name": "Eve"}', 0)
                self.assertErrno(errno.ESTALE, os.close, fd)
                self.assertEqual({"id": {"S": "a"}, **change}, self.item(id={"S": "a"}))
                self.assertIn("Eve", open(os.path.join(  # pylint: disable=consider-using-with
                    self.mount.point, ".itemfs/drafts", self.table, self.drafts()[-1])).read())

    def test_conflict_within_a_map(self):
        inner = lambda v: {"M": {"v": {"N": v}, "l": {"L": [{"S": "x"}]}}}
        self.put(id={"S": "a"}, m=inner("1"))
        self.sh("sed -i 's/\"x\"/\"y\"/' a.json", cwd=self.dir)  # without a conflict
        self.assertEqual({"M": {"v": {"N": "1"}, "l": {"L": [{"S": "y"}]}}}, self.item(id={"S": "a"})["m"])
        fd = os.open(self.path("a.json"), os.O_RDWR)
        os.read(fd, 1000)
        self.put(id={"S": "a"}, m=inner("2"))
        os.ftruncate(fd, 0)
        os.pwrite(fd, b'{"v": "mine"}', 0)
        self.assertErrno(errno.ESTALE, os.close, fd)
        self.assertEqual(inner("2"), self.item(id={"S": "a"})["m"])

    def test_deleted_elsewhere(self):
        self.put(id={"S": "a"}, name={"S": "Ada"})
        fd = os.open(self.path("a.json"), os.O_RDWR)
        os.read(fd, 1000)
        self.boto.delete_item(TableName=self.table, Key={"id": {"S": "a"}})
        os.pwrite(fd, b'{"name": "Eve", "id": "a"}            ', 0)
        self.assertErrno(errno.ESTALE, os.close, fd)
        self.assertIsNone(self.item(id={"S": "a"}))
        self.assertFalse(os.path.exists(self.path("a.json")))

    def test_changes_elsewhere_are_seen(self):
        self.put(id={"S": "a"}, v={"N": "1"})
        self.assertIn('"v": 1', self.read("a.json"))
        self.put(id={"S": "a"}, v={"N": "2"})
        self.assertIn('"v": 2', self.read("a.json"))
        self.assertFalse(os.path.exists(self.path("b.json")))
        self.put(id={"S": "b"})
        self.assertTrue(os.path.exists(self.path("b.json")))
        self.boto.delete_item(TableName=self.table, Key={"id": {"S": "a"}})
        self.assertFalse(os.path.exists(self.path("a.json")))

    def test_bad_json_is_kept(self):
        self.put(id={"S": "a"}, v={"N": "1"})
        self.assertErrno(errno.EINVAL, self.write, "a.json", '{"v": 2,}')
        self.assertEqual({"N": "1"}, self.item(id={"S": "a"})["v"])
        self.assertEqual(["a.json"], self.drafts())

    def test_numbers_beyond_the_service(self):
        self.assertErrno(errno.ERANGE, self.write, "a.json", '{"n": 1%s}' % ("23456789" * 5))
        self.assertIsNone(self.item(id={"S": "a"}))

    def test_other_names_are_refused(self):
        self.assertErrno(errno.EINVAL, self.write, "README", "text")
        self.write(".hidden", "scratch")
        self.assertEqual("scratch", self.read(".hidden"))

    def test_rename(self):
        self.put(id={"S": "a"}, v={"N": "1"})
        os.rename(self.path("a.json"), self.path("b.json"))
        self.assertIsNone(self.item(id={"S": "a"}))
        self.assertEqual({"id": {"S": "b"}, "v": {"N": "1"}}, self.item(id={"S": "b"}))

    def test_times_and_rsync(self):
        for number in range(20):
            self.put(id={"S": f"k{number}"}, n={"N": str(number)})
        out = self.dir.replace("mnt", "out")
        os.makedirs(out)
        copy = ["rsync", "-ai", self.dir + "/", out + "/"]
        self.run_tool(copy)
        self.assertEqual("", self.run_tool(copy).stdout)
        self.mount.remount()
        self.assertEqual("", self.run_tool(copy).stdout)
        self.put(id={"S": "k7"}, n={"N": "70"})
        sent = [line for line in self.run_tool(copy).stdout.splitlines() if line.startswith(">")]
        self.assertEqual(1, len(sent))
        self.assertRegex(sent[0], "^>f.s[t.]...... k7.json$")

    def test_directories_of_a_sorted_table(self):
        self.forget(self.table)
        self.make(sort=("day", "N"))
        self.put(id={"S": "c7"}, day={"N": "20240105"}, v={"S": "x"})
        wait_for("the partition", lambda: os.path.isdir(self.path("c7")))
        self.assertEqual(["20240105.json"], os.listdir(self.path("c7")))
        os.mkdir(self.path("c8"))
        self.write("c8/1.json", '{"v": "y"}')
        self.assertEqual({"id": {"S": "c8"}, "day": {"N": "1"}, "v": {"S": "y"}},
                         self.item(id={"S": "c8"}, day={"N": "1"}))

    def test_tables_by_mkdir_and_rmdir(self):
        path = self.dir + "-new"
        self.addCleanup(self.forget, self.table + "-new")
        os.mkdir(path)
        made = self.boto.describe_table(TableName=self.table + "-new")["Table"]
        self.assertEqual([{"AttributeName": "key", "KeyType": "HASH"}], made["KeySchema"])
        with open(path + "/a.json", "w") as file:
            file.write("5")
        self.assertErrno(errno.ENOTEMPTY, os.rmdir, path)
        os.unlink(path + "/a.json")
        os.rmdir(path)
        with self.assertRaises(self.boto.exceptions.ResourceNotFoundException):
            self.boto.describe_table(TableName=self.table + "-new")

    def test_names_that_no_table_can_have(self):
        for name in ("a", "x y", "caf\u00e9", "x" * 256, "a:b"):
            with self.subTest(name=name):
                path = os.path.join(self.mount.point, name)
                missing = errno.ENAMETOOLONG if len(name) > 255 else errno.ENOENT
                self.assertErrno(missing, os.stat, path)
                self.assertErrno(errno.ENAMETOOLONG if len(name) > 255 else errno.EINVAL,
                                 os.mkdir, path)
        self.assertErrno(errno.EINVAL, os.mkdir, os.path.join(self.mount.point, "x y"))
        self.assertEqual(b"table x y: the service's tables have names of 3 to 255 letters, digits, "
                         b"_, - and .", os.getxattr(self.mount.point, "user.itemfs.error"))


if __name__ == "__main__":
    unittest.main()
