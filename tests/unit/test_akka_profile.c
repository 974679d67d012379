/* SPDX-License-Identifier: MIT */
/* The profiles of akka's tables: which tables fit, their shown form, keys in both directions. */
#include <errno.h>
#include <stdlib.h>

#include "backend/profile/akka.h"
#include "base/cleanup.h"
#include "tests/check.h"

#define OPTIONS_MAX 20
#define COUNTER "counter-875e6ce0425e4d2b8203f3b44b9b531a"
#define COUNTER_BODY "875e6ce0425e4d2b8203f3b44b9b531a"

/* A profile's table; its options are set by name. */
struct subject {
    const struct profile *profile;
    struct profile_value options[OPTIONS_MAX];
    struct table *stored, *shown;
    struct profile_table table;
};

static void set(struct subject *subject, const char *name, const char *text)
{
    for (size_t i = 0; subject->profile->options[i].name; i++) {
        const struct profile_option *option = &subject->profile->options[i];
        struct profile_value *value = &subject->options[i];
        if (strcmp(option->name, name) != 0)
            continue;
        value->on = strcmp(text, "true") == 0;
        value->count = option->kind == OPTION_COUNT ? (uint64_t)atoll(text) : 0;
        if (option->kind == OPTION_TEXT) {
            free(value->text);
            value->text = strdup(text);
        }
        for (size_t word = 0; option->words && option->words[word]; word++)
            if (strcmp(option->words[word], text) == 0)
                value->count = word;
        return;
    }
    check_fail("no option %s", name);
}

static void subject_init(struct subject *subject, const char *profile)
{
    *subject = (struct subject){.profile = profile_find(profile)};
    for (size_t i = 0; subject->profile->options[i].name; i++)
        set(subject, subject->profile->options[i].name, subject->profile->options[i].normal);
}

static void subject_release(struct subject *subject)
{
    for (size_t i = 0; i < OPTIONS_MAX; i++)
        free(subject->options[i].text);
    table_free(subject->stored);
    table_free(subject->shown);
}

/* The mount's side of it, as the mechanism makes it. */
static void show(struct subject *subject, struct table *stored)
{
    const struct profile *profile = subject->profile;
    struct err err = {""};
    subject->stored = stored;
    subject->shown = table_copy(stored);
    while (subject->shown->index_count)
        index_release(&subject->shown->indexes[--subject->shown->index_count]);
    subject->shown->show_keys = false;
    subject->shown->ttl_beside = true;
    check_int(profile->fit(subject->options, stored, &err), 0);
    check_int(profile->show_table(subject->options, stored, subject->shown, &err), 0);
    subject->table = (struct profile_table){
        .profile = profile,
        .options = subject->options,
        .stored = stored,
        .shown = subject->shown,
        .listing =
            profile->listing ? profile->listing(subject->options, stored, subject->shown) : NULL};
}

static void make(struct subject *subject)
{
    struct table *table = table_new(span_text("T"));
    struct err err = {""};
    check_int(subject->profile->make(subject->options, table, &err), 0);
    show(subject, table);
    check_int(table_check(table, &err), 0);
    check_text(span_text(err.text), "");
}

static struct table *table_of(const char *key, const char *sort, const char *index)
{
    struct table *table = table_new(span_text("T"));
    struct index parsed = {0};
    struct err err = {""};
    check_int(key_attribute_parse(span_text(key), &table->partition, &err), 0);
    if (sort)
        check_int(key_attribute_parse(span_text(sort), &table->sort, &err), 0);
    if (index) {
        check_int(index_parse(span_text(index), &parsed, &err), 0);
        check_int(table_add_index(table, &parsed), 0);
    }
    index_release(&parsed);
    return table;
}

static void check_attribute(const struct key_attribute *attribute, const char *name,
                            enum value_type type)
{
    check_text(span_text(attribute->name), name);
    check_int(attribute->type, type);
}

static void check_index(const struct index *index, const char *name, const char *partition,
                        const char *sort)
{
    check_text(span_text(index->name), name);
    check_attribute(&index->partition, partition, VALUE_S);
    if (sort)
        check_attribute(&index->sort, sort, VALUE_N);
    else
        check(!index->sort.name);
}

