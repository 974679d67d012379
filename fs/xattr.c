/* SPDX-License-Identifier: MIT */
/*
 * Extended attributes. Ours all begin with "user.itemfs."; every other name is EOPNOTSUPP, not
 * ENODATA, at which `ls -l` stops asking for the whole device (docs/FUSE.md). Derived ones are
 * listed, and writing one back is accepted and ignored, so that rsync -X and cp -a restore cleanly.
 * Those that ask for an update (update.c) can only be set.
 */
#include "fs/operations.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/xattr.h>

#include "backend/stream.h"
#include "base/number.h"
#include "base/text.h"

#define PREFIX "user.itemfs."

enum attribute {
    ATTRIBUTE_TTL,
    ATTRIBUTE_KEY,
    ATTRIBUTE_CHANGE_ID,
    ATTRIBUTE_CHANGE_TYPE,
    ATTRIBUTE_CHANGE_TIME,
    ATTRIBUTE_SEQUENCE,
    ATTRIBUTE_TABLE,
    ATTRIBUTE_TTL_ATTRIBUTE,
    ATTRIBUTE_STREAM,
    ATTRIBUTE_ERROR, /* not listed: nothing to copy */
    ATTRIBUTE_NONE,
};

static const char *const names[ATTRIBUTE_NONE] = {
    [ATTRIBUTE_TTL] = "ttl",
    [ATTRIBUTE_KEY] = "key",
    [ATTRIBUTE_CHANGE_ID] = "change_id",
    [ATTRIBUTE_CHANGE_TYPE] = "change_type",
    [ATTRIBUTE_CHANGE_TIME] = "change_time",
    [ATTRIBUTE_SEQUENCE] = "sequence",
    [ATTRIBUTE_TABLE] = "table",
    [ATTRIBUTE_TTL_ATTRIBUTE] = "ttl_attribute",
    [ATTRIBUTE_STREAM] = "stream",
    [ATTRIBUTE_ERROR] = "error",
};

/* What follows PREFIX; empty where NAME is none of ours. */
static struct span own_name(struct span name)
{
    size_t prefix = strlen(PREFIX);
    if (name.len <= prefix || memcmp(name.data, PREFIX, prefix) != 0)
        return span_of(NULL, 0);
    return span_from(name, prefix);
}

static enum attribute attribute_of(struct span name)
{
    struct span rest = own_name(name);
    int at = 0;
    while (at < ATTRIBUTE_NONE && !span_equal(rest, span_text(names[at])))
        at++;
    return (enum attribute)at;
}

static int add_key(struct mount *mount, struct inode *inode, struct buf *out)
{
    struct key_copy copy;
    scoped_lock(&mount->cache->lock);
    int code = key_copy_locked(inode, &copy);
    if (code == 0)
        key_to_typed(volume_table(inode->volume), copy.key, out);
    key_copy_release(&copy);
    return code;
}

/* Which change made an item what it is, as far as anybody has told. */
struct last_change {
    char id[64];
    enum change_type type;
    int64_t time_ns;
    uint64_t sequence; /* 0: there are none */
};

static bool last_change_locked(const struct mount *mount, const struct inode *inode,
                               struct last_change *ret_change)
{
    const struct inode_meta *meta = &inode->meta;
    struct item_change told;
    *ret_change = (struct last_change){.type = meta->change, .time_ns = meta->change_ns};
    if (meta->version == 0) /* not saved yet */
        return false;
    if (backend_can(inode->volume->backend, BACKEND_LOG)) {
        char id[33];
        backend_change_id(inode->volume->backend, meta->version, meta->change_ns, id);
        memcpy(ret_change->id, id, sizeof id);
        ret_change->sequence = meta->version;
        return true;
    }
    if (!stream_change_of_locked(mount, inode, &told))
        return false;
    snprintf(ret_change->id, sizeof ret_change->id, "%s", told.id);
    ret_change->type = told.type;
    ret_change->time_ns = told.time_ns;
    return true;
}

static int add_change(const struct last_change *change, enum attribute attribute, struct buf *out)
{
    switch (attribute) {
    case ATTRIBUTE_CHANGE_ID: buf_add_text(out, change->id); return 0;
    case ATTRIBUTE_CHANGE_TYPE: buf_add_text(out, change_type_name(change->type)); return 0;
    case ATTRIBUTE_CHANGE_TIME: text_time_ns(change->time_ns, out); return 0;
    case ATTRIBUTE_SEQUENCE:
        if (!change->sequence)
            return -ENODATA;
        buf_addf(out, "%" PRIu64, change->sequence);
        return 0;
    default: return -ENODATA;
    }
}

