/* SPDX-License-Identifier: MIT */
/* Any value: what Starch's form takes comes back as it is, but for whole numbers, which come back
 * as texts. What is refused is left alone. Any stored text that can be read and is written back is
 * read as the same. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "backend/profile/starch_codec.h"
#include "base/cleanup.h"
#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool condition)
{
    if (!condition)
        abort();
}

static bool is_whole(const struct value *value)
{
    return value->type == VALUE_N && !strpbrk(value->text.data, ".eE");
}

static void try_shown(struct span text)
{
    cleanup(value_release) struct value value = {0}, before = {0};
    struct err err = {""};

    if (value_from_plain(text, &value, NULL) != 0)
        return;
    need(value_from_plain(text, &before, NULL) == 0);
    int r = starch_store(&value, &err);
    need(r == 0 || ((r == -EINVAL || r == -ERANGE) && err.text[0]));
    if (r == 0) {
        if (before.type == VALUE_N && !is_whole(&before))
            need(value_canonical(&before, NULL) == 0);
        need(value.type != VALUE_M && value.type != VALUE_L && value.type != VALUE_NULL &&
             value.type != VALUE_BOOL);
        need(starch_show(&value, &err) == 0);
        if (is_whole(&before))
            before.type = VALUE_S;
    }
    need(value_equal(&value, &before));
}

static void try_stored(struct span text)
{
    cleanup(value_release) struct value value = {0}, again = {0};
    cleanup(buf_release) struct buf plain;
    struct err err = {""};

    buf_init(&plain, SIZE_MAX / 8);
    if (!text_is_utf8(text, true))
        return;
    need(value_new_text(VALUE_S, text, &value) == 0);
    int r = starch_show(&value, &err);
    need(r == 0 || (r == -EINVAL && err.text[0]));
    if (r < 0)
        return;
    value_to_plain(&value, (struct value_style){.indent = 2}, &plain);
    need(value_from_plain(buf_span(&plain), &again, NULL) == 0);
    need(value_equal(&value, &again));
    if (starch_store(&again, &err) != 0)
        return; /* behind the prefix stood what no field can be: a mark, too long a number */
    if (value.type == VALUE_N && !is_whole(&value))
        need(value_canonical(&value, NULL) == 0);
    bool whole = is_whole(&value);
    need(starch_show(&again, &err) == 0);
    need(whole || value_equal(&value, &again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char prefix[] = "__SERIALIZED__:";
    struct span text = span_of((const char *)data, size);
    cleanup(buf_release) struct buf serialized;

    buf_init(&serialized, SIZE_MAX / 8);
    buf_add_text(&serialized, prefix);
    buf_add_span(&serialized, text);
    try_shown(text);
    try_stored(text);
    try_stored(buf_span(&serialized));
    return 0;
}