static void test_made_tables(void)
{
    cleanup(subject_release) struct subject journal, snapshot, state;
    subject_init(&journal, "akka-journal");
    subject_init(&snapshot, "akka-snapshot");
    subject_init(&state, "akka-state");
    make(&journal);
    make(&snapshot);
    make(&state);
    struct subject *all[] = {&journal, &snapshot, &state};
    for (size_t i = 0; i < 3; i++) {
        check_attribute(&all[i]->stored->partition, "pkey", VALUE_S);
        check_attribute(&all[i]->stored->sort, "skey", VALUE_S);
        check_int(all[i]->stored->keys, KEYS_PLAIN);
        check_int(all[i]->stored->stream, i == 0);
        check(!all[i]->stored->ttl_attribute);
        check(all[i]->shown->show_keys && !all[i]->shown->ttl_beside && all[i]->shown->unordered);
    }
    check_int(journal.stored->index_count, 2);
    check_index(&journal.stored->indexes[0], "GetJournalRowsIndex", "persistence-id",
                "sequence-nr");
    check_index(&journal.stored->indexes[1], "TagsIndex", "tags", NULL);
    check_int(snapshot.stored->index_count, 1);
    check_index(&snapshot.stored->indexes[0], "GetSnapshotRowsIndex", "persistence-id",
                "sequence-nr");
    check_int(state.stored->index_count, 0);
    check(journal.table.listing == &journal.stored->indexes[0]);
    check(snapshot.table.listing == &snapshot.stored->indexes[0]);
    check(!state.table.listing);
    check_attribute(&journal.shown->partition, "persistence-id", VALUE_S);
    check_attribute(&journal.shown->sort, "sequence-nr", VALUE_N);
    check_int(journal.shown->sort_digits, 19);
    check_int(journal.shown->index_count, 1);
    check_index(&journal.shown->indexes[0], "TagsIndex", "tags", NULL);
    check_attribute(&state.shown->partition, "persistence-id", VALUE_S);
    check(!table_sorted(state.shown));
}

static void test_names_are_options(void)
{
    cleanup(subject_release) struct subject journal;
    subject_init(&journal, "akka-journal");
    set(&journal, "partition_key_column", "pk");
    set(&journal, "sort_key_column", "sk");
    set(&journal, "persistence_id_column", "pid");
    set(&journal, "sequence_nr_column", "seq");
    set(&journal, "deleted_column", "gone");
    set(&journal, "tags_column", "labels");
    set(&journal, "rows_index", "rows");
    set(&journal, "tags_index", "labelled");
    check_int((journal.profile->check)(journal.options, NULL), 0);
    make(&journal);
    check_attribute(&journal.stored->partition, "pk", VALUE_S);
    check_attribute(&journal.stored->sort, "sk", VALUE_S);
    check_index(&journal.stored->indexes[0], "rows", "pid", "seq");
    check_index(&journal.stored->indexes[1], "labelled", "labels", NULL);
    check_attribute(&journal.shown->partition, "pid", VALUE_S);
    check_attribute(&journal.shown->sort, "seq", VALUE_N);
    const struct akka_columns columns = akka_columns_of(journal.profile, journal.options);
    check_text(span_text(columns.deleted), "gone");
    check_text(span_text(columns.tags), "labels");
    check_text(span_text(columns.sequence_nr), "seq");
    check_text(span_text(akka_columns_of(NULL, NULL).sequence_nr), "sequence-nr");
}

static void check_refused(const char *profile, const char *option, const char *text,
                          const char *message)
{
    cleanup(subject_release) struct subject subject;
    struct err err = {""};
    subject_init(&subject, profile);
    check_int((subject.profile->check)(subject.options, &err), 0);
    set(&subject, option, text);
    check_int((subject.profile->check)(subject.options, &err), -EINVAL);
    check_text(span_text(err.text), message);
}

static void test_options_refused(void)
{
    check_refused("akka-journal", "sort_key_column", "pkey", "two columns have the name \"pkey\"");
    check_refused("akka-snapshot", "sequence_nr_column", "skey",
                  "two columns have the name \"skey\"");
    check_refused("akka-state", "persistence_id_column", "pkey",
                  "two columns have the name \"pkey\"");
    check_refused("akka-journal", "tags_index", "GetJournalRowsIndex",
                  "two indexes have the name \"GetJournalRowsIndex\"");
    check_refused("akka-state", "separator", "|",
                  "the separator \"|\" has a \"|\", with which the plugin takes it for a pattern");
}

