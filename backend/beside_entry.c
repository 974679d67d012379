/* SPDX-License-Identifier: MIT */
#include "backend/beside_entry.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"

#define ID_MASK (INT64_MAX >> 1) /* a place in a file, with room behind */

static struct journal_entry *entry_alloc(uint64_t id)
{
    struct journal_entry *entry = calloc(1, sizeof *entry);

    if (!entry)
        return NULL;
    entry->id = id;
    entry->lock = -1;
    snprintf(entry->name, sizeof entry->name, "%016" PRIx64, id);
    return entry;
}

void journal_end(struct journal_entry *entry)
{
    if (!entry)
        return;
    for (size_t i = 0; i < entry->count; i++)
        table_free(entry->steps[i].description);
    free(entry->steps);
    value_release(&entry->document);
    if (entry->lock >= 0)
        close(entry->lock);
    free(entry);
}

/* --- The document: {"beside": false, "steps": {"0": {"table": "users", "before": "{..}", ..}}} ---
 */

static int set_text(struct value *map, const char *name, enum value_type type, struct span text)
{
    struct value value;
    int r = value_new_text(type, text, &value);

    return r ? r : value_member_set(map, span_text(name), value);
}

static int set_number(struct value *map, const char *name, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, number);
    return set_text(map, name, VALUE_S, span_text(text));
}

/* A text member; empty where there is none. */
static struct span get_text(const struct value *map, const char *name)
{
    const struct value *member = value_member(map, span_text(name));

    return member && (member->type == VALUE_S || member->type == VALUE_B) ? value_text(member)
                                                                          : span_of("", 0);
}

static uint64_t get_number(const struct value *map, const char *name)
{
    return strtoull(get_text(map, name).data, NULL, 10);
}

int entry_new(bool beside, struct journal_entry **ret_entry, struct err *err)
{
    uint64_t id;

    if (getrandom(&id, sizeof id, 0) != (ssize_t)sizeof id)
        return err_set(err, EIO, "no random numbers");
    struct journal_entry *entry = entry_alloc(id & ID_MASK);
    if (!entry)
        return -ENOMEM;
    entry->document = value_new_map();
    int r = value_member_set(&entry->document, span_text("beside"),
                             (struct value){.type = VALUE_BOOL, .boolean = beside});
    if (r == 0)
        r = value_member_set(&entry->document, span_text("steps"), value_new_map());
    if (r < 0) {
        journal_end(entry);
        return r;
    }
    *ret_entry = entry;
    return 0;
}

int entry_add(struct journal_entry *entry, const struct step *step)
{
    struct value *steps = value_member(&entry->document, span_text("steps"));
    struct value map = value_new_map();
    char number[24];
    int r = set_text(&map, "table", VALUE_S, step->table);

    if (r == 0)
        r = set_number(&map, "id", step->table_id);
    if (r == 0)
        r = set_text(&map, "partition", VALUE_B, step->key.partition);
    if (r == 0)
        r = set_text(&map, "sort", VALUE_B, step->key.sort);
    if (r == 0)
        r = set_text(&map, "before", VALUE_S, step->before);
    if (r == 0)
        r = set_text(&map, "after", VALUE_S, step->after);
    if (r == 0)
        r = set_number(&map, "version", step->version);
    if (r < 0) {
        value_release(&map);
        return r;
    }
    snprintf(number, sizeof number, "%zu", steps->map.count);
    return value_member_set(steps, span_text(number), map);
}

int entry_complete(struct journal_entry *entry, struct err *err)
{
    const struct value *beside = value_member(&entry->document, span_text("beside"));
    const struct value *steps = value_member(&entry->document, span_text("steps"));

    if (!beside || beside->type != VALUE_BOOL || !steps || steps->type != VALUE_M)
        return err_set(err, EINVAL, "entry %s of the journal cannot be read", entry->name);
    entry->beside = beside->boolean;
    entry->steps = calloc(steps->map.count + 1, sizeof *entry->steps);
    if (!entry->steps)
        return -ENOMEM;
    for (size_t i = 0; i < steps->map.count; i++) {
        const struct value *step = &steps->map.members[i].value;
        if (step->type != VALUE_M)
            return err_set(err, EINVAL, "entry %s of the journal cannot be read", entry->name);
        entry->steps[entry->count++] =
            (struct step){.table = get_text(step, "table"),
                          .table_id = get_number(step, "id"),
                          .key = {get_text(step, "partition"), get_text(step, "sort")},
                          .before = get_text(step, "before"),
                          .after = get_text(step, "after"),
                          .version = get_number(step, "version")};
    }
    entry->begun = entry->count;
    return 0;
}

int entry_read(const struct record *record, struct journal_entry **ret_entry, struct err *err)
{
    char name[17] = "";

    if (record->key.partition.len < sizeof name)
        memcpy(name, record->key.partition.data, record->key.partition.len);
    struct journal_entry *entry = entry_alloc(strtoull(name, NULL, 16));
    if (!entry)
        return -ENOMEM;
    int r = value_from_plain(record->body, &entry->document, err);
    if (r == 0)
        r = entry_complete(entry, err);
    if (r < 0) {
        journal_end(entry);
        return r;
    }
    *ret_entry = entry;
    return 0;
}

/* --- The lock --- */

int entry_lock(const struct beside *beside, struct journal_entry *entry, struct err *err)
{
    struct flock place = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)entry->id, .l_len = 1};
    int lock = open(beside->lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int error = lock < 0 || fcntl(lock, F_OFD_SETLK, &place) < 0 ? errno : 0;

    if (error == 0)
        entry->lock = lock;
    else if (lock >= 0)
        close(lock);
    if (error == EAGAIN)
        return -EAGAIN;
    return error ? err_set(err, error, "%s: %s", beside->lock_path, strerror(error)) : 0;
}

