/* SPDX-License-Identifier: MIT */
/* Between the body that a backend stores and the bytes that a file shows. Pure. */
#include "fs/mount.h"

#include <errno.h>

int content_show(const struct table *table, struct key key, struct item_meta *meta,
                 struct span body, struct buf *out, struct span *ret_shown, struct err *err)
{
    if (table->format == FORMAT_PLAIN) {
        *ret_shown = body.data ? body : span_of("", 0);
        return 0;
    }
    buf_clear(out);
    int code = item_body_to_typed_file(table, key, body, meta->ttl, out, err);
    if (code == 0)
        code = buf_error(out);
    if (code == 0) {
        *ret_shown = buf_span(out);
        meta->size = out->len;
    }
    return code;
}

int content_stored(struct action *action, struct backend *backend, struct buf *out, struct err *err)
{
    if (backend_can(backend, BACKEND_KEEPS_BYTES) && !action->table->profile)
        return 0;
    buf_clear(out);
    int code = backend_body(backend, action, out, err);
    if (code == 0)
        action->body = buf_span(out);
    return code;
}

/* Each step that changes the body moves it to OUT; BODY follows. */
static int replace_body(struct buf *next, struct buf *out, struct span *body)
{
    if (buf_error(next))
        return buf_error(next);
    struct buf old = *out;
    *out = *next;
    *next = old;
    *body = out->data ? buf_span(out) : span_of("", 0);
    return 0;
}

int content_store(const struct table *table, struct key key, struct span file, int64_t old_ttl,
                  enum ttl_rule rule, struct buf *out, int64_t *ret_ttl, bool *ret_rekeyed,
                  struct err *err)
{
    cleanup(buf_release) struct buf next;
    buf_init(&next, SIZE_MAX / 2);
    struct span body = file;
    int code = 0;
    *ret_ttl = old_ttl;
    if (ret_rekeyed)
        *ret_rekeyed = false;
    bool changed = false;
    if (table->format == FORMAT_TYPED && file.len > 0) {
        code = item_body_from_typed_file(table, key, file, &next, ret_ttl, err);
        if (code == 0)
            code = replace_body(&next, out, &body);
        changed = true;
    }
    struct item_facts facts = {0};
    if (code == 0)
        code = item_examine(table, key, body, &facts, NULL, err);
    if (code == 0 && facts.key_differs) {
        buf_clear(&next);
        code = item_fit_key(table, key, body, &next, err);
        if (code == 0)
            code = replace_body(&next, out, &body);
        changed = true;
        if (ret_rekeyed)
            *ret_rekeyed = true;
    }
    bool kept = rule == TTL_KEPT && facts.is_object && !facts.has_ttl && old_ttl > 0;
    bool set = rule == TTL_SET && (facts.is_object || (facts.is_empty && old_ttl > 0));
    if (code == 0 && (kept || set) && !table->ttl_beside) {
        buf_clear(&next);
        code = item_set_ttl(table, body, old_ttl, &next, err);
        if (code == 0)
            code = replace_body(&next, out, &body);
        changed = true;
    }
    return code < 0 ? code : changed;
}
