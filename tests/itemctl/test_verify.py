# SPDX-License-Identifier: MIT
"""verify: replicas compared byte for byte, and made alike."""

import json
import os

from ctl import ABSENT, DONE, FAILED, USAGE
from test_health import ReplicaTest

OLD = 10**18


class Verify(ReplicaTest):
    def setUp(self):
        super().setUp()
        for root in self.roots:
            for number in range(1300):  # more than are read at once
                self.file(root, f"i{number}.json", str(number))

    def file(self, root, name, data=None, mtime=OLD, table="users"):
        path = os.path.join(root, table, name)
        if data is None:
            with open(path, "rb") as file:
                return file.read().decode(), os.stat(path).st_mtime_ns
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data.encode())
        os.utime(path, ns=(mtime, mtime))
        return path

    def verify(self, *arguments, status=DONE):
        """The differences by file, each as (since, repaired, copies), and the counts."""
        out, err = self.run_ctl("verify", *arguments, status=status)
        document = json.loads(out)
        found = {(d["TableName"], d["File"]): (d["Since"], d["Repaired"], [
            "missing" if r["Missing"] else r.get("Reason") or
            (r["Size"], r["Mtime"], r.get("Newest", False)) for r in d["Replicas"]])
            for d in document.pop("Differences")}
        return found, document, err

    def both(self, name):
        return [self.file(root, name) for root in self.roots]

    def drafts(self):
        return {draft["Path"]: self.out("drafts", "users", draft["Path"])
                for draft in json.loads(self.out("drafts", "users"))["Drafts"]}

    def test_equal(self):
        self.file(self.roots[1], "i7.json", "7", mtime=OLD + 5)  # a time is no difference
        self.file(self.roots[1], "notes.txt", "mine")
        found, counts, _ = self.verify("users")
        self.assertEqual({}, found)
        self.assertEqual({"Files": 1300, "Differ": 0, "Repaired": 0, "Replicas": 2, "OutOfUse": 0},
                         counts)

    def make_differences(self):
        self.file(self.roots[0], "i3.json", "old")
        self.file(self.roots[1], "i3.json", '"newer"', mtime=OLD + 2 * 10**9)
        self.file(self.roots[1], "i4.json", "5")  # as large and as old
        os.unlink(os.path.join(self.roots[0], "users", "i1299.json"))
        self.file(self.roots[0], "alone.json", "1")
        self.file(self.roots[0], "b_a.json", "no item", mtime=OLD + 10**9)
        self.file(self.roots[1], "b_a.json", "is here")
        self.file(self.roots[1], "x.json", "1", table="more")

    DIFFERENCES = {
        ("users", "i3.json"): ("2001-09-09T01:46:42.000000000Z", False, [
            (3, "2001-09-09T01:46:40.000000000Z", False),
            (7, "2001-09-09T01:46:42.000000000Z", True)]),
        ("users", "i4.json"): ("2001-09-09T01:46:40.000000000Z", False, [
            (1, "2001-09-09T01:46:40.000000000Z", True),
            (1, "2001-09-09T01:46:40.000000000Z", False)]),
        ("users", "i1299.json"): ("2001-09-09T01:46:40.000000000Z", False, [
            "missing", (4, "2001-09-09T01:46:40.000000000Z", True)]),
        ("users", "alone.json"): ("2001-09-09T01:46:40.000000000Z", False, [
            (1, "2001-09-09T01:46:40.000000000Z", True), "missing"]),
        ("users", "b_a.json"): ("2001-09-09T01:46:41.000000000Z", False, [
            (7, "2001-09-09T01:46:41.000000000Z", True),
            (7, "2001-09-09T01:46:40.000000000Z", False)]),
        ("more", "x.json"): ("2001-09-09T01:46:40.000000000Z", False, [
            "missing", (1, "2001-09-09T01:46:40.000000000Z", True)]),
    }

    def test_what_differs(self):
        self.out("scan", "users")
        self.make_differences()
        found, counts, err = self.verify(status=FAILED)
        self.assertEqual(self.DIFFERENCES, found)
        self.assertEqual({"Files": 1303, "Differ": 6, "Repaired": 0, "Replicas": 2, "OutOfUse": 0},
                         counts)
        self.assertEqual("itemctl: 6 files differ\n", err)
        self.assertEqual(("old", "5"), (self.both("i3.json")[0][0], self.both("i4.json")[1][0]))
        self.assertEqual({("more", "x.json")}, set(self.verify("more", status=FAILED)[0]))

    def test_repair(self):
        self.out("scan", "users")  # the state database knows what was there
        self.make_differences()
        found, counts, _ = self.verify("--repair")
        self.assertEqual({name: (since, True, copies) for name, (since, _, copies)
                          in self.DIFFERENCES.items()}, found)
        self.assertEqual((6, 6), (counts["Differ"], counts["Repaired"]))
        self.assertEqual(({}, 0), (self.verify()[0], self.verify()[1]["Differ"]))
        self.assertEqual([('"newer"', OLD + 2 * 10**9)] * 2, self.both("i3.json"))
        self.assertEqual([("4", OLD)] * 2, self.both("i4.json"))  # as the state database has it
        self.assertEqual([("1299", OLD)] * 2, self.both("i1299.json"))
        self.assertEqual([("1", OLD)] * 2, self.both("alone.json"))
        self.assertEqual([("no item", OLD + 10**9)] * 2, self.both("b_a.json"))
        self.assertEqual(("1", OLD), self.file(self.roots[0], "x.json", table="more"))
        drafts = self.drafts()
        self.assertEqual({"i3.json": "old", "i4.json": "5", "b_a.json": "is here"},
                         {name: drafts[name] for name in drafts if drafts[name] != "no item"})

    def test_no_files(self):
        """What is no regular file is put aside where another replica has one, and else it stays."""
        odd = os.path.join(self.roots[1], "users", "i5.json")
        os.unlink(odd)
        os.symlink("i6.json", odd)
        os.mkdir(os.path.join(self.roots[0], "users", "dir.json"))
        self.file(self.roots[1], "zz.json", "1")  # behind it
        found, counts, _ = self.verify("users", status=FAILED)
        self.assertEqual([("users", "dir.json"), ("users", "i5.json"), ("users", "zz.json")],
                         sorted(found))
        self.assertIn("i5.json", found["users", "i5.json"][2][1])
        found, counts, error = self.verify("--repair", "users", status=FAILED)
        self.assertEqual((3, 2), (counts["Differ"], counts["Repaired"]))
        self.assertEqual({("users", "dir.json"): False, ("users", "i5.json"): True,
                          ("users", "zz.json"): True},
                         {name: found[name][1] for name in found})
        self.assertIn("no regular file", found["users", "dir.json"][2][0])
        self.assertEqual([("5", OLD)] * 2, self.both("i5.json"))
        self.assertEqual("i6.json", os.readlink(odd + ".aside-1"))
        self.assertEqual([("1", OLD)] * 2, self.both("zz.json"))
        self.assertTrue(os.path.isdir(os.path.join(self.roots[0], "users", "dir.json")))

    def test_out_of_use(self):
        os.rename(self.roots[1], self.path("away"))
        found, counts, err = self.verify("users", status=FAILED)
        self.assertEqual((1, 1), (counts["Replicas"], counts["OutOfUse"]))
        self.assertIn("1 replicas are out of use", err)

    def test_for_people(self):
        self.assertEqual("1300 files in 2 replicas: 0 differ, 0 repaired\n",
                         self.on_terminal("verify"))
        self.file(self.roots[1], "i3.json", "33", mtime=OLD + 1)
        os.unlink(os.path.join(self.roots[1], "users", "i4.json"))
        self.assertEqual(
            "users/i3.json  since 2001-09-09T01:46:40.000000001Z\n"
            f"  {self.roots[0]}  1 bytes of 2001-09-09T01:46:40.000000000Z\n"
            f"  {self.roots[1]}  2 bytes of 2001-09-09T01:46:40.000000001Z, the newest\n"
            "users/i4.json  since 2001-09-09T01:46:40.000000000Z\n"
            f"  {self.roots[0]}  1 bytes of 2001-09-09T01:46:40.000000000Z, the newest\n"
            f"  {self.roots[1]}  missing\n"
            "1300 files in 2 replicas: 2 differ, 0 repaired\n",
            self.on_terminal("verify", status=FAILED))

    def test_others(self):
        self.run_ctl("verify", "none", status=ABSENT)
        self.run_ctl("verify", "a", "b", status=USAGE)
        self.env["ITEMFS_SOURCE"] = self.store
        self.out("create", "t")
        self.assertIn("has no replicas", self.error(FAILED, "verify"))
        self.assertIn("has no replicas", self.error(FAILED, "verify", "t"))