static int get_item(struct mount *mount, struct inode *inode, enum attribute attribute,
                    struct buf *out)
{
    if (attribute == ATTRIBUTE_KEY)
        return add_key(mount, inode, out);
    struct last_change change;
    pthread_mutex_lock(&mount->cache->lock);
    int64_t ttl = inode->meta.ttl;
    bool changed = last_change_locked(mount, inode, &change);
    bool stale = inode->superseded && inode->refs <= 1; /* the path leads elsewhere: look again */
    pthread_mutex_unlock(&mount->cache->lock);
    if (stale)
        return -ESTALE;
    if (attribute != ATTRIBUTE_TTL)
        return changed ? add_change(&change, attribute, out) : -ENODATA;
    if (ttl <= 0)
        return -ENODATA;
    buf_addf(out, "%" PRId64, ttl);
    return 0;
}

static int get_table(const struct inode *inode, enum attribute attribute, struct buf *out)
{
    const struct table *table = volume_table(inode->volume);
    switch (attribute) {
    case ATTRIBUTE_TABLE: table_to_json(table, out); return 0;
    case ATTRIBUTE_TTL_ATTRIBUTE:
        if (!table->ttl_attribute)
            return -ENODATA;
        buf_add_text(out, table->ttl_attribute);
        return 0;
    case ATTRIBUTE_STREAM: buf_add_text(out, table->stream ? "enabled" : "disabled"); return 0;
    default: return -ENODATA;
    }
}

/* Why the last save or creation under this name was refused: remembered, else of its draft. */
static int get_error(struct mount *mount, struct inode *inode, struct buf *out, struct err *err)
{
    if (inode->kind == INODE_CONTROL)
        return control_error(mount, inode_name(inode), out, err);
    if (report_find(mount, inode, span_text(""), out))
        return 0;
    if (!inode->parent)
        return -ENODATA;
    cleanup(buf_release) struct buf name;
    cleanup(buf_release) struct buf path;
    buf_init(&name, SIZE_MAX / 2);
    buf_init(&path, SIZE_MAX / 2);
    pthread_mutex_lock(&mount->cache->lock);
    inode_file_name(inode, &name);
    buf_add_text(&path, "drafts/");
    if (inode->volume)
        buf_addf(&path, "%s/", volume_table(inode->volume)->name);
    if (inode->parent->kind == INODE_PARTITION) {
        inode_file_name(inode->parent, &path);
        buf_add_char(&path, '/');
    }
    buf_add_span(&path, buf_span(&name));
    pthread_mutex_unlock(&mount->cache->lock);
    if (report_find(mount, inode->parent, buf_span(&name), out))
        return 0;
    return inode->kind == INODE_ITEM ? control_error(mount, buf_span(&path), out, err) : -ENODATA;
}

int fs_xattr_get(struct mount *mount, struct inode *inode, struct span name, struct buf *out,
                 struct err *err)
{
    enum attribute attribute = attribute_of(name);
    if (attribute == ATTRIBUTE_NONE)
        return -EOPNOTSUPP;
    if (attribute == ATTRIBUTE_ERROR)
        return get_error(mount, inode, out, err);
    if (inode->kind == INODE_ITEM)
        return get_item(mount, inode, attribute, out);
    if (inode->kind == INODE_TABLE)
        return get_table(inode, attribute, out);
    if (inode->kind == INODE_FILE && attribute == ATTRIBUTE_TTL)
        return get_item(mount, inode, attribute, out);
    return -ENODATA;
}

static void add_name(struct buf *out, enum attribute attribute)
{
    buf_add_text(out, PREFIX);
    buf_add(out, names[attribute], strlen(names[attribute]) + 1);
}

/* A draft has a reason. */
static void add_control_names(const struct inode *inode, struct buf *out)
{
    static const char drafts[] = "drafts/";
    if (inode->name_len > strlen(drafts) && memcmp(inode->name, drafts, strlen(drafts)) == 0)
        add_name(out, ATTRIBUTE_ERROR);
}

