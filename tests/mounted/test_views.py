# SPDX-License-Identifier: MIT
"""Views: what carries a tag, and what an index has, as directories of symlinks."""

import errno
import json
import os
import stat
import unittest

from harness import MountedTest, wait_for


class ViewTest(MountedTest):
    def setUp(self):
        super().setUp()
        self.control = os.path.join(self.mnt, ".itemfs")

    def view(self, *parts):
        return os.path.join(self.control, *parts)

    def links(self, *parts):
        """Name -> path of the item below the mount, of a directory of links."""
        folder, found = self.view(*parts), {}
        for entry in os.scandir(folder):
            self.assertTrue(entry.is_symlink(), entry.name)
            here = os.lstat(entry.path)
            self.assertEqual(entry.inode(), here.st_ino)
            self.assertTrue(stat.S_ISLNK(here.st_mode))
            self.assertEqual(len(os.readlink(os.fsencode(entry.path))), here.st_size)
            found[entry.name] = os.path.relpath(os.path.realpath(entry.path), self.mnt)
        return found

    def directories(self, *parts):
        names = set()
        for entry in os.scandir(self.view(*parts)):
            self.assertTrue(entry.is_dir(follow_symlinks=False), entry.name)
            self.assertEqual(entry.inode(), os.lstat(entry.path).st_ino)
            names.add(entry.name)
        return names


