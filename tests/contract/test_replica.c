/* SPDX-License-Identifier: MIT */
/* Files in one replica: what is written, read, listed and locked. */
#include "tests/contract/replicas.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "base/cleanup.h"

#define TIME_NS INT64_C(1234567890123456789)

/* --- Writing --- */

static void test_put(void)
{
    struct place place = place_make(1);
    place_start_with_table(&place);

    put(&place, "a.json", "{\"a\":1}", TIME_NS);
    check_file(&place, 0, "t/a.json", "{\"a\":1}");
    struct stat stat = stat_of(&place, 0, "t/a.json");
    check_int(stat.st_mtim.tv_sec, 1234567890);
    check_int(stat.st_mtim.tv_nsec, 123456789);
    check_int(stat.st_mode & 07777, 0644);
    check_int(count_files(&place, 0, "t"), 1);
    put(&place, "empty.json", "", -1);
    stat = stat_of(&place, 0, "t/empty.json");
    check(stat.st_size == 0 && stat.st_mtim.tv_sec == -1 && stat.st_mtim.tv_nsec == 999999999);
    place_end(&place);
}

static void test_replaced_file_keeps_permissions(void)
{
    struct place place = place_make(1);
    place_start_with_table(&place);

    write_file(&place, 0, "t/a.json", "1");
    run("chmod 0606 %s/t/a.json && chmod 0775 %s/t", place.paths[0], place.paths[0]);
    if (geteuid() == 0)
        run("chown 12:34 %s/t/a.json && chown 56:78 %s/t", place.paths[0], place.paths[0]);
    uint64_t before = stat_of(&place, 0, "t/a.json").st_ino;
    put(&place, "a.json", "2", TIME_NS);
    put(&place, "b.json", "2", TIME_NS);
    struct stat old = stat_of(&place, 0, "t/a.json"), made = stat_of(&place, 0, "t/b.json");
    check(old.st_ino != before);
    check_int(old.st_mode & 07777, 0606);
    check_int(made.st_mode & 07777, 0664);
    if (geteuid() == 0) {
        check(old.st_uid == 12 && old.st_gid == 34);
        check(made.st_uid == 56 && made.st_gid == 78);
    }
    place_end(&place);
}

static void test_mode_of_new_files(void)
{
    struct place place = place_make(1);
    mode_t mask = umask(077);
    place.mode = 0640;
    place_start_with_table(&place);

    check_int(stat_of(&place, 0, "t").st_mode & 07777, 0755);
    put(&place, "a.json", "1", TIME_NS);
    check_int(stat_of(&place, 0, "t/a.json").st_mode & 07777, 0640);
    umask(mask);
    place_end(&place);
}

static void test_batch_in_order(void)
{
    struct place place = place_make(1);
    place_start_with_table(&place);
    struct file_op ops[] = {
        put_of("a.json", "1", TIME_NS),
        put_of("b.json", "2", TIME_NS),
        {.kind = FILE_DELETE, .folder = "t", .name = "a.json"},
        {.kind = FILE_DELETE, .folder = "t", .name = "none.json"},
        put_of("b.json", "3", TIME_NS),
        {.kind = FILE_TOUCH, .folder = "t", .name = "b.json", .mtime_ns = 5},
        {.kind = FILE_TOUCH, .folder = "t", .name = "none.json", .mtime_ns = 5},
    };
    struct err err = {""};
    bool changed = false;

    expect_code(replicas_apply(place.set, ops, 7, true, &changed, &err), &err);
    check(changed);
    check_file(&place, 0, "t/b.json", "3");
    check_int(stat_of(&place, 0, "t/b.json").st_mtim.tv_nsec, 5);
    check_int(count_files(&place, 0, "t"), 1);
    place_end(&place);
}

/* A batch of which one file cannot be written changes nothing. */
static void test_refused_batch_changes_nothing(void)
{
    struct place place = place_make(1);
    char longest[300] = "";
    place_start_with_table(&place);
    memset(longest, 'a', 256);
    struct file_op ops[] = {put_of("b.json", "new", TIME_NS), put_of("c.json", "2", TIME_NS)};
    struct err err = {""};
    bool changed = true;

    put(&place, "b.json", "old", TIME_NS);
    ops[1].folder = "missing";
    check_int(replicas_apply(place.set, ops, 2, false, &changed, &err), -ENOENT);
    check(!changed && strstr(err.text, "/0/missing: No such file"));
    check_file(&place, 0, "t/b.json", "old");
    check_int(count_files(&place, 0, "t"), 1);
    ops[1] = put_of(longest, "2", TIME_NS);
    err_clear(&err);
    check_int(replicas_apply(place.set, &ops[1], 1, false, &changed, &err), -ENAMETOOLONG);
    check(!changed && count_files(&place, 0, "t") == 1 && is_in_use(&place, 0));
    longest[255] = '\0';
    put(&place, longest, "255 bytes", TIME_NS);
    place_end(&place);
}