int fs_xattr_list(struct mount *mount, struct inode *inode, struct buf *out, struct err *err)
{
    (void)err;
    scoped_lock(&mount->cache->lock);
    if (inode->superseded && inode->refs <= 1) /* the path leads elsewhere: look again */
        return -ESTALE;
    if ((inode->kind == INODE_ITEM || inode->kind == INODE_FILE) && inode->meta.ttl > 0)
        add_name(out, ATTRIBUTE_TTL);
    if (inode->kind == INODE_ITEM) {
        add_name(out, ATTRIBUTE_KEY);
        struct last_change change;
        bool changed = last_change_locked(mount, inode, &change);
        int last = change.sequence ? ATTRIBUTE_SEQUENCE : ATTRIBUTE_CHANGE_TIME;
        for (int at = ATTRIBUTE_CHANGE_ID; changed && at <= last; at++)
            add_name(out, (enum attribute)at);
    }
    if (inode->kind == INODE_CONTROL && !inode->meta.change)
        add_control_names(inode, out);
    if (inode->kind == INODE_TABLE) {
        add_name(out, ATTRIBUTE_TABLE);
        if (volume_table(inode->volume)->ttl_attribute)
            add_name(out, ATTRIBUTE_TTL_ATTRIBUTE);
        add_name(out, ATTRIBUTE_STREAM);
    }
    return buf_error(out);
}

/* --- Setting --- */

/* Somebody is writing the item: the TTL goes with what is being written, when that is saved. The
 * text itself stays as it is, since the writer counts its bytes. */
static int set_edited_ttl(struct mount *mount, struct inode *inode, int64_t seconds,
                          bool *ret_rewritten, struct err *err)
{
    struct edit *edit;
    int code = edit_load(mount, inode, &edit, err);
    if (code < 0)
        return code;
    bool pending = edit->dirty || edit->fresh;
    if (!edit->dirty && !edit->timed)
        edit->mtime_ns = inode->meta.mtime_ns; /* as with any attribute, only the ctime moves */
    edit->ttl_set = edit->dirty = edit->written = true;
    inode->meta.ttl = seconds;
    pthread_mutex_unlock(&mount->cache->lock);
    return pending ? 0 : save(mount, inode, 0, ret_rewritten, err);
}

/* Nobody is: the stored item is rewritten, and a new inode shows it, so that nobody reads the one
 * half before and the other half after. */
static int set_stored_ttl(struct mount *mount, struct inode *inode, int64_t seconds,
                          struct err *err)
{
    struct body *body;
    struct key_copy copy;
    cleanup(buf_release) struct buf out;
    buf_init(&out, SIZE_MAX / 2);
    int code = inode_load(mount, inode, &body, err);
    if (code < 0)
        return code;
    pthread_mutex_lock(&mount->cache->lock);
    struct inode_meta meta = inode->meta;
    code = key_copy_locked(inode, &copy);
    pthread_mutex_unlock(&mount->cache->lock);
    const struct table *table = volume_table(inode->volume);
    struct span bytes = body_span(body);
    struct item_facts facts;
    if (code == 0)
        code = item_examine(table, copy.key, bytes, &facts, NULL, err);
    if (code == 0 && (facts.is_object || facts.is_empty) && !table->ttl_beside) {
        code = item_set_ttl(table, bytes, seconds, &out, err);
        bytes = buf_span(&out);
    }
    struct action action = {.kind = ACTION_PUT,
                            .table = table,
                            .key = copy.key,
                            .condition = {COND_VERSION, meta.version},
                            .body = bytes,
                            .mtime_ns = meta.mtime_ns, /* as with any attribute, the ctime moves */
                            .ttl = seconds};
    if (code == 0)
        code = buf_error(&out);
    if (code == 0)
        code = backend_write(inode->volume->backend, &action, 1, 0, err);
    key_copy_release(&copy);
    body_unref(body);
    scoped_lock(&mount->cache->lock);
    if ((code == 0 || code == -ESTALE) && inode->state == INODE_ATTACHED)
        outdate_locked(mount, inode);
    return code;
}

