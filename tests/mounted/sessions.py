# SPDX-License-Identifier: MIT
"""What a mount of Starch's sessions promises, for a store and for a service.

A test class has, besides what mounted tests have, `stored(key)`, the item as it is stored, in typed
JSON, by a client that does not know the mount (None: there is none), and `put_stored(item)`, by
which another program stores one. tests/vectors/starch.json is what the real store did.
"""

import errno
import json
import os
import re
import shutil
import time

from harness import TESTS, wait_for

KEY, EXPIRATION = "__STARCH_KEY__", "__STARCH_EXPIRATION__"
TTL, REASON = "user.itemfs.ttl", "user.itemfs.error"
FAR = 4102444800
SERIALIZED = "__SERIALIZED__:"

with open(os.path.join(TESTS, "vectors", "starch.json"), encoding="utf-8") as vectors:
    CASES = json.load(vectors)["cases"]


def cases(kind):
    return [case for case in CASES if case["kind"] == kind]


def now_based(value, now):
    """An expected expiration: "@now+N" is so many seconds after NOW."""
    if isinstance(value, str) and value.startswith("@now"):
        return str(now + int(value[4:]))
    return value


def fields(item):
    """The attributes of the session, what is serialized as what it says: the order of members in it
    is free."""
    session = {}
    for name, value in item.items():
        text = value.get("S", "")
        if text.startswith(SERIALIZED):
            try:
                text = json.loads(text[len(SERIALIZED):].encode("latin-1"))
                value = {"serialized": text}
            except ValueError:
                pass
        if name not in (KEY, EXPIRATION):
            session[name] = value
    return session


def as_read(state):
    """What Starch gives back of STATE: whole numbers come as texts."""
    return {name: str(value) if isinstance(value, int) and not isinstance(value, bool) else value
            for name, value in state.items()}


