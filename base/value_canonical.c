/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "base/value.h"

static int number_to_canonical(struct value *number, struct err *err)
{
    cleanup(buf_release) struct buf text;
    struct value canonical;

    buf_init(&text, 4096);
    int error = number_canonical(value_text(number), &text, err);
    error = error ? error : buf_error(&text);
    error = error ? error : value_new_text(VALUE_N, buf_span(&text), &canonical);
    if (error)
        return error;
    value_release(number);
    *number = canonical;
    return 0;
}

static int order_texts(const void *a, const void *b)
{
    return span_compare(value_text(a), value_text(b));
}

static void sort_set(struct value *set)
{
    if (set->type != VALUE_L && set->list.count > 1)
        qsort(set->list.items, set->list.count, sizeof *set->list.items, order_texts);
}

void value_sort_sets(struct value *value)
{
    switch (value->type) {
    case VALUE_L:
        for (size_t i = 0; i < value->list.count; i++)
            value_sort_sets(&value->list.items[i]);
        return;
    case VALUE_SS:
    case VALUE_NS:
    case VALUE_BS: sort_set(value); return;
    case VALUE_M:
        for (size_t i = 0; i < value->map.count; i++)
            value_sort_sets(&value->map.members[i].value);
        return;
    default: return;
    }
}

static int list_to_canonical(struct value *list, struct err *err)
{
    for (size_t i = 0; i < list->list.count; i++) {
        int error = value_canonical(&list->list.items[i], err);
        if (error)
            return error;
    }
    sort_set(list);
    return 0;
}

int value_canonical(struct value *value, struct err *err)
{
    int error = 0;

    switch (value->type) {
    case VALUE_N: return number_to_canonical(value, err);
    case VALUE_L:
    case VALUE_SS:
    case VALUE_NS:
    case VALUE_BS: return list_to_canonical(value, err);
    case VALUE_M:
        for (size_t i = 0; i < value->map.count && !error; i++)
            error = value_canonical(&value->map.members[i].value, err);
        return error;
    default: return 0;
    }
}
