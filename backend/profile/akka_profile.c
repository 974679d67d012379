/* SPDX-License-Identifier: MIT */
/*
 * Tables of akka-persistence-dynamodb: journals, snapshots and states.
 *
 *   Journal/counter-1/0000000000000000007.json    shown key: persistence-id (S), sequence-nr (N)
 *   State/counter-1.json                          shown key: persistence-id (S)
 *
 * The stored key is made of the shown one by the plugin's resolvers (base/akka.h), part by part:
 * tables of its older releases have sequence-nr in the place of skey, or persistence-id, too, in
 * that of pkey. Texts show all attributes, those of both keys too; what a text says of them does
 * not count, its path does. A row whose stored key is not what the resolvers give is none of the
 * table's: a path would not lead to it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/profile/akka_private.h"
#include "base/item.h"
#include "base/text.h"

/* ---- options ---- */

/* In the order of enum akka_partition, and of enum akka_sort. */
static const char *const partition_resolvers[] = {"SequenceNumberBased", "PersistenceIdBased",
                                                  NULL};
static const char *const sort_resolvers[] = {"SeqNr", "PersistenceIdWithSeqNr", NULL};
static const char *const state_resolvers[] = {"PersistenceIdBased", NULL};

#define TEXT_OPTION(option, value)                                                                 \
    {                                                                                              \
        .name = option, .kind = OPTION_TEXT, .normal = value                                       \
    }
#define COMMON_OPTIONS(resolvers)                                                                  \
    {.name = "shard_count",                                                                        \
     .kind = OPTION_COUNT,                                                                         \
     .normal = "64",                                                                               \
     .least = 1,                                                                                   \
     .most = AKKA_SHARDS_MOST},                                                                    \
        TEXT_OPTION("separator", AKKA_SEPARATOR),                                                  \
        {.name = "partition_key_resolver",                                                         \
         .kind = OPTION_WORD,                                                                      \
         .normal = "PersistenceIdBased",                                                           \
         .words = resolvers},                                                                      \
        TEXT_OPTION("partition_key_column", "pkey"), TEXT_OPTION("sort_key_column", "skey"),       \
        TEXT_OPTION("persistence_id_column", "persistence-id"),                                    \
        TEXT_OPTION("deleted_column", "deleted"), TEXT_OPTION("tags_column", "tags"),              \
    {                                                                                              \
        .name = "show_deleted", .kind = OPTION_SWITCH, .normal = "false"                           \
    }
#define ROWS_OPTIONS(index)                                                                        \
    {.name = "sort_key_resolver",                                                                  \
     .kind = OPTION_WORD,                                                                          \
     .normal = "PersistenceIdWithSeqNr",                                                           \
     .words = sort_resolvers},                                                                     \
        {.name = "padded", .kind = OPTION_SWITCH, .normal = "false"},                              \
        TEXT_OPTION("sequence_nr_column", "sequence-nr"), TEXT_OPTION("rows_index", index)

static const struct profile_option journal_options[] = {
    COMMON_OPTIONS(partition_resolvers),
    ROWS_OPTIONS("GetJournalRowsIndex"),
    TEXT_OPTION("tags_index", "TagsIndex"),
    {.name = NULL},
};
static const struct profile_option snapshot_options[] = {
    COMMON_OPTIONS(partition_resolvers),
    ROWS_OPTIONS("GetSnapshotRowsIndex"),
    {.name = NULL},
};
static const struct profile_option state_options[] = {
    COMMON_OPTIONS(state_resolvers),
    {.name = NULL},
};

static const struct profile journal, snapshot, state;

struct akka_columns akka_columns_of(const struct profile *profile,
                                    const struct profile_value *options)
{
    struct akka_columns columns = AKKA_COLUMNS;

    if (profile != &journal && profile != &snapshot && profile != &state)
        return columns;
    columns.partition_key = options[PARTITION_KEY_COLUMN].text;
    columns.sort_key = options[SORT_KEY_COLUMN].text;
    columns.persistence_id = options[PERSISTENCE_ID_COLUMN].text;
    columns.deleted = options[DELETED_COLUMN].text;
    columns.tags = options[TAGS_COLUMN].text;
    if (profile != &state)
        columns.sequence_nr = options[SEQUENCE_NR_COLUMN].text;
    return columns;
}

static int check_columns(const struct profile_value *options, const int *columns, size_t count,
                         struct err *err)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = i + 1; j < count; j++)
            if (strcmp(options[columns[i]].text, options[columns[j]].text) == 0)
                return err_set(err, EINVAL, "two columns have the name \"%s\"",
                               options[columns[i]].text);
    return akka_check_separator(span_text(options[SEPARATOR].text), err);
}

