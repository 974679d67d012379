/* SPDX-License-Identifier: MIT */
#include "tools/itemctl/akka_rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/item.h"

#define PAGE_ITEMS 256
#define KEPT_MAX (1u << 30) /* bytes of rows that are kept until all are there */

/* A row that is kept; its bytes are in the reading's buffer, one behind the other. */
struct kept {
    size_t at; /* the id, then both parts of the key, then the body */
    size_t id_len, partition_len, sort_len, body_len;
    int64_t sequence;
    struct item_meta meta;
};

struct reading {
    struct ctl *ctl;
    const struct subject *subject;
    const struct akka_columns *columns;
    const struct akka_question *question;
    akka_row_fn each;
    void *context;
    int64_t given;
    bool sorting; /* rows come in another order, and are kept */
    struct buf bytes;
    struct kept *kept;
    size_t count, room;
};

/* ---- a row ---- */

static struct span text_of(const struct value *item, const char *column, enum value_type type)
{
    const struct value *value = value_member(item, span_text(column));

    return value && value->type == type ? value_text(value) : span_of(NULL, 0);
}

static bool is_deleted(const struct reading *reading, const struct value *item)
{
    const struct value *value = value_member(item, span_text(reading->columns->deleted));

    return value && value->type == VALUE_BOOL && value->boolean;
}

/* Whether it is asked for; RET_SEQUENCE where it has one, else -1. */
static bool is_wanted(const struct reading *reading, const struct value *item,
                      int64_t *ret_sequence)
{
    const struct akka_question *question = reading->question;
    struct span id = text_of(item, reading->columns->persistence_id, VALUE_S);
    int64_t sequence = -1;

    akka_sequence(text_of(item, reading->columns->sequence_nr, VALUE_N), &sequence, NULL);
    *ret_sequence = sequence;
    if (question->id.len &&
        (!span_equal(id, question->id) || sequence < question->from || sequence > question->to))
        return false;
    if (question->tag.len &&
        !akka_has_tag(text_of(item, reading->columns->tags, VALUE_S), question->tag))
        return false;
    return question->deleted == AKKA_DELETED_TOO ||
           (question->deleted == AKKA_DELETED_ONLY) == is_deleted(reading, item);
}

static int read_item(const struct reading *reading, const struct record *record,
                     struct value *ret_item)
{
    return item_from_body(reading->subject->table, record->key, record->body,
                          item_ttl_beside(record->body, record->meta.ttl), ret_item,
                          &reading->ctl->err);
}

static int keep(struct reading *reading, const struct record *record, const struct value *item,
                int64_t sequence)
{
    struct span id = text_of(item, reading->columns->persistence_id, VALUE_S);
    size_t room = reading->room ? 2 * reading->room : 64;

    if (reading->count == reading->room) {
        struct kept *grown = reallocarray(reading->kept, room, sizeof *grown);

        if (!grown)
            return -ENOMEM;
        reading->kept = grown;
        reading->room = room;
    }
    reading->kept[reading->count++] = (struct kept){.at = reading->bytes.len,
                                                    .id_len = id.len,
                                                    .partition_len = record->key.partition.len,
                                                    .sort_len = record->key.sort.len,
                                                    .body_len = record->body.len,
                                                    .sequence = sequence,
                                                    .meta = record->meta};
    buf_add_span(&reading->bytes, id);
    buf_add_span(&reading->bytes, record->key.partition);
    buf_add_span(&reading->bytes, record->key.sort);
    buf_add_span(&reading->bytes, record->body);
    if (buf_error(&reading->bytes) == -EFBIG)
        return err_set(&reading->ctl->err, EFBIG, "there are too many rows to put them in order");
    return buf_error(&reading->bytes);
}

/* 1: no more are wanted. */
static int take(void *context, const struct record *record)
{
    struct reading *reading = context;
    cleanup(value_release) struct value item = {0};
    int64_t sequence;
    int r = read_item(reading, record, &item);

    if (r < 0 || !is_wanted(reading, &item, &sequence))
        return r;
    if (reading->sorting)
        return keep(reading, record, &item, sequence);
    r = reading->each(reading->context, record, &item);
    if (r == 0 && ++reading->given == reading->question->most)
        r = 1;
    return r;
}

/* ---- in order ---- */

static int compare(const void *a, const void *b, void *context)
{
    const struct kept *left = a, *right = b;
    const char *bytes = context;
    int order = span_compare(span_of(bytes + left->at, left->id_len),
                             span_of(bytes + right->at, right->id_len));

    return order ? order : (left->sequence > right->sequence) - (left->sequence < right->sequence);
}

static struct record kept_record(const struct reading *reading, const struct kept *kept)
{
    const char *at = reading->bytes.data + kept->at + kept->id_len;
    struct record record = {.meta = kept->meta};

    record.key.partition = span_of(at, kept->partition_len);
    record.key.sort = span_of(at + kept->partition_len, kept->sort_len);
    record.body = span_of(at + kept->partition_len + kept->sort_len, kept->body_len);
    return record;
}

static int give_sorted(struct reading *reading)
{
    const struct akka_question *question = reading->question;
    size_t count = reading->count;
    int r = 0;

    if (count)
        qsort_r(reading->kept, count, sizeof *reading->kept, compare, reading->bytes.data);
    if (question->most >= 0 && (uint64_t)question->most < count)
        count = (size_t)question->most;
    for (size_t i = 0; r == 0 && i < count; i++) {
        size_t at = question->reverse ? reading->count - 1 - i : i;
        const struct record record = kept_record(reading, &reading->kept[at]);
        cleanup(value_release) struct value item = {0};

        r = read_item(reading, &record, &item);
        if (r == 0)
            r = reading->each(reading->context, &record, &item);
    }
    return r;
}

