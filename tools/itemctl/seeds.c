/* SPDX-License-Identifier: MIT */
#include "tools/itemctl/seeds.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/item.h"
#include "base/set.h"
#include "tools/itemctl/batch.h"
#include "tools/itemctl/documents.h"
#include "tools/itemctl/files.h"

#define FILE_MAX (1024u << 20)
#define KEYS_MAX (1024u << 20)

void seeds_init(struct seeds *seeds)
{
    *seeds = (struct seeds){0};
    buf_init(&seeds->text, FILE_MAX);
}

void seeds_release(struct seeds *seeds)
{
    free(seeds->file);
    buf_release(&seeds->text);
}

int seeds_find(const char *prefix, const char *name, const char *named, char **ret_file,
               struct err *err)
{
    cleanup_free char *array = NULL, *lines = NULL;
    bool has_array, has_lines;

    if (named) {
        *ret_file = path_make("%s%s", named[0] == '/' ? "" : prefix, named);
        return *ret_file ? 0 : -ENOMEM;
    }
    array = path_make("%sseed/tables/%s.json", prefix, name);
    lines = path_make("%sseed/tables/%s.jsonl", prefix, name);
    if (!array || !lines)
        return -ENOMEM;
    has_array = access(array, F_OK) == 0;
    has_lines = access(lines, F_OK) == 0;
    if (has_array && has_lines)
        return err_set(err, EEXIST, "table %s: both %s and %s are there: name one with \"seed\"",
                       name, array, lines);
    *ret_file = has_array ? strdup(array) : has_lines ? strdup(lines) : NULL;
    return (has_array || has_lines) && !*ret_file ? -ENOMEM : 0;
}

/* ---- checking ---- */

struct seeds_check {
    const struct subject *subject;
    struct seeds *seeds;
    struct set keys;
    struct packed packed;
    struct buf key;
};

/* Kernstack has no sets: what could not be read there again is no seed. */
static const struct value *find_set(const struct value *value)
{
    const struct value *found = NULL;

    if (value->type == VALUE_SS || value->type == VALUE_NS || value->type == VALUE_BS)
        return value;
    for (size_t i = 0; value->type == VALUE_L && !found && i < value->list.count; i++)
        found = find_set(&value->list.items[i]);
    for (size_t i = 0; value->type == VALUE_M && !found && i < value->map.count; i++)
        found = find_set(&value->map.members[i].value);
    return found;
}

static int check_types(struct span item, struct err *err)
{
    cleanup(value_release) struct value map = {0};
    const struct value *set = NULL;
    int r = value_map_from_typed(item, &map, err);

    for (size_t i = 0; r == 0 && !set && i < map.map.count; i++) {
        set = find_set(&map.map.members[i].value);
        if (set)
            r = err_set(err, EINVAL,
                        "\"%.*s\" holds a set (%s): seeds have S, N, B, BIN, L, M, NULL and BOOL; "
                        "put and import take sets",
                        (int)map.map.members[i].name_len, map.map.members[i].name,
                        value_type_name(set->type));
    }
    return r;
}

static int check_item(void *context, struct span item, struct err *err)
{
    struct seeds_check *check = context;
    const struct subject *subject = check->subject;
    struct packed *packed = &check->packed;
    size_t length;
    int r = check_types(item, err);

    if (r == 0)
        r = backend_pack(subject->backend, subject->table, item, packed, err);
    if (r < 0)
        return r;
    length = packed->partition.len;
    buf_clear(&check->key);
    buf_add(&check->key, &length, sizeof length);
    buf_add_span(&check->key, buf_span(&packed->partition));
    buf_add_span(&check->key, buf_span(&packed->sort));
    r = buf_error(&check->key);
    if (r == 0)
        r = set_add(&check->keys, buf_span(&check->key));
    if (r == 0)
        return err_set(err, EINVAL, "a second item with the same key");
    check->seeds->items++;
    return r < 0 ? r : 0;
}

static bool has_suffix(const char *file, const char *suffix)
{
    size_t length = strlen(file), end = strlen(suffix);

    return length >= end && strcmp(file + length - end, suffix) == 0;
}

