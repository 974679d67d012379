# SPDX-License-Identifier: MIT
"""Time to live: by attribute and by xattr, expiry at the second, sweep, records."""

import errno
import json
import os
import time
import unittest

from harness import MountedTest, wait_for

FAR = 4102444800
TICK = 0.02  # the kernel counts its cache times in ticks, rounded up
TTL = "user.itemfs.ttl"


class TimeToLive(MountedTest):
    def ttl(self, name):
        try:
            return int(os.getxattr(self.path(name), TTL))
        except OSError as error:
            self.assertEqual(errno.ENODATA, error.errno)
            return None

    def test_attribute_shows_as_xattr(self):
        self.write("a.json", f'{{"-ttl": {FAR}}}')
        self.assertEqual(FAR, self.ttl("a.json"))
        self.assertIn(TTL, os.listxattr(self.path("a.json")))
        self.write("b.json", "{}")
        self.assertIsNone(self.ttl("b.json"))
        self.assertNotIn(TTL, os.listxattr(self.path("b.json")))

    def test_xattr_changes_the_body(self):
        self.write("a.json", '{\n  "n": 1\n}\n')
        os.setxattr(self.path("a.json"), TTL, str(FAR).encode())
        self.assertBoth("a.json", f'{{\n  "n": 1,\n  "-ttl": {FAR}\n}}\n')
        os.setxattr(self.path("a.json"), TTL, str(FAR + 1).encode())
        self.assertBoth("a.json", f'{{\n  "n": 1,\n  "-ttl": {FAR + 1}\n}}\n')
        os.removexattr(self.path("a.json"), TTL)
        self.assertBoth("a.json", '{\n  "n": 1\n}\n')
        self.assertErrno(errno.ENODATA, os.removexattr, self.path("a.json"), TTL)
        self.assertChanges("INSERT a", "MODIFY a", "MODIFY a", "MODIFY a")

    def test_same_value_changes_nothing(self):
        self.write("a.json", f'{{"-ttl": {FAR}}}')
        os.setxattr(self.path("a.json"), TTL, str(FAR).encode())
        self.assertChanges("INSERT a")

    def test_bad_values_are_refused(self):
        self.write("a.json", "{}")
        for value in (b"", b"soon", b"1.5", b"-5x", b" 5", b"9" * 30):
            self.assertErrno(errno.EINVAL, os.setxattr, self.path("a.json"), TTL, value)
        self.assertBoth("a.json", "{}")

    def test_setxattr_flags(self):
        self.write("a.json", "{}")
        self.assertErrno(errno.ENODATA, os.setxattr, self.path("a.json"), TTL, b"%d" % FAR,
                         os.XATTR_REPLACE)
        os.setxattr(self.path("a.json"), TTL, b"%d" % FAR, os.XATTR_CREATE)
        self.assertErrno(errno.EEXIST, os.setxattr, self.path("a.json"), TTL, b"%d" % FAR,
                         os.XATTR_CREATE)

    def test_value_that_is_no_object(self):
        self.write("a.json", "[1, 2]")
        os.setxattr(self.path("a.json"), TTL, str(FAR).encode())
        self.assertBoth("a.json", "[1, 2]")
        self.assertEqual(FAR, self.ttl("a.json"))
        self.sh("sed -i s/2/3/ a.json")
        self.assertBoth("a.json", "[1, 3]")
        self.assertEqual(FAR, self.ttl("a.json"))

    def test_what_never_expires(self):
        for number, value in enumerate(("0", "-5", "1.5", '"5"', "null", "true", "[1]", "0.5",
                                        f"{FAR}000", '"1"', "{}")):
            self.write(f"n{number}.json", f'{{"-ttl": {value}}}')
            self.assertBoth(f"n{number}.json", f'{{"-ttl": {value}}}')
        self.assertEqual(11, len(self.names()))
        self.write("other.json", '{"ttl": 1, "TTL": 1, "-TTL": 1}')
        self.assertIn("other.json", self.names())

    def test_integers_in_other_spellings_expire(self):
        past = int(time.time()) - 60
        for number, value in enumerate((f"{past}", f"{past}.0", "1.7e9", "1700000000")):
            self.write(f"e{number}.json", f'{{"-ttl": {value}}}')
            self.assertFalse(os.path.exists(self.path(f"e{number}.json")), value)

    def watch(self, deadline, present):
        """Asks PRESENT until it says no. It must say yes before DEADLINE and no from then on; an
        answer that came while the second turned proves nothing."""
        while True:
            before = time.time()
            answer = present()
            after = time.time()
            if after < deadline:
                self.assertTrue(answer, f"gone {deadline - after:.3f} s early")
            elif before >= deadline + TICK:
                self.assertFalse(answer, f"still there {before - deadline:.3f} s after")
            if not answer:
                return
            time.sleep(0.001)

    def soon(self):
        return int(time.time()) + 2

    def test_expires_at_the_second_for_stat(self):
        when = self.soon()
        self.write("a.json", f'{{"-ttl": {when}}}')
        self.watch(when, lambda: os.path.exists(self.path("a.json")))
        self.assertChanges("INSERT a", "REMOVE a")

    def test_expires_at_the_second_for_listings(self):
        when = self.soon()
        self.write("a.json", f'{{"-ttl": {when}}}')
        self.write("b.json", "{}")
        self.watch(when, lambda: "a.json" in os.listdir(self.dir))
        self.assertEqual(["b.json"], self.names())

    def test_expires_at_the_second_for_open(self):
        when = self.soon()
        self.write("a.json", f'{{"-ttl": {when}}}')

        def opened():
            try:
                with open(self.path("a.json"), "rb") as file:
                    file.read()
                return True
            except FileNotFoundError:
                return False
        self.watch(when, opened)

    def test_expires_at_the_second_for_aliases(self):
        when = self.soon()
        self.write("a_b.json", f'{{"-ttl": {when}}}')
        self.watch(when, lambda: os.path.exists(self.path("b_a.json")))

    def test_shortened_and_removed_times_take_effect(self):
        self.write("a.json", f'{{"-ttl": {FAR}}}')
        os.stat(self.path("a.json"))
        when = self.soon()
        os.setxattr(self.path("a.json"), TTL, b"%d" % when)
        self.write("b.json", f'{{"-ttl": {when}}}')
        os.removexattr(self.path("b.json"), TTL)
        self.watch(when, lambda: os.path.exists(self.path("a.json")))
        self.assertTrue(os.path.exists(self.path("b.json")))

    def test_exclusive_create_of_an_expired_name(self):
        for number in range(5):
            self.write("a.json", f'{{"-ttl": {time.time() - 5:.0f}}}')
            fd = os.open(self.path("a.json"), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            os.write(fd, b'{"n": %d}' % number)
            os.close(fd)
            self.assertBoth("a.json", f'{{"n": {number}}}')
            os.unlink(self.path("a.json"))

    def test_sweep_makes_a_remove_record(self):
        when = self.soon()
        self.write("a.json", f'{{"-ttl": {when}}}')
        wait_for("the sweep", lambda: self.store.body(self.table, "a") is None, 60)
        records = self.store.records(self.table)
        self.assertEqual([1, 3], [record["change"] for record in records])
        self.assertEqual(1, records[-1]["expired"])
        self.assertGreaterEqual(records[-1]["time"], when * 1_000_000_000)

    def test_directory_with_expired_items_can_be_removed(self):
        self.write("a.json", f'{{"-ttl": {time.time() - 5:.0f}}}')
        os.rmdir(self.dir)
        os.mkdir(self.dir)
        self.assertEqual([], self.names())

    def test_another_attribute(self):
        table = self.table + "-own"
        self.create(table, "--key", "id", "--ttl", "expires")
        path = os.path.join(self.mnt, table, "a.json")
        with open(path, "w") as file:
            file.write('{"-ttl": 5}')
        os.setxattr(path, TTL, b"%d" % FAR)
        with open(path) as file:
            self.assertEqual({"-ttl": 5, "expires": FAR}, json.load(file))

    def test_ttl_by_itemctl(self):
        self.write("a.json", "{}")
        self.itemctl("ttl", self.table, "-k", "a", str(FAR))
        wait_for("the time", lambda: self.ttl("a.json") == FAR, 1)
        self.itemctl("ttl", self.table, "-k", "a", "none")
        wait_for("no time", lambda: self.ttl("a.json") is None, 1)

    def test_survives_editors_copies_and_renames(self):
        self.write("a.json", f'{{"n": 1, "-ttl": {FAR}}}')
        self.write("tmp", '{"n": 2}')
        os.rename(self.path("tmp"), self.path("a.json"))
        self.assertEqual(FAR, self.ttl("a.json"))
        self.sh("cp -a a.json b.json; mv b.json c.json")
        self.assertEqual(FAR, self.ttl("c.json"))


if __name__ == "__main__":
    unittest.main()