/* ---- where they come from ---- */

static bool is_attribute(const struct key_attribute *attribute, const char *name,
                         enum value_type type)
{
    return attribute->name && attribute->type == type && strcmp(attribute->name, name) == 0;
}

static bool orders_rows(const struct akka_columns *columns, const struct key_attribute *partition,
                        const struct key_attribute *sort)
{
    return is_attribute(partition, columns->persistence_id, VALUE_S) &&
           is_attribute(sort, columns->sequence_nr, VALUE_N);
}

/* Whether something has ids and numbers as its key: the index RET_INDEX, or the table (NULL). */
static bool find_order(const struct table *table, const struct akka_columns *columns,
                       const struct index **ret_index)
{
    *ret_index = NULL;
    if (orders_rows(columns, &table->partition, &table->sort))
        return true;
    for (size_t i = 0; i < table->index_count; i++)
        if (!table->indexes[i].partial &&
            orders_rows(columns, &table->indexes[i].partition, &table->indexes[i].sort)) {
            *ret_index = &table->indexes[i];
            return true;
        }
    return false;
}

static const struct index *find_tags(const struct table *table, const struct akka_columns *columns)
{
    for (size_t i = 0; i < table->index_count; i++)
        if (!table->indexes[i].partial &&
            is_attribute(&table->indexes[i].partition, columns->tags, VALUE_S))
            return &table->indexes[i];
    return NULL;
}

static int query_id(struct reading *reading, const struct index *index)
{
    const struct akka_question *question = reading->question;
    char from[24], to[24];
    struct query query = {.index = index, .partition = question->id, .reverse = question->reverse};

    snprintf(from, sizeof from, "%" PRId64, question->from);
    snprintf(to, sizeof to, "%" PRId64, question->to);
    query.has_from = question->from > 0;
    query.has_to = question->to < INT64_MAX;
    query.from = span_text(from);
    query.to = span_text(to);
    if (question->deleted == AKKA_DELETED_TOO && question->most > 0)
        query.limit = (size_t)question->most;
    return backend_query(reading->subject->backend, reading->subject->table, &query, take, reading,
                         &reading->ctl->err);
}

/* The values of an index that hold the tag, each behind its length: nothing can be asked while they
 * are being told. */
struct tag_values {
    struct span tag;
    struct buf values;
};

static int take_value(void *context, struct span part)
{
    struct tag_values *found = context;

    if (!akka_has_tag(part, found->tag))
        return 0;
    buf_add(&found->values, &part.len, sizeof part.len);
    buf_add_span(&found->values, part);
    return buf_error(&found->values);
}

static struct span next_value(struct span *rest)
{
    struct span value = {NULL, 0};

    memcpy(&value.len, rest->data, sizeof value.len);
    *rest = span_from(*rest, sizeof value.len);
    value.data = rest->data;
    *rest = span_from(*rest, value.len);
    return value;
}

static int query_tags(struct reading *reading, const struct index *index)
{
    struct backend *backend = reading->subject->backend;
    const struct table *table = reading->subject->table;
    struct err *err = &reading->ctl->err;
    struct tag_values found = {.tag = reading->question->tag};
    int r;

    buf_init(&found.values, KEPT_MAX);
    r = backend_index_values(backend, table, index, take_value, &found, err);
    for (struct span rest = buf_span(&found.values); r == 0 && rest.len;) {
        const struct query query = {.index = index, .partition = next_value(&rest)};

        r = backend_query(backend, table, &query, take, reading, err);
    }
    buf_release(&found.values);
    return r;
}

static int scan_all(struct reading *reading)
{
    const struct scan_range range = {.bodies = true};
    struct err *err = &reading->ctl->err;
    struct scan *scan = NULL;
    int r =
        backend_scan_open(reading->subject->backend, reading->subject->table, &range, &scan, err);

    while (r == 0 && !scan->ended)
        r = backend_scan_next(scan, PAGE_ITEMS, take, reading, err);
    backend_scan_close(scan);
    return r;
}

static void tell_scan(const struct reading *reading, const char *of, const char *column)
{
    fprintf(stderr,
            "itemctl: table %s has no index of %s \"%s\", with whole rows: all of it is read\n",
            reading->subject->table->name, of, column);
}

static int read_id(struct reading *reading)
{
    const struct index *index;

    if (find_order(reading->subject->table, reading->columns, &index))
        return query_id(reading, index);
    tell_scan(reading, "persistence ids", reading->columns->persistence_id);
    reading->sorting = true;
    return scan_all(reading);
}

/* An index has rows under all their tags together: only where its values are listed does it lead to
 * those of one tag. */
static int read_tag(struct reading *reading)
{
    const struct index *index = find_tags(reading->subject->table, reading->columns);

    reading->sorting = true;
    if (index && backend_can(reading->subject->backend, BACKEND_ORDERED))
        return query_tags(reading, index);
    if (!index)
        tell_scan(reading, "tags", reading->columns->tags);
    return scan_all(reading);
}

int akka_rows(struct ctl *ctl, const struct subject *subject, const struct akka_columns *columns,
              const struct akka_question *question, akka_row_fn each, void *context)
{
    struct reading reading = {.ctl = ctl,
                              .subject = subject,
                              .columns = columns,
                              .question = question,
                              .each = each,
                              .context = context};
    int r;

    if (question->most == 0 || question->from > question->to)
        return 0;
    buf_init(&reading.bytes, KEPT_MAX);
    r = question->id.len ? read_id(&reading) : read_tag(&reading);
    if (r == 0 && reading.sorting)
        r = give_sorted(&reading);
    buf_release(&reading.bytes);
    free(reading.kept);
    return r < 0 ? r : 0;
}
