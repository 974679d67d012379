/* SPDX-License-Identifier: MIT */
/* Any body that is accepted: its item comes back from the body written for it and from its typed
 * form, and edits change what they say and nothing else. The first byte chooses the table. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/update.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool condition)
{
    if (!condition)
        abort();
}

struct setting {
    struct table table;
    struct index index;
    struct key key;
};

static void setting_init(struct setting *setting, unsigned choice)
{
    static char t[] = "t", id[] = "id", minus_ttl[] = "-ttl", dollar_ttl[] = "$ttl";
    static char i[] = "i", s[] = "s", n[] = "n", k[] = "k";
    *setting = (struct setting){
        .table = {.name = t,
                  .partition = {id, choice & 1 ? VALUE_B : VALUE_S},
                  .ttl_attribute = choice & 2 ? dollar_ttl : minus_ttl,
                  .keys = choice & 4 ? KEYS_TAGS : KEYS_PLAIN,
                  .show_keys = choice & 8},
        .index = {.name = i, .partition = {s, VALUE_S}, .sort = {n, VALUE_N}},
        .key = {.partition = {"a_b", 3}},
    };
    if (choice & 16) {
        setting->table.sort = (struct key_attribute){k, VALUE_N};
        setting->key.sort = (struct span){"15", 2};
    }
    setting->table.indexes = &setting->index;
    setting->table.index_count = choice & 32 ? 1 : 0;
}

static struct item_facts facts_of(const struct setting *setting, struct span body)
{
    struct item_facts facts = {0};
    need(item_examine(&setting->table, setting->key, body, &facts, NULL, NULL) == 0);
    return facts;
}

static void item_of(const struct setting *setting, struct span body, int64_t ttl,
                    struct value *ret_item)
{
    need(item_from_body(&setting->table, setting->key, body, ttl, ret_item, NULL) == 0);
}

static void try_body(const struct setting *setting, const struct value *item)
{
    cleanup(buf_release) struct buf body;
    cleanup(value_release) struct value again = {0};
    int64_t ttl;
    buf_init(&body, SIZE_MAX / 8);
    need(item_to_body(&setting->table, item, &body, &ttl, NULL) == 0);
    need(!facts_of(setting, buf_span(&body)).key_differs);
    item_of(setting, buf_span(&body), ttl, &again);
    need(value_equal(item, &again));
}

static void try_typed(const struct setting *setting, struct span body, int64_t ttl,
                      const struct value *item)
{
    cleanup(buf_release) struct buf typed;
    cleanup(buf_release) struct buf partition;
    cleanup(buf_release) struct buf sort;
    cleanup(buf_release) struct buf file;
    cleanup(value_release) struct value again = {0};
    cleanup(value_release) struct value third = {0};
    int64_t beside;
    buf_init(&typed, SIZE_MAX / 8);
    buf_init(&partition, SIZE_MAX / 8);
    buf_init(&sort, SIZE_MAX / 8);
    buf_init(&file, SIZE_MAX / 8);
    need(item_to_typed(&setting->table, setting->key, body, ttl, &typed, NULL) == 0);
    need(item_from_typed(&setting->table, buf_span(&typed), &again, &partition, &sort, NULL) == 0);
    need(value_equal(item, &again));
    need(span_equal(buf_span(&partition), setting->key.partition));
    buf_clear(&typed);
    need(item_body_to_typed_file(&setting->table, setting->key, body, ttl, &typed, NULL) == 0);
    need(item_body_from_typed_file(&setting->table, setting->key, buf_span(&typed), &file, &beside,
                                   NULL) == 0);
    item_of(setting, buf_span(&file), beside, &third);
    need(value_equal(item, &third));
}

static void try_ttl(const struct setting *setting, struct span body, int64_t seconds,
                    const struct value *item)
{
    cleanup(buf_release) struct buf edited;
    cleanup(value_release) struct value again = {0};
    buf_init(&edited, SIZE_MAX / 8);
    int error = item_set_ttl(&setting->table, body, seconds, &edited, NULL);
    if (error) {
        need(error == -EINVAL && !facts_of(setting, body).is_object);
        return;
    }
    struct item_facts facts = facts_of(setting, buf_span(&edited));
    need(facts.ttl == seconds && (facts.is_object || facts.is_empty));
    item_of(setting, buf_span(&edited), 0, &again);
    struct span name = span_text(setting->table.ttl_attribute);
    cleanup(value_release) struct value plain = {0};
    item_of(setting, body, 0, &plain);
    value_member_remove(&plain, name);
    value_member_remove(&again, name);
    need(value_equal(&plain, &again));
    need(item->type == VALUE_M);
}

static void try_key(const struct setting *setting, struct span body, const struct value *item)
{
    cleanup(buf_release) struct buf fitted;
    cleanup(value_release) struct value again = {0};
    buf_init(&fitted, SIZE_MAX / 8);
    need(item_fit_key(&setting->table, setting->key, body, &fitted, NULL) == 0);
    need(!facts_of(setting, buf_span(&fitted)).key_differs);
    item_of(setting, buf_span(&fitted), 0, &again);
    need(value_equal(item, &again));
    if (!facts_of(setting, body).key_differs)
        need(span_equal(buf_span(&fitted), body));
}

/* An update changes its attribute and nothing else. */
static void try_update(const struct setting *setting, struct span body, enum update_kind kind,
                       const char *name, const char *value)
{
    const struct update update = {kind, span_text(name), span_text(value)};
    cleanup(buf_release) struct buf updated;
    cleanup(buf_release) struct buf number;
    cleanup(value_release) struct value before = {0};
    cleanup(value_release) struct value after = {0};
    buf_init(&updated, SIZE_MAX / 8);
    buf_init(&number, SIZE_MAX / 8);
    int error = item_update(body, &update, &updated, &number, NULL);
    need(error == 0 || error == -EINVAL || error == -EEXIST || error == -ERANGE);
    if (error || item_examine(&setting->table, setting->key, buf_span(&updated),
                              &(struct item_facts){0}, NULL, NULL) != 0)
        return;
    item_of(setting, body, 0, &before);
    item_of(setting, buf_span(&updated), 0, &after);
    const struct value *made = value_member(&after, update.attribute);
    need(made && made->type == (kind == UPDATE_ADD ? VALUE_N : VALUE_L));
    need(kind != UPDATE_ADD || span_equal(value_text(made), buf_span(&number)));
    need(kind == UPDATE_ADD || made->list.count > 0);
    value_member_remove(&before, update.attribute);
    value_member_remove(&after, update.attribute);
    need(value_equal(&before, &after));
}

