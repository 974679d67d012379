# SPDX-License-Identifier: MIT
"""Names of every kind: how keys appear, that they come back, and what is refused."""

import base64
import errno
import hashlib
import itertools
import json
import os
import unicodedata
import unittest

from harness import MountedTest, wait_for


def hashed(part, kept):
    return f"{kept}~{hashlib.sha256(part.encode()).hexdigest()[:32]}.json"


# Text key -> file name.
NAMES = {
    "plain": "plain.json",
    "with space ": "with space .json",
    "a/b": "a%2Fb.json",
    "/": "%2F.json",
    ".": "%2E.json",
    "..": "%2E..json",
    ".hidden": "%2Ehidden.json",
    "a\0b": "a%00b.json",
    "tab\tnewline\n": "tab%09newline%0A.json",
    "\x01\x1f\x7f": "%01%1F%7F.json",
    "100%": "100%25.json",
    "%2F": "%252F.json",
    "a.json": "a.json.json",
    ".json": "%2Ejson.json",
    "-rf": "-rf.json",
    "~": "~.json",
    "a~": "a~.json",
    "back\\slash\"quote'": "back\\slash\"quote'.json",
    "\u00e9": "\u00e9.json",
    "e\u0301": "e\u0301.json",
    "\U0001f600 \u65e5\u672c": "\U0001f600 \u65e5\u672c.json",
    "\u202eright to left": "\u202eright to left.json",
    "\u0080": "\u0080.json",
    "x" * 235: "x" * 235 + ".json",
    "x" * 236: hashed("x" * 236, "x" * 202),
    "x" * 5000: hashed("x" * 5000, "x" * 202),
    "\u65e5" * 100: hashed("\u65e5" * 100, "\u65e5" * 67),
    "/" * 100: hashed("/" * 100, "%2F" * 67),
    "a~" + "0" * 32: "a%7E" + "0" * 32 + ".json",
    "a~" + "0" * 31: "a~" + "0" * 31 + ".json",
    "a~" + "A" * 32: "a~" + "A" * 32 + ".json",
}


class KeyTable(MountedTest):
    """Each test's table has plain keys, made by itemctl."""

    key = "id"
    sort = None

    def make_table(self):
        more = ["--sort", self.sort] if self.sort else []
        self.create(self.table, "--key", self.key, *more)

    def put(self, item):
        self.itemctl("put", self.table, "--item", "-", input=json.dumps(item))


