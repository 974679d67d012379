# SPDX-License-Identifier: MIT
"""Starch's sessions in a store, seen through a mount: profile = starch."""

import errno
import json
import os
import subprocess
import unittest

from harness import MountedTest, wait_for
from sessions import EXPIRATION, FAR, KEY, Sessions

TABLE = "starch_states"


def typed(value):
    """The attribute of a plain value: what the store's own SQLite gives knows no other."""
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, dict) and "$B" in value:
        return {"B": value["$B"]}
    if isinstance(value, dict) and "$SS" in value:
        return {"SS": value["$SS"]}
    return {"N": json.dumps(value)}


class StoredSessions(MountedTest):
    config = "[backend store]\ntype = sqlite\npath = {store}\n[table starch_states]\nprofile = starch\n"

    @classmethod
    def prepare(cls):
        os.mkdir(os.path.join(cls.mnt, TABLE))

    def make_table(self):
        self.table = TABLE
        self.dir = os.path.join(self.mnt, TABLE)

    def put_stored(self, item):
        self.itemctl("put", TABLE, "--item", "-", input=json.dumps(item))

    def stored(self, key):
        body = self.store.body(TABLE, key)
        return {KEY: {"S": key}, **{k: typed(v) for k, v in json.loads(body).items()}} if body else None


class Store(Sessions, StoredSessions):
    def test_the_table(self):
        self.assertEqual([(b"__STARCH_KEY__", b"S", None, b"__STARCH_EXPIRATION__", b"plain")],
                         self.store.rows("SELECT key_name, key_type, sort_name, ttl, keys FROM tables"))

    def test_expired_sessions_are_swept(self):
        name = self.put("x", 100, a={"S": "1"})
        wait_for("the sweep", lambda: self.store.body(TABLE, self.key("x")) is None)
        self.assertNotIn(name, self.names())

    def test_changes_tell_what_is_stored(self):
        self.write(self.file("x"), '{"a": null}')
        with open(os.path.join(self.mnt, ".itemfs", "changes", f"{TABLE}.jsonl"), encoding="utf-8") as file:
            last = json.loads(file.readlines()[-1])
        self.assertEqual({KEY: {"S": self.key("x")}}, last["keys"])
        self.assertEqual({KEY: {"S": self.key("x")}, EXPIRATION: {"N": "0"}, "a": {"S": "__UNDEF__"}},
                         last["new_item"])


