/* SPDX-License-Identifier: MIT */
/*
 * Replicas that come back. One that is out of use has missed what was done since, and somebody may
 * have written to it alone. When its folder is there and can be written, it is made as the rows of
 * the state database say, file by file, each under its stripe, while everybody goes on working with
 * the others. Then the log tells what was changed meanwhile, and that is done again, until little
 * is left; the rest is done under all stripes, and the replica is in use.
 *
 * What it holds else than the others is kept as a draft where it was written after the moment at
 * which the replica went out (by its own time, or the kernel's: mtime or ctime), or where the
 * replica has never been in use, or is another folder than it was: all other files are what the
 * others held then. What is no item is left alone, as everywhere.
 *
 * Nothing here waits for a replica longer than its timeout: where one fails in the middle, that is
 * the end of it, until the next try.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/folder/heal.h"
#include "base/log.h"
#include "base/text.h"

#define PAUSE_NS (2 * NS_PER_S)       /* between two tries, */
#define PAUSE_MOST_NS (60 * NS_PER_S) /* twice as long after each that has failed in the middle */
#define FEW 64                        /* changes that are done while everybody waits */
#define ROUNDS 16

struct heal {
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    bool stop, wake, busy;
    unsigned paused;
    int64_t pause_ns;
};

bool heal_is_stopped(const struct folder *folder)
{
    struct heal *heal = folder->heal;

    if (!heal)
        return false;
    scoped_lock(&heal->lock);
    return heal->stop || heal->paused;
}

/* --- What was changed meanwhile --- */

static int note_change(void *context, const struct log_entry *entry)
{
    struct healing *healing = context;
    const struct folder *folder = healing->folder;
    const size_t len = entry->key.partition.len;

    healing->position = entry->sequence;
    healing->schema |= entry->kind == LOG_SCHEMA;
    if ((entry->kind != LOG_ITEM && entry->kind != LOG_TOUCH) ||
        entry->table_id == folder->journal->id || entry->table_id == folder->foreign->id ||
        entry->table_id == folder->outs->id)
        return 0;
    buf_add(&healing->changes, &entry->table_id, sizeof entry->table_id);
    buf_add(&healing->changes, &len, sizeof len);
    buf_add_span(&healing->changes, entry->key.partition);
    healing->change_count++;
    return buf_error(&healing->changes);
}

static int read_changes(struct healing *healing, struct err *err)
{
    healing->change_count = 0;
    buf_clear(&healing->changes);
    return backend_log(healing->folder->imports, healing->position, 0, note_change, healing, err);
}

static int heal_change(struct healing *healing, uint64_t table_id, struct span part, bool locked,
                       struct err *err)
{
    cleanup(known_release) struct known *known = NULL;
    struct err own = {""};
    char name[NAME_MAX + 1];
    int r = known_by_id(healing->folder, table_id, &known, &own);

    if (r == -ENOENT)
        return 0; /* dropped: the schema has changed */
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    if (file_name_of_key(known->table, (struct key){.partition = part}, name, NULL) < 0)
        return 0; /* a key that no file has */
    return locked ? heal_locked(healing, known, name, part, err)
                  : heal_file(healing, known, name, err);
}

static int heal_changes(struct healing *healing, bool locked, struct err *err)
{
    const char *data = healing->changes.data;
    int r = 0;

    for (size_t at = 0; r == 0 && at < healing->changes.len;) {
        uint64_t table_id;
        size_t len;
        memcpy(&table_id, data + at, sizeof table_id);
        memcpy(&len, data + at + sizeof table_id, sizeof len);
        at += sizeof table_id + sizeof len;
        r = heal_change(healing, table_id, span_of(data + at, len), locked, err);
        at += len;
    }
    return r;
}

/* With all stripes. 1: tables have changed, and all is to be looked at again. */
static int finish_locked(struct healing *healing, struct err *err)
{
    int r = read_changes(healing, err);

    if (r == 0 && healing->schema)
        return 1;
    if (r == 0)
        r = heal_changes(healing, true, err);
    return r ? r : healing->finish(healing, err);
}

