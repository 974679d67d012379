/* SPDX-License-Identifier: MIT */
/* Disks that hang, and many callers at once. */
#include "tests/contract/replicas.h"

#include <time.h>

#define TIME_NS INT64_C(1234567890123456789)
#define SHORT_NS INT64_C(2000000000) /* enough for a disk that does not hang */

/* Whether what was given up in NUMBER has ended, which it will. */
static void wait_until_idle(struct place *place, size_t number)
{
    struct replica_info info;

    do {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        replica_info(place->set, number, &info);
    } while (info.busy);
}

static int count_threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    int count = -2;

    while (dir && readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* One that hangs goes out; what it still does is harmless; then it comes back. */
static void test_hanging_disk_goes_out(void)
{
    if (cannot_mount())
        return;
    struct place place = place_make(2);
    struct file_op op = put_of("a.json", "3", TIME_NS);
    char reason[256];
    int64_t took_ns;
    mount_ext4(&place, 1);
    place_start_with_table(&place);
    put(&place, "a.json", "1", TIME_NS);
    replicas_close(place.set);
    place.timeout_ns = SHORT_NS;
    place_start(&place);

    freeze(&place, 1);
    put(&place, "a.json", "2", TIME_NS);
    check_file(&place, 0, "t/a.json", "2");
    snprintf(reason, sizeof reason, "out 1: %s did not answer within 2.0 seconds\n",
             place.paths[1]);
    check_records(&place, reason);
    check_int(replica_probe(place.set, 1, &took_ns, NULL), -EBUSY);
    check_int(replica_put_back(place.set, 1, NULL), -EBUSY);
    check_int(replica_apply(place.set, 1, &op, 1, false, NULL), -EBUSY);
    put(&place, "a.json", "3", TIME_NS); /* no wait any more */
    thaw();
    wait_until_idle(&place, 1);
    check_file(&place, 1, "t/a.json", "1");
    check_int(count_files(&place, 1, "t"), 1);
    replicas_close(place.set);
    place.timeout_ns = 60 * INT64_C(1000000000);
    place_start(&place);
    check_int(replica_take_out(place.set, 1, "as it was", 1, NULL), 0);
    check_int(replica_probe(place.set, 1, &took_ns, NULL), 0);
    check_int(replica_apply(place.set, 1, &op, 1, true, NULL), 0);
    check_int(replica_put_back(place.set, 1, NULL), 0);
    put(&place, "b.json", "4", TIME_NS);
    check_file(&place, 1, "t/a.json", "3");
    check_file(&place, 1, "t/b.json", "4");
    place_end(&place);
}

/* Where all hang, none goes out, and what was begun does not undo what comes later. */
static void test_where_all_hang_none_goes_out(void)
{
    if (cannot_mount())
        return;
    struct place disk = place_make(1), place = place_make(2);
    struct file_op op = put_of("a.json", "late", TIME_NS);
    struct file_op other = put_of("b.json", "never", TIME_NS);
    bool changed = false;
    mount_ext4(&disk, 0);
    for (size_t i = 0; i < 2; i++) {
        run("rmdir %s && mkdir %s/%zu", place.paths[i], disk.paths[0], i);
        snprintf(place.paths[i], sizeof place.paths[i], "%.64s/%zu", disk.paths[0], i);
    }
    place_start_with_table(&place);
    put(&place, "a.json", "1", TIME_NS);
    replicas_close(place.set);
    place.timeout_ns = SHORT_NS;
    place_start(&place);

    freeze(&disk, 0);
    check_int(replicas_apply(place.set, &op, 1, false, &changed, NULL), -ETIMEDOUT);
    check(changed && is_in_use(&place, 0) && is_in_use(&place, 1));
    check_int(replicas_apply(place.set, &other, 1, false, &changed, NULL), -ETIMEDOUT);
    thaw();
    wait_until_idle(&place, 0);
    wait_until_idle(&place, 1);
    put(&place, "a.json", "new", TIME_NS);
    for (size_t i = 0; i < 2; i++) {
        check_file(&place, i, "t/a.json", "new");
        check_int(count_files(&place, i, "t"), 1);
    }
    check_records(&place, "");
    place_end(&place);
    place_end(&disk);
}

static void test_close_leaves_a_hanging_thread(void)
{
    if (cannot_mount())
        return;
    struct place place = place_make(2);
    int threads = count_threads();
    mount_ext4(&place, 1);
    place_start_with_table(&place);
    replicas_close(place.set);
    place.timeout_ns = SHORT_NS;
    place_start(&place);

    freeze(&place, 1);
    put(&place, "a.json", "1", TIME_NS);
    replicas_close(place.set);
    place.set = NULL;
    check(count_threads() > threads);
    thaw();
    while (count_threads() > threads)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    check_int(count_files(&place, 1, "t"), 0);
    place_end(&place);
}

/* --- Many callers --- */

#define THREADS 6
#define FILES 60

struct caller {
    struct place *place;
    int number;
};

static int count_entry(void *context, const struct file_entry *entry)
{
    *(int *)context += entry->stat.regular;
    return 0;
}

static void *call_often(void *context)
{
    const struct caller *caller = context;
    struct place *place = caller->place;
    char name[32];
    int count = 0;

    for (int i = 0; i < FILES; i++) {
        struct file_stats all;
        struct file_stat one;
        struct err err = {""};
        snprintf(name, sizeof name, "%d-%d.json", caller->number, i);
        put(place, name, name, TIME_NS + i);
        expect_code(replicas_look(place->set, "t", name, &one, &err), &err);
        check(file_stat_is(&one, strlen(name), TIME_NS + i));
        expect_code(replicas_stat(place->set, "t", name, &all, &err), &err);
        if (i % 2)
            delete (place, name);
        if (i % 20 == 0)
            expect_code(replica_list(place->set, 0, "t", count_entry, &count, &err), &err);
    }
    check(count > 0);
    return NULL;
}

static void call_together(struct place *place)
{
    struct caller callers[THREADS];
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++) {
        callers[i] = (struct caller){place, i};
        check_int(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void test_many_callers(void)
{
    struct place place = place_make(3);
    place_start_with_table(&place);

    call_together(&place);
    for (size_t i = 0; i < 3; i++)
        check_int(count_files(&place, i, "t"), THREADS * FILES / 2);
    check_file(&place, 2, "t/5-58.json", "5-58.json");
    check_records(&place, "");
    place_end(&place);
}

/* Callers who all see one fail have it recorded once. */
static void *vanish(void *context)
{
    struct place *place = context;

    run("mv %s %s/aside", place->paths[1], place->directory);
    return NULL;
}

static void test_many_callers_see_one_fail(void)
{
    struct place place = place_make(3);
    pthread_t thread;
    place_start_with_table(&place);

    check_int(pthread_create(&thread, NULL, vanish, &place), 0);
    call_together(&place);
    pthread_join(thread, NULL);
    put(&place, "last.json", "1", TIME_NS);
    check(!is_in_use(&place, 1));
    check(strncmp(place.records, "out 1: ", 7) == 0 &&
          strchr(place.records, '\n') == strrchr(place.records, '\n'));
    check_int(count_files(&place, 0, "t"), THREADS * FILES / 2 + 1);
    check_int(count_files(&place, 2, "t"), THREADS * FILES / 2 + 1);
    place_end(&place);
}

CHECK_MAIN(CHECK_TEST(test_hanging_disk_goes_out), CHECK_TEST(test_where_all_hang_none_goes_out),
           CHECK_TEST(test_close_leaves_a_hanging_thread), CHECK_TEST(test_many_callers),
           CHECK_TEST(test_many_callers_see_one_fail))
