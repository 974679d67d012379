/* SPDX-License-Identifier: MIT */
/* The keys of akka-persistence-dynamodb: what the plugin's own classes make
 * (tests/vectors/akka.json), and what that leaves open. */
#include "base/akka.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/value.h"
#include "tests/check.h"

static void read_vectors(struct buf *out)
{
    char block[4096];
    size_t got;
    FILE *file = fopen(TEST_DATA "/vectors/akka.json", "rb");
    while (file && (got = fread(block, 1, sizeof block, file)) > 0)
        buf_add(out, block, got);
    if (file)
        fclose(file);
}

static const struct value *member(const struct value *map, const char *name)
{
    return map && map->type == VALUE_M ? value_member(map, span_text(name)) : NULL;
}

static struct span text_member(const struct value *map, const char *name)
{
    const struct value *value = member(map, name);
    bool text = value && (value->type == VALUE_S || value->type == VALUE_N);
    return text ? value_text(value) : span_of(NULL, 0);
}

static int64_t number_member(const struct value *map, const char *name)
{
    int64_t number = -1;
    check_int(akka_sequence(text_member(map, name), &number, NULL), 0);
    return number;
}

static const struct akka_rules usual = {.partition = AKKA_PERSISTENCE_ID_BASED,
                                        .sort = AKKA_PERSISTENCE_ID_WITH_SEQ_NR,
                                        .separator = {"-", 1},
                                        .shard_count = AKKA_SHARDS_DEFAULT};

typedef int (*key_fn)(const struct akka_rules *, struct span, int64_t, struct buf *, struct err *);

/* WANT: the key, or a map that names an exception; NULL: the case does not say. */
static void check_key(key_fn make, const struct akka_rules *rules, struct span id, int64_t sequence,
                      const struct value *want)
{
    cleanup(buf_release) struct buf key;
    struct err err = {""};
    buf_init(&key, 100000);
    if (!want)
        return;
    int code = make(rules, id, sequence, &key, &err);
    if (want->type == VALUE_M) {
        check_int(code, -EINVAL);
        check_int(key.len, 0);
        check(err.text[0]);
        return;
    }
    check_int(code, 0);
    check_span(buf_span(&key), value_text(want));
}

static void check_state(struct akka_rules rules, struct span id, const struct value *want)
{
    rules.partition = AKKA_PERSISTENCE_ID_BASED;
    rules.sort = AKKA_WHOLE_ID;
    check_key(akka_partition_key, &rules, id, 0, member(want, "pkey"));
    check_key(akka_sort_key, &rules, id, 0, member(want, "skey"));
}

static void check_key_case(const struct value *given)
{
    const struct value *want = member(given, "expect"), *document = member(given, "document");
    struct span id = text_member(given, "persistence_id");
    int64_t sequence = number_member(given, "sequence_nr");
    struct akka_rules rules = {.separator = text_member(given, "separator"),
                               .shard_count = (int32_t)number_member(given, "shard_count")};
    rules.partition = AKKA_SEQUENCE_NUMBER_BASED;
    rules.sort = AKKA_SEQ_NR;
    check_key(akka_partition_key, &rules, id, sequence, member(want, "pkey_sequence_number_based"));
    check_key(akka_sort_key, &rules, id, sequence, member(want, "skey_seq_nr"));
    rules.padded = true;
    check_key(akka_sort_key, &rules, id, sequence, member(document, "skey_seq_nr"));
    rules.padded = false;
    rules.partition = AKKA_PERSISTENCE_ID_BASED;
    rules.sort = AKKA_PERSISTENCE_ID_WITH_SEQ_NR;
    check_key(akka_partition_key, &rules, id, sequence, member(want, "pkey_persistence_id_based"));
    check_key(akka_sort_key, &rules, id, sequence, member(want, "skey_persistence_id_with_seq_nr"));
    check_state(rules, id, member(want, "state"));
}