class PlainKeys(KeyTable):
    def test_keys_become_names(self):
        for number, key in enumerate(NAMES):
            self.put({"id": {"S": key}, "n": {"N": str(number)}})
        wait_for("the last item", lambda: len(self.names()) == len(NAMES), 2)
        self.assertEqual(sorted(NAMES.values()), self.names())
        for number, (key, name) in enumerate(NAMES.items()):
            with self.subTest(key=key[:40]):
                self.assertEqual(number, json.loads(self.read(name))["n"])
                typed = json.loads(os.getxattr(self.path(name), "user.itemfs.key"))
                self.assertEqual({"id": {"S": key}}, typed)

    def test_names_become_keys(self):
        for key, name in NAMES.items():
            if "~" + hashlib.sha256(key.encode()).hexdigest()[:32] in name:
                continue  # nobody can make an item from its hash
            with self.subTest(key=key[:40]):
                self.mark()
                self.write(name, '{"n": 1}')
                self.assertChanges(f"INSERT {key}")
                done = self.itemctl("get", self.table, "-k", json.dumps({"S": key}))
                self.assertEqual({"id": {"S": key}, "n": {"N": "1"}}, json.loads(done.stdout))
                os.unlink(self.path(name))
                self.assertChanges(f"INSERT {key}", f"REMOVE {key}")

    def test_hashed_names_can_be_edited_renamed_and_removed(self):
        key = "long" * 200
        name = hashed(key, "long" * 50 + "lo")
        self.put({"id": {"S": key}, "n": {"N": "1"}})
        wait_for("the item", lambda: self.names() == [name], 1)
        self.mark()
        self.sh(f"sed -i 's/1/2/' '{name}'")
        self.assertChanges(f"MODIFY {key}")
        self.sh(f"echo '{{\"n\": 3}}' > '{name}'")
        self.assertEqual(3, json.loads(self.read(name))["n"])
        os.rename(self.path(name), self.path("short.json"))
        self.assertEqual(["short.json"], self.names())
        got = self.store.changes(self.table)[self.seen:]
        self.assertEqual([f"MODIFY {key}"] * 2, got[:2])
        self.assertEqual(sorted([f"REMOVE {key}", "INSERT short"]), sorted(got[2:]))
        self.assertChanges(*got)

    def test_hash_of_nothing_is_refused(self):
        self.assertErrno(errno.EINVAL, self.write, "x" * 202 + "~" + "0" * 32 + ".json", "{}")
        self.assertEqual([], self.names())

    def test_other_spellings_are_refused(self):
        self.write("a%2Fb.json", "{}")
        for name in ("a%2fb.json", "%41.json", "a%.json", "a%2.json", "a%zz.json", "%2e.json",
                     "x" * 236 + ".json", "a~" + "0" * 32 + ".json"):
            with self.subTest(name=name[:40]):
                self.assertErrno(errno.EINVAL, self.write, name, "{}")
                with self.assertRaises(OSError):
                    os.stat(self.path(name))
        self.assertErrno(errno.EINVAL, self.write, b"\xff.json".decode(errors="surrogateescape"),
                         "{}")
        self.assertEqual(["a%2Fb.json"], self.names())

    def test_names_too_long(self):
        self.assertErrno(errno.ENAMETOOLONG, self.write, "x" * 256, "{}")
        self.assertErrno(errno.ENAMETOOLONG, os.stat, self.path("x" * 251 + ".json"))
        self.write("y" * 255, "scratch")
        self.assertEqual(["y" * 255], self.names())

    def test_normal_forms_stay_apart(self):
        for form in ("NFC", "NFD"):
            self.write(unicodedata.normalize(form, "caf\u00e9.json"), f'{{"form": "{form}"}}')
        self.assertEqual(2, len(self.names()))
        for form in ("NFC", "NFD"):
            body = self.read(unicodedata.normalize(form, "caf\u00e9.json"))
            self.assertIn(form.encode(), body)

    def test_empty_key_is_no_item(self):
        # ".json" begins with a dot: a scratch file.
        self.write(".json", "not JSON")
        self.assertEqual([".json"], self.names())
        self.assertChanges()


class NumberKeys(KeyTable):
    key = "id:N"

    def test_keys_become_names(self):
        pairs = {"5": "5", "5.0": "5", "-0": "0", "1e3": "1000", "-1.50": "-1.5", "0.001": "0.001",
                 "12345678901234567890123456789012345678": "12345678901234567890123456789012345678",
                 "1E-20": "0.00000000000000000001"}
        for number in pairs:
            self.put({"id": {"N": number}, "from": {"S": number}})
        want = sorted(f"{name}.json" for name in set(pairs.values()))
        wait_for("all items", lambda: self.names() == want, 2)

    def test_names_become_keys(self):
        for name in ("5", "-1.5", "0", "12345678901234567890123456789012345678"):
            self.write(f"{name}.json", "{}")
            done = self.itemctl("get", self.table, "-k", name)
            self.assertEqual({"id": {"N": name}}, json.loads(done.stdout))

    def test_other_spellings_are_refused(self):
        for name in ("05", "5.0", "1e3", "-0", "+5", "abc", " 5", "1" * 39, "NaN", "0x10"):
            with self.subTest(name=name):
                self.assertErrno(errno.EINVAL, self.write, f"{name}.json", "{}")
        self.assertEqual([], self.names())


