# SPDX-License-Identifier: MIT
"""rsync out of a mount and into one: times, extended attributes, deletion, alias names."""

import os
import subprocess
import unittest

from harness import MountedTest, wait_for


class RsyncOut(MountedTest):
    def setUp(self):
        super().setUp()
        self.out = os.path.join(self.place, "out-" + self.table)
        for i in range(20):
            self.write(f"k{i}.json", f'{{"v": {i}}}')
            os.utime(self.path(f"k{i}.json"), (1_600_000_000, 1_600_000_000))  # whole seconds count
        self.mark()

    def rsync(self, *options):
        """Lines of --itemize-changes: what was copied or set."""
        return self.run_tool(["rsync", "-ai", *options, self.dir + "/", self.out + "/"]
                             ).stdout.splitlines()

    def test_full_then_nothing_then_one(self):
        lines = self.rsync()
        self.assertEqual(20, sum(line.startswith(">f+++++++++") for line in lines))
        for i in range(20):
            with open(f"{self.out}/k{i}.json") as file:
                self.assertEqual(f'{{"v": {i}}}', file.read())
        self.assertEqual([], self.rsync())
        self.write("k7.json", '{"v": 777}')
        self.assertEqual([">f.st...... k7.json"], self.rsync())
        self.assertEqual([], self.rsync("--checksum"))

    def test_nothing_to_do_after_a_remount(self):
        self.rsync()
        self.mount.remount()
        self.assertEqual([], self.rsync())

    def test_same_size_edit_is_seen(self):
        self.rsync()
        self.write("k3.json", '{"v": 8}')
        self.assertEqual([">f..t...... k3.json"], self.rsync())

    def test_deletion(self):
        self.rsync()
        os.unlink(self.path("k5.json"))
        lines = self.rsync("--delete")
        self.assertEqual(["*deleting   k5.json"], [x for x in lines if not x.startswith(".d")])
        self.assertFalse(os.path.exists(self.out + "/k5.json"))

    def test_sorted_table(self):
        table = self.table + "-sorted"
        self.create(table, "--key", "c", "--sort", "d")
        for name in ("p1", "p2"):
            os.mkdir(f"{self.mnt}/{table}/{name}")
            with open(f"{self.mnt}/{table}/{name}/x.json", "w") as file:
                file.write("{}")
        self.dir = os.path.join(self.mnt, table)
        self.assertEqual(2, sum(line.startswith(">f") for line in self.rsync()))
        self.assertEqual([], self.rsync())


