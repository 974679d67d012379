/* SPDX-License-Identifier: MIT */
/* Between the service's items and this project's bodies. */
#include <errno.h>
#include <stdlib.h>

#include "backend/check.h"
#include "backend/dynamodb/service.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/number.h"
#include "base/text.h"

/* The service keeps no versions: what an item holds is its version. An item that comes to hold what
 * it held before has its old version again, and then nothing was missed. */
uint64_t item_version(const struct value *item)
{
    cleanup(buf_release) struct buf typed;
    char hex[65];

    buf_init(&typed, SIZE_MAX / 8);
    value_map_to_typed(item, &typed); /* members sorted */
    if (buf_error(&typed))
        return 0;
    sha256_hex(buf_span(&typed), hex);
    hex[16] = '\0';
    uint64_t version = strtoull(hex, NULL, 16);
    return version ? version : 1;
}

/* Half, rounded down. */
static long half(long number)
{
    return (number - (number & 1)) / 2;
}

/*
 * A byte, one for each two digits from the first to the last that are no zeros, one for a sign. The
 * service's guide says "approximately" so; that two digits are those of one power of a hundred is
 * how dynalite measured it. TEXT is canonical.
 */
static size_t number_bytes(struct span text)
{
    const char *point = memchr(text.data, '.', text.len);
    long before = point ? point - text.data : (long)text.len; /* the point, or where it would be */
    long first = 0, last = 0;                                 /* powers of ten */
    bool found = false;

    for (long i = 0; i < (long)text.len; i++) {
        if (text.data[i] < '1' || text.data[i] > '9')
            continue;
        last = i < before ? before - 1 - i : before - i;
        first = found ? first : last;
        found = true;
    }
    if (!found)
        return 1;
    return 2 + (size_t)(half(first) - half(last)) + (text.data[0] == '-');
}

static size_t value_bytes(const struct value *value)
{
    size_t bytes = 0;

    switch (value->type) {
    case VALUE_S:
    case VALUE_B: return value->text.len;
    case VALUE_N: return number_bytes(value_text(value));
    case VALUE_BOOL:
    case VALUE_NULL: return 1;
    case VALUE_M:
        for (size_t i = 0; i < value->map.count; i++)
            bytes += value->map.members[i].name_len + value_bytes(&value->map.members[i].value) + 1;
        return bytes + 3;
    default:
        for (size_t i = 0; i < value->list.count; i++)
            bytes += value_bytes(&value->list.items[i]) + (value->type == VALUE_L);
        return bytes + (value->type == VALUE_L ? 3 : 0);
    }
}

size_t member_bytes(const struct member *member)
{
    return member->name_len + value_bytes(&member->value);
}

size_t item_bytes(const struct value *item)
{
    size_t bytes = 0;

    for (size_t i = 0; i < item->map.count; i++)
        bytes += member_bytes(&item->map.members[i]);
    return bytes;
}

bool item_hidden(const struct table *table, int64_t ttl)
{
    int64_t now_s = clock_now_s();

    return item_gone(table, ttl, now_s) && ttl > now_s - ITEM_LONG_GONE_S;
}

/* What the service has is none of our items, as no writer of ours nor DynamoDB itself lets be made:
 * its fault, not the caller's. RAW is the item, of which the key at least may be to be had. */
static int refuse_item(const struct table *table, struct span raw, int code, const struct err *own,
                       struct err *err)
{
    const char *names[] = {table->partition.name, table->sort.name};
    cleanup(buf_release) struct buf only, partition, sort;
    cleanup(value_release) struct value item = {0};

    buf_init(&only, DYNAMODB_BODY_MAX);
    buf_init(&partition, KEY_PART_MAX);
    buf_init(&sort, KEY_PART_MAX);
    if (code == -ENOMEM)
        return code;
    buf_add_char(&only, '{');
    for (size_t i = 0; i < 2; i++) {
        struct span part;
        if (names[i] && reply_member(raw, names[i], &part))
            request_raw(&only, names[i], part);
    }
    buf_add_char(&only, '}');
    bool named = buf_error(&only) == 0 &&
                 item_from_typed(table, buf_span(&only), &item, &partition, &sort, NULL) == 0;
    const struct key key = {buf_span(&partition), buf_span(&sort)};
    return err_set(err, EIO, "%s: the service has an item that cannot be shown: %s",
                   named ? item_label(table, key).text : table->name, err_text(own, code));
}

int item_line_from_reply(const struct table *table, struct span raw, struct buf *partition,
                         struct buf *sort, struct item_meta *ret_meta, struct buf *body,
                         struct err *err)
{
    cleanup(value_release) struct value item = {0};
    struct err own = {""};
    int r = item_from_typed(table, raw, &item, partition, sort, &own);

    if (r < 0)
        return refuse_item(table, raw, r, &own, err);
    *ret_meta = (struct item_meta){.ttl = item_ttl(table, &item)};
    value_sort_sets(&item);
    value_map_to_typed(&item, body);
    return buf_error(body);
}

int item_from_reply(const struct table *table, struct span raw, struct buf *partition,
                    struct buf *sort, struct item_meta *ret_meta, struct buf *body, struct err *err)
{
    cleanup(value_release) struct value item = {0};
    cleanup(buf_release) struct buf text;
    struct err own = {""};
    int64_t beside;
    int r = item_from_typed(table, raw, &item, partition, sort, &own);

    buf_init(&text, DYNAMODB_BODY_MAX);
    if (r == 0)
        r = value_canonical(&item, &own);
    if (r == 0)
        r = item_to_body(table, &item, &text, &beside, &own);
    if (r == 0)
        r = buf_error(&text);
    if (r < 0)
        return refuse_item(table, raw, r, &own, err);
    *ret_meta = (struct item_meta){
        .version = item_version(&item), .size = text.len, .ttl = item_ttl(table, &item)};
    if (body)
        buf_add_span(body, buf_span(&text));
    return body ? buf_error(body) : 0;
}