class Tags(ViewTest):
    def tagged(self, tag):
        """Names of the items with TAG; each link leads to the item of its name."""
        found = self.links("tags", self.table, tag)
        self.assertEqual({name: f"{self.table}/{name}" for name in found}, found)
        return sorted(found)

    def test_tags(self):
        for name in ("users_roles", "users", "roles_10_9", "b_users"):
            self.write(name + ".json", '{"n": "%s"}' % name)
        self.write("users_scratch.txt", "no item")
        self.assertIn(self.table, self.directories("tags"))
        self.assertEqual({"users", "roles", "10", "9", "b"}, self.directories("tags", self.table))
        self.assertEqual(["b_users.json", "roles_users.json", "users.json"], self.tagged("users"))
        self.assertEqual(["9_10_roles.json"], self.tagged("9"))
        self.assertEqual([], self.tagged("nobody"))
        self.assertEqual('{"n": "users_roles"}',
                         self.sh(f"cat {self.view('tags', self.table, 'users')}/roles*").stdout)

    def test_names_as_long_as_they_may_be(self):
        name = "long_" + "x" * 245 + ".json"
        self.write(name, "1")
        self.assertEqual([name], self.tagged("long"))
        with open(self.view("tags", self.table, "long", name)) as link:
            self.assertEqual("1", link.read())

    def test_changes_show_at_once(self):
        self.write("a_b.json", "1")
        self.assertEqual(["a_b.json"], self.tagged("b"))
        link = self.view("tags", self.table, "b", "a_b.json")
        os.rename(self.path("a_b.json"), self.path("b_c.json"))
        self.assertEqual(["b_c.json"], self.tagged("b"))
        self.assertEqual({"b", "c"}, self.directories("tags", self.table))
        self.assertFalse(os.path.lexists(link))
        os.unlink(self.path("b_c.json"))
        self.assertEqual(set(), self.directories("tags", self.table))
        self.itemctl("put", self.table, "--item", "-", input='{"key":{"S":"x_b"}}')
        self.assertEqual(["b_x.json"], self.tagged("b"))
        self.itemctl("delete", self.table, "-k", "b_x")
        wait_for("the deletion", lambda: not self.tagged("b"), 2)
        self.write("gone_c.json", '{"-ttl": 1}')  # expired
        self.assertEqual([], self.tagged("gone"))
        self.assertEqual(set(), self.directories("tags", self.table))

    def test_other_names_are_not_there(self):
        self.write("a_b.json", "1")
        for name in ("b_a.json", "a.json", "a_b", "a_b.json/x", "a_b.jsonx", ".a_b.json", "c.json",
                     "a%5Fb.json"):
            with self.subTest(name=name):
                self.assertFalse(os.path.lexists(self.view("tags", self.table, "a", name)))
        for path in ("tags/nosuch", f"tags/{self.table}/a_b", f"tags/{self.table}/%61",
                     f"tags/{self.table}/.a", f"index/{self.table}", "tagsx", "tags/.itemfs"):
            with self.subTest(path=path):
                self.assertFalse(os.path.lexists(self.view(path)))

    def test_hostile_names(self):
        """Tag, directory, key and link are one to one, whatever is in them."""
        tags = ["a/b", ".hidden", "100%", "x" * 300, "x" * 299 + "y", "new\nline", "ünï", "sp ace",
                "..", "~0123456789abcdef0123456789abcdef", "-rf", "\x01", '"', "a,b"]
        for tag in tags:
            key = json.dumps(f"{tag}_shared")
            self.itemctl("put", self.table, "--item", "-", input='{"key":{"S":%s}}' % key)
        names = self.directories("tags", self.table)
        self.assertEqual(len(tags) + 1, len(names))
        listed = set(self.names())
        self.assertEqual(len(tags), len(listed))
        self.assertEqual(listed, set(self.tagged("shared")))
        single = [self.tagged(name) for name in names - {"shared"}]
        self.assertEqual([1] * len(tags), [len(found) for found in single])
        self.assertEqual(listed, {name for found in single for name in found})

    def test_strict_tags_and_plain_tables(self):
        plain = self.table + "-plain"
        self.create(plain, "--keys", "plain")
        self.assertNotIn(plain, self.directories("tags"))
        self.assertFalse(os.path.lexists(self.view("tags", plain)))

    def test_partitions_of_tags(self):
        other = self.table + "-sorted"
        self.create(other, "--key", "key", "--sort", "n:N", "--keys", "tags")
        os.mkdir(os.path.join(self.mnt, other, "b_a"))
        self.write(f"../{other}/a_b/1.json", "{}")
        self.assertEqual({"a", "b"}, self.directories("tags", other))
        self.assertEqual({"a_b": f"{other}/a_b"}, self.links("tags", other, "a"))
        found = self.sh(f"find -L {self.view('tags', other)} -name '*.json'").stdout.split()
        self.assertEqual(["1.json", "1.json"], [os.path.basename(path) for path in found])

    def test_walkers_do_not_meet_views(self):
        self.write("a_b.json", "1")
        for script in ("find -L .", "grep -rsl . .", "ls -aR .", "du -aL ."):
            out = self.sh(script, cwd=self.mnt).stdout
            self.assertTrue("a_b.json" in out and ".itemfs" not in out)
        out = os.path.join(self.place, "out-" + self.table)
        self.run_tool(["rsync", "-aL", self.dir + "/", out + "/"])
        self.assertEqual(["a_b.json"], os.listdir(out))

    def test_nothing_can_be_made_or_removed(self):
        self.write("a_b.json", "1")
        link = self.view("tags", self.table, "a", "a_b.json")
        for call in (lambda: os.unlink(link), lambda: os.rename(link, link + "x"),
                     lambda: os.rmdir(os.path.dirname(link)),
                     lambda: os.mkdir(self.view("tags", "x")),
                     lambda: os.symlink("x", self.view("tags", self.table, "a", "x.json"))):
            with self.assertRaises(OSError) as caught:
                call()
            self.assertIn(caught.exception.errno, (errno.EPERM, errno.EINVAL, errno.EACCES,
                                                   errno.ENOTSUP, errno.EEXIST, errno.EXDEV))
        self.assertEqual("1", self.sh(f"cat {link}").stdout)
        with open(link, "w") as file:  # through the link it is the item
            file.write("2")
        self.assertBoth("a_b.json", "2")

    def test_many(self):
        lines = "\n".join('{"key":{"S":"all_n-%d_%s"}}' % (n, "few" if n % 100 == 0 else "rest")
                          for n in range(3000))
        self.itemctl("put", self.table, "--items", "-", input=lines)
        self.assertEqual(3000, len(os.listdir(self.view("tags", self.table, "all"))))
        self.assertEqual(30, len(self.tagged("few")))
        self.assertEqual(3003, len(self.directories("tags", self.table)))