static int finish(struct healing *healing, struct err *err)
{
    int r = locks_take(healing->folder, ALL_STRIPES, err);

    if (r < 0)
        return r;
    r = finish_locked(healing, err);
    locks_give(healing->folder, ALL_STRIPES);
    return r;
}

/* The log is kept for ten minutes at least, and one round looks at everything: where it takes so
 * long, the round is the last one that does. */
static int heal_rounds(struct healing *healing, struct err *err)
{
    int r = 1;

    for (int round = 0; r == 1 && round < ROUNDS; round++) {
        healing->schema = false;
        r = backend_log_position(healing->folder->imports, &healing->position, err);
        if (r == 0)
            r = heal_tables(healing, err);
        do {
            if (r == 0)
                r = read_changes(healing, err);
            if (r == 0)
                r = heal_changes(healing, false, err);
        } while (r == 0 && !healing->schema && healing->change_count > FEW);
        if (r == 0)
            r = healing->schema ? 1 : finish(healing, err);
    }
    return r == 1 ? err_set(err, EBUSY, "tables are made and dropped all the time") : r;
}

int heal_fill(struct healing *healing, struct err *err)
{
    struct replica_info info;

    replica_info(healing->folder->replicas, healing->number, &info);
    buf_init(&healing->changes, SIZE_MAX / 2);
    buf_init(&healing->written, SIZE_MAX / 2);
    int r = locks_filled_begin(healing->folder, hash64(span_text(info.path), 2), &healing->written,
                               err);
    if (r == 0)
        r = heal_rounds(healing, err);
    if (r == 0)
        locks_filled_end(healing->folder);
    buf_release(&healing->changes);
    buf_release(&healing->written);
    return r;
}

/* --- A replica --- */

static int put_back(struct healing *healing, struct err *err)
{
    return replica_put_back(healing->folder->replicas, healing->number, err);
}

/* What others have written directly is in the rows before, and what they wrote to the replica while
 * it came back, after. */
static int heal_probed(struct healing *healing, const char *path, struct err *err)
{
    struct folder *folder = healing->folder;
    int r = folder->watch ? watch_drain(folder, err) : tables_find(folder, err);

    if (r == 0)
        r = scan_all(folder, 0, false, err);
    if (r == 0)
        r = heal_fill(healing, err);
    if (r < 0)
        return r;
    r = disk_note(folder, path, err);
    if (r == 0 && folder->watch)
        r = watch_all(folder, err);
    if (r == 0)
        r = tables_find(folder, err);
    return r ? r : scan_all(folder, 0, false, err);
}

static int heal_alone(struct folder *folder, size_t number, bool *ret_there, struct err *err)
{
    struct healing healing = {.folder = folder, .number = number, .finish = put_back};
    struct replica_info info;
    enum disk_is is = DISK_NEW;
    int64_t took_ns;

    replica_info(folder->replicas, number, &info);
    if (info.in_use)
        return 0;
    int r = disk_check(folder, info.path, &is, err);
    healing.keep_ns = is == DISK_SAME ? info.since_ns : -TIME_NS_MOST;
    if (r == 0)
        r = replica_probe(folder->replicas, number, &took_ns, err);
    *ret_there = r == 0;
    return r ? r : heal_probed(&healing, info.path, err);
}

/* It may be in use again by the work of another object. */
static int follow_others(struct folder *folder, struct err *err)
{
    int r = locks_take(folder, 1, err);

    if (r == 0)
        locks_give(folder, 1);
    return r;
}

static int try_replica(struct folder *folder, size_t number, bool *ret_there, struct err *err)
{
    int r = follow_others(folder, err);

    *ret_there = false;
    if (r == 0)
        r = locks_take_healing(folder, err);
    if (r < 0)
        return r;
    r = heal_alone(folder, number, ret_there, err);
    locks_give_healing(folder);
    return r;
}

