/* SPDX-License-Identifier: MIT */
/* The stored keys of rows, and the shown ones. */
#include <errno.h>
#include <inttypes.h>

#include "backend/profile/akka_private.h"
#include "base/cleanup.h"

/* Those of states are always the same. */
static struct akka_rules rules_of(const struct profile_table *table)
{
    const struct profile_value *options = table->options;
    struct akka_rules rules = {.partition = AKKA_PERSISTENCE_ID_BASED, .sort = AKKA_WHOLE_ID};

    rules.separator = span_text(options[SEPARATOR].text);
    rules.shard_count = (int32_t)options[SHARD_COUNT].count;
    if (!table_sorted(table->shown))
        return rules;
    rules.partition = (enum akka_partition)options[PARTITION_KEY_RESOLVER].count;
    rules.sort = (enum akka_sort)options[SORT_KEY_RESOLVER].count;
    rules.padded = options[PADDED].on;
    return rules;
}

/* Appends the part ATTRIBUTE of the stored key. */
static int add_part(const struct profile_table *table, bool sort_part, struct key shown,
                    int64_t sequence, struct buf *out, struct err *err)
{
    const struct key_attribute *part = sort_part ? &table->stored->sort : &table->stored->partition;
    const struct akka_rules rules = rules_of(table);

    if (key_attribute_equal(part, &table->shown->partition))
        buf_add_span(out, shown.partition);
    else if (key_attribute_equal(part, &table->shown->sort))
        buf_add_span(out, shown.sort);
    else if (sort_part)
        return akka_sort_key(&rules, shown.partition, sequence, out, err);
    else
        return akka_partition_key(&rules, shown.partition, sequence, out, err);
    return buf_error(out);
}

int akka_store_key(const struct profile_table *table, struct key shown, struct buf *partition,
                   struct buf *sort, struct err *err)
{
    int64_t sequence = 0;
    int code = akka_check_id(shown.partition, err);

    if (code == 0 && table_sorted(table->shown))
        code = akka_sequence(shown.sort, &sequence, err);
    if (code == 0)
        code = add_part(table, false, shown, sequence, partition, err);
    return code ? code : add_part(table, true, shown, sequence, sort, err);
}

static struct span text_of(const struct value *item, const struct key_attribute *attribute)
{
    const struct value *value = value_member(item, span_text(attribute->name));

    return value && value->type == attribute->type ? value_text(value) : span_of(NULL, 0);
}

/* Appends the parts of the shown key as ITEM's own attributes tell. */
int akka_show_key(const struct profile_table *table, const struct value *item,
                  struct buf *partition, struct buf *sort, struct err *err)
{
    const struct table *shown = table->shown;
    struct span id = text_of(item, &shown->partition);
    int64_t sequence;

    if (id.len == 0 && !table_sorted(table->shown)) /* whose sort key is the id */
        id = text_of(item, &table->stored->sort);
    if (id.len == 0)
        return err_set(err, EINVAL, "it has no \"%s\" (S)", shown->partition.name);
    buf_add_span(partition, id);
    if (!table_sorted(shown))
        return buf_error(partition);
    if (akka_sequence(text_of(item, &shown->sort), &sequence, NULL) < 0)
        return err_set(err, EINVAL, "its \"%s\" (N) is no whole number from 0 to %" PRId64,
                       shown->sort.name, INT64_MAX);
    buf_addf(sort, "%" PRId64, sequence);
    return buf_error(partition) ? buf_error(partition) : buf_error(sort);
}

/* The id that the partition key of a stored row begins with; of length 0: it does not tell. */
static struct span guess_id(const struct profile_table *table, struct key stored)
{
    const struct akka_rules rules = rules_of(table);
    size_t len = stored.partition.len;

    if (!table_sorted(table->shown))
        return stored.sort;
    if (key_attribute_equal(&table->stored->partition, &table->shown->partition))
        return stored.partition;
    if (rules.partition == AKKA_PERSISTENCE_ID_BASED)
        return span_of(NULL, 0);
    while (len > 0 && stored.partition.data[len - 1] != '-')
        len--;
    return span_of(stored.partition.data, len ? len - 1 : 0);
}

/* The number that the sort key of a stored row ends in. */
static struct span guess_number(const struct profile_table *table, struct key stored)
{
    struct span sort = stored.sort;

    if (key_attribute_equal(&table->stored->sort, &table->shown->sort))
        return sort;
    if (sort.len > AKKA_SEQUENCE_DIGITS)
        sort = span_from(sort, sort.len - AKKA_SEQUENCE_DIGITS);
    while (sort.len > 1 && sort.data[0] == '0')
        sort = span_from(sort, 1);
    return sort;
}

/* What was guessed is right where the resolvers lead back. */
int akka_guess_key(const struct profile_table *table, struct key stored, struct buf *partition,
                   struct buf *sort)
{
    cleanup(buf_release) struct buf made_partition;
    cleanup(buf_release) struct buf made_sort;
    struct key shown = {guess_id(table, stored), {NULL, 0}};
    struct key made;

    buf_init(&made_partition, KEY_PART_MAX);
    buf_init(&made_sort, KEY_PART_MAX);
    if (table_sorted(table->shown))
        shown.sort = guess_number(table, stored);
    if (akka_store_key(table, shown, &made_partition, &made_sort, NULL) < 0)
        return 1;
    made = (struct key){buf_span(&made_partition), buf_span(&made_sort)};
    if (!key_equal(made, stored))
        return 1;
    buf_add_span(partition, shown.partition);
    buf_add_span(sort, shown.sort);
    return buf_error(partition) ? buf_error(partition) : buf_error(sort);
}