class Indexes(ViewTest):
    def make_table(self):
        self.create(self.table, "--key", "id", "--index", "by-city:city",
                    "--index", "by-team:team,points:N")

    def city(self, city):
        return self.links("index", self.table, "by-city", city)

    def team(self, team):
        return self.links("index", self.table, "by-team", team)

    def test_values_and_links(self):
        self.write("ada.json", '{"city": "London", "team": "red", "points": 10}')
        self.write("bob.json", '{"city": "London", "team": "red", "points": -9.50}')
        self.write("eve.json", '{"city": "Paris"}')
        self.write("none.json", "5")
        self.assertIn(self.table, self.directories("index"))
        self.assertEqual({"by-city", "by-team"}, self.directories("index", self.table))
        self.assertEqual({"London", "Paris"}, self.directories("index", self.table, "by-city"))
        self.assertEqual({"red"}, self.directories("index", self.table, "by-team"))
        self.assertEqual({"ada.json": f"{self.table}/ada.json",
                          "bob.json": f"{self.table}/bob.json"}, self.city("London"))
        self.assertEqual({"10,ada.json": f"{self.table}/ada.json",
                          "-9.5,bob.json": f"{self.table}/bob.json"}, self.team("red"))
        self.assertEqual(["-9.5,bob.json", "10,ada.json"],
                         os.listdir(self.view("index", self.table, "by-team", "red")))
        self.assertEqual({}, self.city("Rome"))
        out = self.sh(f"find -L {self.view('index', self.table, 'by-city')} -type f | sort").stdout
        self.assertEqual(["London/ada.json", "London/bob.json", "Paris/eve.json"],
                         ["/".join(path.split("/")[-2:]) for path in out.split()])
        self.assertEqual('"Paris"\n', self.sh(
            f"jq .city {self.view('index', self.table, 'by-city', 'Paris')}/*").stdout)
        self.assertEqual(self.path("eve.json") + "\n", self.sh(
            f"readlink -f {self.view('index', self.table, 'by-city', 'Paris', 'eve.json')}").stdout)

    def test_changes_show_at_once(self):
        self.write("ada.json", '{"city": "London"}')
        link = self.view("index", self.table, "by-city", "London", "ada.json")
        self.assertTrue(os.path.islink(link))
        self.write("ada.json", '{"city": "Paris"}')
        self.assertFalse(os.path.lexists(link))
        self.assertEqual({"Paris"}, self.directories("index", self.table, "by-city"))
        self.assertEqual(["ada.json"], list(self.city("Paris")))
        self.itemctl("put", self.table, "--item", "-",
                     input='{"id":{"S":"ada"},"city":{"S":"Rome"}}')
        wait_for("the change", lambda: os.path.islink(
            self.view("index", self.table, "by-city", "Rome", "ada.json")), 2)
        self.assertEqual({}, self.city("Paris"))
        os.unlink(self.path("ada.json"))
        self.assertEqual(set(), self.directories("index", self.table, "by-city"))

    def test_a_link_belongs_to_its_value(self):
        self.write("ada.json", '{"city": "London", "team": "red", "points": 1}')
        for value, name in (("Paris", "ada.json"), ("London", "bob.json"), ("London", "1,ada.json"),
                            ("London", "ada.json/x"), ("%4Condon", "ada.json")):
            path = self.view("index", self.table, "by-city", value, name)
            self.assertFalse(os.path.lexists(path), path)
        for name in ("ada.json", "2,ada.json", "1.0,ada.json", "1,bob.json", "1,ada.jsonx", "1,ada"):
            path = self.view("index", self.table, "by-team", "red", name)
            self.assertFalse(os.path.lexists(path), path)
        for path in (f"index/{self.table}/nosuch", "index/nosuch", f"tags/{self.table}"):
            self.assertFalse(os.path.lexists(self.view(path)), path)

    def test_hostile_names(self):
        values = ["a/b", ".x", "100%", "y" * 300, "y" * 299 + "z", "\n", "a,b", "..", "ünï", "a_b",
                  "~0123456789abcdef0123456789abcdef", "\x7f"]
        for number, value in enumerate(values):
            text = json.dumps(value)
            self.itemctl("put", self.table, "--item", "-", input=(
                '{"id":{"S":%s},"city":{"S":%s},"team":{"S":%s},"points":{"N":"%d"}}'
                % (text, text, text, number)))
        listed = set(self.names())
        self.assertEqual(len(values), len(listed))
        for index in ("by-city", "by-team"):
            names = self.directories("index", self.table, index)
            self.assertEqual(len(values), len(names))
            targets = [self.links("index", self.table, index, name) for name in names]
            self.assertEqual([1] * len(values), [len(found) for found in targets])
            self.assertEqual({f"{self.table}/{name}" for name in listed},
                             {path for found in targets for path in found.values()})

    def test_of_a_sorted_table(self):
        other = self.table + "-sorted"
        self.create(other, "--key", "customer", "--sort", "day", "--index", "by-status:status,day",
                    "--index", "by-n:n:N", "--index", "by-b:b:B")
        for customer, day, rest in (("c-7", "2024-01-05", '"status": "open", "n": 7'),
                                    ("c-8", "2024-01-04", '"status": "open", "b": {"$B": "//8="}'),
                                    ("c,9", "a,b", '"status": "open"')):
            os.makedirs(os.path.join(self.mnt, other, customer), exist_ok=True)
            self.write(f"../{other}/{customer}/{day}.json", "{%s}" % rest)
        self.assertEqual({"2024-01-05,c-7,2024-01-05.json": f"{other}/c-7/2024-01-05.json",
                          "2024-01-04,c-8,2024-01-04.json": f"{other}/c-8/2024-01-04.json",
                          "a%2Cb,c%2C9,a%2Cb.json": f"{other}/c,9/a,b.json"},
                         self.links("index", other, "by-status", "open"))
        self.assertEqual({"7"}, self.directories("index", other, "by-n"))
        self.assertEqual({"c-7,2024-01-05.json": f"{other}/c-7/2024-01-05.json"},
                         self.links("index", other, "by-n", "7"))
        self.assertEqual({"__8"}, self.directories("index", other, "by-b"))
        self.assertEqual(["c-8,2024-01-04.json"], list(self.links("index", other, "by-b", "__8")))

    def test_long_names(self):
        """Names that do not fit are found by what they are made of."""
        self.create(self.table + "-long", "--key", "c", "--sort", "d", "--index", "x:x,y")
        other = self.table + "-long"
        for number in range(3):
            long = "k" * 200
            self.itemctl("put", other, "--item", "-", input=json.dumps(
                {"c": {"S": long}, "d": {"S": f"{long}{number}"}, "x": {"S": "v"},
                 "y": {"S": long}}))
        found = self.links("index", other, "x", "v")
        self.assertEqual(3, len(found))
        self.assertTrue(all(len(name) <= 240 and "~" in name for name in found))
        self.assertEqual({f"{other}/{'k' * 200}/{'k' * 200}{n}.json" for n in range(3)},
                         set(found.values()))