/* A file's name says which of the two forms it has. */
static int check_form(const char *file, struct span text, struct err *err)
{
    size_t at = 0;

    while (at < text.len && memchr(" \t\r\n", text.data[at], 4))
        at++;
    if (text.len >= 3 && memcmp(text.data, "\xef\xbb\xbf", 3) == 0)
        return err_set(err, EINVAL, "%s:1: the file begins with a byte order mark", file);
    bool array = at < text.len && text.data[at] == '[';
    if (has_suffix(file, ".json") && !array)
        return err_set(err, EINVAL,
                       "%s:1: a .json file of seeds is an array of items; one a line is .jsonl",
                       file);
    if (has_suffix(file, ".jsonl") && array)
        return err_set(err, EINVAL,
                       "%s:1: a .jsonl file of seeds has an item a line; an array is .json", file);
    return 0;
}

int seeds_read(struct seeds *seeds, const struct subject *subject, const char *file,
               struct err *err)
{
    struct seeds_check check = {.subject = subject, .seeds = seeds};
    int r;

    free(seeds->file);
    seeds->file = strdup(file);
    if (!seeds->file)
        return -ENOMEM;
    r = document_read(file, &seeds->text, err);
    if (r == 0)
        r = check_form(file, buf_span(&seeds->text), err);
    if (r < 0)
        return r == -ENOENT || r == -EACCES ? -EINVAL : r; /* a file is no item that is absent */
    set_init(&check.keys, KEYS_MAX);
    packed_init(&check.packed);
    buf_init(&check.key, 4 * KEY_PART_MAX);
    seeds->items = 0;
    r = document_items(file, buf_span(&seeds->text), check_item, &check, err);
    set_release(&check.keys);
    packed_release(&check.packed);
    buf_release(&check.key);
    return r == -ENOENT ? -EINVAL : r;
}

/* ---- putting ---- */

struct seeds_put {
    const struct subject *subject;
    struct seeds *seeds;
    struct batch batch;
    struct packed packed;
    struct buf body;
};

static int read_packed(const struct seeds_put *put, struct key key, struct value *ret_item,
                       struct err *err)
{
    const struct packed *packed = &put->packed;

    return packed->typed ? value_map_from_typed(buf_span(&packed->body), ret_item, err)
                         : item_from_body(put->subject->table, key, buf_span(&packed->body),
                                          packed->ttl, ret_item, err);
}

/* Whether the table has the item just so. 1, 0 or a negative errno. */
static int is_there(struct seeds_put *put, struct span item, struct err *err)
{
    const struct subject *subject = put->subject;
    cleanup(value_release) struct value wanted = {0}, found = {0};
    struct item_meta meta;
    struct err absent = {""};
    int r = backend_pack(subject->backend, subject->table, item, &put->packed, err);

    if (r < 0)
        return r;
    struct key key = {buf_span(&put->packed.partition), buf_span(&put->packed.sort)};
    buf_clear(&put->body);
    r = backend_get(subject->backend, subject->table, key, &meta, &put->body, &absent);
    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return err_set(err, -r, "%s", err_text(&absent, r));
    struct span body = buf_span(&put->body);
    r = read_packed(put, key, &wanted, err);
    if (r == 0)
        r = item_from_body(subject->table, key, body, item_ttl_beside(body, meta.ttl), &found, err);
    return r < 0 ? r : value_equal(&wanted, &found);
}

static int put_item(void *context, struct span item, struct err *err)
{
    struct seeds_put *put = context;
    int r = is_there(put, item, err);

    if (r)
        return r < 0 ? r : 0;
    r = batch_add(&put->batch, item, err);
    put->seeds->put += r == 0;
    return r == 0 && batch_full(&put->batch) ? batch_write(&put->batch, err) : r;
}

int seeds_put(struct seeds *seeds, const struct subject *subject, struct err *err)
{
    struct seeds_put *put = calloc(1, sizeof *put);
    int r;

    if (!put)
        return -ENOMEM;
    put->subject = subject;
    put->seeds = seeds;
    seeds->put = 0;
    batch_init(&put->batch, subject);
    packed_init(&put->packed);
    buf_init(&put->body, subject->backend->max_item_size + (1u << 20));
    r = document_items(seeds->file, buf_span(&seeds->text), put_item, put, err);
    if (r == 0)
        r = batch_write(&put->batch, err);
    if (r == 0 && seeds->put)
        r = backend_sync(subject->backend, err);
    batch_release(&put->batch);
    packed_release(&put->packed);
    buf_release(&put->body);
    free(put);
    return r;
}