static void test_names_are_names(void)
{
    struct place place = place_make(1);
    static const char *const wrong[] = {"", ".", "..", "a/b", "/etc", "../t"};
    place_start_with_table(&place);

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct file_op op = put_of(wrong[i], "1", TIME_NS);
        struct file_stat stat;
        check_int(apply(&place, &op, 1, NULL), -EINVAL);
        check_int(replica_stat(place.set, 0, "t", wrong[i], &stat, NULL), -EINVAL);
        check_int(replicas_make_folder(place.set, wrong[i], NULL), -EINVAL);
        check_int(replicas_remove_folder(place.set, wrong[i], NULL), -EINVAL);
        check_int(replicas_rename_folder(place.set, "t", wrong[i], NULL), -EINVAL);
    }
    check_int(count_files(&place, 0, "t"), 0);
    place_end(&place);
}

static void test_links_are_not_followed(void)
{
    struct place place = place_make(1);
    place_start_with_table(&place);
    struct file_op op = put_of("link.json", "new", TIME_NS);
    struct file_stat stat;
    cleanup(buf_release) struct buf body = {0};
    buf_init(&body, 100);

    run("echo -n old > %s/target && ln -s ../../target %s/t/link.json && ln -s t %s/linked",
        place.directory, place.paths[0], place.paths[0]);
    check_int(read_back(&place, 0, "link.json", &body, &stat), -EINVAL);
    check_int(replica_stat(place.set, 0, "t", "link.json", &stat, NULL), 0);
    check(stat.present && !stat.regular);
    put(&place, "link.json", "new", TIME_NS);
    check_file(&place, 0, "t/link.json", "new");
    check_file(&place, 0, "../target", "old");
    op.folder = "linked";
    check_int(apply(&place, &op, 1, NULL), -ENOTDIR);
    place_end(&place);
}

/* Nobody sees a file that is half there. */
static void test_whole_at_any_moment(void)
{
    struct place place = place_make(1);
    char *texts[2] = {malloc(100001), malloc(50001)};
    place_start_with_table(&place);
    for (int i = 0; i < 2; i++) {
        size_t len = i ? 50000 : 100000;
        memset(texts[i], 'a' + i, len);
        texts[i][len] = '\0';
    }
    put(&place, "a.json", texts[0], TIME_NS);
    pid_t reader = fork();
    if (reader == 0) {
        static char text[100001];
        char path[512];
        snprintf(path, sizeof path, "%s/t/a.json", place.paths[0]);
        for (;;) {
            int fd = open(path, O_RDONLY);
            ssize_t got = read(fd, text, sizeof text);
            close(fd);
            if (got != (text[0] == 'a' ? 100000 : 50000) || text[got - 1] != text[0])
                _exit(1);
            if (access("/proc/self", F_OK) < 0 || getppid() == 1)
                _exit(0);
        }
    }
    for (int i = 0; i < 300; i++)
        put(&place, "a.json", texts[i % 2], TIME_NS);
    int status = 0;
    check_int(waitpid(reader, &status, WNOHANG), 0); /* it has seen nothing wrong */
    kill(reader, SIGKILL);
    waitpid(reader, &status, 0);
    free(texts[0]);
    free(texts[1]);
    place_end(&place);
}

/* --- Reading --- */

static void test_read(void)
{
    struct place place = place_make(1);
    struct file_stat stat;
    cleanup(buf_release) struct buf body = {0};
    buf_init(&body, 7);
    place_start_with_table(&place);

    put(&place, "a.json", "{\"a\":1}", TIME_NS);
    check_int(read_back(&place, 0, "a.json", &body, &stat), 0);
    check_span(buf_span(&body), span_text("{\"a\":1}"));
    check(stat.present && stat.regular && stat.size == 7 && stat.mtime_ns == TIME_NS);
    check(stat.inode == stat_of(&place, 0, "t/a.json").st_ino);
    check(file_stat_is(&stat, 7, TIME_NS) && !file_stat_is(&stat, 7, TIME_NS + 1));
    put(&place, "a.json", "12345678", TIME_NS);
    check_int(read_back(&place, 0, "a.json", &body, &stat), -EFBIG);
    check(stat.size == 8 && body.len == 0);
    check_int(read_back(&place, 0, "b.json", &body, &stat), -ENOENT);
    check(!stat.present);
    run("mkfifo %s/t/fifo && mkdir %s/t/folder", place.paths[0], place.paths[0]);
    check_int(read_back(&place, 0, "fifo", &body, &stat), -EINVAL);
    check_int(read_back(&place, 0, "folder", &body, &stat), -EINVAL);
    place_end(&place);
}