class TypedFiles(ViewTest):
    config = ("[backend s]\npath = {store}\n[table typed]\nformat = typed\n"
              "[table strict]\ntag_rule = strict\n")

    def test_index_of_typed_files(self):
        other = "typed"
        self.create(other, "--key", "id", "--index", "by-city:city")
        self.write(f"../{other}/ada.json", '{"id":{"S":"ada"},"city":{"S":"London"}}')
        self.assertEqual({"ada.json": "typed/ada.json"},
                         self.links("index", other, "by-city", "London"))

    def test_strict_tags(self):
        os.mkdir(os.path.join(self.mnt, "strict"))
        self.write("../strict/a_b.json", "1")
        self.assertTrue(os.path.isdir(self.view("tags", "strict", "c")))
        self.assertFalse(os.path.lexists(self.view("tags", "strict", "C")))


class ReadOnly(ViewTest):
    options = ("ro",)

    @classmethod
    def setUpClass(cls):
        super(MountedTest, cls).setUpClass()
        cls.db = os.path.join(cls.place, "items.db")
        writer = cls.new_mount(cls.db, "writer")
        writer.env = cls.environment()
        writer.start()
        os.mkdir(os.path.join(writer.point, "cache"))
        with open(os.path.join(writer.point, "cache", "a_b.json"), "w") as file:
            file.write("1")
        writer.unmount()
        cls.deaths, cls.expected = [], {}
        cls.mount = cls.new_mount(cls.db, "mnt", cls.options)
        cls.mount.env = cls.environment()
        cls.mnt = cls.mount.point
        cls.mount.start()

    def make_table(self):
        pass

    def test_views(self):
        self.assertEqual({"a_b.json": "cache/a_b.json"}, self.links("tags", "cache", "a"))
        self.assertEqual("1", self.sh("cat .itemfs/tags/cache/b/*.json", cwd=self.mnt).stdout)


if __name__ == "__main__":
    unittest.main()
