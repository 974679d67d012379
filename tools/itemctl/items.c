/* SPDX-License-Identifier: MIT */
/* put, get, delete, ttl */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/item.h"
#include "base/number.h"
#include "base/text.h"
#include "tools/itemctl/arguments.h"
#include "tools/itemctl/batch.h"
#include "tools/itemctl/documents.h"
#include "tools/itemctl/itemctl.h"
#include "tools/itemctl/keys.h"
#include "tools/itemctl/output.h"

#define FILE_MAX (1024u << 20) /* of items that are checked before the first is put */
#define TTL_TRIES 100

/* ---- put ---- */

static const struct option_spec put_options[] = {
    {"--item", 1, false}, {"--items", 1, false}, {NULL, 0, false}};

struct put {
    struct ctl *ctl;
    struct batch batch;
    struct buf lines; /* what was put, one typed item a line */
    bool dry;         /* only checks */
    uint64_t count;
};

static int put_flush(struct put *put, struct err *err)
{
    uint64_t count = put->batch.count;
    int r = put->dry ? 0 : batch_write(&put->batch, err);

    if (put->dry)
        batch_clear(&put->batch);
    put->count += r == 0 && !put->dry ? count : 0;
    if (r == 0 && put->ctl->json)
        r = output_write(buf_span(&put->lines), err);
    buf_clear(&put->lines);
    return r;
}

/* The last item of the batch as a line of output. */
static int put_line(struct put *put, struct err *err)
{
    int r = batch_last(&put->batch, &put->lines, err);

    buf_add_char(&put->lines, '\n');
    return r < 0 ? r : buf_error(&put->lines);
}

static int put_item(void *context, struct span item, struct err *err)
{
    struct put *put = context;
    int r = batch_add(&put->batch, item, err);

    if (r == 0 && !put->dry && put->ctl->json)
        r = put_line(put, err);
    return r == 0 && batch_full(&put->batch) ? put_flush(put, err) : r;
}

/* One round over the file: first DRY, then for good. */
static int put_round(struct put *put, const char *file, bool single, struct span text)
{
    struct err reason = {""};
    int r;

    if (!single) {
        r = document_items(file, text, put_item, put, &put->ctl->err);
        return r < 0 ? r : put_flush(put, &put->ctl->err);
    }
    r = put_item(put, text, &reason);
    if (r == 0)
        r = put_flush(put, &reason);
    return r < 0 ? err_set(&put->ctl->err, -r, "%s: %s", file, err_text(&reason, r)) : 0;
}

static int put_file(struct put *put, const char *file, bool single)
{
    cleanup(buf_release) struct buf text;
    int r;

    buf_init(&text, FILE_MAX);
    r = document_read(file, &text, &put->ctl->err);
    if (r < 0)
        return STATUS_FAILED;
    put->dry = true;
    r = put_round(put, file, single, buf_span(&text));
    put->dry = false;
    if (r == 0)
        r = put_round(put, file, single, buf_span(&text));
    if (r == 0 && !put->ctl->json) {
        char line[64];

        snprintf(line, sizeof line, "%llu item%s put\n", (unsigned long long)put->count,
                 put->count == 1 ? "" : "s");
        r = output_text(line, &put->ctl->err);
    }
    return r;
}

static int run_put(struct ctl *ctl)
{
    const char *item = arguments_value(ctl->arguments, "--item");
    const char *items = arguments_value(ctl->arguments, "--items");
    cleanup(subject_release) struct subject subject = {0};
    struct put *put;
    int r;

    if (!item == !items)
        return ctl_usage(ctl, "put needs --item FILE or --items FILE");
    r = subject_open(ctl, &subject);
    if (r < 0)
        return r;
    put = calloc(1, sizeof *put);
    if (!put)
        return -ENOMEM;
    put->ctl = ctl;
    batch_init(&put->batch, &subject);
    buf_init(&put->lines, UINT32_MAX);
    r = put_file(put, item ? item : items, item != NULL);
    batch_release(&put->batch);
    buf_release(&put->lines);
    free(put);
    return r;
}

const struct command command_put = {
    .name = "put",
    .usage = "TABLE --item FILE | --items FILE",
    .summary = "Store items given as typed JSON; each replaces what is there",
    .options = put_options,
    .least = 1,
    .most = 1,
    .access = COMMAND_WRITES,
    .run = run_put,
};

