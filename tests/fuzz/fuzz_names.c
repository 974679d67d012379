/* SPDX-License-Identifier: MIT */
/* Names and keys are one to one, whatever the bytes. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/key.h"
#include "base/number.h"
#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool condition)
{
    if (!condition)
        abort();
}

/* A part's name is a file name and leads back to the part. */
static void try_part(const struct table *table, struct span part, const char *suffix)
{
    size_t max = table->keys == KEYS_TAGS ? KEY_TAGS_NAME_MAX : KEY_NAME_MAX;
    cleanup(buf_release) struct buf name;
    cleanup(buf_release) struct buf back;
    buf_init(&name, 1000);
    buf_init(&back, SIZE_MAX / 8);
    key_part_to_name(table, false, part, suffix, &name);
    need(name.len <= max && !memchr(name.data, '/', name.len) && name.data[0] != '.');
    need(strlen(name.data) == name.len);
    int hashed = key_part_from_name(table, false, buf_span(&name), suffix, &back, NULL);
    need(hashed == 0 || hashed == 1);
    need(hashed ? back.len < part.len : back.len == part.len);
    need(memcmp(back.data, part.data, back.len) == 0);
}

/* A name that is taken is the one that its part has. */
static void try_name(const struct table *table, struct span name, const char *suffix)
{
    cleanup(buf_release) struct buf part;
    cleanup(buf_release) struct buf again;
    struct err err = {""};
    buf_init(&part, SIZE_MAX / 8);
    buf_init(&again, 1000);
    int taken = key_part_from_name(table, false, name, suffix, &part, &err);
    need(taken >= 0 || (taken == -EINVAL && err.text[0] != '\0' && part.len == 0));
    if (taken != 0)
        return;
    key_part_to_name(table, false, buf_span(&part), suffix, &again);
    need(span_equal(buf_span(&again), name));
}

static void try_tags(struct span text, bool strict)
{
    cleanup(buf_release) struct buf sorted;
    cleanup(buf_release) struct buf again;
    buf_init(&sorted, SIZE_MAX / 8);
    buf_init(&again, SIZE_MAX / 8);
    if (key_sort_tags(text, strict, &sorted, NULL) != 0)
        return;
    need(sorted.len == text.len);
    need(key_sort_tags(buf_span(&sorted), strict, &again, NULL) == 0);
    need(span_equal(buf_span(&sorted), buf_span(&again)));
}

static void try_number(struct span text)
{
    cleanup(buf_release) struct buf number;
    cleanup(buf_release) struct buf order;
    cleanup(buf_release) struct buf back;
    int64_t value;
    buf_init(&number, 1000);
    buf_init(&order, 1000);
    buf_init(&back, 1000);
    number_to_int64(text, &value);
    number_from_order(text, &back);
    if (number_canonical(text, &number, NULL) != 0)
        return;
    need(number_is_json(buf_span(&number)) && number_compare(buf_span(&number), text) == 0);
    number_to_order(buf_span(&number), &order);
    buf_clear(&back);
    need(number_from_order(buf_span(&order), &back) == 0);
    need(span_equal(buf_span(&back), buf_span(&number)));
    buf_clear(&back);
    need(number_canonical(buf_span(&number), &back, NULL) == 0);
    need(span_equal(buf_span(&back), buf_span(&number)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct table plain = {.partition = {.type = VALUE_S}},
                              numbers = {.partition = {.type = VALUE_N}},
                              binary = {.partition = {.type = VALUE_B}},
                              tags = {.partition = {.type = VALUE_S}, .keys = KEYS_TAGS};
    static const struct table *const tables[] = {&plain, &numbers, &binary, &tags};
    struct span text = span_of((const char *)data, size);
    for (size_t i = 0; i < 4; i++) {
        try_name(tables[i], text, "");
        try_name(tables[i], text, KEY_ITEM_SUFFIX);
    }
    try_tags(text, false);
    try_tags(text, true);
    try_number(text);
    if (size > 0)
        try_part(&binary, text, size % 2 ? "" : KEY_ITEM_SUFFIX);
    if (size > 0 && text_is_utf8(text, true)) {
        try_part(&plain, text, "");
        try_part(&plain, text, KEY_ITEM_SUFFIX);
        try_part(&tags, text, "");
        try_part(&tags, text, KEY_ITEM_SUFFIX);
    }
    return 0;
}
