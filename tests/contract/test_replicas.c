/* SPDX-License-Identifier: MIT */
/* Files in several replicas: who goes out of use, and comes back. */
#include "tests/contract/replicas.h"

#define TIME_NS INT64_C(1234567890123456789)

static void check_both(const struct place *place, const char *name, const char *want)
{
    check_file(place, 0, name, want);
    check_file(place, 1, name, want);
}

static void test_all_have_it(void)
{
    struct place place = place_make(3);
    struct file_stats all;
    struct file_stat one;
    place_start_with_table(&place);

    put(&place, "a.json", "1", TIME_NS);
    put(&place, "b.json", "2", TIME_NS);
    delete (&place, "b.json");
    for (size_t i = 0; i < 3; i++) {
        check_file(&place, i, "t/a.json", "1");
        check_int(count_files(&place, i, "t"), 1);
    }
    check_int(replicas_stat(place.set, "t", "a.json", &all, NULL), 0);
    for (size_t i = 0; i < REPLICAS_MOST; i++) {
        check(all.in_use[i] == (i < 3));
        check(i >= 3 || file_stat_is(&all.stats[i], 1, TIME_NS));
    }
    for (size_t i = 0; i < 3; i++) {
        check_int(replicas_look(place.set, "t", "a.json", &one, NULL), 0);
        check(file_stat_is(&one, 1, TIME_NS));
    }
    check_records(&place, "");
    place_end(&place);
}

/* --- Failures --- */

static void test_full_disk_goes_out(void)
{
    static char large[200001];
    if (cannot_mount())
        return;
    struct place place = place_make(2);
    mount_small(&place, 1, "size=64k");
    place_start_with_table(&place);
    memset(large, ' ', sizeof large - 1);

    put(&place, "a.json", "1", TIME_NS);
    put(&place, "large.json", large, TIME_NS);
    check_int(stat_of(&place, 0, "t/large.json").st_size, 200000);
    check_int(count_files(&place, 1, "t"), 1);
    char reason[256];
    snprintf(reason, sizeof reason, "out 1: %s/t/large.json: No space left on device\n",
             place.paths[1]);
    check_records(&place, reason);
    put(&place, "b.json", "2", TIME_NS);
    check(!is_there(&place, 1, "t/b.json") && !is_in_use(&place, 1) && is_in_use(&place, 0));
    place_end(&place);
}

static void test_where_all_are_full_none_goes_out(void)
{
    static char large[200001];
    if (cannot_mount())
        return;
    struct place place = place_make(2);
    bool changed = true;
    mount_small(&place, 0, "size=64k");
    mount_small(&place, 1, "size=64k");
    place_start_with_table(&place);
    memset(large, ' ', sizeof large - 1);
    struct file_op ops[] = {put_of("a.json", "2", TIME_NS), put_of("b.json", large, TIME_NS)};

    put(&place, "a.json", "1", TIME_NS);
    check_int(replicas_apply(place.set, ops, 2, false, &changed, NULL), -ENOSPC);
    check(!changed);
    check_both(&place, "t/a.json", "1");
    check(count_files(&place, 0, "t") == 1 && count_files(&place, 1, "t") == 1);
    put(&place, "a.json", "3", TIME_NS);
    check_both(&place, "t/a.json", "3");
    check_records(&place, "");
    place_end(&place);
}

static void test_where_all_refuse_none_goes_out(void)
{
    struct place place = place_make(2);
    char longest[300] = "";
    memset(longest, 'a', 256);
    struct file_op op = put_of(longest, "1", TIME_NS);
    place_start_with_table(&place);

    check_int(apply(&place, &op, 1, NULL), -ENAMETOOLONG);
    check(is_in_use(&place, 0) && is_in_use(&place, 1));
    check_records(&place, "");
    place_end(&place);
}

