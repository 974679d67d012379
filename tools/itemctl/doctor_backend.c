/* SPDX-License-Identifier: MIT */
/* What doctor says of a backend as a whole. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/replicas.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "tools/itemctl/absent.h"
#include "tools/itemctl/doctor.h"
#include "tools/itemctl/table_list.h"

#define ROOM_FEW (100u << 20) /* bytes */
#define HEALTH_NS (10 * NS_PER_S)

static const struct backend_config *settings_of(const struct doctor *doctor, size_t place)
{
    return &doctor->ctl->config->backends[place];
}

/* ---- engines ---- */

static void look_at_store(struct doctor *doctor, size_t place)
{
    const struct backend_config *settings = settings_of(doctor, place);
    const char *name = settings->name, *path = settings->path;
    struct stat found;

    if (absent_is(doctor->ctl, doctor->config, place)) {
        doctor_say(doctor, DOCTOR_NOTE, name,
                   "The store %s is not there yet: a mount makes it, and so do itemctl create and "
                   "deploy.",
                   doctor->config->backends[place].path);
        return;
    }
    if (stat(path, &found) < 0)
        return;
    doctor_say(doctor, DOCTOR_FINE, name, "An embedded store (SQLite), %s, %lld bytes.", path,
               (long long)found.st_size);
    if (access(path, W_OK) < 0)
        doctor_say(doctor, DOCTOR_PROBLEM, name,
                   "A right is missing: %s can only be read by this user.", path);
}

static void look_at_service(struct doctor *doctor, const struct backend_config *settings)
{
    const char *region = settings->region ? settings->region : "that of AWS's own settings";

    if (settings->endpoint && !strstr(settings->endpoint, ".amazonaws.com"))
        doctor_say(doctor, DOCTOR_FINE, settings->name,
                   "A service that speaks DynamoDB's protocol, at %s, region %s.",
                   settings->endpoint, region);
    else if (getenv("AWS_ENDPOINT_URL_DYNAMODB") || getenv("AWS_ENDPOINT_URL"))
        doctor_say(doctor, DOCTOR_FINE, settings->name,
                   "A service that speaks DynamoDB's protocol, at %s (from the environment), "
                   "region %s.",
                   getenv("AWS_ENDPOINT_URL_DYNAMODB") ? getenv("AWS_ENDPOINT_URL_DYNAMODB")
                                                       : getenv("AWS_ENDPOINT_URL"),
                   region);
    else
        doctor_say(doctor, DOCTOR_FINE, settings->name, "Amazon DynamoDB, region %s.", region);
}

static void look_at_room(struct doctor *doctor, const struct backend_config *settings,
                         struct backend *backend)
{
    struct statvfs room;
    struct err reason = {""};

    if (settings->type == BACKEND_TYPE_DYNAMODB || backend_statfs(backend, &room, &reason) < 0)
        return;
    unsigned long long bytes = (unsigned long long)room.f_bavail * room.f_frsize;
    if (bytes < ROOM_FEW)
        doctor_say(doctor, DOCTOR_PROBLEM, settings->name, "Only %llu bytes are free on its disk.",
                   bytes);
}

/* ---- clocks ---- */

struct newest {
    int64_t time_ns;
};

static int take_time(void *context, const struct log_entry *entry)
{
    ((struct newest *)context)->time_ns = entry->time_ns;
    return 0;
}

/* A change that was made later than now: by a clock that was ahead, or this one is behind. */
static void look_at_log(struct doctor *doctor, const struct backend_config *settings,
                        struct backend *backend)
{
    struct newest newest = {0};
    uint64_t position = 0;
    struct err reason = {""};
    int64_t now_ns = clock_now_ns();