/* A row that the plugin has written, with its settings as they come. */
static void check_row(const struct value *given, bool state)
{
    const struct value *row = member(given, "row"), *want = member(given, "expect");
    struct span id = text_member(row, "persistence_id");
    int64_t sequence = state ? 0 : number_member(row, "sequence_nr");
    struct akka_rules rules = usual;
    if (state)
        rules.sort = AKKA_WHOLE_ID;
    check_key(akka_partition_key, &rules, id, sequence, member(member(want, "pkey"), "S"));
    check_key(akka_sort_key, &rules, id, sequence, member(member(want, "skey"), "S"));
}

static void test_vectors(void)
{
    cleanup(buf_release) struct buf text;
    cleanup(value_release) struct value vectors = {0};
    struct err err = {""};
    size_t keys = 0, rows = 0;
    buf_init(&text, 1u << 20);
    read_vectors(&text);
    if (value_from_plain(buf_span(&text), &vectors, &err) < 0)
        check_fail("%s", err.text);
    const struct value *cases = member(&vectors, "cases");
    for (size_t i = 0; cases && i < cases->list.count; i++) {
        const struct value *given = &cases->list.items[i];
        struct span kind = text_member(given, "kind");
        int before = check_failures;
        if (span_equal(kind, span_text("key"))) {
            check_key_case(given);
            keys++;
        } else if (kind.len > 5 && memcmp(kind.data + kind.len - 5, "_item", 5) == 0) {
            check_row(given, span_equal(kind, span_text("state_item")));
            rows++;
        }
        if (check_failures > before) {
            struct span note = text_member(given, "note");
            check_fail("case %zu: %.*s", i, (int)note.len, note.data);
        }
    }
    check_int(keys, 36);
    check_int(rows, 9);
}

static void check_keys(const struct akka_rules *rules, const char *id, int64_t sequence,
                       const char *partition, const char *sort)
{
    cleanup(buf_release) struct buf key;
    struct err err = {""};
    buf_init(&key, 100000);
    check_int(akka_partition_key(rules, span_text(id), sequence, &key, &err),
              partition ? 0 : -EINVAL);
    check_text(buf_span(&key), partition ? partition : "");
    buf_clear(&key);
    err_clear(&err);
    check_int(akka_sort_key(rules, span_text(id), sequence, &key, &err), sort ? 0 : -EINVAL);
    check_text(buf_span(&key), sort ? sort : "");
}

/* String.split of Java: empty parts at the end are none, others are. */
static void test_parts(void)
{
    struct akka_rules rules = usual;
    rules.shard_count = 1;
    check_keys(&rules, "a--b", 7, "a-0000000000000000000000000000000000000001",
               "-0000000000000000007");
    check_keys(&rules, "--b", 7, "-0000000000000000000000000000000000000001",
               "-0000000000000000007");
    check_keys(&rules, "---", 7, NULL, NULL);
    check_keys(&rules, "a---", 7, "a-0000000000000000000000000000000000000001", NULL);
    rules.separator = span_text("::");
    check_keys(&rules, "a:b", 7, "0000000000000000000000000000000000000001", "0000000000000000007");
    check_keys(&rules, "a::b:c::d", 7, "a-0000000000000000000000000000000000000001",
               "b:c-0000000000000000007");
    check_keys(&rules, "a:::b", 7, "a-0000000000000000000000000000000000000001",
               ":b-0000000000000000007");
    check_keys(&rules, ":::", 7, "-0000000000000000000000000000000000000001",
               ":-0000000000000000007");
}

static void test_sequence_zero(void)
{
    struct akka_rules rules = {AKKA_SEQUENCE_NUMBER_BASED, AKKA_SEQ_NR, false, {"-", 1}, 64};
    check_keys(&rules, "a-b", 0, "a-b-0", "0");
    rules.padded = true;
    check_keys(&rules, "a-b", 0, "a-b-0", "0000000000000000000");
    check_keys(&usual, "a-b", 0, "a-0000000000000000000000000000000000000052",
               "b-0000000000000000000");
}

static void check_id(struct span id, const char *message)
{
    struct err err = {""};
    check_int(akka_check_id(id, &err), message ? -EINVAL : 0);
    check_text(span_text(err.text), message ? message : "");
}