static int check_state(const struct profile_value *options, struct err *err)
{
    static const int columns[] = {PARTITION_KEY_COLUMN, SORT_KEY_COLUMN, PERSISTENCE_ID_COLUMN,
                                  DELETED_COLUMN, TAGS_COLUMN};

    return check_columns(options, columns, sizeof columns / sizeof columns[0], err);
}

static int check_rows(const struct profile_value *options, struct err *err)
{
    static const int columns[] = {PARTITION_KEY_COLUMN, SORT_KEY_COLUMN, PERSISTENCE_ID_COLUMN,
                                  SEQUENCE_NR_COLUMN,   DELETED_COLUMN,  TAGS_COLUMN};

    return check_columns(options, columns, sizeof columns / sizeof columns[0], err);
}

static int check_journal(const struct profile_value *options, struct err *err)
{
    if (strcmp(options[ROWS_INDEX].text, options[TAGS_INDEX].text) == 0)
        return err_set(err, EINVAL, "two indexes have the name \"%s\"", options[ROWS_INDEX].text);
    return check_rows(options, err);
}

/* ---- tables ---- */

static int set_attribute(struct key_attribute *attribute, const char *name, enum value_type type)
{
    char *copy = strdup(name);

    if (!copy)
        return -ENOMEM;
    key_attribute_release(attribute);
    *attribute = (struct key_attribute){copy, type};
    return 0;
}

/* An index on PARTITION (S), and SORT (N) where that is not NULL. */
static int add_index(struct table *table, const char *name, const char *partition, const char *sort)
{
    struct index index = {.name = (char *)name, .partition = {(char *)partition, VALUE_S}};

    if (sort)
        index.sort = (struct key_attribute){(char *)sort, VALUE_N};
    return table_add_index(table, &index);
}

static int make_state(const struct profile_value *options, struct table *table, struct err *err)
{
    int code = set_attribute(&table->partition, options[PARTITION_KEY_COLUMN].text, VALUE_S);

    (void)err;
    return code ? code : set_attribute(&table->sort, options[SORT_KEY_COLUMN].text, VALUE_S);
}

static int make_snapshot(const struct profile_value *options, struct table *table, struct err *err)
{
    int code = make_state(options, table, err);

    return code ? code
                : add_index(table, options[ROWS_INDEX].text, options[PERSISTENCE_ID_COLUMN].text,
                            options[SEQUENCE_NR_COLUMN].text);
}

static int make_journal(const struct profile_value *options, struct table *table, struct err *err)
{
    int code = make_snapshot(options, table, err);

    table->stream = true;
    return code ? code
                : add_index(table, options[TAGS_INDEX].text, options[TAGS_COLUMN].text, NULL);
}

static bool is_attribute(const struct key_attribute *attribute, const char *name,
                         enum value_type type)
{
    return attribute->type == type && text_equal(attribute->name, name);
}

static int refuse(const struct key_attribute *attribute, const char *which, const char *expected,
                  struct err *err)
{
    if (!attribute->name)
        return err_set(err, EINVAL, "it has no %s key; expected is %s", which, expected);
    return err_set(err, EINVAL, "its %s key is \"%s\" (%s); expected is %s", which, attribute->name,
                   value_type_name(attribute->type), expected);
}

/* What stands in for a part of the key is a column that rows have anyway. */
static int fit(const struct profile_value *options, int part_column, int other_column,
               enum value_type other_type, const struct key_attribute *attribute, const char *which,
               struct err *err)
{
    const char *part = options[part_column].text;
    const char *other = other_column < 0 ? NULL : options[other_column].text;
    char expected[256];

    if (is_attribute(attribute, part, VALUE_S) ||
        (other && is_attribute(attribute, other, other_type)))
        return 0;
    if (other)
        snprintf(expected, sizeof expected, "\"%.100s\" (S), or \"%.100s\" (%s)", part, other,
                 value_type_name(other_type));
    else
        snprintf(expected, sizeof expected, "\"%.100s\" (S)", part);
    return refuse(attribute, which, expected, err);
}

static int fit_rows(const struct profile_value *options, struct table *stored, struct err *err)
{
    int code = fit(options, PARTITION_KEY_COLUMN, PERSISTENCE_ID_COLUMN, VALUE_S,
                   &stored->partition, "partition", err);

    if (code == 0)
        code =
            fit(options, SORT_KEY_COLUMN, SEQUENCE_NR_COLUMN, VALUE_N, &stored->sort, "sort", err);
    stored->keys = KEYS_PLAIN;
    return code;
}