    if (!backend_can(backend, BACKEND_LOG) ||
        backend_log_position(backend, &position, &reason) < 0 || position == 0 ||
        backend_log(backend, position - 1, 1, take_time, &newest, &reason) < 0)
        return;
    if (newest.time_ns > now_ns + DOCTOR_SKEW_S * NS_PER_S)
        doctor_say(
            doctor, DOCTOR_PROBLEM, settings->name,
            "Its last change was made %lld seconds from now: this machine's clock is behind, "
            "or was ahead then.",
            (long long)((newest.time_ns - now_ns) / NS_PER_S));
}

/* ---- drafts ---- */

static int count_draft(void *context, const struct draft *draft)
{
    (void)draft;
    ++*(size_t *)context;
    return 0;
}

static void look_at_drafts(struct doctor *doctor, const struct backend_config *settings,
                           struct backend *backend)
{
    size_t count = 0;
    struct err reason = {""};

    if (backend_draft_list(backend, span_of(NULL, 0), count_draft, &count, &reason) == 0 && count)
        doctor_say(doctor, DOCTOR_NOTE, settings->name,
                   "%zu save%s refused and kept: itemctl drafts lists %s with the reason.", count,
                   count == 1 ? " was" : "s were", count == 1 ? "it" : "them");
}

/* ---- replicas ---- */

struct replica_look {
    struct doctor *doctor;
    const char *name;
    size_t in_use, out;
};

/* The end of a sentence that ends in REASON. */
static const char *stop(const char *reason)
{
    size_t length = strlen(reason);

    return length && strchr(".?!", reason[length - 1]) ? "" : ".";
}

/* Whether a replica was found wrong when it was tried. */
static bool is_known(const struct doctor *doctor, const char *path)
{
    for (size_t i = 0; i < doctor->finding_count; i++)
        if (doctor->findings[i].level == DOCTOR_PROBLEM && doctor->findings[i].text &&
            strstr(doctor->findings[i].text, path))
            return true;
    return false;
}

static int look_at_state(void *context, const struct replica_state *state)
{
    struct replica_look *look = context;
    cleanup(buf_release) struct buf since;

    buf_init(&since, 128);
    look->in_use += state->in_use;
    look->out += !state->in_use;
    if (state->in_use || is_known(look->doctor, state->path))
        return 0;
    text_time_s(state->since_ns / NS_PER_S, &since);
    doctor_say(look->doctor, DOCTOR_PROBLEM, look->name,
               "The replica %s is out of use since %.*s: %s%s It is made whole again by a mount or "
               "any itemctl as soon as that is put right.",
               state->path, (int)since.len, since.data ? since.data : "", state->reason,
               stop(state->reason));
    return 0;
}

static int look_at_health(void *context, const struct replica_health *health)
{
    struct replica_look *look = context;

    if (health->health == HEALTH_ONLINE)
        doctor_say(look->doctor, DOCTOR_FINE, look->name,
                   "A folder of files, %s: a file is written and read back in %.1f ms.",
                   health->path, (double)health->took_ns / 1e6);
    else
        doctor_say(look->doctor, DOCTOR_PROBLEM, look->name, "The replica %s is %s: %s%s",
                   health->path, health_name(health->health), health->reason, stop(health->reason));
    return 0;
}

void doctor_look_at_replicas(struct doctor *doctor, size_t place)
{
    const struct backend_config *settings = settings_of(doctor, place);
    struct replica_look look = {.doctor = doctor, .name = settings->name};
    struct err reason = {""};

    if (settings->type != BACKEND_TYPE_FOLDER)
        return;
    int r = source_health(doctor->ctl->config, settings, HEALTH_NS, look_at_health, &look, &reason);

    if (r < 0)
        doctor_say(doctor, DOCTOR_PROBLEM, settings->name, "Its folders cannot be tried: %s.",
                   err_text(&reason, r));
}

static int pass_over(void *context, const struct difference *difference)
{
    (void)context;
    (void)difference;
    return 0;
}