/* ---- one item by its key ---- */

static const struct option_spec key_options[] = {
    {"-k", 1, false}, {"--sort-key", 1, false}, {NULL, 0, false}};

struct target {
    struct subject subject;
    struct key_bytes key;
    struct buf body;
    struct item_meta meta;
};

static void target_release(struct target *target)
{
    subject_release(&target->subject);
    key_bytes_release(&target->key);
    buf_release(&target->body);
}

static int target_open(struct ctl *ctl, struct target *target)
{
    int r;

    *target = (struct target){0};
    key_bytes_init(&target->key);
    r = subject_open(ctl, &target->subject);
    if (r < 0)
        return r;
    buf_init(&target->body, target->subject.backend->max_item_size + (1u << 20));
    return key_from_options(ctl, target->subject.table, &target->key);
}

static int target_get(struct ctl *ctl, struct target *target)
{
    buf_clear(&target->body);
    return backend_get(target->subject.backend, target->subject.table, key_bytes_key(&target->key),
                       &target->meta, &target->body, &ctl->err);
}

/* ---- get ---- */

/* An attribute a line. */
static int show_item(const struct target *target, struct err *err)
{
    static const char *const heads[] = {"ATTRIBUTE", "TYPE", "VALUE"};
    struct span body = buf_span(&target->body);
    cleanup(value_release) struct value item = {0};
    cleanup(grid_release) struct grid grid;
    cleanup(buf_release) struct buf text;
    int r = item_from_body(target->subject.table, key_bytes_key(&target->key), body,
                           item_ttl_beside(body, target->meta.ttl), &item, err);

    grid_init(&grid, heads, 3);
    buf_init(&text, UINT32_MAX);
    if (r < 0)
        return r;
    for (size_t i = 0; i < item.map.count; i++) {
        const struct member *member = &item.map.members[i];

        buf_clear(&text);
        if (member->value.type == VALUE_S || member->value.type == VALUE_N)
            buf_add_span(&text, value_text(&member->value));
        else
            value_to_plain(&member->value, (struct value_style){.sort = true}, &text);
        grid_add(&grid, span_of(member->name, member->name_len));
        grid_addf(&grid, "%s", value_type_name(member->value.type));
        grid_add(&grid, buf_span(&text));
    }
    return grid_print(&grid, err);
}

static struct record target_record(const struct target *target)
{
    return (struct record){
        .key = key_bytes_key(&target->key),
        .meta = target->meta,
        .body = buf_span(&target->body),
    };
}

static int print_item(const struct target *target, struct err *err)
{
    const struct record record = target_record(target);
    struct item_output output;
    int r;

    item_output_init(&output, target->subject.table, true, err);
    r = item_output_add(&output, &record);
    if (r == 0)
        r = item_output_flush(&output);
    item_output_release(&output);
    return r;
}

static const struct option_spec get_options[] = {
    {"-k", 1, false}, {"--sort-key", 1, false}, {"--raw", 1, false}, {NULL, 0, false}};

static int run_get(struct ctl *ctl)
{
    const char *column = arguments_value(ctl->arguments, "--raw");
    cleanup(target_release) struct target target;
    int r = target_open(ctl, &target);

    if (r == 0)
        r = target_get(ctl, &target);
    if (r)
        return r;
    if (column) {
        const struct record record = target_record(&target);

        return item_output_raw(target.subject.table, &record, column, &ctl->err);
    }
    return ctl->json ? print_item(&target, &ctl->err) : show_item(&target, &ctl->err);
}

const struct command command_get = {
    .name = "get",
    .usage = "TABLE -k KEY [--sort-key KEY] [--raw ATTR]",
    .summary = "Print an item, or the bytes of one of its attributes",
    .options = get_options,
    .least = 1,
    .most = 1,
    .run = run_get,
};

/* ---- delete ---- */

static int run_delete(struct ctl *ctl)
{
    cleanup(target_release) struct target target;
    int r = target_open(ctl, &target);

    if (r)
        return r;
    struct action action = {
        .kind = ACTION_DELETE,
        .table = target.subject.table,
        .key = key_bytes_key(&target.key),
        .condition.kind = COND_EXISTS,
    };
    return backend_write(target.subject.backend, &action, 1, 0, &ctl->err);
}