static int fit_state(const struct profile_value *options, struct table *stored, struct err *err)
{
    int code =
        fit(options, PARTITION_KEY_COLUMN, -1, VALUE_S, &stored->partition, "partition", err);

    if (code == 0)
        code = fit(options, SORT_KEY_COLUMN, -1, VALUE_S, &stored->sort, "sort", err);
    stored->keys = KEYS_PLAIN;
    return code;
}

static bool has_key(const struct index *index, const struct table *table)
{
    return key_attribute_equal(&index->partition, &table->partition) &&
           key_attribute_equal(&index->sort, &table->sort);
}

/* The keys of SHOWN are set: views of all indexes but the one that lists its directories. */
static int show_indexes(const struct table *stored, struct table *shown)
{
    int code = 0;

    for (size_t i = 0; code == 0 && i < stored->index_count; i++)
        if (!has_key(&stored->indexes[i], shown))
            code = table_add_index(shown, &stored->indexes[i]);
    shown->show_keys = true;
    shown->ttl_beside = false;
    return code;
}

static int show_rows_table(const struct profile_value *options, const struct table *stored,
                           struct table *shown, struct err *err)
{
    int code = set_attribute(&shown->partition, options[PERSISTENCE_ID_COLUMN].text, VALUE_S);

    (void)err;
    if (code == 0)
        code = set_attribute(&shown->sort, options[SEQUENCE_NR_COLUMN].text, VALUE_N);
    shown->sort_digits = AKKA_SEQUENCE_DIGITS;
    shown->unordered = !key_attribute_equal(&stored->partition, &shown->partition) ||
                       !key_attribute_equal(&stored->sort, &shown->sort);
    return code ? code : show_indexes(stored, shown);
}

static int show_state_table(const struct profile_value *options, const struct table *stored,
                            struct table *shown, struct err *err)
{
    int code = set_attribute(&shown->partition, options[PERSISTENCE_ID_COLUMN].text, VALUE_S);

    (void)err;
    key_attribute_release(&shown->sort);
    shown->unordered = true;
    return code ? code : show_indexes(stored, shown);
}

/* The one of the plugin's name, else any with these keys; of those that have whole rows. */
static const struct index *find_listing(const struct profile_value *options,
                                        const struct table *stored, const struct table *shown)
{
    const struct index *named = table_index(stored, span_text(options[ROWS_INDEX].text));

    if (named && !named->partial && has_key(named, shown))
        return named;
    for (size_t i = 0; i < stored->index_count; i++)
        if (!stored->indexes[i].partial && has_key(&stored->indexes[i], shown))
            return &stored->indexes[i];
    return NULL;
}

/* ---- items ---- */

static int show(const struct profile_table *table, struct value *item,
                struct profile_facts *ret_facts, struct err *err)
{
    const struct profile_value *options = table->options;
    const struct value *deleted = value_member(item, span_text(options[DELETED_COLUMN].text));

    (void)err;
    ret_facts->ttl = item_ttl(table->shown, item);
    ret_facts->hidden =
        !options[SHOW_DELETED].on && deleted && deleted->type == VALUE_BOOL && deleted->boolean;
    return 0;
}

/* A bare value would come back as one of many attributes. The time to live is an attribute too. */
static int store(const struct profile_table *table, struct key shown, struct value *item,
                 int64_t ttl, struct err *err)
{
    (void)table;
    (void)shown;
    (void)ttl;
    if (value_member(item, span_text(ITEM_VALUE)))
        return err_set(err, EINVAL, "a row has attributes: the text is to be an object");
    return 0;
}

/* ---- the profiles ---- */

static const struct profile journal = {
    .name = "akka-journal",
    .keeps_key = true,
    .options = journal_options,
    .check = check_journal,
    .make = make_journal,
    .fit = fit_rows,
    .show_table = show_rows_table,
    .listing = find_listing,
    .store_key = akka_store_key,
    .show_key = akka_show_key,
    .guess_key = akka_guess_key,
    .show = show,
    .store = store,
};

static const struct profile snapshot = {
    .name = "akka-snapshot",
    .keeps_key = true,
    .options = snapshot_options,
    .check = check_rows,
    .make = make_snapshot,
    .fit = fit_rows,
    .show_table = show_rows_table,
    .listing = find_listing,
    .store_key = akka_store_key,
    .show_key = akka_show_key,
    .guess_key = akka_guess_key,
    .show = show,
    .store = store,
};

static const struct profile state = {
    .name = "akka-state",
    .keeps_key = true,
    .options = state_options,
    .check = check_state,
    .make = make_state,
    .fit = fit_state,
    .show_table = show_state_table,
    .store_key = akka_store_key,
    .show_key = akka_show_key,
    .guess_key = akka_guess_key,
    .show = show,
    .store = store,
};

const struct profile *const profiles_of_akka[] = {&journal, &snapshot, &state, NULL};
