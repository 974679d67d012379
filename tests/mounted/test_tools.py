# SPDX-License-Identifier: MIT
"""Ordinary tools on items: what each leaves in the store, and how many change records it makes."""

import os
import unittest

from harness import MountedTest

OLD = '{"name": "Ada", "n": 1}\n'
NEW = '{"name": "Grace", "n": 2}\n'


class Shell(MountedTest):
    """cat, redirections, tee, dd, truncate, touch."""

    def setUp(self):
        super().setUp()
        self.write("a.json", OLD)
        self.mark()

    def test_cat(self):
        self.assertEqual(OLD, self.sh("cat a.json").stdout)
        self.assertEqual(OLD * 2, self.sh("cat a.json a.json").stdout)
        self.assertChanges()

    def test_grep_recursive(self):
        self.write("b.json", NEW)
        self.assertEqual("b.json\n", self.sh("grep -rl Grace .").stdout.replace("./", ""))
        self.assertChanges("INSERT b")

    def test_redirect_over_existing(self):
        self.sh(f"echo '{NEW.strip()}' > a.json")
        self.assertBoth("a.json", NEW)
        self.assertChanges("MODIFY a")

    def test_redirect_into_new(self):
        self.sh(f"echo '{NEW.strip()}' > b.json")
        self.assertBoth("b.json", NEW)
        self.assertChanges("INSERT b")

    def test_redirect_many_writes(self):
        self.sh("for i in '{\"a\":' 1 '}'; do echo $i; done > a.json")
        self.assertBoth("a.json", '{"a":\n1\n}\n')
        self.assertChanges("MODIFY a")

    def test_redirect_subshell_writers(self):
        # Two processes share the descriptor; each closes it. The document is whole at the end.
        self.sh("(echo '{\"a\": 1'; /bin/echo '}') > b.json")
        self.assertBoth("b.json", '{"a": 1\n}\n')
        self.assertChanges("INSERT b")

    def test_append_white_space(self):
        self.sh("echo >> a.json")
        self.assertBoth("a.json", OLD + "\n")
        self.assertChanges("MODIFY a")

    def test_append_second_document_is_refused(self):
        done = self.sh("printf '%s' '{\"x\":1}' >> a.json", status=None)
        self.assertBoth("a.json", OLD)
        self.assertChanges()
        self.assertEqual(["a.json"], self.drafts())
        body, reason = self.draft("a.json")
        self.assertEqual((OLD + '{"x":1}').encode(), body)
        self.assertIn("line 2", reason)
        del done  # bash does not look at what close says

    def test_tee(self):
        self.run_tool(["tee", "a.json", "b.json"], cwd=self.dir, input=NEW)
        self.assertBoth("a.json", NEW)
        self.assertBoth("b.json", NEW)
        self.assertEqual({"MODIFY a", "INSERT b"}, set(self.store.changes(self.table)[1:]))
        self.assertEqual(3, len(self.store.changes(self.table)))

    def test_tee_append(self):
        self.run_tool(["tee", "-a", "a.json"], cwd=self.dir, input=" \n")
        self.assertBoth("a.json", OLD + " \n")
        self.assertChanges("MODIFY a")

    def test_dd(self):
        for more in ("", "conv=fsync", "conv=fdatasync", "bs=3", "bs=5 conv=fsync"):
            with self.subTest(more=more):
                self.write("d.json", OLD)
                self.mark()
                self.run_tool(["dd", "of=d.json", "status=none", *more.split()], cwd=self.dir,
                              input=NEW)
                self.assertBoth("d.json", NEW)
                self.assertChanges("MODIFY d")

    def test_dd_in_place(self):
        self.run_tool(["dd", "of=a.json", "conv=notrunc", "bs=1", "seek=21", "status=none"],
                      cwd=self.dir, input="7")
        self.assertBoth("a.json", OLD.replace("1", "7"))
        self.assertChanges("MODIFY a")

    def test_truncate_white_space(self):
        self.sh("truncate -s -1 a.json")
        self.assertBoth("a.json", OLD.rstrip("\n"))
        self.assertChanges("MODIFY a")

    def test_truncate_inside_is_refused(self):
        self.sh("truncate -s 5 a.json", status=1)
        self.assertBoth("a.json", OLD)
        self.assertChanges()
        self.assertEqual(OLD[:5].encode(), self.draft("a.json")[0])

    def test_truncate_longer_is_refused(self):
        self.sh("truncate -s +5 a.json", status=1)
        self.assertBoth("a.json", OLD)
        self.assertChanges()

    def test_touch(self):
        self.sh("touch b.json; touch -d '2001-02-03 04:05:06.789 UTC' a.json")
        self.assertEqual(981173106789000000, os.stat(self.path("a.json")).st_mtime_ns)
        self.assertBoth("b.json", "")
        self.assertChanges("INSERT b")

    def test_same_bytes_again_change_nothing(self):
        self.sh("cp a.json /dev/shm/$$; cat /dev/shm/$$ > a.json; rm /dev/shm/$$")
        self.assertBoth("a.json", OLD)
        self.assertChanges()