/* --- The row --- */

int entry_write(struct beside *beside, const struct journal_entry *entry, struct err *err)
{
    cleanup(buf_release) struct buf text;

    buf_init(&text, ENTRY_MAX);
    value_to_plain(&entry->document, (struct value_style){.sort = true}, &text);
    struct action action = {.kind = ACTION_PUT,
                            .table = beside->journal,
                            .key.partition = span_text(entry->name),
                            .condition.kind = COND_ABSENT,
                            .body = buf_span(&text)};
    int r = buf_error(&text);
    return r ? r : backend_write(beside->state, &action, 1, WRITE_DURABLE, err);
}

int entry_find(struct beside *beside, const struct journal_entry *entry, bool *ret_there,
               struct err *err)
{
    const struct key key = {.partition = span_text(entry->name)};
    struct item_meta meta;
    struct err own = {""};
    int r = backend_get(beside->state, beside->journal, key, &meta, NULL, &own);

    *ret_there = r == 0;
    return r == 0 || r == -ENOENT ? 0 : err_set(err, -r, "%s", err_text(&own, r));
}

struct action journal_done(const struct beside *beside, const struct journal_entry *entry)
{
    return (struct action){
        .kind = ACTION_DELETE, .table = beside->journal, .key.partition = span_text(entry->name)};
}

/* --- Items, as an entry has them --- */

int step_text(const struct table *table, struct key key, struct span body, int64_t ttl,
              struct buf *out, struct err *err)
{
    cleanup(value_release) struct value item = {0};
    int r = item_from_body(table, key, body, ttl, &item, err);

    if (r == 0)
        r = value_canonical(&item, err);
    if (r == 0)
        value_map_to_typed(&item, out);
    return r ? r : buf_error(out);
}

int step_read(struct beside *beside, const struct table *table, struct key key, struct buf *text,
              uint64_t *ret_version, struct err *err)
{
    cleanup(buf_release) struct buf body;
    struct item_meta meta;
    struct err own = {""};

    buf_init(&body, ENTRY_MAX);
    *ret_version = 0;
    int r = backend_get(beside->items, table, key, &meta, &body, &own);
    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&own, r));
    *ret_version = meta.version;
    return step_text(table, key, buf_span(&body), meta.ttl, text, err);
}

int step_body(const struct step *step, struct span text, struct buf *body, int64_t *ret_ttl,
              struct err *err)
{
    cleanup(value_release) struct value item = {0};
    cleanup(buf_release) struct buf partition, sort;

    buf_init(&partition, KEY_PART_MAX);
    buf_init(&sort, KEY_PART_MAX);
    int r = item_from_typed(step->description, text, &item, &partition, &sort, err);
    if (r == 0)
        r = item_to_body(step->description, &item, body, ret_ttl, err);
    return r ? r : buf_error(body);
}

/* --- Drafts --- */

/* "cust-7/2024.json.0123abcd": other drafts of the file keep their names. */
static void draft_path(const struct journal_entry *entry, const struct step *step, struct buf *path)
{
    const struct table *table = step->description;

    if (!table) {
        buf_add_text(path, "item");
    } else if (table_sorted(table)) {
        key_part_to_name(table, false, step->key.partition, "/", path);
        key_part_to_name(table, true, step->key.sort, "", path);
    } else {
        key_part_to_name(table, false, step->key.partition, "", path);
    }
    buf_addf(path, KEY_ITEM_SUFFIX ".%.8s", entry->name);
}

/* What was before and cannot be had again; as typed JSON where the table is gone. */
static int draft_action(const struct journal_entry *entry, const struct step *step,
                        struct buf *path, struct buf *body, struct action *ret_draft,
                        struct err *err)
{
    int64_t ttl;
    int r = 0;

    draft_path(entry, step, path);
    if (step->description)
        r = step_body(step, step->before, body, &ttl, err);
    else
        buf_add_span(body, step->before);
    *ret_draft = (struct action){
        .kind = ACTION_DRAFT_PUT,
        .body = buf_span(body),
        .draft = {.table = step->table,
                  .path = buf_span(path),
                  .code = ESTALE,
                  .reason =
                      span_text("a change of several files was cut short and is undone; what is "
                                "kept here is what this one held before, in case it cannot "
                                "be had again: somebody else may have changed it since"),
                  .size = body->len}};
    return r ? r : buf_error(path) ? buf_error(path) : buf_error(body);
}

int entry_close(struct beside *beside, const struct journal_entry *entry, struct err *err)
{
    cleanup_free struct action *actions = calloc(entry->count + 1, sizeof *actions);
    struct buf *texts = calloc(2 * entry->count + 1, sizeof *texts);
    size_t count = 0;
    int r = actions && texts ? 0 : -ENOMEM;

    for (size_t i = 0; texts && i < 2 * entry->count; i++)
        buf_init(&texts[i], ENTRY_MAX);
    for (size_t i = 0; r == 0 && i < entry->count; i++)
        if (entry->steps[i].lost)
            r = draft_action(entry, &entry->steps[i], &texts[2 * i], &texts[2 * i + 1],
                             &actions[count++], err);
    if (r == 0) {
        actions[count++] = journal_done(beside, entry);
        r = backend_write(beside->state, actions, count, WRITE_DURABLE, err);
    }
    for (size_t i = 0; texts && i < 2 * entry->count; i++)
        buf_release(&texts[i]);
    free(texts);
    return r;
}