class RsyncIn(MountedTest):
    def setUp(self):
        super().setUp()
        self.src = os.path.join(self.place, "src-" + self.table)
        os.mkdir(self.src)
        for i in range(10):
            self.put(f"k{i}.json", f'{{"v": {i}}}', 1_600_000_000 + i)

    def put(self, name, body, mtime=1_700_000_000):
        path = os.path.join(self.src, name)
        with open(path, "w") as file:
            file.write(body)
        os.utime(path, (mtime, mtime))

    def rsync(self, *options):
        return self.run_tool(["rsync", "-ai", *options, self.src + "/", self.dir + "/"]
                             ).stdout.splitlines()

    def items(self, lines):
        """Without lines on directories."""
        return [line for line in lines if not line.startswith((".d", "cd"))]

    def test_full_then_nothing_then_one(self):
        self.assertEqual(10, len(self.items(self.rsync())))
        for i in range(10):
            self.assertBoth(f"k{i}.json", f'{{"v": {i}}}')
            self.assertEqual(1_600_000_000 + i, os.stat(self.path(f"k{i}.json")).st_mtime)
        self.assertEqual(sorted(f"INSERT k{i}" for i in range(10)),
                         sorted(self.store.changes(self.table)))
        self.assertEqual([], self.items(self.rsync()))
        self.mark()
        self.put("k7.json", '{"v": 777}')
        self.assertEqual([">f.st...... k7.json"], self.items(self.rsync()))
        self.assertBoth("k7.json", '{"v": 777}')
        self.assertChanges("MODIFY k7")
        self.assertEqual([f"k{i}.json" for i in range(10)], self.names())

    def test_nothing_at_all_to_do(self):
        self.rsync()
        # A directory's time moves with changes alone, so rsync may find it older or newer.
        self.assertEqual([], [line for line in self.rsync() if not line.startswith(".d..t")])

    def test_time_alone(self):
        self.rsync()
        self.mark()
        os.utime(self.src + "/k1.json", (1_650_000_000, 1_650_000_000))
        self.assertEqual([".f..t...... k1.json"], self.items(self.rsync("--checksum")))
        self.assertEqual(1_650_000_000, os.stat(self.path("k1.json")).st_mtime)
        self.assertChanges()

    def test_inplace(self):
        self.rsync()
        self.mark()
        for body in ('{"v": 1, "longer": true}', '{"v":1}'):
            self.put("k1.json", body, 1_700_000_000 + len(body))
            self.assertEqual(1, len(self.items(self.rsync("--inplace"))))
            self.assertBoth("k1.json", body)
            self.assertEqual(1_700_000_000 + len(body), os.stat(self.path("k1.json")).st_mtime)
        self.assertEqual([], self.items(self.rsync("--inplace")))
        self.assertChanges("MODIFY k1", "MODIFY k1")

    def test_inplace_without_whole_file(self):
        self.put("k1.json", '{"pad": "' + "x" * 100_000 + '", "v": 1}')
        self.rsync()
        self.mark()
        body = '{"pad": "' + "x" * 100_000 + '", "v": 2}'
        self.put("k1.json", body, 1_700_000_100)
        self.rsync("--inplace", "--no-whole-file")
        self.assertBoth("k1.json", body)
        self.assertChanges("MODIFY k1")

    def test_delta_partial_and_delayed(self):
        body = '{"pad": "' + "x" * 100_000 + '", "v": %d}'
        for number, option in enumerate(("--no-whole-file", "--partial", "--delay-updates",
                                         "--partial-dir=.partial", "--temp-dir=.", "--fsync")):
            with self.subTest(option=option):
                self.put("k1.json", body % number, 1_700_000_000 + number)
                extra = ["--delay-updates"] if option.startswith("--partial-dir") else []
                self.rsync(option, *extra)
                self.assertBoth("k1.json", body % number)
                self.assertEqual([f"k{i}.json" for i in range(10)], self.names())

    def test_deletion(self):
        self.rsync()
        self.mark()
        os.unlink(self.src + "/k5.json")
        self.assertEqual(["*deleting   k5.json"], self.items(self.rsync("--delete")))
        self.assertNotIn("k5.json", self.names())
        self.assertChanges("REMOVE k5")

    def test_invalid_file_fails_and_is_kept(self):
        self.put("bad.json", "{")
        done = self.run_tool(["rsync", "-a", self.src + "/", self.dir + "/"], status=None)
        self.assertIn(done.returncode, (23, 11))
        self.assertEqual([f"k{i}.json" for i in range(10)], self.names())
        self.assertEqual(b"{", self.draft("bad.json")[0])

    def test_backup_and_restore_with_xattrs(self):
        self.rsync()
        os.setxattr(self.path("k1.json"), "user.itemfs.ttl", b"4102444800")
        out = self.src + "-saved"
        copy = ["rsync", "-aiX"]
        self.run_tool([*copy, self.dir + "/", out + "/"])
        self.assertEqual("", self.run_tool([*copy, self.dir + "/", out + "/"]).stdout)
        self.assertEqual(b"4102444800", os.getxattr(out + "/k1.json", "user.itemfs.ttl"))
        # Into an empty store, mounted elsewhere.
        db = os.path.join(self.place, self.table + ".db")
        mount = self.new_mount(db, "second-" + self.table)
        mount.start()
        back = os.path.join(mount.point, "restored")
        self.run_tool([*copy, out + "/", back + "/"])
        for i in range(10):
            for name in (f"{self.dir}/k{i}.json", f"{back}/k{i}.json"):
                with open(name) as file:
                    text = file.read()
                self.assertIn(f'"v": {i}', text)
            self.assertEqual(os.stat(f"{self.dir}/k{i}.json").st_mtime_ns,
                             os.stat(f"{back}/k{i}.json").st_mtime_ns)
        self.assertEqual(b"4102444800", os.getxattr(back + "/k1.json", "user.itemfs.ttl"))
        # No bytes and no times to set. Attributes that tell of the last change (change_id ...) are
        # each store's own: rsync sees them differ, writes them, and they stay.
        again = self.run_tool([*copy, out + "/", back + "/"]).stdout.splitlines()
        self.assertEqual([], [line for line in self.items(again)
                              if not line.startswith(".f........x ")])
        without = self.run_tool(["rsync", "-ai", out + "/", back + "/"]).stdout.splitlines()
        self.assertEqual([], self.items(without))
        mount.unmount()