static int set_item_ttl(struct mount *mount, struct inode *inode, int64_t seconds,
                        bool *ret_rewritten, struct err *err)
{
    const struct table *table = volume_table(inode->volume);
    if (!table->ttl_attribute)
        return err_set(err, EOPNOTSUPP, "table %s has no TTL attribute", table->name);
    if (table->format == FORMAT_TYPED)
        return err_set(err, EOPNOTSUPP, "table %s shows typed text: set the TTL there",
                       table->name);
    pthread_mutex_lock(&mount->cache->lock);
    bool written = inode->edit && inode->edit->writers > 0;
    bool same = inode->meta.ttl == seconds && !(inode->edit && inode->edit->dirty);
    bool stale = inode->state == INODE_OUTDATED && !written;
    if (written)
        inode->edit->writers++; /* nobody drops the edit meanwhile */
    pthread_mutex_unlock(&mount->cache->lock);
    int code = 0;
    if (stale)
        code = -ESTALE;
    else if (!same && written)
        code = set_edited_ttl(mount, inode, seconds, ret_rewritten, err);
    else if (!same)
        code = set_stored_ttl(mount, inode, seconds, err);
    if (written) {
        scoped_lock(&mount->cache->lock);
        if (--inode->edit->writers == 0 && !inode->edit->saving)
            inode_edit_drop(inode);
    }
    return code;
}

static int set_scratch_ttl(struct mount *mount, struct inode *inode, int64_t seconds,
                           struct err *err)
{
    pthread_mutex_lock(&mount->cache->lock);
    inode->meta.ttl = seconds;
    pthread_mutex_unlock(&mount->cache->lock);
    return scratch_write_attributes(mount, inode, err);
}

static int parse_ttl(struct span value, int64_t *ret_seconds, struct err *err)
{
    if (number_is_json(value) && number_to_int64(value, ret_seconds) && *ret_seconds > 0)
        return 0;
    return err_set(err, EINVAL, "a TTL is epoch seconds, a whole number above 0");
}

static int set_stream(struct mount *mount, struct inode *inode, struct span value, struct err *err)
{
    bool on = span_equal(value, span_text("enabled")) || span_equal(value, span_text("on"));
    if (!on && !span_equal(value, span_text("disabled")) && !span_equal(value, span_text("off")))
        return err_set(err, EINVAL, "a stream is \"enabled\" or \"disabled\"");
    if (volume_table(inode->volume)->stream == on)
        return 0;
    struct table *table = table_copy(volume_table(inode->volume));
    if (!table)
        return -ENOMEM;
    table->stream = on;
    int code = backend_alter_table(inode->volume->backend, table, err);
    if (code == 0)
        code = volume_load(mount, span_text(table->name), err);
    table_free(table);
    return code;
}

int fs_xattr_set(struct mount *mount, struct inode *inode, struct span name, struct span value,
                 int flags, bool *ret_rewritten, struct err *err)
{
    *ret_rewritten = false;
    struct update update;
    if (inode->kind == INODE_ITEM && update_from_xattr(own_name(name), value, &update))
        return flags & XATTR_REPLACE ? -ENODATA : fs_update(mount, inode, &update, err);
    enum attribute attribute = attribute_of(name);
    if (attribute == ATTRIBUTE_NONE)
        return -EOPNOTSUPP;
    bool file = inode->kind == INODE_ITEM || inode->kind == INODE_FILE;
    if (attribute == ATTRIBUTE_TTL && file) {
        int64_t seconds;
        int code = parse_ttl(value, &seconds, err);
        if (code < 0)
            return code;
        if (inode->kind == INODE_ITEM && seconds <= clock_now_s())
            return err_set(err, EINVAL, "a TTL in the past would remove the item at once: rm does");
        if ((flags & XATTR_CREATE) && inode->meta.ttl > 0)
            return -EEXIST;
        if ((flags & XATTR_REPLACE) && inode->meta.ttl <= 0)
            return -ENODATA;
        return inode->kind == INODE_ITEM ? set_item_ttl(mount, inode, seconds, ret_rewritten, err)
                                         : set_scratch_ttl(mount, inode, seconds, err);
    }
    if (attribute == ATTRIBUTE_STREAM && inode->kind == INODE_TABLE)
        return set_stream(mount, inode, value, err);
    return 0; /* derived: accepted, ignored */
}

int fs_xattr_remove(struct mount *mount, struct inode *inode, struct span name, bool *ret_rewritten,
                    struct err *err)
{
    *ret_rewritten = false;
    enum attribute attribute = attribute_of(name);
    if (attribute == ATTRIBUTE_NONE)
        return -EOPNOTSUPP;
    if (attribute != ATTRIBUTE_TTL || (inode->kind != INODE_ITEM && inode->kind != INODE_FILE))
        return 0;
    if (inode->meta.ttl <= 0)
        return -ENODATA;
    return inode->kind == INODE_ITEM ? set_item_ttl(mount, inode, 0, ret_rewritten, err)
                                     : set_scratch_ttl(mount, inode, 0, err);
}
