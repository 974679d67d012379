/* SPDX-License-Identifier: MIT */
/* Any text: the reader, the check of bodies and the tree agree on what is good, and what is good
 * comes back the same from both of its forms. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/item.h"
#include "base/json.h"
#include "base/value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool condition)
{
    if (!condition)
        abort();
}

static void round_trip_plain(const struct value *value, struct value_style style)
{
    cleanup(buf_release) struct buf text;
    cleanup(value_release) struct value again = {0};
    buf_init(&text, SIZE_MAX / 8);
    value_to_plain(value, style, &text);
    need(json_check(buf_span(&text), NULL, NULL) == 0);
    need(value_from_plain(buf_span(&text), &again, NULL) == 0);
    need(value_equal(value, &again));
}

static void round_trip_typed(const struct value *value)
{
    cleanup(buf_release) struct buf text;
    cleanup(buf_release) struct buf second;
    cleanup(value_release) struct value again = {0};
    buf_init(&text, SIZE_MAX / 8);
    buf_init(&second, SIZE_MAX / 8);
    value_to_typed(value, &text);
    need(value_from_typed(buf_span(&text), &again, NULL) == 0);
    need(value_equal(value, &again));
    value_to_typed(&again, &second);
    need(span_equal(buf_span(&text), buf_span(&second)));
}

/* A typed text that is good has a plain form. */
static void try_typed(struct span text)
{
    cleanup(value_release) struct value value = {0};
    if (value_from_typed(text, &value, NULL) == 0)
        round_trip_plain(&value, (struct value_style){.indent = 2, .sort = true});
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span text = span_of((const char *)data, size);
    static char name[] = "t", no_key[] = "";
    struct table table = {.name = name, .partition = {no_key, VALUE_S}};
    struct err json_err = {""}, form_err = {""}, tree_err = {""};
    struct item_facts facts;
    bool incomplete;
    int json = json_check(text, &incomplete, &json_err);
    need(json == 0 || (json == -EINVAL && strstr(json_err.text, "column ")));
    need(json != 0 || !incomplete);
    cleanup(value_release) struct value value = {0};
    int tree = value_from_plain(text, &value, &tree_err);
    need(json == 0 || tree == -EINVAL);
    need(tree == 0 || strstr(tree_err.text, "column "));
    int form = item_examine(&table, (struct key){0}, text, &facts, NULL, &form_err);
    bool is_key = strstr(form_err.text, "is the key") != NULL;
    need(size == 0 || is_key || form == tree);
    /* The first thing wrong is the same one, unless the text is broken behind a bad form. */
    need(size == 0 || is_key || json != 0 || strcmp(form_err.text, tree_err.text) == 0);
    if (tree == 0) {
        round_trip_plain(&value, (struct value_style){0});
        round_trip_plain(&value, (struct value_style){.indent = 3, .sort = true});
        round_trip_typed(&value);
    }
    try_typed(text);
    return 0;
}