class BinaryKeys(KeyTable):
    key = "id:B"

    def test_keys_become_names(self):
        keys = [b"\0", b"\xff\xfe", b"text", bytes(range(256))[:150], b"?" * 3]
        want = []
        for key in keys:
            self.put({"id": {"B": base64.b64encode(key).decode()}})
            want.append(base64.urlsafe_b64encode(key).decode().rstrip("=") + ".json")
        wait_for("all items", lambda: self.names() == sorted(want), 2)

    def test_names_become_keys(self):
        self.write("__4.json", "{}")
        done = self.itemctl("get", self.table, "-k", '{"B": "//4="}')
        self.assertEqual({"id": {"B": "//4="}}, json.loads(done.stdout))

    def test_other_spellings_are_refused(self):
        for name in ("//4=".replace("/", "+"), "__4=", "a", "__5", "a b"):
            with self.subTest(name=name):
                self.assertErrno(errno.EINVAL, self.write, f"{name}.json", "{}")


class TagKeys(MountedTest):
    def aliases(self, *tags):
        return ["_".join(order) + ".json" for order in itertools.permutations(tags)]

    def test_every_order_is_one_item(self):
        self.write("users_roles_acme.json", '{"v": 1}')
        self.assertEqual(["acme_roles_users.json"], self.names())
        numbers = {os.stat(self.path(name)).st_ino for name in self.aliases("acme", "roles", "users")}
        self.assertEqual(1, len(numbers))
        for name in self.aliases("acme", "roles", "users"):
            self.assertEqual(b'{"v": 1}', self.read(name))
        self.assertChanges("INSERT acme_roles_users")

    def test_write_through_one_name_read_through_another(self):
        self.write("a_b.json", '{"v": 1}')
        for number in range(20):
            name, other = ("a_b.json", "b_a.json")[:: 1 if number % 2 else -1]
            self.write(name, f'{{"v": {number + 10}}}')
            self.assertEqual(f'{{"v": {number + 10}}}'.encode(), self.read(other))
        self.assertEqual(["a_b.json"], self.names())

    def test_exclusive_create_meets_the_item(self):
        self.write("a_b.json", "{}")
        self.assertErrno(errno.EEXIST, os.open, self.path("b_a.json"),
                         os.O_CREAT | os.O_EXCL | os.O_WRONLY)

    def test_deletion_through_an_alias(self):
        self.write("a_b.json", "{}")
        for name in ("a_b.json", "b_a.json"):
            os.stat(self.path(name))
        os.unlink(self.path("b_a.json"))
        for name in ("a_b.json", "b_a.json"):
            self.assertErrno(errno.ENOENT, os.stat, self.path(name))
        self.assertEqual([], self.names())
        self.assertChanges("INSERT a_b", "REMOVE a_b")

    def test_alias_dies_with_its_item(self):
        self.write("a_b.json", "{}")
        os.stat(self.path("b_a.json"))
        os.unlink(self.path("a_b.json"))
        self.assertErrno(errno.ENOENT, os.stat, self.path("b_a.json"))
        self.assertErrno(errno.ENOENT, os.open, self.path("b_a.json"), os.O_RDONLY)

    def test_alias_deleted_elsewhere(self):
        self.write("a_b.json", "{}")
        os.stat(self.path("b_a.json"))
        self.itemctl("delete", self.table, "-k", "a_b")
        wait_for("the alias gone", lambda: not os.path.exists(self.path("b_a.json")), 1)

    def test_rename_to_another_order_is_nothing(self):
        self.write("a_b.json", '{"v": 1}')
        self.mark()
        os.rename(self.path("a_b.json"), self.path("b_a.json"))
        self.sh("mv -f b_a.json a_b.json", status=None)  # mv may say that both are one file
        self.assertEqual(["a_b.json"], self.names())
        self.assertBoth("a_b.json", '{"v": 1}')
        self.assertChanges()

    def test_replacement_through_an_alias(self):
        self.write("a_b.json", '{"v": 1}')
        self.mark()
        self.sh("""jq -c .v=2 b_a.json > tmp; mv tmp b_a.json""")
        self.assertEqual(["a_b.json"], self.names())
        self.assertBoth("a_b.json", '{"v":2}\n')
        self.assertChanges("MODIFY a_b")

    def test_names_as_long_as_a_filesystem_has_them(self):
        for length in (240, 241, 254, 255):
            name = "a_" + "z" * (length - 7) + ".json"
            other = "z" * (length - 7) + "_a.json"
            self.write(other, "1")
            self.assertEqual([name], self.names())
            self.assertBoth(name, "1")
            self.assertEqual(b"1", self.read(other))
            self.assertErrno(errno.EINVAL, self.write, name, "[")
            self.assertEqual(b"[", self.draft(name)[0])
            self.assertBoth(name, "1")
            self.sh(f"sed -i 's/1/2/' {name}; mv {name} b.json; mv b.json {name}; rm {other}")
            self.assertEqual([], self.names())
            os.unlink(os.path.join(self.mnt, ".itemfs/drafts", self.table, name))

    def test_longer_names_are_hashed(self):
        key = "a_" + "z" * 249
        name = hashed(key, key[:202])
        self.itemctl("put", self.table, "--item", "-",
                     input=json.dumps({"key": {"S": key}, "n": {"N": "1"}}))
        wait_for("the item", lambda: self.names() == [name], 1)
        self.sh(f"sed -i 's/1/2/' '{name}'")
        self.assertEqual(2, json.loads(self.store.body(self.table, key))["n"])
        self.assertErrno(errno.ENAMETOOLONG, os.stat, self.path(key + ".json"))

    def test_numbers_sort_as_numbers(self):
        self.write("10_9.json", "{}")
        self.assertEqual(["9_10.json"], self.names())

    def test_empty_and_repeated_tags(self):
        self.write("a__b.json", "{}")
        self.write("x_x.json", "{}")
        self.assertEqual(["_a_b.json", "x_x.json"], self.names())

    def test_any_text_is_a_tag(self):
        for name in ("UPPER_lower.json", "\u00e9_e.json", "a b_%2F.json"):
            self.write(name, "{}")
        self.assertEqual(sorted(["UPPER_lower.json", "e_\u00e9.json", "%2F_a b.json"]), self.names())