class Copies(MountedTest):
    """cp, mv, install, tar, git."""

    def setUp(self):
        super().setUp()
        self.write("a.json", OLD)
        self.mark()
        self.out = os.path.join(self.place, "out-" + self.table)
        os.mkdir(self.out)

    def test_cp_inside(self):
        self.sh("cp a.json b.json")
        self.assertBoth("b.json", OLD)
        self.assertChanges("INSERT b")

    def test_cp_over(self):
        self.write("b.json", NEW)
        self.mark()
        self.sh("cp a.json b.json")
        self.assertBoth("b.json", OLD)
        self.assertChanges("MODIFY b")

    def test_cp_archive_in_and_out(self):
        self.sh(f"""cd {self.out}; printf %s '{NEW}' > b.json
                touch -d '2001-02-03 04:05:06.123456789 UTC' b.json
                cp -a b.json {self.dir}/; cp -a {self.dir}/. back""")
        self.assertBoth("b.json", NEW)
        self.assertEqual(981173106123456789, os.stat(self.path("b.json")).st_mtime_ns)
        self.assertEqual(981173106123456789,
                         os.stat(os.path.join(self.out, "back/b.json")).st_mtime_ns)
        self.assertEqual(os.stat(self.path("a.json")).st_mtime_ns,
                         os.stat(os.path.join(self.out, "back/a.json")).st_mtime_ns)
        self.assertChanges("INSERT b")

    def test_cp_archive_inside_keeps_time(self):
        os.utime(self.path("a.json"), ns=(1, 1_000_000_001))
        self.sh("cp -a a.json b.json")
        self.assertEqual(1_000_000_001, os.stat(self.path("b.json")).st_mtime_ns)
        self.assertChanges("INSERT b")

    def test_cp_with_backup(self):
        self.sh(f"cd {self.out}; printf %s '{NEW}' > a.json; cp -b a.json {self.dir}/")
        self.assertBoth("a.json", NEW)
        self.assertEqual(OLD.encode(), self.read("a.json~"))
        self.assertEqual(["a.json", "a.json~"], self.names())
        self.assertChanges("MODIFY a")

    def test_mv_inside(self):
        self.sh("mv a.json b.json")
        self.assertEqual(["b.json"], self.names())
        self.assertBoth("b.json", OLD)
        self.assertCountChanges("REMOVE a", "INSERT b")

    def assertCountChanges(self, *wanted):
        """As assertChanges, where one transaction touched several items in any order."""
        got = self.store.changes(self.table)[self.seen:]
        self.assertEqual(sorted(wanted), sorted(got))
        self.assertChanges(*got)

    def test_mv_replacing(self):
        self.write("b.json", NEW)
        self.mark()
        self.sh("mv -f a.json b.json")
        self.assertEqual(["b.json"], self.names())
        self.assertBoth("b.json", OLD)
        self.assertCountChanges("REMOVE a", "MODIFY b")

    def test_mv_no_clobber(self):
        self.write("b.json", NEW)
        self.mark()
        self.sh("mv -n a.json b.json", status=None)
        self.assertBoth("a.json", OLD)
        self.assertBoth("b.json", NEW)
        self.assertChanges()

    def test_mv_to_another_table(self):
        other = self.table + "-2"
        os.mkdir(os.path.join(self.mnt, other))
        self.sh(f"mv a.json ../{other}/b.json")
        self.assertEqual([], self.names())
        self.assertEqual(["b.json"], self.names(os.path.join(self.mnt, other)))
        self.assertStored("b", OLD, table=other)
        self.assertChanges("REMOVE a")
        self.assertChanges("INSERT b", table=other)

    def test_mv_from_outside(self):
        self.sh(f"printf %s '{NEW}' > {self.out}/a.json; mv -f {self.out}/a.json .")
        self.assertBoth("a.json", NEW)
        self.assertChanges("REMOVE a", "INSERT a")  # mv itself unlinks the target first

    def test_mv_out(self):
        self.sh(f"mv a.json {self.out}/x")
        self.assertEqual([], self.names())
        self.assertChanges("REMOVE a")

    def test_rm(self):
        self.sh("rm a.json")
        self.assertEqual([], self.names())
        self.assertIsNone(self.store.body(self.table, "a"))
        self.assertChanges("REMOVE a")

    def test_tar_out_and_in(self):
        self.write("b.json", NEW)
        os.utime(self.path("b.json"), ns=(0, 1_500_000_000_000_000_000))
        self.mark()
        self.sh(f"""tar -C .. --format=posix -cf {self.out}/t.tar {self.table}
                rm *.json; tar -C .. -xf {self.out}/t.tar""")
        self.assertBoth("a.json", OLD)
        self.assertBoth("b.json", NEW)
        self.assertEqual(1_500_000_000_000_000_000, os.stat(self.path("b.json")).st_mtime_ns)
        self.assertCountChanges("REMOVE a", "REMOVE b", "INSERT a", "INSERT b")
        self.sh(f"tar -C .. -df {self.out}/t.tar {self.table}/a.json {self.table}/b.json")

    def test_tar_over(self):
        self.sh(f"tar -cf {self.out}/t.tar a.json; printf %s '{NEW}' > a.json")
        self.mark()
        self.sh(f"tar -xf {self.out}/t.tar")
        self.assertBoth("a.json", OLD)
        self.assertChanges("REMOVE a", "INSERT a")  # tar itself unlinks the target first

    def test_git_diff(self):
        self.write("b.json", NEW)
        done = self.sh("git diff --no-index --numstat a.json b.json", status=1)
        self.assertIn("1\t1\ta.json => b.json", done.stdout)
        self.sh(f"cp -a . {self.out}/copy")
        self.assertEqual("", self.sh(f"git diff --no-index . {self.out}/copy").stdout)