static void test_read_only_disk_goes_out(void)
{
    if (cannot_mount())
        return;
    struct place place = place_make(2);
    mount_small(&place, 0, "size=64k");
    place_start_with_table(&place);

    put(&place, "a.json", "1", TIME_NS);
    check_int(mount("none", place.paths[0], NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    delete (&place, "a.json");
    check(is_there(&place, 0, "t/a.json") && !is_there(&place, 1, "t/a.json"));
    check(!is_in_use(&place, 0) && is_in_use(&place, 1));
    place_end(&place);
}

/* The empty folder below a disk that is unmounted is not written to, and no deletion. */
static void test_unmounted_disk_goes_out(void)
{
    if (cannot_mount())
        return;
    struct place place = place_make(2);
    struct file_stats all;
    mount_small(&place, 1, "size=64k");
    place_start_with_table(&place);

    put(&place, "a.json", "1", TIME_NS);
    check_int(umount(place.paths[1]), 0); /* nothing of it is held open */
    place.mounted[1] = false;
    run("mkdir %s/t", place.paths[1]);
    check_int(replicas_stat(place.set, "t", "a.json", &all, NULL), 0);
    check(all.in_use[0] && !all.in_use[1]);
    put(&place, "b.json", "2", TIME_NS);
    check_int(count_files(&place, 1, "t"), 0);
    char reason[256];
    snprintf(reason, sizeof reason, "out 1: %s is not the folder it was: is its disk mounted?\n",
             place.paths[1]);
    check_records(&place, reason);
    place_end(&place);
}

static void test_vanished_folder_goes_out(void)
{
    struct place place = place_make(2);
    place_start_with_table(&place);

    put(&place, "a.json", "1", TIME_NS);
    run("rm -r %s", place.paths[0]);
    put(&place, "a.json", "2", TIME_NS);
    check_file(&place, 1, "t/a.json", "2");
    check(!is_in_use(&place, 0) && !is_there(&place, 0, ""));
    place_end(&place);
}

/* Two who see different ones fail must not leave none. */
static void test_the_last_one_stays(void)
{
    struct place place = place_make(2);
    struct file_op op = put_of("a.json", "2", TIME_NS);
    struct err err = {""};
    place_start_with_table(&place);

    check_int(replica_take_out(place.set, 1, "for a test", 5, NULL), 0);
    check_int(replica_take_out(place.set, 1, "again", 6, NULL), 0);
    check_int(replica_take_out(place.set, 0, "for a test", 0, &err), -EINVAL);
    check(strstr(err.text, "/0 is the last replica in use"));
    check_records(&place, "out 1: for a test\n");
    run("rm -r %s/t", place.paths[0]);
    check_int(apply(&place, &op, 1, NULL), -ENOENT);
    check(is_in_use(&place, 0));
    struct replica_info info;
    replica_info(place.set, 1, &info);
    check_text(span_text(info.reason), "for a test");
    check(info.since_ns == 5 && !info.busy);
    place_end(&place);
}

/* What cannot be recorded is not answered, now or later. */
static void test_out_of_use_is_recorded_first(void)
{
    struct place place = place_make(2);
    struct file_op op = put_of("a.json", "1", TIME_NS);
    struct err err = {""};
    place_start_with_table(&place);

    run("rm -r %s/t", place.paths[1]);
    place.record_code = -EIO;
    check_int(apply(&place, &op, 1, &err), -EIO);
    check_text(span_text(err.text), "cannot be recorded");
    check_int(apply(&place, &op, 1, NULL), -EIO);
    place.record_code = 0;
    place.records[0] = '\0';
    check_int(apply(&place, &op, 1, NULL), 0);
    char reason[256];
    snprintf(reason, sizeof reason, "out 1: %s/t: No such file or directory\n", place.paths[1]);
    check_records(&place, reason);
    place_end(&place);
}

/* --- Coming back --- */

static void test_put_back(void)
{
    struct place place = place_make(2);
    struct file_op op = put_of("a.json", "2", TIME_NS);
    int64_t took_ns;
    place_start_with_table(&place);

    run("mv %s %s/aside", place.paths[1], place.directory);
    put(&place, "a.json", "2", TIME_NS);
    place.records[0] = '\0';
    check_int(replica_probe(place.set, 1, &took_ns, NULL), -ENOENT);
    check_int(replica_put_back(place.set, 1, NULL), -ENODEV);
    run("mkdir %s", place.paths[1]);
    check_int(replica_put_back(place.set, 1, NULL), -ENODEV); /* it was not looked at yet */
    check_int(replica_probe(place.set, 1, &took_ns, NULL), 0);
    check_int(replica_make_folder(place.set, 1, "t", NULL), 0);
    check_int(replica_apply(place.set, 1, &op, 1, false, NULL), 0);
    check_records(&place, "");
    check_int(replica_put_back(place.set, 1, NULL), 0);
    check_records(&place, "in 1\n");
    put(&place, "b.json", "3", TIME_NS);
    check_both(&place, "t/a.json", "2");
    check_both(&place, "t/b.json", "3");
    place_end(&place);
}

static void test_open_without_one(void)
{
    struct place place = place_make(2);
    struct err err = {""};
    run("rmdir %s", place.paths[0]);

    expect_code(place_try_start(&place, &err), &err);
    check(!is_in_use(&place, 0) && is_in_use(&place, 1));
    char reason[256];
    snprintf(reason, sizeof reason, "out 0: %s: No such file or directory\n", place.paths[0]);
    check_records(&place, reason);
    replicas_close(place.set);
    place.set = NULL;
    run("rmdir %s", place.paths[1]);
    check_int(place_try_start(&place, NULL), -ENOENT);
    check_records(&place, "");
    place_end(&place);
}

static void test_open_read_only(void)
{
    if (cannot_mount())
        return;
    struct place place = place_make(1);
    struct err err = {""};
    mount_small(&place, 0, "size=64k");
    check_int(mount("none", place.paths[0], NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);

    check_int(place_try_start(&place, &err), -EROFS);
    place.read_only = true;
    place_start(&place);
    place_end(&place);
}

static int collect(void *context, size_t number, const struct replica_info *info)
{
    size_t len = strlen(context);
    snprintf((char *)context + len, 100 - len, "%zu:%s%s ", number, strrchr(info->path, '/') + 1,
             info->in_use ? "" : "!");
    return 0;
}

static void test_change_of_the_list(void)
{
    struct place place = place_make(3);
    char text[100] = "";
    place.count = 2;
    const char *more[] = {place.paths[2], place.paths[0], place.paths[1]};
    const char *less[] = {place.paths[2], place.paths[1]};
    int64_t took_ns;
    place_start_with_table(&place);

    check_int(replicas_change(place.set, more, 3, NULL), 0);
    replicas_each(place.set, collect, text);
    check_text(span_text(text), "2:2! 0:0 1:1 ");
    check_records(&place, "out 2: not filled yet\n");
    put(&place, "a.json", "1", TIME_NS);
    check_int(count_files(&place, 2, ""), 0);
    check_int(replicas_change(place.set, more, 1, NULL), -EINVAL);
    check_int(replica_probe(place.set, 2, &took_ns, NULL), 0);
    check_int(replica_make_folder(place.set, 2, "t", NULL), 0);
    check_int(replica_put_back(place.set, 2, NULL), 0);
    check_int(replicas_change(place.set, less, 2, NULL), 0);
    put(&place, "b.json", "2", TIME_NS);
    check(is_there(&place, 2, "t/b.json") && is_there(&place, 1, "t/b.json"));
    check(!is_there(&place, 0, "t/b.json"));
    text[0] = '\0';
    replicas_each(place.set, collect, text);
    check_text(span_text(text), "2:2 1:1 ");
    check_int(replicas_change(place.set, (const char *[]){less[0], less[0]}, 2, NULL), -EINVAL);
    check_int(replicas_change(place.set, less, 1, NULL), 0);
    put(&place, "c.json", "3", TIME_NS);
    check(is_there(&place, 2, "t/c.json") && !is_there(&place, 1, "t/c.json"));
    place.count = 3;
    place_end(&place);
}

/* --- Folders --- */

static void test_folders(void)
{
    struct place place = place_make(2);
    struct err err = {""};
    place_start(&place);

    run("mkdir %s/t", place.paths[0]);
    check_int(replicas_make_folder(place.set, "t", NULL), 0);
    check_int(replicas_make_folder(place.set, "t", NULL), -EEXIST);
    write_file(&place, 1, "t/a.json", "1");
    check_int(replicas_remove_folder(place.set, "t", &err), -ENOTEMPTY);
    check(strstr(err.text, "/1/t is not empty: there is \"a.json\""));
    check(is_there(&place, 0, "t"));
    run("rm %s/t/a.json && rmdir %s/t", place.paths[1], place.paths[0]);
    check_int(replicas_remove_folder(place.set, "t", NULL), 0);
    check_int(replicas_remove_folder(place.set, "t", NULL), -ENOENT);
    check_int(replicas_make_folder(place.set, "u", NULL), 0);
    check_int(replicas_rename_folder(place.set, "u", "v", NULL), 0);
    check(is_there(&place, 0, "v") && is_there(&place, 1, "v") && !is_there(&place, 1, "u"));
    check_records(&place, "");
    place_end(&place);
}

/* A folder that one cannot remove is there again in all. */
static void test_folder_that_is_mounted_on(void)
{
    if (cannot_mount())
        return;
    struct place place = place_make(2);
    char path[128];
    place_start_with_table(&place);
    snprintf(path, sizeof path, "%s/t", place.paths[1]);
    check_int(mount("tmpfs", path, "tmpfs", 0, "size=64k"), 0);

    check_int(replicas_remove_folder(place.set, "t", NULL), -EBUSY);
    check(is_there(&place, 0, "t") && is_in_use(&place, 1));
    check_int(umount(path), 0);
    place_end(&place);
}

/* --- Times of disks --- */

static void test_grain_of_times(void)
{
    if (cannot_mount())
        return;
    struct place place = place_make(2);
    struct file_stats all;
    run("truncate -s 16M %s/image && mkfs.ext4 -q -F -I 128 %s/image >/dev/null 2>&1 && "
        "mount -o loop %s/image %s",
        place.directory, place.directory, place.directory, place.paths[1]);
    place.mounted[1] = true;
    place_start_with_table(&place);

    put(&place, "a.json", "1", TIME_NS);
    check_int(replicas_stat(place.set, "t", "a.json", &all, NULL), 0);
    check(all.stats[0].mtime_ns == TIME_NS && all.stats[0].grain_ns == 1);
    check(all.stats[1].mtime_ns == 1234567890 * INT64_C(1000000000));
    check(file_stat_is(&all.stats[1], 1, TIME_NS));
    check(!file_stat_is(&all.stats[1], 1, TIME_NS + INT64_C(1000000000)));
    check(!file_stat_is(&all.stats[1], 2, TIME_NS));
    place_end(&place);
}

CHECK_MAIN(CHECK_TEST(test_all_have_it), CHECK_TEST(test_full_disk_goes_out),
           CHECK_TEST(test_where_all_are_full_none_goes_out),
           CHECK_TEST(test_where_all_refuse_none_goes_out),
           CHECK_TEST(test_read_only_disk_goes_out), CHECK_TEST(test_unmounted_disk_goes_out),
           CHECK_TEST(test_vanished_folder_goes_out), CHECK_TEST(test_the_last_one_stays),
           CHECK_TEST(test_out_of_use_is_recorded_first), CHECK_TEST(test_put_back),
           CHECK_TEST(test_open_without_one), CHECK_TEST(test_open_read_only),
           CHECK_TEST(test_change_of_the_list), CHECK_TEST(test_folders),
           CHECK_TEST(test_folder_that_is_mounted_on), CHECK_TEST(test_grain_of_times))