const struct command command_delete = {
    .name = "delete",
    .usage = "TABLE -k KEY [--sort-key KEY]",
    .summary = "Delete an item",
    .options = key_options,
    .least = 1,
    .most = 1,
    .access = COMMAND_WRITES,
    .run = run_delete,
};

/* ---- ttl ---- */

static int print_ttl(struct ctl *ctl, const struct target *target)
{
    cleanup(buf_release) struct buf text;

    buf_init(&text, 256);
    if (target->meta.ttl > 0)
        buf_addf(&text, ctl->json ? "{\"TimeToLive\": %lld}\n" : "%lld (",
                 (long long)target->meta.ttl);
    else
        buf_add_text(&text, ctl->json ? "{\"TimeToLive\": null}\n" : "none\n");
    if (!ctl->json && target->meta.ttl > 0) {
        text_time_s(target->meta.ttl, &text);
        buf_add_text(&text, ")\n");
    }
    return buf_error(&text) ? buf_error(&text) : output_write(buf_span(&text), &ctl->err);
}

/* The same item with another TTL: in its body, or beside a body that is no object. */
static int write_ttl(struct target *target, int64_t seconds, struct err *err)
{
    struct span body = buf_span(&target->body);
    bool beside = body.len && item_ttl_beside(body, 1);
    cleanup(buf_release) struct buf changed;
    struct action action = {
        .kind = ACTION_PUT,
        .table = target->subject.table,
        .key = key_bytes_key(&target->key),
        .condition = {COND_VERSION, target->meta.version},
        .body = body,
        .ttl = seconds,
    };
    int r = 0;

    buf_init(&changed, target->body.max + 1024);
    if (!target->subject.table->ttl_attribute)
        return err_set(err, EINVAL, "table %s has no TTL attribute", target->subject.table->name);
    if (!beside) {
        r = item_set_ttl(target->subject.table, body, seconds, &changed, err);
        action.body = buf_span(&changed);
    }
    if (r == 0)
        r = buf_error(&changed);
    return r < 0 ? r : backend_write(target->subject.backend, &action, 1, 0, err);
}

static int set_ttl(struct ctl *ctl, struct target *target, int64_t seconds)
{
    int r = -ESTALE;

    for (int i = 0; r == -ESTALE && i < TTL_TRIES; i++) {
        err_clear(&ctl->err);
        r = target_get(ctl, target);
        if (r == 0)
            r = write_ttl(target, seconds, &ctl->err);
    }
    return r;
}

static int parse_seconds(struct ctl *ctl, const char *text, int64_t *ret_seconds)
{
    bool from_now = text[0] == '+';
    struct span digits = span_text(text + from_now);
    int64_t now_s = clock_now_s(), seconds;

    *ret_seconds = 0;
    if (strcmp(text, "none") == 0)
        return 0;
    if (!number_is_json(digits) || !number_to_int64(digits, &seconds) || seconds <= 0 ||
        (from_now && seconds > INT64_MAX - now_s))
        return ctl_usage(ctl, "\"%s\" is no time: give seconds since 1970, +SECONDS, or none",
                         text);
    if (!from_now && seconds <= now_s)
        return ctl_usage(ctl,
                         "%s is a time in the past, at which the item is gone at once: from now on "
                         "is +%s, and delete removes an item",
                         text, text);
    *ret_seconds = from_now ? now_s + seconds : seconds;
    return 0;
}

static int run_ttl(struct ctl *ctl)
{
    cleanup(target_release) struct target target;
    const char *text = ctl->arguments->rest_count > 1 ? ctl->arguments->rest[1] : NULL;
    int64_t seconds = 0;
    int r = target_open(ctl, &target);

    if (r == 0 && text)
        r = parse_seconds(ctl, text, &seconds);
    if (r)
        return r;
    if (text)
        return set_ttl(ctl, &target, seconds);
    r = target_get(ctl, &target);
    return r < 0 ? r : print_ttl(ctl, &target);
}

const struct command command_ttl = {
    .name = "ttl",
    .usage = "TABLE -k KEY [--sort-key KEY] [EPOCH|+SECONDS|none]",
    .summary = "Print or set when an item expires, in seconds since 1970",
    .options = key_options,
    .least = 1,
    .most = 2,
    .run = run_ttl,
};