class StrictTags(MountedTest):
    config = "[backend store]\ntype = sqlite\npath = {store}\n\n[table strict]\ntag_rule = strict\n"

    def make_table(self):
        self.table, self.dir = "strict", os.path.join(self.mnt, "strict")
        os.mkdir(self.dir)

    def test_refusals(self):
        self.write("b_a-1.json", "{}")
        for name in ("A.json", "a.b.json", "a__b.json", "\u00e9.json", "a b.json", "_.json"):
            with self.subTest(name=name):
                self.assertErrno(errno.EINVAL, self.write, name, "{}")
        self.assertEqual(["a-1_b.json"], self.names())


class SortedTables(KeyTable):
    key, sort = "customer", "day"

    def test_keys_become_names(self):
        for partition, name in (("cust-7", "cust-7"), ("a/b", "a%2Fb"), ("..", "%2E."),
                                (".git", "%2Egit"), ("p.json", "p.json"), ("\0", "%00")):
            self.put({"customer": {"S": partition}, "day": {"S": "x/y"}, "n": {"N": "1"}})
            wait_for("the partition", lambda: name in self.names(), 1)
            self.assertEqual(["x%2Fy.json"], os.listdir(self.path(name)))
            self.assertEqual(1, json.loads(self.read(f"{name}/x%2Fy.json"))["n"])
        self.assertEqual(6, len(self.names()))

    def test_names_become_keys(self):
        os.mkdir(self.path("a%2Fb"))
        self.write("a%2Fb/%2E.json", '{"n": 1}')
        self.assertChanges("INSERT a/b/.")
        done = self.itemctl("get", self.table, "-k", "a/b", "--sort-key", ".")
        self.assertEqual({"customer": {"S": "a/b"}, "day": {"S": "."}, "n": {"N": "1"}},
                         json.loads(done.stdout))

    def test_separator_is_no_ambiguity(self):
        os.mkdir(self.path("a_b"))
        os.mkdir(self.path("a"))
        self.write("a_b/c.json", '{"v": 1}')
        self.write("a/b_c.json", '{"v": 2}')
        self.assertEqual(["a", "a_b"], self.names())
        self.assertEqual(b'{"v": 1}', self.read("a_b/c.json"))
        self.assertEqual(b'{"v": 2}', self.read("a/b_c.json"))
        self.assertChanges("INSERT a_b/c", "INSERT a/b_c")

    def test_partition_comes_with_its_first_item(self):
        os.mkdir(self.path("p"))
        self.assertTrue(os.path.isdir(self.path("p")))
        self.assertEqual([], os.listdir(self.path("p")))
        self.assertChanges()
        self.write("p/a.json", "{}")
        self.assertEqual(["p"], self.names())
        self.assertErrno(errno.ENOTEMPTY, os.rmdir, self.path("p"))
        self.assertErrno(errno.EEXIST, os.mkdir, self.path("p"))
        self.sh("rm -r p")
        self.assertEqual([], self.names())
        self.assertChanges("INSERT p/a", "REMOVE p/a")

    def test_empty_partition_can_be_removed(self):
        os.mkdir(self.path("p"))
        os.rmdir(self.path("p"))
        self.assertEqual([], self.names())

    def test_other_spellings_are_refused(self):
        self.assertErrno(errno.EINVAL, os.mkdir, self.path("a%2fb"))
        os.mkdir(self.path("p"))
        self.assertErrno(errno.EINVAL, self.write, "p/a%2fb.json", "{}")
        with self.assertRaises(OSError):
            os.mkdir(self.path("p/deeper"))

    def test_whole_tree_by_cp_and_rm(self):
        self.sh("""for p in p1 p2; do mkdir $p; for s in 1 2 3; do echo {} > $p/$s.json; done; done
                cp -r p1 p3; rm -r p2""")
        self.assertEqual(["p1", "p3"], self.names())
        self.assertEqual(["1.json", "2.json", "3.json"], self.names(self.path("p3")))


