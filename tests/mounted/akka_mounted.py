# SPDX-License-Identifier: MIT
"""Mounted tables of akka-persistence-dynamodb, on whatever backend: a mixin for tests. Who uses it
says how rows are stored and read without the mount."""

import base64
import decimal
import errno
import json
import os
import sys

from harness import wait_for

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "itemctl"))

from akka_cases import AKKA, COUNTER, cases, create_words  # noqa: E402  pylint: disable=wrong-import-position

LARGEST = 2**63 - 1
BODY = COUNTER.split("-")[1]
PKEY = "counter-0000000000000000000000000000000000000053"

# By kind: the profile with its options, and the vectors' table that it is; where the profile itself
# would make another one, without these indexes.
KINDS = {
    "journal": ("akka-journal", {}, "Journal", None),
    "vectors": ("akka-journal", {}, "Journal", None),
    "snapshot": ("akka-snapshot", {}, "Snapshot", None),
    "state": ("akka-state", {}, "State", None),
    "numbered": ("akka-journal", {"partition_key_resolver": "SequenceNumberBased",
                                  "sort_key_resolver": "SeqNr"}, "Journal", None),
    "padded": ("akka-journal", {"partition_key_resolver": "SequenceNumberBased",
                                "sort_key_resolver": "SeqNr", "padded": "yes",
                                "shard_count": "1000"}, "Journal", None),
    "renamed": ("akka-journal", {"separator": "_", "shard_count": "1024",
                                 "partition_key_column": "pk", "sort_key_column": "sk",
                                 "persistence_id_column": "pid", "sequence_nr_column": "seq",
                                 "deleted_column": "gone", "tags_column": "labels",
                                 "rows_index": "rows", "tags_index": "labelled"}, "Journal", None),
    "deleted": ("akka-journal", {"show_deleted": "yes"}, "Journal", None),
    "unindexed": ("akka-journal", {}, "Journal", ("GetJournalRowsIndex", "TagsIndex")),
    "old-journal": ("akka-journal", {"partition_key_resolver": "SequenceNumberBased"},
                    "LegacyJournal", ()),
    "old-snapshot": ("akka-snapshot", {}, "LegacySnapshot", ()),
}


def sections(names):
    """The [table] sections of a mount.conf; NAMES: by kind."""
    text = ""
    for kind, (profile, options, _, _) in KINDS.items():
        text += f"\n[table {names[kind]}]\nprofile = {profile}\n"
        text += "".join(f"{key} = {value}\n" for key, value in options.items())
    return text


def digits(number):
    return f"{number:019}.json"


def plain(value):
    """A typed value as item files have it."""
    [(kind, inner)] = value.items()
    if kind == "N":
        return int(inner)
    return {"$B": inner} if kind == "B" else inner


def text_of(item, without=()):
    return json.dumps({name: plain(value) for name, value in item.items() if name not in without})