static int count_index_key(void *context, size_t index, struct span partition, struct span sort)
{
    need(index == 0 && partition.len > 0 && sort.len > 0);
    ++*(int *)context;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct setting setting;
    struct item_facts facts;
    struct err err = {""};
    int indexes = 0;
    if (size == 0)
        return 0;
    setting_init(&setting, data[0]);
    struct span body = span_of((const char *)data + 1, size - 1);
    int error = item_examine(&setting.table, setting.key, body, &facts, NULL, &err);
    need(error == 0 || (error == -EINVAL && strstr(err.text, "line ") != NULL));
    if (error)
        return 0;
    int64_t ttl = facts.is_object || facts.is_empty ? 0 : data[0];
    cleanup(value_release) struct value item = {0};
    cleanup(value_release) struct value plain = {0};
    item_of(&setting, body, ttl, &item);
    item_of(&setting, body, 0, &plain);
    try_body(&setting, &item);
    try_typed(&setting, body, ttl, &item);
    try_ttl(&setting, body, 77, &item);
    try_ttl(&setting, body, 0, &item);
    try_key(&setting, body, &plain);
    static const char *const names[] = {"n", "x", ITEM_VALUE};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        try_update(&setting, body, UPDATE_ADD, names[i], "-12.5");
        try_update(&setting, body, UPDATE_APPEND, names[i], "[7]");
        try_update(&setting, body, UPDATE_APPEND_UNIQUE, names[i], "7.0");
    }
    need(item_index_keys(&setting.table, setting.key, body, ttl, count_index_key, &indexes, NULL) ==
         0);
    return 0;
}