static void test_read_of_what_is_being_written(void)
{
    struct place place = place_make(1);
    struct file_stat stat;
    char path[512];
    cleanup(buf_release) struct buf body = {0};
    buf_init(&body, 100);
    place_start_with_table(&place);

    put(&place, "a.json", "1", TIME_NS);
    snprintf(path, sizeof path, "%s/t/a.json", place.paths[0]);
    int fd = open(path, O_WRONLY | O_TRUNC);
    check_int(read_back(&place, 0, "a.json", &body, &stat), -ETXTBSY);
    check(stat.present && stat.size == 0);
    check_int(write(fd, "22", 2), 2);
    check_int(read_back(&place, 0, "a.json", &body, &stat), -ETXTBSY);
    close(fd);
    check_int(read_back(&place, 0, "a.json", &body, &stat), 0);
    check_span(buf_span(&body), span_text("22"));
    place_end(&place);
}

static int collect(void *context, const struct file_entry *entry)
{
    buf_addf(context, "%s%s ", entry->name, entry->stat.regular ? "" : "!");
    return 0;
}

static int stop(void *context, const struct file_entry *entry)
{
    ++*(int *)context;
    return entry->name ? 7 : 0;
}

static int collect_folder(void *context, const char *name)
{
    buf_addf(context, "%s ", name);
    return 0;
}

static void test_lists(void)
{
    struct place place = place_make(1);
    struct err err = {""};
    int calls = 0;
    cleanup(buf_release) struct buf text = {0};
    buf_init(&text, 1000);
    place_start_with_table(&place);

    put(&place, "a.json", "1", TIME_NS);
    run("cd %s && mkdir .hidden u && touch file t/.itemfs-0123456789abcdef && ln -s t link && "
        "mkdir t/sub",
        place.paths[0]);
    check_int(replica_list(place.set, 0, "t", collect, &text, &err), 0);
    bool either = strcmp(text.data, "a.json sub! ") == 0 || strcmp(text.data, "sub! a.json ") == 0;
    check(either);
    check_int(replica_list(place.set, 0, "t", stop, &calls, &err), 7);
    check_int(calls, 1);
    check_int(replica_list(place.set, 0, "none", collect, &text, &err), -ENOENT);
    buf_clear(&text);
    check_int(replica_folders(place.set, 0, collect_folder, &text, NULL), 0);
    either = strcmp(text.data, "t u ") == 0 || strcmp(text.data, "u t ") == 0;
    check(either);
    place_end(&place);
}

struct sum {
    uint64_t count, bytes;
};

static int add(void *context, const struct file_entry *entry)
{
    struct sum *sum = context;

    sum->count += entry->stat.mtime_ns == TIME_NS;
    sum->bytes += entry->stat.size;
    return 0;
}

static void test_long_list(void)
{
    struct place place = place_make(1);
    struct sum sum = {0, 0};
    place_start_with_table(&place);
    struct err err = {""};

    for (int i = 0; i < 5000; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d.json", i);
        put(&place, name, "12", TIME_NS);
    }
    expect_code(replica_list(place.set, 0, "t", add, &sum, &err), &err);
    check_int(sum.count, 5000);
    check_int(sum.bytes, 10000);
    place_end(&place);
}

/* --- Folders --- */

static void test_folders(void)
{
    struct place place = place_make(1);
    struct err err = {""};
    place_start_with_table(&place);

    check_int(replicas_make_folder(place.set, "t", NULL), -EEXIST);
    put(&place, "a.json", "1", TIME_NS);
    check_int(replicas_remove_folder(place.set, "t", &err), -ENOTEMPTY);
    check(strstr(err.text, "there is \"a.json\""));
    check_int(replicas_rename_folder(place.set, "t", "u", NULL), 0);
    check_file(&place, 0, "u/a.json", "1");
    check_int(replicas_make_folder(place.set, "t", NULL), 0);
    check_int(replicas_rename_folder(place.set, "t", "u", NULL), -EEXIST);
    check_int(replicas_rename_folder(place.set, "v", "w", NULL), -ENOENT);
    check_int(replicas_remove_folder(place.set, "v", NULL), -ENOENT);
    run("touch %s/t/.itemfs-0123456789abcdef %s/file", place.paths[0], place.paths[0]);
    check_int(replicas_make_folder(place.set, "file", NULL), -ENOTDIR);
    check_int(replicas_remove_folder(place.set, "t", NULL), 0);
    check(!is_there(&place, 0, "t"));
    place_end(&place);
}