int heal_replica(struct folder *folder, size_t number, struct err *err)
{
    bool there;

    return try_replica(folder, number, &there, err);
}

/* --- The thread --- */

static void try_all(struct folder *folder, int64_t *pause_ns)
{
    size_t numbers[REPLICAS_MOST], count = replicas_numbers(folder->replicas, numbers);
    bool failed = false;

    for (size_t i = 0; i < count && !heal_is_stopped(folder); i++) {
        struct replica_info info;
        struct err err = {""};
        bool there = false;
        replica_info(folder->replicas, numbers[i], &info);
        if (info.in_use || info.busy)
            continue;
        int r = try_replica(folder, numbers[i], &there, &err);
        if (r < 0 && there && r != -ECANCELED) {
            failed = true;
            log_warning("replica", "%s cannot be healed: %s", info.path, err_text(&err, r));
        }
    }
    *pause_ns = !failed ? PAUSE_NS : *pause_ns * 2 < PAUSE_MOST_NS ? *pause_ns * 2 : PAUSE_MOST_NS;
}

/* Waits until it is time, or somebody calls; whether there is more to do. */
static bool wait_turn(struct heal *heal)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(heal->pause_ns / NS_PER_S);
    scoped_lock(&heal->lock);
    while (!heal->stop && (heal->paused || !heal->wake))
        if (pthread_cond_timedwait(&heal->changed, &heal->lock, &until) == ETIMEDOUT &&
            !heal->paused)
            break;
    heal->wake = false;
    heal->busy = !heal->stop;
    return heal->busy;
}

static void *heal_main(void *context)
{
    struct folder *folder = context;
    struct heal *heal = folder->heal;

    while (wait_turn(heal)) {
        try_all(folder, &heal->pause_ns);
        pthread_mutex_lock(&heal->lock);
        heal->busy = false;
        pthread_cond_broadcast(&heal->changed);
        pthread_mutex_unlock(&heal->lock);
    }
    return NULL;
}

int heal_start(struct folder *folder, struct err *err)
{
    struct heal *heal = calloc(1, sizeof *heal);
    pthread_condattr_t steady;

    if (!heal)
        return err_set(err, ENOMEM, "no memory");
    folder->heal = heal;
    heal->pause_ns = PAUSE_NS;
    heal->wake = true;
    pthread_mutex_init(&heal->lock, NULL);
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&heal->changed, &steady);
    pthread_condattr_destroy(&steady);
    heal->started = pthread_create(&heal->thread, NULL, heal_main, folder) == 0;
    return heal->started ? 0 : err_set(err, EAGAIN, "cannot start a thread");
}

void heal_wake(struct folder *folder)
{
    struct heal *heal = folder->heal;

    if (!heal)
        return;
    scoped_lock(&heal->lock);
    heal->wake = true;
    pthread_cond_broadcast(&heal->changed);
}

void heal_pause(struct folder *folder)
{
    struct heal *heal = folder->heal;

    if (!heal)
        return;
    scoped_lock(&heal->lock);
    heal->paused++;
    while (heal->busy)
        pthread_cond_wait(&heal->changed, &heal->lock);
}

void heal_resume(struct folder *folder)
{
    struct heal *heal = folder->heal;

    if (!heal)
        return;
    scoped_lock(&heal->lock);
    heal->paused--;
    pthread_cond_broadcast(&heal->changed);
}

void heal_close(struct folder *folder)
{
    struct heal *heal = folder->heal;

    if (!heal)
        return;
    pthread_mutex_lock(&heal->lock);
    heal->stop = true;
    pthread_cond_broadcast(&heal->changed);
    pthread_mutex_unlock(&heal->lock);
    if (heal->started)
        pthread_join(heal->thread, NULL);
    pthread_cond_destroy(&heal->changed);
    pthread_mutex_destroy(&heal->lock);
    free(heal);
}