/* Whether the files of TABLE are the same in all replicas. */
static void compare_table(struct doctor *doctor, const char *name, struct backend *backend,
                          const struct table *table, uint64_t *differ)
{
    const struct verify_options options = {.repair = false};
    struct verify_counts counts = {0};
    struct err reason = {""};
    int r = backend_verify(backend, table, &options, pass_over, &counts, &reason);

    if (r < 0)
        doctor_say(doctor, DOCTOR_PROBLEM, name, "The files of table %s cannot be compared: %s.",
                   table->name, err_text(&reason, r));
    *differ += counts.differ;
}

static void compare_replicas(struct doctor *doctor, const char *name, struct backend *backend,
                             bool all_in_use)
{
    cleanup(table_list_release) struct table_list all = {NULL, 0};
    uint64_t differ = 0;
    struct err reason = {""};
    int r = backend_tables(backend, table_list_add, &all, &reason);

    for (size_t i = 0; r == 0 && i < all.count; i++)
        compare_table(doctor, name, backend, all.tables[i], &differ);
    if (differ)
        doctor_say(doctor, DOCTOR_PROBLEM, name,
                   "The replicas are out of step: %llu file%s not the same in all of them. itemctl "
                   "verify shows them, and --repair makes them alike.",
                   (unsigned long long)differ, differ == 1 ? " is" : "s are");
    else if (r == 0)
        doctor_say(doctor, DOCTOR_FINE, name, "%s have the same files.",
                   all_in_use ? "The replicas" : "The replicas that are in use");
}

void doctor_look_at_folders(struct doctor *doctor, size_t place)
{
    struct replica_look look = {.doctor = doctor, .name = settings_of(doctor, place)->name};
    struct backend *backend = doctor->ctl->source->backends[place];
    uint64_t foreign = 0;

    if (!backend_can(backend, BACKEND_FILES))
        return;
    backend_replicas(backend, look_at_state, &look, &foreign);
    if (look.in_use > 1)
        compare_replicas(doctor, look.name, backend, look.out == 0);
    if (foreign)
        doctor_say(
            doctor, DOCTOR_NOTE, look.name,
            "%llu name%s like that of an item, and stand%s for none: no key is written so, or "
            "it is no regular file. itemctl says which; they are left alone.",
            (unsigned long long)foreign, foreign == 1 ? " looks" : "s look",
            foreign == 1 ? "s" : "");
}

static void propose(struct doctor *doctor, const struct backend_config *settings, const char *key,
                    const char *value)
{
    cleanup(buf_release) struct buf line;

    buf_init(&line, 1u << 20);
    if (!value)
        return;
    buf_addf(&line, "%s = %s", key, value);
    if (buf_error(&line))
        doctor->no_memory = true;
    else
        doctor_propose(doctor, "backend", settings->name, line.data, "");
}

void doctor_propose_backend(struct doctor *doctor, const struct backend_config *settings)
{
    static const char *const types[] = {[BACKEND_TYPE_SQLITE] = "sqlite",
                                        [BACKEND_TYPE_DYNAMODB] = "dynamodb",
                                        [BACKEND_TYPE_FOLDER] = "folder"};

    propose(doctor, settings, "type", types[settings->type]);
    propose(doctor, settings, "path", settings->path);
    if (settings->type == BACKEND_TYPE_FOLDER && settings->replicas.count == 1)
        propose(doctor, settings, "path", settings->replicas.paths[0]);
    propose(doctor, settings, "region", settings->region);
    propose(doctor, settings, "tables", settings->tables);
}

void doctor_look_at_backend(struct doctor *doctor, size_t place)
{
    const struct backend_config *settings = settings_of(doctor, place);
    struct backend *backend = doctor->ctl->source->backends[place];

    switch (settings->type) {
    case BACKEND_TYPE_SQLITE: look_at_store(doctor, place); break;
    case BACKEND_TYPE_DYNAMODB: look_at_service(doctor, settings); break;
    case BACKEND_TYPE_FOLDER: doctor_look_at_replicas(doctor, place); break;
    }
    look_at_room(doctor, settings, backend);
    look_at_log(doctor, settings, backend);
    look_at_drafts(doctor, settings, backend);
}