class InPlace(MountedTest):
    """sed, perl, jq: a temporary file and a rename over the item."""

    def setUp(self):
        super().setUp()
        self.write("a.json", OLD)
        os.setxattr(self.path("a.json"), "user.itemfs.ttl", b"4102444800")
        self.old = self.read("a.json").decode()
        self.mark()

    def edited(self, name="a.json"):
        body = self.old.replace("Ada", "Grace")
        self.assertBoth(name, body)
        self.assertEqual(b"4102444800", os.getxattr(self.path(name), "user.itemfs.ttl"))
        self.assertChanges("MODIFY a")

    def test_sed(self):
        self.sh("sed -i s/Ada/Grace/ a.json")
        self.assertEqual(["a.json"], self.names())
        self.edited()

    def test_sed_with_backup(self):
        self.sh("sed -i.bak s/Ada/Grace/ a.json")
        self.assertEqual(["a.json", "a.json.bak"], self.names())
        self.assertEqual(self.old.encode(), self.read("a.json.bak"))
        self.edited()

    def test_perl(self):
        self.sh("perl -i -pe s/Ada/Grace/ a.json")
        self.assertEqual(["a.json"], self.names())
        self.edited()

    def test_perl_with_backup(self):
        self.sh("perl -i.bak -pe s/Ada/Grace/ a.json")
        self.assertEqual(["a.json", "a.json.bak"], self.names())
        self.assertEqual(self.old.encode(), self.read("a.json.bak"))
        self.edited()

    def test_jq_and_mv(self):
        self.sh("""jq '.name = "Grace"' a.json > tmp && mv tmp a.json""")
        self.assertEqual(["a.json"], self.names())
        want = self.run_tool(["jq", "."], input=self.old.replace("Ada", "Grace")).stdout
        self.assertBoth("a.json", want)
        self.assertEqual(b"4102444800", os.getxattr(self.path("a.json"), "user.itemfs.ttl"))
        self.assertChanges("MODIFY a")

    def test_jq_failing_leaves_the_item(self):
        self.sh("jq .n. a.json > tmp && mv tmp a.json", status=None)
        self.assertBoth("a.json", self.old)
        self.assertChanges()

    def test_invalid_result_is_refused_by_rename(self):
        self.sh("echo '{' > tmp")
        done = self.sh("mv -f tmp a.json", status=1)
        # mv has words of its own for EINVAL.
        self.assertRegex(done.stderr, "Invalid argument|cannot move 'tmp'")
        self.assertBoth("a.json", self.old)
        self.assertChanges()
        self.assertEqual(b"{\n", self.draft("a.json")[0])

    def test_sed_of_many(self):
        for i in range(50):
            self.write(f"m{i}.json", OLD)
        self.mark()
        self.sh("sed -i s/Ada/Grace/ m*.json")
        for i in range(50):
            self.assertStored(f"m{i}", OLD.replace("Ada", "Grace"))
        got = self.store.changes(self.table)[self.seen:]
        self.assertEqual(sorted(f"MODIFY m{i}" for i in range(50)), sorted(got))


class Finding(MountedTest):
    def test_find_newer(self):
        for day, name in enumerate(("old", "mid", "new")):
            self.write(f"{name}.json", OLD)
            os.utime(self.path(f"{name}.json"), (day * 86400, day * 86400))
        self.assertEqual("./new.json\n", self.sh("find . -type f -newer mid.json").stdout)
        self.write("old.json", NEW)
        self.assertEqual({"./new.json", "./old.json"},
                         set(self.sh("find . -type f -newer mid.json").stdout.split()))

    def test_find_size_and_type(self):
        self.write("small.json", OLD)
        self.write("large.json", '"' + "x" * 5000 + '"')
        self.assertEqual("./large.json\n", self.sh("find . -type f -size +4k").stdout)
        self.assertEqual(".\n", self.sh("find . -type d").stdout)

    def test_find_never_meets_the_control_directory(self):
        self.write("a.json", OLD)
        found = self.run_tool(["find", self.mnt]).stdout
        self.assertNotIn(".itemfs", found)
        self.assertIn(self.table + "/a.json", found)

    def test_du_and_wc(self):
        self.write("a.json", OLD)
        self.assertEqual(f"{len(OLD)} a.json\n", self.sh("wc -c a.json").stdout)
        self.assertEqual(str(len(OLD)), self.sh("du -b a.json").stdout.split()[0])


if __name__ == "__main__":
    unittest.main()