static void check_fit(const char *profile, struct table *table, const char *message)
{
    cleanup(subject_release) struct subject subject;
    struct err err = {""};
    subject_init(&subject, profile);
    subject.stored = table;
    table->keys = KEYS_TAGS;
    check_int(subject.profile->fit(subject.options, table, &err), message ? -EINVAL : 0);
    check_text(span_text(err.text), message ? message : "");
    check_int(table->keys, KEYS_PLAIN);
}

static void test_fit(void)
{
    check_fit("akka-journal", table_of("pkey", "skey", NULL), NULL);
    check_fit("akka-journal", table_of("pkey", "sequence-nr:N", NULL), NULL);
    check_fit("akka-snapshot", table_of("persistence-id", "sequence-nr:N", NULL), NULL);
    check_fit("akka-state", table_of("pkey", "skey", NULL), NULL);
    check_fit("akka-journal", table_of("key", "skey", NULL),
              "its partition key is \"key\" (S); expected is \"pkey\" (S), or \"persistence-id\" "
              "(S)");
    check_fit("akka-journal", table_of("pkey", "sequence-nr:S", NULL),
              "its sort key is \"sequence-nr\" (S); expected is \"skey\" (S), or \"sequence-nr\" "
              "(N)");
    check_fit("akka-journal", table_of("pkey", NULL, NULL),
              "it has no sort key; expected is \"skey\" (S), or \"sequence-nr\" (N)");
    check_fit("akka-state", table_of("persistence-id", "skey", NULL),
              "its partition key is \"persistence-id\" (S); expected is \"pkey\" (S)");
}

static void test_listing(void)
{
    cleanup(subject_release) struct subject other, none, wrong;
    subject_init(&other, "akka-journal");
    show(&other, table_of("pkey", "skey", "mine:persistence-id,sequence-nr:N"));
    check(other.table.listing == &other.stored->indexes[0]);
    check_int(other.shown->index_count, 0);
    subject_init(&none, "akka-journal");
    show(&none, table_of("pkey", "skey", NULL));
    check(!none.table.listing);
    subject_init(&wrong, "akka-journal");
    show(&wrong, table_of("pkey", "skey", "GetJournalRowsIndex:persistence-id,sequence-nr"));
    check(!wrong.table.listing);
    check_int(wrong.shown->index_count, 1);
}

/* ---- keys ---- */

/* The shown key ID and NUMBER is stored as PARTITION and SORT; MESSAGE: it is not, and why. */
static void check_stored(const struct subject *subject, const char *id, const char *number,
                         const char *partition, const char *sort, const char *message)
{
    const struct key shown = {span_text(id), span_text(number)};
    cleanup(buf_release) struct buf made_partition;
    cleanup(buf_release) struct buf made_sort;
    struct err err = {""};
    buf_init(&made_partition, KEY_PART_MAX);
    buf_init(&made_sort, KEY_PART_MAX);
    int code =
        subject->profile->store_key(&subject->table, shown, &made_partition, &made_sort, &err);
    check_text(span_text(err.text), message ? message : "");
    check_int(code, message ? -EINVAL : 0);
    if (message)
        return;
    check_text(buf_span(&made_partition), partition);
    check_text(buf_span(&made_sort), sort);
}

/* The stored ITEM, typed, is shown as ID and NUMBER; MESSAGE: it is not, and why. */
static void check_shown(const struct subject *subject, const char *typed, const char *id,
                        const char *number, const char *message)
{
    cleanup(value_release) struct value item = {0};
    cleanup(buf_release) struct buf partition;
    cleanup(buf_release) struct buf sort;
    struct err err = {""};
    buf_init(&partition, KEY_PART_MAX);
    buf_init(&sort, KEY_PART_MAX);
    check_int(value_map_from_typed(span_text(typed), &item, &err), 0);
    int code = subject->profile->show_key(&subject->table, &item, &partition, &sort, &err);
    check_text(span_text(err.text), message ? message : "");
    check_int(code, message ? -EINVAL : 0);
    if (message)
        return;
    check_text(buf_span(&partition), id);
    check_text(buf_span(&sort), number ? number : "");
}

static void check_guess(const struct subject *subject, const char *partition, const char *sort,
                        const char *id, const char *number)
{
    const struct key stored = {span_text(partition), span_text(sort)};
    cleanup(buf_release) struct buf guessed_partition;
    cleanup(buf_release) struct buf guessed_sort;
    buf_init(&guessed_partition, KEY_PART_MAX);
    buf_init(&guessed_sort, KEY_PART_MAX);
    check_int(
        subject->profile->guess_key(&subject->table, stored, &guessed_partition, &guessed_sort),
        id ? 0 : 1);
    check_text(buf_span(&guessed_partition), id ? id : "");
    check_text(buf_span(&guessed_sort), number ? number : "");
}