class Sessions:
    def key(self, name):
        """A key of this test's own."""
        return f"starch-state:{re.sub('[^a-z0-9]', '', self.id().split('.')[-1])}-{name}"

    def file(self, name):
        return self.key(name) + ".json"

    def put(self, name, expiration=0, **attributes):
        """Another program stores a session; gives the name of its file."""
        self.put_stored({KEY: {"S": self.key(name)}, EXPIRATION: {"N": str(expiration)}, **attributes})
        return self.file(name)

    def session(self, name):
        return json.loads(self.read(name))

    def ttl(self, name):
        try:
            return int(os.getxattr(self.path(name), TTL))
        except OSError as error:
            self.assertEqual(errno.ENODATA, error.errno)
            return 0

    def expiration(self, name):
        """As it is stored."""
        return int(self.stored(self.key(name))[EXPIRATION]["N"])

    def see(self, name, wanted):
        """Waits until the file reads as WANTED (None: it is not there)."""
        def seen():
            try:
                return self.session(name) == wanted
            except FileNotFoundError:
                return wanted is None
        wait_for(f"{name} to be {wanted}", seen)

    # --- The vectors ---

    def test_vectors_written(self):
        """What Starch stores and gets back is what a file stores and shows. What Starch would give
        back as something else is refused, and nothing is stored."""
        written = refused = 0
        for number, case in enumerate(cases("round_trip")):
            with self.subTest(case["note"]):
                state, expect = case["state"], case["expect"]
                name = self.file(str(number))
                if case["expires"] < 0:  # nobody can ask for that by name
                    continue
                if expect.get("get") != as_read(state):
                    self.assertErrno(errno.EINVAL, self.write, name, json.dumps(state))
                    self.assertIsNone(self.stored(self.key(str(number))))
                    self.assertIn(next(iter(state)), self.reason(name))
                    refused += 1
                    continue
                self.write(name, json.dumps(state))
                self.assertEqual("0", self.stored(self.key(str(number)))[EXPIRATION]["N"])
                now = int(time.time()) + 100  # before anybody could have looked in vain
                if case["expires"]:
                    os.setxattr(self.path(name), TTL, str(now + case["expires"]).encode())
                item = self.stored(self.key(str(number)))
                self.assertEqual(fields(expect["item"]), fields(item))
                self.assertEqual(now_based(expect["item"][EXPIRATION]["N"], now), item[EXPIRATION]["N"])
                self.assertEqual({"S": self.key(str(number))}, item[KEY])
                self.assertEqual(expect["get"], self.session(name))
                written += 1
        self.assertEqual((21, 6), (written, refused))

    def reason(self, name):
        return os.getxattr(os.path.join(self.drafts_folder(), name), REASON).decode()

    def drafts_folder(self):
        return os.path.join(self.mount.point, ".itemfs", "drafts", self.table)

    def test_vectors_read(self):
        """What Starch has stored reads as what Starch gets."""
        shown = hidden = unreadable = 0
        for number, case in enumerate(cases("round_trip")):
            expect = case["expect"]
            if not expect["item"]:
                continue
            with self.subTest(case["note"]):
                name, now = self.file(str(number)), int(time.time()) + 100
                item = {field: {kind: now_based(value, now) for kind, value in typed.items()}
                        for field, typed in expect["item"].items()}
                if case["expires"] < 0:
                    item[EXPIRATION] = {"N": str(int(time.time()) - 10)}
                self.put_stored({**item, KEY: {"S": self.key(str(number))}})
                if "get_throws" in expect:
                    wait_for("the file", lambda: name in self.names())
                    self.assertErrno(errno.EIO, self.read, name)
                    unreadable += 1
                elif expect["get"] is None:
                    self.assertErrno(errno.ENOENT, self.read, name)
                    hidden += 1
                else:
                    self.see(name, expect["get"])
                    self.assertEqual(int(item[EXPIRATION]["N"]), self.ttl(name))
                    shown += 1
        self.assertEqual((24, 2, 1), (shown, hidden, unreadable))

    def test_vectors_expired(self):
        """Whoever reads an expired session removes it."""
        for number, case in enumerate(cases("read")):
            with self.subTest(case["note"]):
                name, now = self.file(str(number)), int(time.time())
                late = 0 if case["expect"]["deleted"] else 100
                item = {field: {kind: now_based(value, now + late) for kind, value in typed.items()}
                        for field, typed in case["item"].items()}
                self.put_stored({**item, KEY: {"S": self.key(str(number))}})
                self.see(name, case["expect"]["get"])
                if case["expect"]["deleted"]:
                    wait_for("its removal", lambda: self.look_again(name, str(number)))
                else:
                    self.assertIsNotNone(self.stored(self.key(str(number))))

    def look_again(self, name, number):
        self.assertFalse(os.path.exists(self.path(name)))
        return self.stored(self.key(number)) is None

    def test_vectors_keys(self):
        """A key is what it is: nothing is done to it but what file names need."""
        for case in cases("key"):
            with self.subTest(case["expect"]):
                self.write(case["expect"] + ".json", '{"a": "1"}')
                self.assertEqual({"S": case["expect"]}, self.stored(case["expect"])[KEY])
                os.unlink(self.path(case["expect"] + ".json"))
                self.assertIsNone(self.stored(case["expect"]))

    # --- What is refused ---

    def test_ambiguous_texts(self):
        name = self.put("x", a={"S": "1"})
        self.see(name, {"a": "1"})
        for text in ("__UNDEF__", "__EMPTY__", SERIALIZED, SERIALIZED + "[1]", SERIALIZED + "[1]\n",
                     SERIALIZED + "nope"):
            with self.subTest(text):
                self.assertErrno(errno.EINVAL, self.write, name, json.dumps({"b": text}))
                self.assertIn('"b":', os.getxattr(self.path(name), REASON).decode())
                with open(os.path.join(self.drafts_folder(), name), encoding="utf-8") as draft:
                    self.assertEqual(json.dumps({"b": text}), draft.read())
                self.assertEqual({"a": "1"}, self.session(name))
        for text in ("__UNDEF", "__EMPTY__\n", "__SERIALIZED__", SERIALIZED + "[1]\n,", "x" + SERIALIZED):
            with self.subTest(text):
                self.write(name, json.dumps({"b": text, "c": [text], "d": {"__EMPTY__": "__UNDEF__"}}))
                self.assertEqual({"b": text, "c": [text], "d": {"__EMPTY__": "__UNDEF__"}},
                                 self.session(name))
                self.assertEqual({"S": text}, self.stored(self.key("x"))["b"])

    def test_what_is_no_session(self):
        name = self.file("x")
        for text in ('[1]', '"a"', '1', 'null', '{"a": 1,}', f'{{"{EXPIRATION}": 5}}',
                     f'{{"{EXPIRATION}": "5"}}', '{"__STARCH_NO_STORE__": 1}',
                     '{"__STARCH_NO_STORE__": true}', '{"a": [{"$B": "AA=="}]}'):
            with self.subTest(text):
                self.assertErrno(errno.EINVAL, self.write, name, text)
                self.assertIsNone(self.stored(self.key("x")))
        for value in ("0", '""', "null", "false", '"0"'):
            self.write(name, f'{{"__STARCH_NO_STORE__": {value}}}')
            self.assertIsNotNone(self.stored(self.key("x")))

    def test_the_path_says_the_key(self):
        name = self.file("x")
        self.write(name, json.dumps({KEY: self.key("x"), "a": "1"}))
        self.write(self.file("y"), json.dumps({KEY: "elsewhere", "a": "1"}))
        for key in ("x", "y"):
            self.assertEqual({"S": self.key(key)}, self.stored(self.key(key))[KEY])
            self.assertEqual({"a": "1"}, self.session(self.file(key)))

    def test_what_cannot_be_shown_is_in_nobodys_way(self):
        good = self.put("good", a={"S": "1"})
        for text in ("nope", "[1", '"\u20ac"', '"\u00e9"', "{}x"):
            bad = self.put("bad", a={"S": SERIALIZED + text})
            wait_for("the file", lambda: bad in self.names())
            self.assertIn(good, self.names())
            self.assertErrno(errno.EIO, self.read, bad)
            self.assertErrno(errno.EIO, os.open, self.path(bad), os.O_RDWR)
            self.assertIn('"a":', os.getxattr(self.path(bad), REASON).decode())
            self.sh(f"grep -l a ./{good}", cwd=self.dir)
            os.unlink(self.path(bad))
            self.assertIsNone(self.stored(self.key("bad")))
        bad = self.put("bad", a={"S": SERIALIZED + "nope"})
        wait_for("the file", lambda: bad in self.names())
        self.write(bad, '{"a": {}}')  # over it
        self.assertEqual({"a": {}}, self.session(bad))

    def test_what_starch_never_writes(self):
        """Attributes of other programs: shown as they are, stored as Starch would."""
        name = self.put("x", n={"N": "5"}, b={"BOOL": True}, z={"NULL": True}, e={"S": ""},
                        l={"L": [{"S": "__UNDEF__"}]}, m={"M": {"k": {"N": "1"}}}, d={"B": "AAE="},
                        s={"SS": ["a", "b"]})
        self.see(name, {"n": 5, "b": True, "z": None, "e": "", "l": ["__UNDEF__"], "m": {"k": 1},
                        "d": {"$B": "AAE="}, "s": {"$SS": ["a", "b"]}})
        self.sh(f"sed -i s/5,/6,/ {name}", cwd=self.dir)
        item = self.stored(self.key("x"))
        self.assertEqual(({"S": "6"}, {"S": SERIALIZED + "true"}, {"S": "__UNDEF__"}, {"S": "__EMPTY__"}),
                         (item["n"], item["b"], item["z"], item["e"]))
        self.assertEqual(({"S": SERIALIZED + '["__UNDEF__"]'}, {"S": SERIALIZED + '{"k":1}'}),
                         (item["l"], item["m"]))
        self.assertEqual(({"B": "AAE="}, ["a", "b"]), (item["d"], sorted(item["s"]["SS"])))

    def test_numbers(self):
        name = self.file("x")
        self.write(name, '{"a": 1.0, "b": 1e3, "c": -0, "d": 123456789012345678901234567890123456789012,'
                         ' "e": [1.50, 1e3], "f": -1.25}')
        item = self.stored(self.key("x"))
        self.assertEqual([{"S": "1"}, {"S": "1000"}, {"S": "-0"},
                          {"S": "123456789012345678901234567890123456789012"},
                          {"S": SERIALIZED + "[1.50,1e3]"}, {"N": "-1.25"}], [item[k] for k in "abcdef"])
        self.assertErrno(errno.ERANGE, self.write, name, '{"a": 1%s.5}' % ("0" * 40))

    def test_an_empty_file_is_an_empty_session(self):
        self.sh(f"touch {self.file('x')}", cwd=self.dir)
        self.assertEqual({KEY: {"S": self.key("x")}, EXPIRATION: {"N": "0"}}, self.stored(self.key("x")))
        self.assertEqual("{}\n", self.text(self.file("x")))

    def text(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    # --- The time to live ---

    def test_expiration_is_kept(self):
        """By a save in place, an editor's save, a rename over it, a copy of attributes; a new file
        has none."""
        name = self.put("x", FAR, a={"S": "that"})
        self.see(name, {"a": "that"})
        self.assertEqual(FAR, self.ttl(name))
        steps = {"a shell's redirection": f"""echo '{{"a": "1"}}' > {name}""",
                 "sed": f"sed -i 's/\"1\"/\"2\"/' {name}",
                 "a rename over it": f"""echo '{{"a": "3"}}' > .t.tmp && mv .t.tmp {name}""",
                 "rsync": f"rsync {self.place}/new.json ./{name}",
                 "vim": f"vim -u NONE -N -es -c 's/4/5/' -c wq {name} < /dev/null || true",
                 "an update": f"setfattr -n user.itemfs.append.l -v 2 {name}"}
        with open(os.path.join(self.place, "new.json"), "w", encoding="utf-8") as file:
            file.write('{"a": "4", "l": [1]}')
        for step, command in steps.items():
            if shutil.which(command.split()[0]) or command.startswith("echo"):
                with self.subTest(step):
                    self.sh(command, cwd=self.dir)
                    self.assertEqual((FAR, FAR), (self.ttl(name), self.expiration("x")))
        self.assertEqual([1, 2], self.session(name)["l"])
        self.sh(f"cp {name} {self.file('copy')}; cp -a {name} {self.file('all')}; mv {name} {self.file('y')}",
                cwd=self.dir)
        self.assertEqual((0, FAR, FAR), tuple(self.expiration(n) for n in ("copy", "all", "y")))
        self.assertIsNone(self.stored(self.key("x")))
        os.removexattr(self.path(self.file("y")), TTL)
        self.assertEqual(0, self.expiration("y"))
        os.unlink(self.path(self.file("all")))
        self.write(self.file("all"), "{}")
        self.assertEqual(0, self.expiration("all"))

    def test_expiry_at_the_second(self):
        """A session is there in the second of its expiration, and gone with the next one, also where
        the kernel has seen it before."""
        first = int(time.time()) + 2
        names = [self.put(str(n), first + n, a={"S": "1"}) for n in range(4)]
        for name in names:
            self.see(name, {"a": "1"})
        for second in range(first, first + 5):
            wait_for("the second", lambda s=second: time.time() >= s)
            while int(time.time()) == second:  # until it was looked at within one second
                there = [os.path.exists(self.path(name)) for name in names]
                listed = [name in self.names() for name in names]
                if int(time.time()) != second:
                    break
                wanted = [first + n >= second for n in range(4)]
                self.assertEqual((wanted, wanted), (there, listed))
                time.sleep(0.1)
        wait_for("the last one's end", lambda: not os.path.exists(self.path(names[-1])))
        self.write(names[0], '{"a": "new"}')
        self.assertEqual({"a": "new"}, self.session(names[0]))
        self.assertEqual(0, self.expiration("0"))

    def test_a_name_that_has_expired_is_free(self):
        """Also where the service itself would keep the item: long ago, or as a text."""
        for number, value in enumerate(({"N": "100"}, {"S": "100"}, {"N": str(int(time.time()) - 10)},
                                        {"N": "-5"}, {"N": "0.5"})):
            with self.subTest(value):
                name = self.file(str(number))
                self.put_stored({KEY: {"S": self.key(str(number))}, EXPIRATION: value, "a": {"S": "old"}})
                self.assertNotIn(name, self.names())
                fd = os.open(self.path(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
                os.write(fd, b'{"a": "new"}')
                os.close(fd)
                self.assertEqual({KEY: {"S": self.key(str(number))}, EXPIRATION: {"N": "0"},
                                  "a": {"S": "new"}}, self.stored(self.key(str(number))))

    def test_what_never_expires(self):
        for number, value in enumerate(({"N": "0"}, {"S": "0"}, {"N": str(FAR)}, {"S": str(FAR)})):
            self.put_stored({KEY: {"S": self.key(str(number))}, EXPIRATION: value, "a": {"S": "1"}})
            self.see(self.file(str(number)), {"a": "1"})
        self.put_stored({KEY: {"S": self.key("none")}, "a": {"S": "1"}})
        self.see(self.file("none"), {"a": "1"})

    # --- Programs ---

    def test_tools(self):
        name = self.put("x", FAR, a={"S": "that"}, m={"S": SERIALIZED + '{"k":[1]}'})
        self.see(name, {"a": "that", "m": {"k": [1]}})
        self.assertEqual(len(self.text(name)), os.stat(self.path(name)).st_size)
        self.sh(f"jq -e '.m.k[0] == 1' {name}; jq '.m.k += [2]' {name} > .new.tmp; mv .new.tmp {name}",
                cwd=self.dir)
        self.assertEqual({"S": SERIALIZED + '{"k":[1,2]}'}, self.stored(self.key("x"))["m"])
        self.assertEqual(FAR, self.expiration("x"))
        self.sh(f"sed -i s/that/other/ {name}", cwd=self.dir)
        self.assertEqual({"S": "other"}, self.stored(self.key("x"))["a"])
        self.assertEqual([name], [n for n in self.names() if self.key("") in n])

    def test_rsync_twice(self):
        """The second time there is nothing to do, in both directions."""
        one, two = os.path.join(self.place, "one"), os.path.join(self.place, "two")
        for number in range(5):
            self.put(str(number), FAR, n={"N": "1.5"}, t={"S": "__EMPTY__"}, l={"S": SERIALIZED + "[1]"})
        for folder in (one, two):
            shutil.rmtree(folder, ignore_errors=True)
        only = f"--include='{self.key('')}*' --exclude='*'"
        rsync = f"rsync -aX --itemize-changes {only}"
        self.assertEqual(5, self.sh(f"{rsync} {self.dir}/ {one}/").stdout.count(">f"))
        self.assertEqual("", self.sh(f"{rsync} {self.dir}/ {one}/").stdout.replace(".d..t...... ./\n", ""))
        self.sh(f"cp -a {one} {two}; sed -i 's/1.5/2.25/' {two}/*-3.json")
        back = f"rsync -a --itemize-changes {only} {two}/ {self.dir}/"
        self.assertEqual([self.file("3")], re.findall(r"f\S+ (.*)", self.sh(back).stdout))
        self.assertEqual([], re.findall(r"f\S+ (.*)", self.sh(back).stdout))
        self.assertEqual({"N": "2.25"}, self.stored(self.key("3"))["n"])
        self.assertEqual(FAR, self.expiration("3"))

    def test_conflict(self):
        name = self.put("x", FAR, a={"S": "1"})
        self.see(name, {"a": "1"})
        fd = os.open(self.path(name), os.O_RDWR)
        os.read(fd, 1000)
        self.put("x", FAR, a={"S": "2"})
        os.ftruncate(fd, 0)
        os.pwrite(fd, b'{"a": "mine"}', 0)
        self.assertErrno(errno.ESTALE, os.close, fd)
        self.assertEqual({"S": "2"}, self.stored(self.key("x"))["a"])
        self.assertTrue(self.drafts())
        self.see(name, {"a": "2"})

    def test_saved_after_its_end(self):
        """A session that was open when its time came to an end has gone: what is saved is a draft."""
        name = self.put("x", FAR, a={"S": "1"})
        self.see(name, {"a": "1"})
        os.setxattr(self.path(name), TTL, b"%d" % (time.time() + 1))
        fd = os.open(self.path(name), os.O_RDWR)
        wait_for("its end", lambda: name not in self.names())
        os.pwrite(fd, b'{"a": "precious"}', 0)
        self.assertErrno(errno.ESTALE, os.fsync, fd)
        self.assertErrno(errno.ESTALE, os.close, fd)
        self.assertTrue(self.drafts())
        self.assertNotIn(name, self.names())

    def test_a_far_end(self):
        """Applications say "never" by the largest number there is."""
        name = self.put("x", 2**63 - 1, a={"S": "1"})
        self.see(name, {"a": "1"})
        self.assertEqual(2**63 - 1, self.ttl(name))

    def test_what_is_shown_saves_as_it_is(self):
        name = self.file("x")
        self.write(name, '{"price": 10.0, "more": 1e2, "part": 2.50, "note": "a"}')
        first = self.stored(self.key("x"))
        self.assertEqual(({"S": "10"}, {"S": "100"}, {"N": "2.5"}),
                         (first["price"], first["more"], first["part"]))
        with open(self.path(name), encoding="utf-8") as file:
            text = file.read()
        self.write(name, text.replace('"a"', '"b"'))
        self.assertEqual({**first, "note": {"S": "b"}}, self.stored(self.key("x")))

    def test_half_a_character(self):
        """No JSON of Perl's reads it: the application would not find its session again."""
        for text in ('{"a": "\\ud800"}', '{"a": ["\\udfff"]}', '{"\\ud800": 1}'):
            self.assertErrno(errno.EINVAL, self.write, self.file("half"), text)
            self.assertIn("half of a surrogate pair", self.reason(self.file("half")))

    def test_updates_by_name(self):
        name = self.put("x", FAR, l={"S": SERIALIZED + "[1]"}, n={"N": "1.5"}, s={"S": "5"})
        self.see(name, {"l": [1], "n": 1.5, "s": "5"})
        os.setxattr(self.path(name), "user.itemfs.append.l", b'"x"')
        os.setxattr(self.path(name), "user.itemfs.add.n", b"1.25")
        self.assertErrno(errno.EINVAL, os.setxattr, self.path(name), "user.itemfs.add.s", b"1")
        self.assertEqual({"l": [1, "x"], "n": 2.75, "s": "5"}, self.session(name))
        item = self.stored(self.key("x"))
        self.assertEqual(({"S": SERIALIZED + '[1,"x"]'}, {"N": "2.75"}, {"N": str(FAR)}),
                         (item["l"], item["n"], item[EXPIRATION]))

    def test_itemctl_has_the_stored_items(self):
        name = self.put("x", FAR, a={"S": "__EMPTY__"})
        line = self.itemctl("get", self.table, "-k", self.key("x")).stdout
        self.assertEqual({KEY: {"S": self.key("x")}, EXPIRATION: {"N": str(FAR)}, "a": {"S": "__EMPTY__"}},
                         json.loads(line))
        self.assertEqual({"TimeToLive": FAR},
                         json.loads(self.itemctl("ttl", self.table, "-k", self.key("x")).stdout))
        self.itemctl("put", self.table, "--item", "-", input=json.dumps(
            {KEY: {"S": self.key("x")}, "a": {"S": SERIALIZED + "[]"}}))
        self.see(name, {"a": []})
        self.itemctl("delete", self.table, "-k", self.key("x"))
        self.see(name, None)
