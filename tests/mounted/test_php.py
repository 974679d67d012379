# SPDX-License-Identifier: MIT
"""PHP programs that keep the tag store's schemas on the mount, beside the same on a plain folder.

php/schema.php does what the store's own client does. Here one PHP process is given the same calls
for a plain folder as another one for the mount, and after each call everything that can be observed
must be the same: what PHP returned, threw or warned of, and names, bytes, sizes, modes and times
of all files, read by Python.
"""

import json
import os
import re
import stat
import subprocess
import time
import unittest

from harness import HERE, ROOT, MountedTest, has_tool, wait_for

PROGRAM = os.path.join(HERE, "php", "run.php")
OLD = 1000000000  # epoch seconds, in 2001
PROCESSES = 16


def vectors(kind):
    with open(os.path.join(ROOT, "tests", "vectors", "lucinda.json")) as file:
        return [case for case in json.load(file)["cases"] if case["kind"] == kind]


class Php:
    """A PHP process that works on the schemas in FOLDER."""

    def __init__(self, folder, env, wrap=()):
        self.folder = folder
        self.process = subprocess.Popen([*wrap, "php", "-n", PROGRAM, folder], env=env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(self, *call):
        self.process.stdin.write(json.dumps(call) + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"PHP has ended with {self.process.wait()}")
        return json.loads(line)

    def call(self, *call):
        self.send(*call)
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class Schemas:
    """The tests, for a MountedTest of any backend whose tables are made by mkdir."""

    def make_table(self):
        self.plain = os.path.join(self.place, f"plain-{self.table}")
        os.mkdir(self.plain)
        self.places = [self.php(self.plain), self.php(self.mnt)]

    def php(self, folder, wrap=()):
        php = Php(folder, self.environment(), wrap)
        self.addCleanup(php.close)
        return php

    def schema(self, name):
        return f"{self.table}-{name}"

    def moment(self, info):
        """A time as it is where somebody has set it; what is about now differs by how fast a place
        is, and is the same for us. PHP sets whole seconds."""
        return "now" if abs(info.st_mtime - time.time()) < 3600 else info.st_mtime_ns // 10**9

    def look(self, folder):
        """All that is in this test's schemas: name -> (mode, size, time, bytes)."""
        found = {}
        for schema in filter(lambda name: name.startswith(self.table), os.listdir(folder)):
            directory = os.path.join(folder, schema)
            found[schema] = stat.filemode(os.stat(directory).st_mode)
            for name in os.listdir(directory):
                path = os.path.join(directory, name)
                info = os.stat(path)
                with open(path, "rb") as file:
                    found[schema, name] = (stat.filemode(info.st_mode), info.st_size,
                                           self.moment(info), file.read())
        return found

    def assertSame(self, why=""):
        plain, mounted = self.look(self.plain), self.look(self.mnt)
        self.assertEqual(plain, mounted, why)
        return mounted

    def both(self, method, schema, *arguments):
        """Makes a call on the plain folder and on the mount; returns what both returned."""
        if method == "plugIn":
            arguments = [self.schema(arguments[0])]
        answers = [php.call(method, self.schema(schema), *arguments) for php in self.places]
        self.assertEqual(*answers, (method, arguments))
        self.assertSame((method, arguments))
        return answers[0].get("returns", answers[0].get("throws"))

    def assertCall(self, wanted, *call):
        self.assertEqual(wanted, self.both(*call))

    def assertNothingRefused(self):
        refused = os.path.join(self.mnt, ".itemfs", "drafts")
        self.assertEqual([], [name for name in os.listdir(refused) if name.startswith(self.table)])

    def test_a_schema_from_its_making_to_its_end(self):
        self.assertCall(False, "exists", "a")
        self.assertCall("StoreError: no folder", "getAll", "a")
        self.assertCall(False, "set", "a", ["x"], 1)
        self.assertCall(True, "create", "a")
        self.assertCall(False, "create", "a")
        self.assertCall(True, "exists", "a")
        self.assertCall(0, "capacity", "a")
        self.assertCall(9, "set", "a", ["users", "roles"], {"n": 1.5})
        self.assertCall({"n": 1.5}, "get", "a", ["roles", "users"])
        self.assertCall(True, "has", "a", ["roles", "users"])
        self.assertCall(2, "set", "a", ["roles", "10", "9"], [])
        self.assertCall(3, "set", "a", ["users"], 999)
        self.assertCall(1, "set", "a", ["users"], 5)
        self.assertCall(6, "update", "a", ["users"], 1)
        self.assertCall(-4, "update", "a", ["users"], -10)
        self.assertCall("StoreError: no such key", "update", "a", ["nobody"], 1)
        self.assertCall("StoreError: no such key", "get", "a", ["nobody"])
        self.assertCall("StoreError: no such key", "delete", "a", ["nobody"])
        self.assertCall("StoreError: bad tag", "set", "a", ["A"], 1)
        self.assertCall(["9_10_roles", "roles_users", "users"], "getAll", "a")
        self.assertCall(["roles_users", "users"], "getByTag", "a", "users")
        self.assertCall(3, "capacity", "a")
        for folder in (self.plain, self.mnt):  # the two were not written in the same second
            path = f"{folder}/{self.schema('a')}/users.json"
            self.assertLess(abs(os.stat(path).st_mtime - time.time()), 60)
            os.utime(path, (OLD, OLD))
        self.assertCall([2, OLD, True, True], "age", "a", ["users"])
        self.assertCall(True, "delete", "a", ["users"])
        self.assertCall(False, "has", "a", ["users"])
        self.assertCall(False, "remove", "a")
        self.assertCall(2, "deleteAll", "a")
        self.assertCall(True, "remove", "a")
        self.assertCall(False, "exists", "a")
        self.assertCall(False, "remove", "a")
        self.assertNothingRefused()

    def test_bytes_come_back_exactly(self):
        self.both("create", "a")
        for number, case in enumerate(vectors("value")):
            with self.subTest(value=case["value"]):
                self.both("set", "a", [str(number)], case["value"])
                self.both("get", "a", [str(number)])
                self.both("raw", "a", [str(number)])
        for value in (1.7976931348623157e308, 5e-324, -0.0, "\0", "x" * 100000, {"": {"": []}},
                      [[[[[[[[1]]]]]]]], {"id": "other", "ttl": 5}, list(range(5000))):
            with self.subTest(value=str(value)[:40]):
                self.both("set", "a", ["v"], value)
                self.both("raw", "a", ["v"])
        self.assertNothingRefused()

    def test_updates_of_any_value(self):
        self.both("create", "a")
        for case in vectors("update"):
            # A text that is no JSON is refused by every table, and None is no file.
            if case["before"] in (None, "", "5\n6"):
                continue
            with self.subTest(before=case["before"]):
                for php in self.places:
                    with open(f"{php.folder}/{self.schema('a')}/n.json", "w") as file:
                        file.write(case["before"])
                step = case["step"] if case["op"] == "increment" else -case["step"]
                self.both("update", "a", ["n"], step)
        self.assertNothingRefused()

    def test_names_of_up_to_255_bytes(self):
        self.both("create", "a")
        sizes = range(200, 256)
        keys = {size: ["t", "x" * (size - 7)] for size in sizes}
        for size, tags in keys.items():
            self.assertCall(len(str(size)), "set", "a", tags, size)
        listed = self.both("getAll", "a")
        self.assertEqual([size - 5 for size in sizes], sorted(map(len, listed)))
        self.assertEqual(listed, self.both("getByTag", "a", "t"))
        self.assertCall(256, "update", "a", keys[255], 1)
        self.assertCall(256, "get", "a", keys[255])
        self.assertCall(True, "touch", "a", keys[255], OLD)
        self.assertCall(True, "replace", "a", keys[254], [1])
        self.assertCall(len(sizes), "plugIn", "a", "b")
        self.assertCall(True, "delete", "a", keys[255])
        self.assertCall(True, "rename", "b", keys[255], ["short"])
        self.assertCall(True, "rename", "b", ["short"], keys[255])
        self.assertCall(False, "set", "a", ["x" * 251], 1)  # too long for any folder
        self.assertCall(False, "has", "a", ["x" * 251])
        self.assertCall(True, "drop", "a")
        self.assertCall(True, "drop", "b")
        self.assertNothingRefused()

    def test_deletions_while_the_folder_is_read(self):
        self.both("create", "a")
        for php in self.places:  # long names: a getdents64 call gives about 140 of them
            for number in range(600):
                php.call("set", self.schema("a"), ["n" * 180, str(number)], number)
                if number % 3:
                    php.call("touch", self.schema("a"), ["n" * 180, str(number)], OLD + number)
        self.assertCall(400, "deleteUntil", "a", OLD + 600)
        self.assertCall(200, "capacity", "a")
        self.assertCall(200, "deleteAll", "a")
        self.assertCall([], "getAll", "a")
        self.assertCall(True, "remove", "a")

    def test_times_years_old(self):
        self.both("create", "a")
        for number in range(9):
            self.both("set", "a", [str(number)], number)
            self.both("touch", "a", [str(number)], OLD - number)
        self.both("touch", "a", ["7"], 0)
        self.both("touch", "a", ["6"], -86400)
        self.both("touch", "a", ["8"], 4000000000)
        self.assertCall(9, "plugIn", "a", "b")
        self.assertCall(2, "deleteUntil", "b", OLD - 5)
        self.assertCall(0, "deleteByCapacity", "a", 2, 9)
        self.assertCall(7, "deleteByCapacity", "a", 2, 8)
        self.assertCall(["0", "8"], "getAll", "a")
        self.assertCall(True, "replace", "a", ["0"], "new")
        self.assertCall(True, "rename", "a", ["8"], ["9"])
        for php in self.places:
            php.close()
        before = self.assertSame()
        self.mount.remount()
        self.assertEqual(before, self.look(self.mnt))
        self.places = [self.php(self.plain), self.php(self.mnt)]
        self.assertCall([1, 4000000000, True, True], "age", "a", ["9"])

    def test_a_probe_is_left(self):
        self.assertCall("OFFLINE", "probe", "a")
        self.both("create", "a")
        self.assertCall("ONLINE", "probe", "a")
        self.assertCall([], "getAll", "a")
        self.assertCall("ONLINE", "probe", "a", True)
        self.assertCall(["__test__"], "getAll", "a")
        self.assertCall(1, "capacity", "a")
        self.assertCall(False, "remove", "a")
        self.assertCall(True, "exists", "a")
        self.assertCall("ONLINE", "probe", "a")
        self.assertCall("ONLINE", "probe", "a", True)
        self.assertCall(1, "plugIn", "a", "b")
        self.assertCall(True, "drop", "a")
        self.assertCall(True, "drop", "b")

    def test_schemas_come_and_go_beside_others(self):
        for name in "abc":
            self.both("create", name)
            self.both("set", name, ["x"], name)
        for _ in range(3):
            self.assertCall(1, "plugIn", "b", "d")
            self.assertCall(True, "drop", "b")
            self.assertCall(1, "plugIn", "d", "b")
            self.assertCall(True, "drop", "d")
        self.assertCall(["x"], "getAll", "b")

    def test_copies_over_what_is_there(self):
        for name in "ab":
            self.both("create", name)
            self.both("set", name, ["x"], name * (100 if name == "b" else 1))
            self.both("touch", name, ["x"], OLD)
        self.both("set", "a", ["large"], ["y" * 1000] * 300)
        self.assertCall(2, "plugIn", "a", "b")  # mkdir says that the folder is there
        self.assertCall("a", "get", "b", ["x"])

    def recorded(self, schema, key):
        """The values that the change records of an item tell of, in their order."""
        lines = self.itemctl("changes", self.schema(schema)).stdout.splitlines()
        items = [record["new_item"] for record in map(json.loads, lines)
                 if [{"S": key}] == list(record["keys"].values())]
        return [int(item["$value"]["N"]) for item in items]

    def run_beside(self, scripts):
        """Runs a PHP process for each script at once, in both places; the answers in the mount."""
        for folder in (self.plain, self.mnt):
            crowd = [self.php(folder) for _ in scripts]
            for php, script in zip(crowd, scripts):
                for call in script:
                    php.send(*call)
            answers = [[php.answer() for _ in script] for php, script in zip(crowd, scripts)]
        return answers

    def record(self, schema):
        """Changes of the schema are recorded from now on."""
        os.setxattr(os.path.join(self.mnt, self.schema(schema)), "user.itemfs.stream", b"on")

    def test_sixteen_processes_count(self):
        self.both("create", "a")
        self.record("a")
        self.both("set", "a", ["n"], 0)
        self.both("set", "a", ["down"], 0)
        script = [("update", self.schema("a"), [name], step)
                  for _ in range(25) for name, step in (("n", 1), ("down", -3))]
        answers = self.run_beside([script] * PROCESSES)
        counts = [answer for process in answers for answer in process]
        self.assertEqual([], [answer for answer in counts if "throws" in answer or answer["warnings"]])
        total = 25 * PROCESSES
        for first, step in (0, 1), (1, -3):
            got = [answer["returns"] for process in answers for answer in process[first::2]]
            self.assertEqual(sorted(step * (n + 1) for n in range(total)), sorted(got))
        self.assertCall(total, "get", "a", ["n"])
        self.assertCall(-3 * total, "get", "a", ["down"])
        self.assertEqual(list(range(total + 1)), self.recorded("a", "n"))
        self.assertNothingRefused()

    def test_processes_at_once(self):
        self.both("create", "a")
        scripts = []
        for process in range(PROCESSES):
            own = [(method, self.schema("a"), [f"p{process}", str(n)], *more)
                   for n in range(8) for method, more in
                   (("set", [n]), ("update", [process]), ("get", []), ("replace", [{"n": n}]),
                    ("set", [[n] * process]), ("touch", [OLD + n]))]
            own += [("getAll", self.schema("a")), ("delete", self.schema("a"), [f"p{process}", "0"]),
                    ("delete", self.schema("a"), [f"p{process}", "1"])]
            scripts.append(own)
        for script in self.run_beside(scripts):
            self.assertEqual([], [answer for answer in script
                                  if "throws" in answer or answer["warnings"]])
        self.assertSame()
        self.assertEqual(6 * PROCESSES, self.both("capacity", "a"))
        self.assertCall(6 * PROCESSES, "deleteAll", "a")
        self.assertNothingRefused()

    def test_system_calls(self):
        """That php/schema.php makes the calls that the store's client makes, on the mount."""
        trace = os.path.join(self.place, f"{self.table}.trace")
        wrap = ["strace", "-f", "-o", trace, "-e", "trace=file,desc"]
        if not has_tool("strace") or subprocess.run(wrap + ["true"], capture_output=True).returncode:
            self.skipTest("strace is not there, or may not trace")
        php = self.php(self.mnt, wrap)
        folder, other = self.schema("a"), self.schema("b")
        wanted = [
            (("create", folder), r"mkdir\(F"),
            (("exists", folder), r"newfstatat\(AT_FDCWD, F, .*access\(F, W_OK"),
            (("set", folder, ["x"], 1),
             r"openat\(AT_FDCWD, F/x.json, O_WRONLY\|O_CREAT\|O_TRUNC, 0666.*"
             r"write\(4, T, 1\).*close\(4"),
            (("get", folder, ["x"]),
             r"access\(F/x.json, F_OK.*openat\(AT_FDCWD, F/x.json, O_RDONLY.*"
             r"newfstatat\(4, .*read\(4, T, "),
            (("update", folder, ["x"], 1),
             r"openat\(AT_FDCWD, F/x.json, O_RDWR\|O_CREAT\|O_APPEND.*flock\(4, LOCK_EX\).*"
             r"read\(4.*ftruncate\(4, 0\).*write\(4, T, 1\).*flock\(4, LOCK_UN.*close\(4"),
            (("plugIn", folder, other),
             r"mkdir\(G.*getdents64\(4.*copy_file_range\(5, NULL, 6, .* = 1 .*"
             r"utimensat\(AT_FDCWD, G/x.json"),
            (("probe", other),
             r"openat\(AT_FDCWD, G/__test__, O_WRONLY\|O_CREAT\|O_TRUNC.*unlink\(G/__test__\)"),
            (("drop", folder), r"getdents64\(4.*unlink\(F/x.json\).*getdents64\(4.*rmdir\(F\)"),
        ]
        for call, _ in wanted:
            self.assertEqual([], php.call(*call)["warnings"])
        php.close()
        with open(trace) as file:
            text = file.read()
        for path, short in (f"{self.mnt}/{folder}", "F"), (f"{self.mnt}/{other}", "G"):
            text = re.sub(f'"{re.escape(path)}([^"]*)"', rf"{short}\1", text)
        # One line, without other texts and what is the same in each line; each call is read first.
        text = re.sub(r'"(?:\\.|[^"\\])*"', lambda found: "CALL" if found[0].startswith('"[') else "T",
                      re.sub(r"\s*\n\d+\s*", " ", text))
        done = text.split("read(0, CALL")[1:]
        self.assertEqual(len(wanted), len(done))
        for (call, calls), part in zip(wanted, done):
            with self.subTest(call=call[0]):
                self.assertRegex(part, calls)


@unittest.skipUnless(has_tool("php"), "php is not installed")
class EmbeddedStore(Schemas, MountedTest):
    """Tables of the embedded store."""

    def test_values_that_name_a_key(self):
        """Where the key attribute has a name that no value has a member of, values are left alone:
        mkdir's is "key"."""
        folder = os.path.join(self.plain, self.schema("a"))
        os.mkdir(folder)
        self.create(self.schema("a"), "--key=-key", "--keys=tags")
        wait_for("the table in the listing", lambda: self.schema("a") in os.listdir(self.mnt), 2)
        for value in ({"key": 5}, {"key": "other"}, {"key": None, "a": 1}, {"key": ["x"]}):
            self.both("set", "a", ["v"], value)
            self.assertCall(json.dumps(value, separators=(",", ":")), "raw", "a", ["v"])
        self.assertNothingRefused()


@unittest.skipUnless(has_tool("php"), "php is not installed")
class Folder(Schemas, MountedTest):
    """The tables of a folder of files."""

    @classmethod
    def make_source(cls):
        os.mkdir(cls.db)

    def look_behind(self):
        """What the mounted folder itself holds."""
        return {name: found for name, found in self.look(self.db).items()
                if isinstance(name, str) or name[1].endswith(".json")}

    def assertSame(self, why=""):
        mounted = super().assertSame(why)
        files = {name: found[1:] for name, found in mounted.items()
                 if not isinstance(name, str) and name[1].endswith(".json")}
        self.assertEqual(files, {name: found[1:] for name, found in self.look_behind().items()
                                 if not isinstance(name, str)}, why)
        return mounted


if __name__ == "__main__":
    unittest.main()
