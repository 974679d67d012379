# SPDX-License-Identifier: MIT
"""maintain health, and the tag store's XML as the place where replicas are named."""

import json
import os

from ctl import DONE, FAILED, USAGE, CtlTest

LIST = "<x><lucinda_db><live><schemas>%s</schemas></live></lucinda_db></x>"


class ReplicaTest(CtlTest):
    def setUp(self):
        super().setUp()
        self.roots = [self.path("d1"), self.path("d2")]
        for root in self.roots:
            os.makedirs(os.path.join(root, "users"))
        self.conf = self.write("mount.conf", "[backend files]\ntype = folder\n"
                               f"replicas = {', '.join(self.roots)}\n")
        self.env["ITEMFS_SOURCE"] = self.conf

    def health(self, *arguments, status=DONE):
        out, err = self.run_ctl("maintain", "health", *arguments, status=status)
        return [(replica["Path"], replica["Health"]) for replica in json.loads(out)["Replicas"]], err


class Health(ReplicaTest):
    def test_online(self):
        self.assertEqual(([(root, "ONLINE") for root in self.roots], ""), self.health())
        self.assertEqual(([(root, "ONLINE") for root in self.roots], ""),
                         self.health("--max-write", "60000"))
        for root in self.roots:
            self.assertEqual(["users"], os.listdir(root))  # nothing is left of the trial

    def test_overloaded(self):
        self.assertEqual(([(root, "OVERLOADED") for root in self.roots],
                          "itemctl: 2 of 2 replicas are not online\n"),
                         self.health("--max-write", "0.0001", status=FAILED))

    def test_offline_also_where_none_is_left(self):
        os.rename(self.roots[1], self.path("away"))
        self.assertEqual([(self.roots[0], "ONLINE"), (self.roots[1], "OFFLINE")],
                         self.health(status=FAILED)[0])
        self.write("d2", "a file")
        os.rename(self.roots[0], self.path("away too"))
        self.assertEqual([(root, "OFFLINE") for root in self.roots], self.health(status=FAILED)[0])
        self.assertFalse(os.path.exists(self.state))  # and nothing was opened

    def test_unresponsive(self):
        os.rmdir(os.path.join(self.roots[0], "users"))
        os.rmdir(self.roots[0])
        os.symlink("/proc/self", self.roots[0])  # a folder in which no file can be made
        self.assertEqual(["UNRESPONSIVE", "ONLINE"],
                         [health for _, health in self.health(status=FAILED)[0]])

    def test_for_people(self):
        os.rename(self.roots[1], self.path("away"))
        text = self.on_terminal("maintain", "health", status=FAILED)
        lines = [line.split() for line in text.splitlines()]
        self.assertEqual(["Replica", "Health", "ms", "Reason"], lines[0])
        self.assertEqual([self.roots[0], "ONLINE"], lines[1][:2])
        self.assertRegex(lines[1][2], r"^[0-9]+\.[0-9]{3}$")
        self.assertEqual([self.roots[1], "OFFLINE", "-"], lines[2][:3])

    def test_usage(self):
        for wrong in (["--max-write", "0"], ["--max-write", "x"], ["users"], ["--dry-run"]):
            self.run_ctl("maintain", "health", *wrong, status=USAGE)
        self.run_ctl("maintain", "capacity", "users", "--max-write", "1", status=USAGE)

    def test_other_backends(self):
        self.env["ITEMFS_SOURCE"] = self.store
        self.out("create", "t")
        self.assertIn("has no replicas", self.error(FAILED, "maintain", "health"))
        self.assertIn("has no replicas", self.error(FAILED, "maintain", "plug-in", self.roots[0]))
        self.env["ITEMFS_SOURCE"] = self.roots[0]
        self.assertIn("no configuration names the replicas",
                      self.error(FAILED, "maintain", "plug-in", self.roots[1]))


class Xml(ReplicaTest):
    def setUp(self):
        super().setUp()
        self.write("mount.conf", "[backend b]\ntype = folder\nconfig = app.xml\n"
                   "environment = live\n")

    def refused(self, text):
        path = self.write("app.xml", text)
        error = self.error(FAILED, "tables")
        self.assertTrue(error.startswith(path + ":"), error)
        return error[len(path) + 1:]

    def test_paths(self):
        for text in (LIST % "<schema>d1/users</schema><!-- --><schema>{d2}/users</schema>",
                     (LIST % "<schema>d1/&#117;sers</schema><schema><![CDATA[{d2}/users]]></schema>")
                     .replace("<x>", "").replace("</x>", ""),
                     LIST % "<schema>{d1}/users</schema><other/><schema>d2/users</schema>"
                     + "<!-- <schemas/> -->"):
            self.write("app.xml", text.format(d1=self.roots[0], d2=self.roots[1]))
            self.assertEqual([(root + "/users", "ONLINE") for root in self.roots], self.health()[0])
            self.assertEqual({"TableNames": ["users"]}, json.loads(self.out("tables")))

    def test_what_is_wrong(self):
        self.assertEqual("1: the file is empty", self.refused(""))
        self.assertRegex(self.refused("<x>\n<a></x>"), r"^2: \w")
        self.assertRegex(self.refused("no XML"), r"^1: ")
        self.assertEqual("1: there is no lucinda_db in it", self.refused("<x/>"))
        self.assertEqual('2: there is no environment "live" in it',
                         self.refused("<x>\n<lucinda_db/></x>"))
        self.assertEqual("1: there are no schemas in it",
                         self.refused("<x><lucinda_db><live/></lucinda_db></x>"))
        self.assertEqual("1: there is no schema in it", self.refused(LIST % ""))
        self.assertEqual("2: a schema without a path", self.refused(LIST % "\n<schema/>"))
        self.assertIn("2: white space beside a path", self.refused(LIST % "\n<schema> d1</schema>"))
        self.assertEqual(f"3: {self.roots[0]} stands there twice", self.refused(
            LIST % "\n<schema>d1</schema>\n<schema>d1</schema>"))

    def test_no_entities(self):
        """Neither bombs nor files nor the network: a document type is the end."""
        secret = self.write("secret", "d1")
        bomb = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">\n' for n in range(1, 12))
        for declared, used in (('<!ENTITY l0 "d1">\n' + bomb, "&l11;"),
                               (f'<!ENTITY f SYSTEM "file://{secret}">', "&f;"),
                               ('<!ENTITY % p SYSTEM "http://127.0.0.1:1/x">%p;', "d1"),
                               ("", "d1")):
            text = f"<!DOCTYPE x [{declared}]>\n" + LIST % f"<schema>{used}</schema>"
            self.assertEqual("1: a document type (DOCTYPE) is not allowed here", self.refused(text))
        self.assertEqual("1: a document type (DOCTYPE) is not allowed here", self.refused(
            f'<!DOCTYPE x SYSTEM "file://{secret}">' + LIST % "<schema>d1</schema>"))
        self.assertRegex(self.refused(LIST % "<schema>&lost;</schema>"), "1: Entity 'lost'")