/* What a killed program has left goes; what a live one is writing stays. */
static void test_tidy(void)
{
    struct place place = place_make(1);
    char path[512];
    place_start_with_table(&place);

    run("cd %s/t && touch .itemfs-0000000000000000 .itemfs-1111111111111111 a.json",
        place.paths[0]);
    snprintf(path, sizeof path, "%s/t/.itemfs-1111111111111111", place.paths[0]);
    int fd = open(path, O_RDWR);
    check_int(flock(fd, LOCK_EX), 0);
    check_int(replica_tidy(place.set, 0, "t", NULL), 0);
    check(!is_there(&place, 0, "t/.itemfs-0000000000000000"));
    check(is_there(&place, 0, "t/.itemfs-1111111111111111"));
    close(fd);
    check_int(replica_tidy(place.set, 0, "t", NULL), 0);
    check_int(count_files(&place, 0, "t"), 1);
    place_end(&place);
}

static atomic_bool tidied_enough;

static void *tidy_often(void *context)
{
    struct place *place = context;
    struct err err = {""};

    while (!atomic_load(&tidied_enough))
        expect_code(replica_tidy(place->set, 0, "t", &err), &err);
    return NULL;
}

/* What has just been made, and is not locked yet, may be taken for left over: it is made again. */
static void test_tidy_beside_writing(void)
{
    struct place place = place_make(1);
    pthread_t thread;
    place_start_with_table(&place);

    check_int(pthread_create(&thread, NULL, tidy_often, &place), 0);
    for (int i = 0; i < 2000; i++) {
        put(&place, "a.json", "1", i);
        delete (&place, "a.json");
    }
    atomic_store(&tidied_enough, true);
    pthread_join(thread, NULL);
    check_int(count_files(&place, 0, "t"), 0);
    place_end(&place);
}

static void test_disk(void)
{
    struct place place = place_make(1);
    struct statvfs told, real;
    int64_t took_ns = 0;
    place_start_with_table(&place);

    check_int(replicas_sync(place.set, NULL), 0);
    check_int(replicas_statfs(place.set, &told, NULL), 0);
    check_int(statvfs(place.paths[0], &real), 0);
    check(told.f_blocks == real.f_blocks && told.f_bsize == real.f_bsize);
    check_int(replica_probe(place.set, 0, &took_ns, NULL), 0);
    check(took_ns > 0);
    check_int(count_files(&place, 0, ""), 1);
    place_end(&place);
}

/* --- Opening --- */

static void test_what_cannot_be_opened(void)
{
    struct place place = place_make(1);
    struct err err = {""};

    run("rmdir %s", place.paths[0]);
    check_int(place_try_start(&place, &err), -ENOENT);
    check(strstr(err.text, "/0: No such file or directory"));
    run("touch %s", place.paths[0]);
    check_int(place_try_start(&place, NULL), -ENOTDIR);
    check_records(&place, "");
    place_end(&place);
}

static void test_root_that_goes(void)
{
    struct place place = place_make(1);
    struct err err = {""};
    struct file_op op = put_of("a.json", "2", TIME_NS);
    struct file_stat stat;
    bool changed = true;
    place_start_with_table(&place);

    put(&place, "a.json", "1", TIME_NS);
    run("cd %s && mv 0 aside && mkdir -p 0/t", place.directory);
    check_int(replicas_apply(place.set, &op, 1, false, &changed, &err), -ENODEV);
    check(!changed && strstr(err.text, "/0 is not the folder it was: is its disk mounted?"));
    check_int(replica_stat(place.set, 0, "t", "a.json", &stat, NULL), -ENODEV);
    check_int(count_files(&place, 0, "t"), 0);
    run("cd %s && rm -r 0", place.directory);
    check_int(replica_stat(place.set, 0, "t", "a.json", &stat, NULL), -ENODEV);
    run("cd %s && mv aside 0", place.directory);
    put(&place, "a.json", "3", TIME_NS);
    check_file(&place, 0, "t/a.json", "3");
    check_records(&place, "");
    place_end(&place);
}

CHECK_MAIN(CHECK_TEST(test_put), CHECK_TEST(test_replaced_file_keeps_permissions),
           CHECK_TEST(test_mode_of_new_files), CHECK_TEST(test_batch_in_order),
           CHECK_TEST(test_refused_batch_changes_nothing), CHECK_TEST(test_names_are_names),
           CHECK_TEST(test_links_are_not_followed), CHECK_TEST(test_whole_at_any_moment),
           CHECK_TEST(test_read), CHECK_TEST(test_read_of_what_is_being_written),
           CHECK_TEST(test_lists), CHECK_TEST(test_long_list), CHECK_TEST(test_folders),
           CHECK_TEST(test_tidy), CHECK_TEST(test_tidy_beside_writing), CHECK_TEST(test_disk),
           CHECK_TEST(test_what_cannot_be_opened), CHECK_TEST(test_root_that_goes))
