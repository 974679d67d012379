# SPDX-License-Identifier: MIT
"""Editors on items: the edit is stored, is one MODIFY, keeps the time to live, leaves no rubbish."""

import json
import os
import sys
import time
import unittest

from harness import MountedTest, wait_for
from terminal import interact

OLD = '{\n  "name": "Ada",\n  "n": 1\n}\n'


class Editors(MountedTest):
    options = ("rename_grace=1",)

    def setUp(self):
        super().setUp()
        self.write("a.json", OLD)
        os.setxattr(self.path("a.json"), "user.itemfs.ttl", b"4102444800")
        self.old = self.read("a.json").decode()
        self.new = self.old.replace("Ada", "Grace")
        self.mark()

    def edit(self, command, *steps):
        status, output = interact(command, steps, self.dir, self.environment())
        self.assertEqual(0, status, output[-3000:])

    def assertEdited(self, *others):
        """One MODIFY, the new text, and besides the item only OTHERS."""
        self.assertBoth("a.json", self.new)
        self.assertEqual(sorted(["a.json", *others]), self.names())
        self.assertEqual(b"4102444800", os.getxattr(self.path("a.json"), "user.itemfs.ttl"))
        self.assertEqual([], self.drafts())
        self.assertChanges("MODIFY a")

    # vim

    def vim(self, *more, program="vim.basic"):
        self.edit([program, *more, "-c", "%s/Ada/Grace/", "-c", "wq", "a.json"])

    def test_vim_with_its_defaults(self):
        self.vim()
        self.assertEdited()

    def test_vim_backup_by_rename(self):
        self.vim("-c", "set writebackup backupcopy=no")
        self.assertEdited()

    def test_vim_keeping_its_backup(self):
        self.vim("-c", "set backup backupcopy=no")
        self.assertEqual(self.old.encode(), self.read("a.json~"))
        self.assertEdited("a.json~")

    def test_vim_backup_by_copy(self):
        self.vim("-c", "set writebackup backupcopy=yes")
        self.assertEdited()

    def test_vim_without_backup(self):
        self.vim("-c", "set nowritebackup nobackup")
        self.assertEdited()

    def test_vim_in_silent_batch(self):
        self.sh("vim.basic -Nes -u NONE -c 'set writebackup' -c '%s/Ada/Grace/' -c wq a.json")
        self.assertEdited()

    def test_vim_with_typed_keys(self):
        self.edit(["vim.basic", "a.json"],
                  ("Ada", ":%s/Ada/Grace/\r"), ("Grace", ":w\r"), ("written", ":q\r"))
        self.assertEdited()

    def test_vim_writing_twice(self):
        self.vim("-c", "w", "-c", "%s/1/2/", "-c", "w")
        self.new = self.new.replace("1", "2")
        self.assertBoth("a.json", self.new)
        self.assertChanges("MODIFY a", "MODIFY a")

    def test_vim_new_file(self):
        self.edit(["vim.basic", "-c", "call setline(1, '{\"x\": 1}')", "-c", "wq", "b.json"])
        self.assertBoth("b.json", '{"x": 1}\n')
        self.assertEqual(["a.json", "b.json"], self.names())
        self.assertChanges("INSERT b")

    def test_vim_is_told_of_invalid_json(self):
        # The write fails visibly, vim keeps its text; the item is as before, the text a draft.
        status, output = interact(
            ["vim.basic", "a.json"], [("Ada", ":%s/}/,}/\r"), (",}", ":w\r"),
                                      ("E", ":q!\r")], self.dir, self.environment())
        self.assertEqual(0, status)
        self.assertRegex(output, r"E\d+")
        self.assertBoth("a.json", self.old)
        self.assertChanges()
        body, reason = self.draft("a.json")
        self.assertEqual(self.old.replace("}", ",}").encode(), body)
        self.assertRegex(reason, r"line \d+")

    def test_vim_swap_file_is_scratch(self):
        interact(["vim.basic", "-c", "preserve", "a.json"],
                 [("preserved", ":!ls -A > ../" + self.table + "/listing\r"),
                  ("ENTER", "\r:q!\r")], self.dir, self.environment())
        self.assertIn(b".a.json.swp", self.read("listing"))
        self.assertEqual(["a.json", "listing"], self.names())
        self.assertChanges()

    def test_vim_tiny(self):
        self.vim(program="vim.tiny")
        self.assertEdited()

    # nano

    def nano(self, *more):
        self.edit(["nano", "-I", *more, "a.json"],
                  ("name", "\x1c"), ("replace", "Ada\r"), ("eplace with", "Grace\r"),
                  ("this instance", "A"), ("eplaced", "\x0f"), ("rite", "\r"),
                  ("Wrote", "\x18"))

    def test_nano(self):
        self.nano()
        self.assertEdited()

    def test_nano_with_backup(self):
        self.nano("-B")
        self.assertEqual(self.old.encode(), self.read("a.json~"))
        self.assertEdited("a.json~")

    # emacs

    def emacs(self, *more):
        settings = [part for form in more for part in ("--eval", form)]
        self.run_tool(["emacs", "-Q", "--batch", *settings, "a.json", "--eval",
                       '(progn (while (search-forward "Ada" nil t) (replace-match "Grace"))'
                       ' (save-buffer))'], cwd=self.dir)

    def test_emacs_with_its_defaults(self):
        # Its default backup is a rename of the item to a.json~ before the new file is written.
        self.emacs()
        self.assertEqual(self.old.encode(), self.read("a.json~"))
        self.assertEdited("a.json~")

    def test_emacs_without_backup(self):
        self.emacs("(setq make-backup-files nil)")
        self.assertEdited()

    def test_emacs_backup_by_copying(self):
        self.emacs("(setq backup-by-copying t)")
        self.assertEdited("a.json~")

    def test_emacs_precious_flag(self):
        # Writes a temporary of a name of its own and renames it over the item.
        self.emacs("(setq-default file-precious-flag t)", "(setq make-backup-files nil)")
        self.assertEdited()

    # What stands behind them.

    def test_backup_that_nobody_replaces_removes_the_item(self):
        os.rename(self.path("a.json"), self.path("a.json~"))
        self.assertFalse(os.path.exists(self.path("a.json")))
        self.assertEqual(self.old.encode(), self.read("a.json~"))
        self.assertChanges("REMOVE a")
        self.assertEqual(["a.json~"], self.names())

    def test_backup_renamed_back_changes_nothing(self):
        os.rename(self.path("a.json"), self.path("a.json~"))
        os.rename(self.path("a.json~"), self.path("a.json"))
        self.assertUntouched()

    def assertUntouched(self):
        self.assertBoth("a.json", self.old)
        self.assertEqual(["a.json"], self.names())
        self.assertEqual(b"4102444800", os.getxattr(self.path("a.json"), "user.itemfs.ttl"))
        self.assertChanges()

    def test_refused_new_text_after_a_backup_by_rename(self):
        # An editor has renamed the item away and its new text is refused: the item must not go.
        os.rename(self.path("a.json"), self.path("a.json~"))
        self.assertErrno(22, self.write, "a.json", "{")
        self.assertEqual(b"{", self.draft("a.json")[0])
        self.assertEqual(self.old.encode(), self.read("a.json~"))
        os.rename(self.path("a.json~"), self.path("a.json"))
        self.assertUntouched()

    def test_killed_between_backup_and_new_text(self):
        script = ("import os\n"
                  "os.rename('a.json', 'a.json~')\n"
                  "os.open('a.json', os.O_WRONLY | os.O_CREAT)\n"
                  "os.kill(os.getpid(), 9)")
        self.run_tool([sys.executable, "-c", script], status=-9, cwd=self.dir)
        wait_for("the item", lambda: os.path.exists(self.path("a.json")))
        self.assertBoth("a.json", self.old)
        self.mount.remount()
        self.assertBoth("a.json", self.old)
        self.assertEqual(self.old.encode(), self.read("a.json~"))
        self.assertChanges()

    def test_deletion_by_somebody_else_is_no_part_of_the_editing(self):
        os.rename(self.path("a.json"), self.path("a.json~"))
        self.assertErrno(22, self.write, "a.json", "{")
        self.sh("rm a.json")
        self.assertIsNone(self.store.body(self.table, "a"))
        self.assertChanges("REMOVE a")

    def test_what_another_mount_puts_in_its_place_shows(self):
        os.rename(self.path("a.json"), self.path("a.json~"))
        item = {"key": {"S": "a"}, "v": {"S": "there"}}
        self.itemctl("put", self.table, "--item", "-", input=json.dumps(item))
        wait_for("the new item", lambda: os.path.exists(self.path("a.json")), 1)
        self.assertEqual("there", json.loads(self.read("a.json"))["v"])
        self.mount.remount()  # with it goes what was to be deleted
        self.assertEqual("there", json.loads(self.read("a.json"))["v"])
        self.assertChanges("MODIFY a")


class SlowEditor(MountedTest):
    options = ("rename_grace=20",)

    def test_expired_behind_its_backup(self):
        self.write("a.json", OLD)
        os.setxattr(self.path("a.json"), "user.itemfs.ttl", b"%d" % (time.time() + 2))
        os.rename(self.path("a.json"), self.path("a.json~"))
        wait_for("the item's expiry", lambda: self.itemctl(
            "get", self.table, "-k", "a", status=None).returncode == 3)
        self.write("a.json", '{"v": 2}', flags=os.O_CREAT | os.O_EXCL)
        self.assertBoth("a.json", '{"v": 2}')
        self.assertEqual(["a.json", "a.json~"], self.names())


if __name__ == "__main__":
    unittest.main()