class Beside(StoredSessions):
    """Two mounts, one that may only read, tables without a profile, other names of fields."""

    config = StoredSessions.config + ("[table renamed]\nprofile = starch\nkey_field = session\n"
                                      "expiration_field = until\n[table new]\nprofile = starch\n"
                                      "[table late]\nprofile = starch\n")

    def test_two_mounts(self):
        other = self.new_mount(self.source, "other")
        other.env = self.environment()
        other.start()
        there = os.path.join(other.point, TABLE, "s:1.json")
        self.write("s:1.json", '{"a": [1]}')
        wait_for("the other mount's file", lambda: os.path.exists(there))
        os.setxattr(self.path("s:1.json"), "user.itemfs.ttl", str(FAR).encode())
        wait_for("its time to live", lambda: self.xattr(there) == str(FAR))
        self.write("s:1.json", '{"a": [1, 2]}')

        def shown():
            with open(there, encoding="utf-8") as file:
                return json.load(file) == {"a": [1, 2]}
        wait_for("its text", shown)
        os.unlink(there)
        wait_for("its end here", lambda: not os.path.exists(self.path("s:1.json")))
        other.unmount()

    @staticmethod
    def xattr(path):
        try:
            return os.getxattr(path, "user.itemfs.ttl").decode()
        except OSError:
            return None

    def test_read_only(self):
        self.put_stored({KEY: {"S": "ro"}, EXPIRATION: {"N": "0"}, "a": {"S": "__EMPTY__"}})
        self.put_stored({KEY: {"S": "gone"}, EXPIRATION: {"S": "100"}, "a": {"S": "1"}})
        other = self.new_mount(self.source, "ro", ("ro",))
        other.env = self.environment()
        other.start()
        folder = os.path.join(other.point, TABLE)
        with open(os.path.join(folder, "ro.json"), encoding="utf-8") as file:
            self.assertEqual({"a": ""}, json.load(file))
        self.assertFalse(os.path.exists(os.path.join(folder, "gone.json")))
        self.assertIsNotNone(self.stored("gone"))  # who may only read removes nothing
        done = subprocess.run(["touch", os.path.join(folder, "new.json")], capture_output=True, check=False)
        self.assertIn(b"Read-only file system", done.stderr)
        other.unmount()

    def test_a_table_without_a_profile_is_as_it_was(self):
        plain = self.create("plain", "--key", "id")
        with open(os.path.join(plain, "a.json"), "w", encoding="utf-8") as file:
            file.write('{"a":   "__UNDEF__"}')
        self.assertEqual(b'{"a":   "__UNDEF__"}', self.store.body("plain", "a"))
        os.rename(os.path.join(plain, "a.json"), os.path.join(plain, "b.json"))
        self.assertEqual(b'{"a":   "__UNDEF__"}', self.store.body("plain", "b"))
        self.assertEqual(["b.json"], os.listdir(plain))

    def test_other_names_of_fields(self):
        folder = self.create("renamed", "--profile", "starch")
        with open(os.path.join(folder, "s.json"), "w", encoding="utf-8") as file:
            file.write(json.dumps({KEY: "a field as any other", "a": None}))
        self.assertEqual({"session": "s", "until": 0, KEY: "a field as any other", "a": "__UNDEF__"},
                         json.loads(self.store.body("renamed", "s")))
        os.setxattr(os.path.join(folder, "s.json"), "user.itemfs.ttl", str(FAR).encode())
        self.assertEqual(FAR, json.loads(self.store.body("renamed", "s"))["until"])

    def test_out_and_back(self):
        """The time to live stands in the text of a plain table, and beside that of a session."""
        plain = os.path.join(self.create("out", "--key", "id"), "x.json")
        self.write("x.json", '{"a": "1"}')
        os.setxattr(self.path("x.json"), "user.itemfs.ttl", b"%d" % FAR)
        stored = self.stored("x")
        os.rename(self.path("x.json"), plain)
        with open(plain, encoding="utf-8") as file:
            self.assertEqual({"a": "1", "-ttl": FAR}, json.load(file))
        os.rename(plain, self.path("x.json"))
        self.assertEqual(stored, self.stored("x"))
        self.assertEqual(FAR, int(os.getxattr(self.path("x.json"), "user.itemfs.ttl")))

    def test_what_a_session_cannot_have(self):
        """mv copies it then, and tells that the copy is refused; it does not move it "into itself"."""
        plain = os.path.join(self.create("bad", "--key", "id"), "x.json")
        with open(plain, "w", encoding="utf-8") as file:
            file.write('{"a": "__EMPTY__"}')
        self.assertErrno(errno.EXDEV, os.rename, plain, self.path("y.json"))
        told = self.run_tool(["mv", plain, self.path("y.json")], 1).stderr
        self.assertIn("Invalid argument", told)
        self.assertTrue(os.path.exists(plain))
        self.assertFalse(os.path.exists(self.path("y.json")))

    def test_a_table_that_is_renamed(self):
        """Which profile a table has is a matter of its name."""
        self.write("r.json", '{"a": null}')
        other = os.path.join(self.mnt, "renamed-away")
        os.rename(self.dir, other)
        with open(os.path.join(other, "r.json"), encoding="utf-8") as file:
            self.assertEqual({KEY: "r", EXPIRATION: 0, "a": "__UNDEF__"}, json.load(file))
        self.itemctl("put", "renamed-away", "--item", "-", input=json.dumps(
            {KEY: {"S": "r"}, "a": {"S": "__EMPTY__"}}))

        def seen():
            with open(os.path.join(other, "r.json"), encoding="utf-8") as file:
                return json.load(file) == {KEY: "r", "a": "__EMPTY__"}
        wait_for("the change", seen)
        os.rename(other, self.dir)
        wait_for("the session", lambda: json.loads(self.read("r.json")) == {"a": ""})
        os.unlink(self.path("r.json"))

    def test_a_stream_that_is_switched(self):
        os.setxattr(self.dir, "user.itemfs.stream", b"disabled")
        self.write("s.json", '{"a": null}')
        self.put_stored({KEY: {"S": "s"}, EXPIRATION: {"N": "0"}, "a": {"S": "__EMPTY__"}})
        wait_for("the change", lambda: json.loads(self.read("s.json")) == {"a": ""})
        os.unlink(self.path("s.json"))
        os.setxattr(self.dir, "user.itemfs.stream", b"enabled")
        self.assertEqual([(b"__STARCH_EXPIRATION__", b"plain", 1)], self.store.rows(
            "SELECT ttl, keys, stream FROM tables WHERE name = ?", TABLE))

    def test_tables_come_and_go(self):
        """A table with a profile that is made, and dropped, while it is mounted."""
        folder = os.path.join(self.mnt, "late")
        os.mkdir(folder)
        self.assertEqual([(KEY.encode(), EXPIRATION.encode())], self.store.rows(
            "SELECT key_name, ttl FROM tables WHERE name = 'late'"))
        os.rmdir(folder)
        plainly = lambda *command: self.run_tool(
            ["itemctl", "-s", self.db, *command],
            env=self.environment(PATH=os.path.dirname(self.mount.program)))
        plainly("create", "late", "--key", "id")  # by who knows nothing of the configuration
        wait_for("the warning", lambda: "late: not shown: " in self.mount.log_text())
        self.assertFalse(os.path.exists(folder))
        self.itemctl("drop", "late", status=1)  # it does not fit the configuration
        plainly("drop", "late")

    def test_create_and_describe(self):
        self.itemctl("create", "new", "--profile", "starch", "--key", "id", status=2)
        self.itemctl("create", "new", "--profile", "nothing", status=2)
        self.itemctl("create", "new", "--profile", "starch")
        described = json.loads(self.itemctl("describe", "new").stdout)
        self.assertEqual(("__STARCH_EXPIRATION__", "plain"), (described["TimeToLive"], described["Keys"]))