static void test_keys_by_id(void)
{
    static const char pkey[] = "counter-0000000000000000000000000000000000000053";
    cleanup(subject_release) struct subject journal;
    subject_init(&journal, "akka-journal");
    make(&journal);
    check_stored(&journal, COUNTER, "9", pkey, COUNTER_BODY "-0000000000000000009", NULL);
    check_stored(&journal, COUNTER, "9223372036854775807", pkey,
                 COUNTER_BODY "-9223372036854775807", NULL);
    check_stored(&journal, COUNTER, "-1", NULL, NULL,
                 "a sequence number is a whole number from 0 to 9223372036854775807, not -1");
    check_stored(&journal, "a-", "1", NULL, NULL,
                 "the plugin makes no key of the persistence id \"a-\": behind \"-\" there is "
                 "nothing");
    check_stored(&journal, "-", "1", NULL, NULL,
                 "the plugin makes no key of the persistence id \"-\": before \"-\" there is "
                 "nothing");
    check_shown(&journal,
                "{\"pkey\": {\"S\": \"counter-0000000000000000000000000000000000000053\"}, "
                "\"skey\": {\"S\": \"" COUNTER_BODY "-0000000000000000010\"}, "
                "\"persistence-id\": {\"S\": \"" COUNTER "\"}, \"sequence-nr\": {\"N\": \"1E1\"}}",
                COUNTER, "10", NULL);
    check_shown(&journal, "{\"pkey\": {\"S\": \"a\"}, \"skey\": {\"S\": \"b\"}}", NULL, NULL,
                "it has no \"persistence-id\" (S)");
    check_shown(&journal,
                "{\"pkey\": {\"S\": \"a\"}, \"skey\": {\"S\": \"b\"}, "
                "\"persistence-id\": {\"S\": \"a-b\"}, \"sequence-nr\": {\"N\": \"1.5\"}}",
                NULL, NULL,
                "its \"sequence-nr\" (N) is no whole number from 0 to 9223372036854775807");
    check_guess(&journal, pkey, COUNTER_BODY "-0000000000000000010", NULL, NULL);
}

static void test_keys_by_number(void)
{
    cleanup(subject_release) struct subject journal;
    subject_init(&journal, "akka-journal");
    set(&journal, "partition_key_resolver", "SequenceNumberBased");
    set(&journal, "sort_key_resolver", "SeqNr");
    set(&journal, "shard_count", "8");
    make(&journal);
    check_stored(&journal, COUNTER, "65", COUNTER "-1", "65", NULL);
    check_stored(&journal, "-", "65", "--1", "65", NULL);
    check_shown(&journal,
                "{\"pkey\": {\"S\": \"" COUNTER "-1\"}, \"skey\": {\"S\": \"65\"}, "
                "\"persistence-id\": {\"S\": \"" COUNTER "\"}, \"sequence-nr\": {\"N\": \"65\"}}",
                COUNTER, "65", NULL);
    check_guess(&journal, COUNTER "-1", "65", COUNTER, "65");
    check_guess(&journal, COUNTER "-2", "65", NULL, NULL);
    check_guess(&journal, "x", "65", NULL, NULL);
    check_guess(&journal, COUNTER "-1", "x", NULL, NULL);
    set(&journal, "padded", "true");
    check_stored(&journal, COUNTER, "65", COUNTER "-1", "0000000000000000065", NULL);
    check_guess(&journal, COUNTER "-1", "0000000000000000065", COUNTER, "65");
    set(&journal, "sort_key_resolver", "PersistenceIdWithSeqNr");
    check_guess(&journal, COUNTER "-1", COUNTER_BODY "-0000000000000000065", COUNTER, "65");
    check_guess(&journal, COUNTER "-0", COUNTER_BODY "-0000000000000000000", COUNTER, "0");
}