class AkkaMounted:
    """cls.names: tables by kind; new_table(kind, words of itemctl create, None: by profile), fill(kind, items),
    remove(kind, item), rows(kind) -> all typed items as another client finds them; cls.mnt."""

    @classmethod
    def make_tables(cls):
        for kind, (_, _, layout, without) in KINDS.items():
            cls.new_table(kind, None if without is None
                           else create_words(AKKA["tables"][layout], without))
        for kind in KINDS:
            wait_for("the table", lambda kind=kind: os.path.isdir(cls.at(kind)))

    @classmethod
    def at(cls, kind, *parts):
        return os.path.join(cls.mnt, cls.names[kind], *parts)

    def save(self, text, kind, *parts):
        """As a program does it; an error of any step comes out as OSError."""
        folder = os.path.dirname(self.at(kind, *parts))
        os.makedirs(folder, exist_ok=True)
        fd = os.open(self.at(kind, *parts), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)

    def load(self, kind, *parts):
        with open(self.at(kind, *parts), "rb") as file:
            text = file.read()
        self.assertEqual(len(text), os.stat(self.at(kind, *parts)).st_size)
        return json.loads(text)

    def of_id(self, kind, pid, column="persistence-id"):
        """The stored rows of an id, by number."""
        rows = [row for row in self.rows(kind) if row.get(column) == {"S": pid}]
        return sorted(rows, key=lambda row: decimal.Decimal(row.get("sequence-nr", {"N": "0"})["N"]))

    def numbers(self, kind, *parts):
        """What a directory lists, in the order in which it does."""
        return [name for name in os.listdir(self.at(kind, *parts))]

    # ---- listing ----

    def test_listing(self):
        """Ids are directories, rows their files in numeric order; softly deleted ones are not shown."""
        self.fill("vectors", AKKA["journal"])
        ids = {row["persistence-id"]["S"] for row in AKKA["journal"]}
        self.assertEqual(ids, set(os.listdir(self.at("vectors"))))
        self.assertEqual([digits(n) for n in (1, 9, 10, 11, 99)], self.numbers("vectors", COUNTER))
        self.assertEqual([digits(1)], self.numbers("vectors", "plain"))
        self.assertEqual([digits(1)], self.numbers("vectors", COUNTER + "-x"))
        for row in AKKA["journal"]:
            path = (row["persistence-id"]["S"], digits(int(row["sequence-nr"]["N"])))
            if row["deleted"]["BOOL"]:
                self.assertFalse(os.path.exists(self.at("vectors", *path)))
            else:
                self.assertEqual({name: plain(value) for name, value in row.items()},
                                 self.load("vectors", *path))

    def test_show_deleted(self):
        self.fill("deleted", AKKA["journal"])
        self.assertEqual([digits(n) for n in (1, 2, 9, 10, 11, 99, 100)],
                         self.numbers("deleted", COUNTER))
        self.assertIs(True, self.load("deleted", COUNTER, digits(100))["deleted"])

    def test_listing_without_index(self):
        self.fill("unindexed", reversed(AKKA["journal"]))
        self.assertEqual({row["persistence-id"]["S"] for row in AKKA["journal"]},
                         set(os.listdir(self.at("unindexed"))))
        self.assertEqual({digits(n) for n in (1, 9, 10, 11, 99)},
                         set(self.numbers("unindexed", COUNTER)))
        self.assertEqual("bTk5", self.load("unindexed", COUNTER, digits(99))["message"]["$B"])
        self.assertIn(f'warning: profile: table {self.names["unindexed"]} has no index on '
                      '"persistence-id" and "sequence-nr" with whole items: each listing reads all '
                      'of it',
                      self.mount.log_text())

    def test_many_rows(self):
        """A listing of several pages, in order, and the whole table walked."""
        rows = [{"pkey": {"S": f"many-1-{n % 64}"}, "skey": {"S": str(n)},
                 "persistence-id": {"S": "many-1"}, "sequence-nr": {"N": str(n)},
                 "deleted": {"BOOL": n % 5 == 0}, "message": {"B": base64.b64encode(
                     b"m" * 3000).decode()}} for n in range(1, 701)]
        self.fill("numbered", rows)
        live = [digits(n) for n in range(1, 701) if n % 5]
        self.assertEqual(live, self.numbers("numbered", "many-1"))
        walked = self.run_tool(["find", self.at("numbered", "many-1"), "-type", "f"]).stdout.split()
        self.assertEqual(sorted(live), sorted(map(os.path.basename, walked)))
        found = self.run_tool(["grep", "-rl", "sequence-nr", self.at("numbered", "many-1")]).stdout
        self.assertEqual(len(live), len(found.split()))

    # ---- saving ----

    def test_row_vectors(self):
        """What the plugin writes, written as files: all that a path tells is left to it."""
        derived = ("pkey", "skey", "persistence-id", "sequence-nr")
        for kind, item, column, name in (("journal", "journal_item", "message", "message_base64"),
                                         ("snapshot", "snapshot_item", "snapshot",
                                          "snapshot_base64"),
                                         ("state", "state_item", "payload", "payload_base64")):
            for case in cases(item):
                with self.subTest(kind=kind, note=case["note"]):
                    want = {**case["expect"], column: {"B": case["row"][name]}}
                    pid = case["row"]["persistence_id"]
                    path = ((pid + ".json",) if kind == "state"
                            else (pid, digits(case["row"]["sequence_nr"])))
                    self.save(text_of(want, derived), kind, *path)
                    self.assertIn(want, self.rows(kind))
                    self.assertEqual({key: plain(value) for key, value in want.items()},
                                     self.load(kind, *path))
        self.assertEqual(2, len(self.of_id("state", COUNTER) + self.of_id(
            "state", "counter-a8d46579bc2f4caf8c3b8dc2db984227")))

    def check_key(self, kind, case, partition, sort):
        pid, number = case["persistence_id"], case["sequence_nr"]
        path = (self.name_of(pid), digits(number))
        if any(isinstance(case["expect"][key], dict) for key in (partition, sort)):
            with self.assertRaises(OSError) as caught:
                self.save("{}", kind, *path)
            self.assertEqual(errno.EINVAL, caught.exception.errno)
            return
        self.save("{}", kind, *path)
        self.assertIn({"pkey": {"S": case["expect"][partition]}, "skey": {"S": case["expect"][sort]},
                       "persistence-id": {"S": pid}, "sequence-nr": {"N": str(number)}},
                      self.rows(kind))
        os.unlink(self.at(kind, *path))

    @staticmethod
    def name_of(pid):
        """The directory's name where it is short."""
        name = "".join(f"%{ord(c):02X}" if c in "/%" or ord(c) < 32 or ord(c) == 127 else c
                       for c in pid)
        return "%2E" + name[1:] if name.startswith(".") else name

    def test_key_vectors(self):
        for case in cases("key"):
            if (case["shard_count"], case["separator"]) != (64, "-") or not 0 < len(
                    case["persistence_id"]) < 200:
                continue
            with self.subTest(case["note"]):
                self.check_key("numbered", case, "pkey_sequence_number_based", "skey_seq_nr")
                self.check_key("journal", case, "pkey_persistence_id_based",
                               "skey_persistence_id_with_seq_nr")
                self.check_state(case)

    def check_state(self, case):
        want, pid = case["expect"].get("state"), case["persistence_id"]
        if not want:
            return
        path = self.name_of(pid) + ".json"
        self.save("{}", "state", path)
        self.assertIn(path, os.listdir(self.at("state")))
        self.assertEqual([{"pkey": {"S": want["pkey"]}, "skey": {"S": want["skey"]},
                           "persistence-id": {"S": pid}}], self.of_id("state", pid))
        os.unlink(self.at("state", path))
        self.assertEqual([], self.of_id("state", pid))

    def test_padded(self):
        self.save('{"deleted": false}', "padded", "a-b", digits(1042))
        self.assertIn({"pkey": {"S": "a-b-42"}, "skey": {"S": "0000000000000001042"},
                       "persistence-id": {"S": "a-b"}, "sequence-nr": {"N": "1042"},
                       "deleted": {"BOOL": False}}, self.rows("padded"))
        self.assertEqual([digits(1042)], self.numbers("padded", "a-b"))

    def test_names_are_options(self):
        self.save('{"labels": "red,blue"}', "renamed", "order_42-7", digits(3))
        want = {"sk": {"S": "42-7-0000000000000000003"}, "pid": {"S": "order_42-7"},
                "seq": {"N": "3"}, "labels": {"S": "red,blue"}}
        [row] = self.rows("renamed")
        self.assertEqual("order-", row["pk"]["S"][:6])
        self.assertEqual(want, {key: row[key] for key in want})
        self.fill("renamed", [{**row, "seq": {"N": "4"}, "gone": {"BOOL": True},
                               "sk": {"S": "42-7-0000000000000000004"}}])
        self.assertEqual([digits(3)], self.numbers("renamed", "order_42-7"))
        out = self.akka_of("renamed", "highest-sequence", "order_42-7")
        self.assertEqual("4\n", out)
        out = self.akka_of("renamed", "by-tag", "blue", "--all")
        self.assertEqual(["3", "4"], [json.loads(line)["seq"]["N"] for line in out.splitlines()])
        os.unlink(self.at("renamed", "order_42-7", digits(3)))

    def test_itemctl_takes_the_key_of_a_file(self):
        """As user.itemfs.key has it."""
        for kind, path in (("journal", ("key-1", digits(7))), ("state", ("key-1.json",)),
                           ("old-journal", ("key-1", digits(7))),
                           ("old-snapshot", ("key-1", digits(7)))):
            with self.subTest(kind):
                self.save('{"payload": {"$B": "AAEC"}}', kind, *path)
                key = os.getxattr(self.at(kind, *path), "user.itemfs.key").decode()
                got = self.run_ctl("-s", self.source, "get", self.names[kind], "-k", key)
                self.assertEqual(self.of_id(kind, "key-1"), [json.loads(got)])
                raw = self.run_ctl("-s", self.source, "get", self.names[kind], "-k", key, "--raw",
                                   "payload")
                self.assertEqual("\x00\x01\x02", raw)
                os.unlink(self.at(kind, *path))

    def test_the_path_wins(self):
        pid = "wins-1"
        self.save('{"pkey": "x", "skey": 5, "persistence-id": "other", "sequence-nr": 77, "n": 1}',
                  "journal", pid, digits(1))
        self.run_tool(["cp", self.at("journal", pid, digits(1)), self.at("journal", pid, digits(2))])
        os.makedirs(self.at("journal", "wins-2"))
        self.run_tool(["mv", self.at("journal", pid, digits(1)),
                       self.at("journal", "wins-2", digits(3))])
        [second], [third] = self.of_id("journal", pid), self.of_id("journal", "wins-2")
        self.assertEqual(("1-0000000000000000002", "2"),
                         (second["skey"]["S"], second["sequence-nr"]["N"]))
        self.assertEqual(("2-0000000000000000003", "3"),
                         (third["skey"]["S"], third["sequence-nr"]["N"]))
        self.assertNotEqual(second["pkey"], third["pkey"])
        self.assertEqual({"n": 1, "pkey": third["pkey"]["S"], "skey": third["skey"]["S"],
                          "persistence-id": "wins-2", "sequence-nr": 3},
                         self.load("journal", "wins-2", digits(3)))
        self.assertEqual([digits(2)], self.numbers("journal", pid))

    def test_save_again_and_delete(self):
        pid = "again-1"
        self.save('{"n": 1, "s": "x"}', "journal", pid, digits(7))
        self.run_tool(["sed", "-i", 's/"n": 1/"n": 2/', self.at("journal", pid, digits(7))])
        [row] = self.of_id("journal", pid)
        self.assertEqual({"N": "2"}, row["n"])
        self.assertEqual({"S": "x"}, row["s"])
        os.unlink(self.at("journal", pid, digits(7)))
        self.assertEqual([], self.of_id("journal", pid))
        self.assertFalse(os.path.exists(self.at("journal", pid, digits(7))))

    def test_deleted_softly(self):
        """A row that is edited to be deleted goes; its path is not free."""
        pid = "softly-1"
        for number in (1, 2):
            self.save('{"deleted": false, "n": 1}', "journal", pid, digits(number))
        self.save('{"deleted": true, "n": 1}', "journal", pid, digits(1))
        wait_for("its end", lambda: self.numbers("journal", pid) == [digits(2)])
        self.assertFalse(os.path.exists(self.at("journal", pid, digits(1))))
        with self.assertRaises(OSError) as caught:
            self.save('{"n": 5}', "journal", pid, digits(1))
        self.assertEqual(errno.EPERM, caught.exception.errno)
        self.assertIn("it is there already, and hidden by its profile", self.mount.log_text())
        self.save('{"n": 6}', "journal", pid, digits(3))
        with self.assertRaises(OSError) as caught:
            os.rename(self.at("journal", pid, digits(3)), self.at("journal", pid, digits(1)))
        self.assertEqual(errno.EPERM, caught.exception.errno)
        self.assertEqual([digits(2), digits(3)], self.numbers("journal", pid))
        first, *_ = self.of_id("journal", pid)
        self.assertEqual(({"BOOL": True}, {"N": "1"}), (first["deleted"], first["n"]))

    def test_deleted_softly_by_an_editor(self):
        """One that replaces the file, and one that writes just the text that is shown."""
        pid, done = "editor-1", '{"deleted": true, "n": 1}'
        for number in (1, 2, 3):
            self.save('{"deleted": false, "n": 1}', "journal", pid, digits(number))
        temporary = self.at("journal", pid, ".edited.tmp")
        with open(temporary, "w") as file:
            file.write(done)
        os.rename(temporary, self.at("journal", pid, digits(1)))
        with open(self.at("journal", pid, digits(2))) as file:
            text = file.read()
        self.save(text.replace("false", "true"), "journal", pid, digits(2))
        for number in (1, 2):
            path = self.at("journal", pid, digits(number))
            with self.assertRaises(FileNotFoundError):
                open(path)
            with self.assertRaises(OSError) as caught:
                self.save('{"n": 5}', "journal", pid, digits(number))
            self.assertEqual(errno.EPERM, caught.exception.errno)
        self.assertEqual([digits(3)], self.numbers("journal", pid))
        self.assertEqual([({"BOOL": True}, {"N": "1"})] * 2 + [({"BOOL": False}, {"N": "1"})],
                         [(row["deleted"], row["n"]) for row in self.of_id("journal", pid)])

    def test_rows_that_have_no_path(self):
        """They are left out, and the log says so; a directory of nothing else is not empty."""
        rows = [{"pkey": {"S": f"odd-{n}"}, "skey": {"S": str(n)}, "persistence-id": {"S": "odd-1"},
                 "sequence-nr": {"N": number}} for n, number in enumerate(("-5", "1.5", "1" + "0" * 25))]
        self.fill("journal", rows)
        self.assertEqual([], self.numbers("journal", "odd-1"))
        self.assertIn("is not shown, as are others like it: ", self.mount.log_text())  # told once
        with self.assertRaises(OSError) as caught:
            os.rmdir(self.at("journal", "odd-1"))
        self.assertEqual(errno.ENOTEMPTY, caught.exception.errno)
        self.assertIn("or has items that its profile hides", self.mount.log_text())
        self.assertEqual(3, len(self.of_id("journal", "odd-1")))
        for row in rows:
            self.remove("journal", row)

    def test_all_deleted(self):
        """An id that has deleted rows only can be looked at like any other."""
        self.fill("journal", [row for row in AKKA["journal"] if row["deleted"]["BOOL"]
                              and row["persistence-id"]["S"] == "plain"])
        for name in os.listdir(self.at("journal")):
            os.stat(self.at("journal", name))
        if "plain" in os.listdir(self.at("journal")):
            self.assertEqual([], self.numbers("journal", "plain"))
        self.save('{"deleted": false}', "journal", "plain", digits(3))
        self.assertEqual([digits(3)], self.numbers("journal", "plain"))

    def test_refused(self):
        pid = "refused-1"
        os.makedirs(self.at("journal", pid))
        for name in ("7.json", "00000000000000000007.json", "x.json", "-1.json",
                     "000000000000000001.5.json", "9223372036854775808.json"):
            with self.subTest(name), self.assertRaises(OSError) as caught:
                self.save("{}", "journal", pid, name)
            self.assertEqual(errno.EINVAL, caught.exception.errno)
        for text in ("5", "[1]", '"x"', "null"):
            with self.subTest(text), self.assertRaises(OSError) as caught:
                self.save(text, "journal", pid, digits(1))
            self.assertEqual(errno.EINVAL, caught.exception.errno)
        self.assertEqual([], self.of_id("journal", pid))
        with self.assertRaises(OSError) as caught:
            self.save("{}", "state", "x" * 100, "y.json")
        self.save("{}", "journal", pid, digits(LARGEST))
        self.assertEqual(f"1-{LARGEST}", self.of_id("journal", pid)[0]["skey"]["S"])

    def test_new_empty_file(self):
        os.makedirs(self.at("journal", "empty-1"))
        self.run_tool(["touch", self.at("journal", "empty-1", digits(1))])
        [row] = self.of_id("journal", "empty-1")
        self.assertEqual({"pkey", "skey", "persistence-id", "sequence-nr"}, set(row))

    def test_long_ids(self):
        """Ids of 1005 characters: hashed names, found by listing."""
        pid = "long-" + "q" * 1000
        row = {"pkey": {"S": "x"}, "skey": {"S": "y"}, "persistence-id": {"S": pid},
               "sequence-nr": {"N": "1"}, "n": {"N": "1"}}
        self.save("{}", "numbered", "probe-1", digits(1))
        row["pkey"] = {"S": pid + "-1"}
        row["skey"] = {"S": "1"}
        self.fill("numbered", [row])
        [name] = [name for name in os.listdir(self.at("numbered")) if name.startswith("long-")]
        self.assertEqual([digits(1)], self.numbers("numbered", name))
        self.assertEqual(pid, self.load("numbered", name, digits(1))["persistence-id"])

    def test_state(self):
        self.save('{"payload": {"$B": "cA=="}, "revision-nr": 1}', "state", "user-1.json")
        self.save('{"payload": {"$B": "cB=="}, "revision-nr": 2}'.replace("cB", "cQ"), "state",
                  "user-1.json")
        [row] = self.of_id("state", "user-1")
        self.assertEqual(({"B": "cQ=="}, {"N": "2"}, {"S": "user-1"}),
                         (row["payload"], row["revision-nr"], row["skey"]))
        self.run_tool(["mv", self.at("state", "user-1.json"), self.at("state", "user-2.json")])
        self.assertEqual([], self.of_id("state", "user-1"))
        [row] = self.of_id("state", "user-2")
        self.assertEqual({"S": "user-2"}, row["skey"])
        os.unlink(self.at("state", "user-2.json"))

    def test_changes_made_elsewhere(self):
        pid = "elsewhere-1"
        self.save('{"n": 1}', "numbered", pid, digits(1))
        row = self.of_id("numbered", pid)[0]
        self.fill("numbered", [{**row, "n": {"N": "2"}},
                               {**row, "sequence-nr": {"N": "2"}, "pkey": {"S": pid + "-2"},
                                "skey": {"S": "2"}}])
        wait_for("the change", lambda: self.load("numbered", pid, digits(1))["n"] == 2)
        wait_for("the new row",
                 lambda: self.numbers("numbered", pid) == [digits(1), digits(2)])
        self.fill("numbered", [{**row, "deleted": {"BOOL": True}}])
        wait_for("its end", lambda: not os.path.exists(self.at("numbered", pid, digits(1))))
        self.assertEqual([digits(2)], self.numbers("numbered", pid))

    def test_changes_of_untold_keys(self):
        """The stored key alone does not tell whose row it is."""
        for kind, path in (("journal", ("untold-1", digits(7))), ("snapshot", ("untold-1", digits(7))),
                           ("state", ("untold-1.json",))):
            with self.subTest(kind):
                self.save('{"n": 1}', kind, *path)
                self.save('{"n": 1}', kind, *(part.replace("-1", "-2") for part in path))
                self.assertEqual(1, self.load(kind, *path)["n"])
                [row] = self.of_id(kind, "untold-1")
                self.fill(kind, [{**row, "n": {"N": "2"}}])
                wait_for("the change", lambda: self.load(kind, *path)["n"] == 2)
                self.remove(kind, row)
                wait_for("its end", lambda: not os.path.exists(self.at(kind, *path)))
                self.assertIn("untold-2", str(os.listdir(self.at(kind))))
                self.fill(kind, [row])
                wait_for("it again", lambda: os.path.exists(self.at(kind, *path)))

    def test_backup_and_restore(self):
        rows = [("backup-1", 1), ("backup-1", 10), ("backup-2", 5)]
        for pid, number in rows:
            self.save(json.dumps({"n": number}), "padded", pid, digits(number))
        before = [self.of_id("padded", pid) for pid in ("backup-1", "backup-2")]
        copy = os.path.join(self.place, "copy")
        source = [self.at("padded", pid) for pid in ("backup-1", "backup-2")]
        self.run_tool(["rsync", "-a", *source, copy])
        self.assertEqual("", self.run_tool(["rsync", "-ai", *source, copy]).stdout)
        for directory in source:
            self.run_tool(["rm", "-r", directory])
            self.assertFalse(os.path.exists(directory))
        self.assertEqual([], self.of_id("padded", "backup-1"))
        self.run_tool(["rsync", "-a", copy + "/", self.at("padded")])
        self.assertEqual(before, [self.of_id("padded", pid) for pid in ("backup-1", "backup-2")])

    def test_rows_of_other_resolvers(self):
        """Rows of a time when the plugin had other settings: the index leads to them, and what is
        saved goes where they are."""
        pid = "mixed-1"

        def stray(number):
            return {"pkey": {"S": f"{pid}-{number}"}, "skey": {"S": str(number)}, "n": {"N": "1"},
                    "persistence-id": {"S": pid}, "sequence-nr": {"N": str(number)}}
        self.fill("journal", [stray(number) for number in (1, 2, 3, 10)])
        self.save('{"n": 4}', "journal", pid, digits(4))
        self.assertEqual([digits(n) for n in (1, 2, 3, 4, 10)], self.numbers("journal", pid))
        self.assertEqual({name: plain(value) for name, value in stray(2).items()},
                         self.load("journal", pid, digits(2)))
        self.save('{"n": 2}', "journal", pid, digits(2))
        self.assertEqual((pid + "-2", 2), (self.load("journal", pid, digits(2))["pkey"],
                                           self.load("journal", pid, digits(2))["n"]))
        os.unlink(self.at("journal", pid, digits(3)))
        self.run_tool(["mv", self.at("journal", pid, digits(10)),
                       self.at("journal", pid, digits(11))])
        rows = {row["skey"]["S"]: row for row in self.of_id("journal", pid)}
        self.assertEqual({"1", "2", "1-0000000000000000004", "1-0000000000000000011"}, set(rows))
        self.assertEqual({**stray(2), "n": {"N": "2"}}, rows["2"])
        self.assertEqual(stray(1), rows["1"])
        self.assertEqual([digits(n) for n in (1, 2, 4, 11)], self.numbers("journal", pid))
        self.save('{"n": 5}', "journal", pid, digits(10))
        self.assertEqual(5, self.load("journal", pid, digits(10))["n"])
        key = os.getxattr(self.at("journal", pid, digits(2)), "user.itemfs.key").decode()
        out = self.run_ctl("-s", self.source, "get", self.names["journal"], "-k", key)
        self.assertEqual({**stray(2), "n": {"N": "2"}}, json.loads(out))
        self.run_ctl("-s", self.source, "delete", self.names["journal"], "-k", key)
        self.assertNotIn({"N": "2"}, [row["sequence-nr"] for row in self.of_id("journal", pid)])
        told = (f"warning: profile: {self.names['journal']}/mixed-1/0000000000000000001 is stored "
                "under another key than profile akka-journal, as it is set up, gives it; a new one "
                "would get that")
        self.assertIn(told, self.mount.log_text())

    def test_two_rows_of_one_number(self):
        """Which no plugin writes: one of them is shown, the one in the right place, and once."""
        self.save('{"n": 1}', "journal", "twice-1", digits(1))
        self.save('{"n": 1}', "journal", "twice-1", digits(2))
        row = self.of_id("journal", "twice-1")[0]
        self.fill("journal", [{**row, "pkey": {"S": "x"}, "n": {"N": "2"}}])
        self.assertEqual([digits(1), digits(2)], self.numbers("journal", "twice-1"))
        self.save('{"n": 3}', "journal", "twice-1", digits(1))
        self.assertEqual({"3", "2"}, {row["n"]["N"] for row in self.of_id("journal", "twice-1")[:2]})

    def test_many_hidden_rows(self):
        """Pages of a listing that have nothing to show, and rows that no number leads to."""
        rows = [{"pkey": {"S": f"hidden-1-{n % 64}"}, "skey": {"S": str(n)},
                 "persistence-id": {"S": "hidden-1"}, "sequence-nr": {"N": str(n)},
                 "deleted": {"BOOL": n < 1400}} for n in range(1, 1410)]
        rows += [{"pkey": {"S": "hidden-1"}, "skey": {"S": f"-{n}"}, "sequence-nr": {"N": f"-{n}"},
                  "persistence-id": {"S": "hidden-1"}} for n in range(1, 600)]
        self.fill("numbered", rows)
        self.assertEqual([digits(n) for n in range(1400, 1410)],
                         self.numbers("numbered", "hidden-1"))

    def test_rows_that_nothing_leads_to(self):
        """Without the index only the resolvers do."""
        row = {"pkey": {"S": "lost-1-1"}, "skey": {"S": "1"}, "n": {"N": "1"},
               "persistence-id": {"S": "lost-1"}, "sequence-nr": {"N": "1"}}
        self.fill("unindexed", [row])
        self.assertNotIn("lost-1", os.listdir(self.at("unindexed")))
        self.assertEqual([row], self.of_id("unindexed", "lost-1"))

    # ---- tables of the plugin's older releases ----

    def test_older_tables(self):
        for kind, pkey in (("old-journal", {"pkey": {"S": "old-1-1"}}), ("old-snapshot", {})):
            with self.subTest(kind):
                self.save('{"n": 1}', kind, "old-1", digits(1))
                self.save('{"n": 2}', kind, "old-1", digits(10))
                self.assertEqual([digits(1), digits(10)], self.numbers(kind, "old-1"))
                first, _ = self.of_id(kind, "old-1")
                self.assertEqual({"persistence-id": {"S": "old-1"}, "sequence-nr": {"N": "1"},
                                  "n": {"N": "1"}, **pkey}, first)
                self.assertIn("old-1", os.listdir(self.at(kind)))
                os.unlink(self.at(kind, "old-1", digits(1)))
                self.assertEqual([digits(10)], self.numbers(kind, "old-1"))