class Refused(MountedTest):
    """A configuration that says what cannot be is refused before anything is mounted."""

    def make_table(self):
        pass

    def fails(self, text, reason):
        path = os.path.join(self.place, "bad.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"[backend store]\ntype = sqlite\npath = {self.db}\n[table t]\n{text}\n")
        done = self.run_tool([self.mount.program, path, self.new_mount(path, "none").point], 1)
        self.assertIn(reason, done.stderr)
        self.assertIn(reason, self.run_tool(["itemctl", "-s", path, "tables"], 1, env=self.environment(
            PATH=os.path.dirname(self.mount.program))).stderr)

    def test_options(self):
        for text, reason in (
                ("profile = perl", 'bad.conf:4: [table t]: profile: there is no "perl"; there are '),
                ("profile = starch\nkey_fild = a", 'bad.conf:6: [table t]: no key "key_fild" in [table] with'
                                                   " profile = starch"),
                ("profile = starch\nconsistent_read = maybe", "bad.conf:6: [table t]: consistent_read: "),
                ("profile = starch\nkey_field = a\nexpiration_field = a", "are the same"),
                ("profile = starch\nkeys = tags", "show_keys, format and ttl are what its profile says"),
                ("key_field = a", 'bad.conf:5: no key "key_field" in [table]'),
                ("profile = starch\nkey_field = a\nkey_field = b", "key_field is set twice"),
                ("profile = starch\nkey_field =", "key_field has no value")):
            with self.subTest(text):
                self.fails(text, reason)

    def test_a_table_of_another_kind(self):
        for number, (key, reason) in enumerate((
                (("--key", "id"), 'the table\'s key is "id", not "__STARCH_KEY__" (key_field)'),
                (("--key", KEY + ":N"), "is no string"),
                (("--key", KEY, "--sort", "s"), 'the table has a sort key, "s"'))):
            with self.subTest(reason):
                self.itemctl("create", "t", *key)
                self.fails("profile = starch", reason)
                self.itemctl("drop", "t")
                self.assertLess(number, 3)


if __name__ == "__main__":
    unittest.main()
