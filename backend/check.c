/* SPDX-License-Identifier: MIT */
#include "backend/check.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "base/text.h"

struct item_label item_label(const struct table *table, struct key key)
{
    struct item_label label = {""};
    cleanup(buf_release) struct buf text;

    buf_init(&text, 8 * (size_t)KEY_PART_MAX);
    buf_add_text(&text, table->name);
    buf_add_char(&text, '/');
    key_part_to_name(table, false, key.partition, "", &text);
    if (key.sort.len) {
        buf_add_char(&text, '/');
        key_part_to_name(table, true, key.sort, "", &text);
    }
    size_t room = sizeof label.text - 1;
    size_t len = text.len < room ? text.len : room;
    if (len)
        memcpy(label.text, text.data, len);
    if (text.len > room)
        memcpy(label.text + room - 3, "...", 3);
    return label;
}

static int check_number(struct span part, struct err *err)
{
    cleanup(buf_release) struct buf canonical;

    buf_init(&canonical, 512);
    int code = number_canonical(part, &canonical, err);
    if (code)
        return code == -ERANGE ? -EINVAL : code;
    if (!span_equal(buf_span(&canonical), part))
        return err_set(err, EINVAL, "the number %.*s is not in canonical form", (int)part.len,
                       part.data);
    return 0;
}

int check_part(enum value_type type, struct span part, const char *what, struct err *err)
{
    if (part.len == 0)
        return err_set(err, EINVAL, "the %s is empty", what);
    if (part.len > KEY_PART_MAX)
        return err_set(err, EINVAL, "the %s has %zu bytes, more than %d", what, part.len,
                       KEY_PART_MAX);
    if (type == VALUE_N)
        return check_number(part, err);
    if (type == VALUE_S && !text_is_utf8(part, true))
        return err_set(err, EINVAL, "the %s is not valid UTF-8", what);
    return 0;
}

int check_key(const struct table *table, struct key key, struct err *err)
{
    int code = check_part(table->partition.type, key.partition, "partition key", err);
    if (code)
        return code;
    if (table_sorted(table))
        return check_part(table->sort.type, key.sort, "sort key", err);
    if (key.sort.len)
        return err_set(err, EINVAL, "table %s has no sort key", table->name);
    return 0;
}

static int check_size(const struct backend *backend, const struct action *action, struct err *err)
{
    if (action->body.len <= backend->max_item_size)
        return 0;
    struct item_label label = item_label(action->table, action->key);
    return err_set(err, EFBIG, "%s: %zu bytes, more than the %" PRIu64 " that an item may have",
                   label.text, action->body.len, backend->max_item_size);
}

/* The size of what was packed has been looked at, and may be that of another form. */
static int check_item(const struct backend *backend, const struct action *action, unsigned flags,
                      struct err *err)
{
    assert(action->table);
    int code = check_key(action->table, action->key, err);
    if (code == 0 && action->kind == ACTION_PUT && !(flags & WRITE_LOOSE))
        code = check_size(backend, action, err);
    return code;
}

static int check_scratch(const struct action *action, struct err *err)
{
    struct span name = action->scratch.name;

    if (name.len == 0 || name.len > TABLE_NAME_MAX || memchr(name.data, '/', name.len) ||
        memchr(name.data, 0, name.len))
        return err_set(err, EINVAL, "bad name for a file: \"%.*s\"", (int)name.len,
                       name.data ? name.data : "");
    assert(action->table);
    if (action->scratch.partition.len == 0)
        return 0;
    if (!table_sorted(action->table))
        return err_set(err, EINVAL, "table %s has no partitions", action->table->name);
    return check_part(action->table->partition.type, action->scratch.partition, "partition key",
                      err);
}

int check_action(const struct backend *backend, const struct action *action, unsigned flags,
                 struct err *err)
{
    switch (action->kind) {
    case ACTION_PUT:
    case ACTION_DELETE:
    case ACTION_TOUCH: return check_item(backend, action, flags, err);
    case ACTION_SCRATCH_PUT: return check_scratch(action, err);
    case ACTION_SCRATCH_DELETE:
    case ACTION_DRAFT_PUT:
    case ACTION_DRAFT_DELETE: return 0;
    }
    return err_set(err, EINVAL, "no such action: %d", (int)action->kind);
}

int check_condition(const struct action *action, bool found, uint64_t version, struct err *err)
{
    enum condition_kind kind = action->condition.kind;
    const char *reason;
    int code;

    if (kind == COND_ABSENT && found)
        code = EEXIST, reason = "already exists";
    else if (kind == COND_EXISTS && !found)
        code = ENOENT, reason = "does not exist";
    else if (kind == COND_VERSION && !found)
        code = ESTALE, reason = "was removed meanwhile";
    else if (kind == COND_VERSION && version != action->condition.version)
        code = ESTALE, reason = "was changed meanwhile";
    else
        return 0;
    struct item_label label = item_label(action->table, action->key);
    return err_set(err, code, "%s: %s", label.text, reason);
}

int check_mtime(const struct action *action, int64_t mtime_ns, struct err *err)
{
    if (action->kind != ACTION_DELETE || action->condition.kind != COND_VERSION ||
        action->mtime_ns == 0 || action->mtime_ns == mtime_ns)
        return 0;
    return err_set(err, ESTALE, "%s: was saved or touched meanwhile",
                   item_label(action->table, action->key).text);
}