class RsyncTagKeys(MountedTest):
    """The sender's name of an item differs from its listed name: nothing may be lost."""

    def setUp(self):
        super().setUp()
        self.src = os.path.join(self.place, "src-" + self.table)
        os.mkdir(self.src)
        self.sender = self.src + "/users_roles.json"
        with open(self.sender, "w") as file:
            file.write('{"v": 1}')
        os.utime(self.sender, (1_600_000_000, 1_600_000_000))

    def rsync(self, *options):
        self.run_tool(["rsync", "-a", *options, self.src + "/", self.dir + "/"])

    def item_is(self, body):
        self.assertEqual(["roles_users.json"], self.names())
        self.assertBoth("roles_users.json", body)
        self.assertEqual(body.encode(), self.read("users_roles.json"))

    def check(self, *options):
        self.rsync(*options)
        self.item_is('{"v": 1}')
        self.rsync(*options)  # up to date
        self.item_is('{"v": 1}')
        self.rsync(*options)
        self.item_is('{"v": 1}')
        with open(self.sender, "w") as file:
            file.write('{"v": 22}')
        self.rsync(*options)  # changed
        self.item_is('{"v": 22}')
        self.write("gone.json", "{}")
        self.rsync(*options)  # a true deletion happens beside it
        self.item_is('{"v": 22}')

    def test_delete_before(self):
        self.check("--delete-before")

    def test_delete_during(self):
        self.check("--delete-during")

    def test_delete_delay(self):
        self.check("--delete-delay")

    def test_delete_after(self):
        self.check("--delete-after")

    def test_delete_with_delayed_updates(self):
        self.check("--delete", "--delay-updates")

    def test_what_is_not_sent_again_is_not_lost(self):
        self.rsync()
        os.setxattr(self.path("roles_users.json"), "user.itemfs.ttl", b"4102444800")
        for option in ("--max-size=1", "--existing", "--delete-before", "--delete-during"):
            with self.subTest(option):
                self.rsync("--delete", option)
                self.assertEqual(["roles_users.json"], self.names())
                self.assertEqual(b"4102444800",
                                 os.getxattr(self.path("roles_users.json"), "user.itemfs.ttl"))

    def test_deletion_of_what_the_sender_has_not(self):
        self.rsync()
        self.write("gone_away.json", "{}")
        self.rsync("--delete")
        self.assertEqual(["roles_users.json"], self.names())
        wait_for("the deletion in the store",
                 lambda: self.store.body(self.table, "away_gone") is None)

    def test_delete_inplace(self):
        self.check("--delete", "--inplace")

    def test_backups_of_deletions(self):
        for when in ("--delete-after", "--delete-delay", "--delete-before", "--delete-during"):
            with self.subTest(when):
                for _ in range(3):
                    self.rsync("--backup", when)
                    self.assertIn("roles_users.json", self.names())
        self.settle()
        self.assertBoth("roles_users.json", '{"v": 1}')
        self.assertEqual(["INSERT roles_users"], self.store.changes(self.table))

    def test_two_at_once(self):
        for number in range(20):
            with open(f"{self.src}/z{number}.json", "w") as file:
                file.write("1" * 20000)
        slow = subprocess.Popen(["rsync", "-a", "--delete-after", "--bwlimit=200",
                                 self.src + "/", self.dir + "/"], env=self.environment(),
                                stderr=subprocess.DEVNULL)
        wait_for("the first run's item", lambda: "roles_users.json" in self.names())
        # 24: a temporary of the other's has vanished between the listing and the look at it.
        second = subprocess.run(["rsync", "-a", "--delete-after", self.src + "/", self.dir + "/"],
                                env=self.environment(), capture_output=True, text=True, check=False)
        self.assertIn(second.returncode, (0, 24), second.stderr)
        slow.wait()
        self.settle()
        self.assertBoth("roles_users.json", '{"v": 1}')

    def settle(self):
        """Whatever waits for an rsync to end has happened: an unmount does it all."""
        self.mount.remount()

    def test_both_names_at_the_sender(self):
        with open(self.src + "/roles_users.json", "w") as file:
            file.write('{"v": 3}')
        self.rsync("--delete")
        self.assertEqual(["roles_users.json"], self.names())
        self.assertIn(self.read("roles_users.json"), (b'{"v": 1}', b'{"v": 3}'))


if __name__ == "__main__":
    unittest.main()