/* The limit is about UTF-16: an emoji has two units and four bytes, a CJK character one and three.
 */
static void test_id(void)
{
    cleanup(buf_release) struct buf id;
    buf_init(&id, 100000);
    check_id(span_text("x"), NULL);
    check_id(span_text(""), "a persistence id cannot be empty");
    check_id(span_text("a\xff"), "a persistence id is Unicode text, and \"a\\xFF\" is none");
    check_id(span_text("\xed\xa0\x80"), /* half a character */
             "a persistence id is Unicode text, and \"\\xED\\xA0\\x80\" is none");
    for (size_t i = 0; i < 1024; i++)
        buf_add_text(&id, "\xf0\x9f\x98\x80");
    check_id(buf_span(&id), NULL);
    buf_add_text(&id, "a");
    check(akka_check_id(buf_span(&id), NULL) == -EINVAL);
    buf_clear(&id);
    for (size_t i = 0; i < 2048; i++)
        buf_add_text(&id, "\xe6\xb3\xa8");
    check_id(buf_span(&id), NULL);
    cleanup(buf_release) struct buf key;
    buf_init(&key, 100000);
    check_int(akka_partition_key(&usual, buf_span(&id), 1, &key, NULL), 0);
    check_int(key.len, 40);
    buf_add_text(&id, "\xe6\xb3\xa8");
    check(akka_check_id(buf_span(&id), NULL) == -EINVAL);
}

static void check_sequence(const char *text, int64_t want)
{
    int64_t sequence = -7;
    struct err err = {""};
    check_int(akka_sequence(span_text(text), &sequence, &err), want < 0 ? -EINVAL : 0);
    check_int(sequence, want < 0 ? -7 : want);
    check(want >= 0 || strstr(err.text, "from 0 to 9223372036854775807"));
}

static void test_sequence(void)
{
    check_sequence("0", 0);
    check_sequence("9223372036854775807", INT64_MAX);
    check_sequence("9223372036854775808", -1);
    check_sequence("-1", -1);
    check_sequence("1.5", -1);
    check_sequence("", -1);
    check_sequence("x", -1);
}

static void test_separator(void)
{
    struct err err = {""};
    check_int(akka_check_separator(span_text("-"), &err), 0);
    check_int(akka_check_separator(span_text("_"), &err), 0);
    check_int(akka_check_separator(span_text("::"), &err), 0);
    check_int(akka_check_separator(span_text("\xe2\x86\x92"), &err), 0);
    check_int(akka_check_separator(span_text(""), &err), -EINVAL);
    err_clear(&err);
    check_int(akka_check_separator(span_text("\xff"), &err), -EINVAL);
    for (const char *at = ".$|()[{^?*+\\"; *at; at++) {
        const char separator[] = {'-', *at, '\0'};
        err_clear(&err);
        check_int(akka_check_separator(span_text(separator), &err), -EINVAL);
    }
    check_text(span_text(err.text),
               "the separator \"-\\\" has a \"\\\", with which the plugin takes "
               "it for a pattern");
}

static void test_tags(void)
{
    check(akka_has_tag(span_text("red"), span_text("red")));
    check(akka_has_tag(span_text("red,blue"), span_text("red")));
    check(akka_has_tag(span_text("red,blue"), span_text("blue")));
    check(akka_has_tag(span_text("red,green,blue"), span_text("green")));
    check(!akka_has_tag(span_text("reddish,blue"), span_text("red")));
    check(!akka_has_tag(span_text("infrared"), span_text("red")));
    check(!akka_has_tag(span_text("red,blue"), span_text("red,blue")));
    check(!akka_has_tag(span_text(""), span_text("red")));
}

CHECK_MAIN(CHECK_TEST(test_vectors), CHECK_TEST(test_parts), CHECK_TEST(test_sequence_zero),
           CHECK_TEST(test_id), CHECK_TEST(test_sequence), CHECK_TEST(test_separator),
           CHECK_TEST(test_tags))