class Root(MountedTest):
    def test_hidden_names_are_refused(self):
        for name in (".git", ".Trash-1000", ".x"):
            self.assertErrno(errno.EPERM, os.mkdir, os.path.join(self.mnt, name))
        self.assertNotIn(".git", os.listdir(self.mnt))

    def test_files_are_refused(self):
        for name in ("README", "a.json", ".swp"):
            self.assertErrno(errno.EPERM, os.open, os.path.join(self.mnt, name),
                             os.O_CREAT | os.O_WRONLY)

    def test_table_names_stand_as_they_are(self):
        for name in ("a%b", "100%", "\u00e9", "with space", "x" * 255):
            os.mkdir(os.path.join(self.mnt, name))
            self.assertIn(name, os.listdir(self.mnt))
            self.assertIn(name, json.loads(self.itemctl("tables", "--json").stdout)["TableNames"])
            os.rmdir(os.path.join(self.mnt, name))
        for name in ("new\nline", "\x7f"):
            self.assertErrno(errno.EINVAL, os.mkdir, os.path.join(self.mnt, name))

    def test_tables_come_and_go(self):
        self.write("a.json", "{}")
        self.assertErrno(errno.ENOTEMPTY, os.rmdir, self.dir)
        self.assertErrno(errno.EEXIST, os.mkdir, self.dir)
        os.unlink(self.path("a.json"))
        os.rmdir(self.dir)
        self.assertErrno(errno.ENOENT, os.stat, self.dir)
        self.assertNotIn(self.table, os.listdir(self.mnt))
        os.mkdir(self.dir)
        self.assertEqual([], self.names())

    def test_new_table_has_the_settings_of_mkdir(self):
        got = json.loads(self.itemctl("describe", self.table, "--json").stdout)
        self.assertEqual([{"AttributeName": "key", "KeyType": "HASH", "AttributeType": "S"}],
                         got["KeySchema"])
        self.assertEqual(("tags", "-ttl", True), (got["Keys"], got["TimeToLive"], got["Stream"]))

    def test_table_is_renamed(self):
        self.write("a.json", '{"v": 1}')
        other = self.dir + "-new"
        os.rename(self.dir, other)
        self.assertFalse(os.path.exists(self.dir))
        with open(other + "/a.json") as file:
            self.assertEqual('{"v": 1}', file.read())


if __name__ == "__main__":
    unittest.main()