/* Tables of the plugin's older releases. */
static void test_keys_of_older_tables(void)
{
    cleanup(subject_release) struct subject journal, snapshot;
    subject_init(&journal, "akka-journal");
    set(&journal, "partition_key_resolver", "SequenceNumberBased");
    show(&journal, table_of("pkey", "sequence-nr:N", "i:persistence-id,sequence-nr:N"));
    check_stored(&journal, COUNTER, "65", COUNTER "-1", "65", NULL);
    check_guess(&journal, COUNTER "-1", "65", COUNTER, "65");
    check(journal.shown->unordered);
    subject_init(&snapshot, "akka-snapshot");
    show(&snapshot, table_of("persistence-id", "sequence-nr:N", NULL));
    check_stored(&snapshot, "-", "65", "-", "65", NULL);
    check_shown(&snapshot, "{\"persistence-id\": {\"S\": \"-\"}, \"sequence-nr\": {\"N\": \"65\"}}",
                "-", "65", NULL);
    check_guess(&snapshot, COUNTER, "65", COUNTER, "65");
    check_guess(&snapshot, COUNTER, "1.5", NULL, NULL);
    check(!snapshot.shown->unordered);
    check(!snapshot.table.listing);
}

static void test_keys_of_states(void)
{
    static const char pkey[] = "counter-0000000000000000000000000000000000000053";
    cleanup(subject_release) struct subject state;
    subject_init(&state, "akka-state");
    make(&state);
    check_stored(&state, COUNTER, "", pkey, COUNTER, NULL);
    check_stored(&state, "a-", "", "a-0000000000000000000000000000000000000064", "a-", NULL);
    check_shown(&state,
                "{\"pkey\": {\"S\": \"counter-0000000000000000000000000000000000000053\"}, "
                "\"skey\": {\"S\": \"" COUNTER "\"}, \"persistence-id\": {\"S\": \"" COUNTER "\"}}",
                COUNTER, NULL, NULL);
    check_shown(&state,
                "{\"pkey\": {\"S\": \"counter-0000000000000000000000000000000000000053\"}, "
                "\"skey\": {\"S\": \"" COUNTER "\"}}",
                COUNTER, NULL, NULL);
    check_guess(&state, pkey, COUNTER, COUNTER, NULL);
    check_guess(&state, "counter-0000000000000000000000000000000000000052", COUNTER, NULL, NULL);
}

/* ---- items ---- */

static void check_hidden(const struct subject *subject, const char *plain, bool hidden)
{
    cleanup(value_release) struct value item = {0};
    struct profile_facts facts = {-1, !hidden};
    struct err err = {""};
    check_int(value_from_plain(span_text(plain), &item, &err), 0);
    check_int(subject->profile->show(&subject->table, &item, &facts, &err), 0);
    check_int(facts.hidden, hidden);
    check_int(facts.ttl, 0);
}

static void test_deleted(void)
{
    cleanup(subject_release) struct subject journal;
    subject_init(&journal, "akka-journal");
    make(&journal);
    check_hidden(&journal, "{\"deleted\": true}", true);
    check_hidden(&journal, "{\"deleted\": false}", false);
    check_hidden(&journal, "{\"deleted\": \"true\"}", false);
    check_hidden(&journal, "{}", false);
    set(&journal, "show_deleted", "true");
    check_hidden(&journal, "{\"deleted\": true}", false);
    set(&journal, "show_deleted", "false");
    set(&journal, "deleted_column", "gone");
    check_hidden(&journal, "{\"deleted\": true}", false);
    check_hidden(&journal, "{\"gone\": true}", true);
}

static void test_bare_values_refused(void)
{
    cleanup(subject_release) struct subject journal;
    cleanup(value_release) struct value item = {0};
    const struct key key = {span_text("a-b"), span_text("1")};
    struct err err = {""};
    subject_init(&journal, "akka-journal");
    make(&journal);
    check_int(value_from_plain(span_text("{\"$value\": 5, \"x\": 1}"), &item, &err), 0);
    check_int(journal.profile->store(&journal.table, key, &item, 0, &err), -EINVAL);
    check_text(span_text(err.text), "a row has attributes: the text is to be an object");
    value_release(&item);
    check_int(value_from_plain(span_text("{\"x\": 1}"), &item, &err), 0);
    check_int(journal.profile->store(&journal.table, key, &item, 0, &err), 0);
}

CHECK_MAIN(CHECK_TEST(test_made_tables), CHECK_TEST(test_names_are_options),
           CHECK_TEST(test_options_refused), CHECK_TEST(test_fit), CHECK_TEST(test_listing),
           CHECK_TEST(test_keys_by_id), CHECK_TEST(test_keys_by_number),
           CHECK_TEST(test_keys_of_older_tables), CHECK_TEST(test_keys_of_states),
           CHECK_TEST(test_deleted), CHECK_TEST(test_bare_values_refused))
