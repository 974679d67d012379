/* SPDX-License-Identifier: MIT */
#include "tools/itemctl/names.h"

#include <inttypes.h>

#include "base/json.h"
#include "base/text.h"
#include "tools/itemctl/output.h"

#define WAITING_MAX (1u << 20) /* bytes */

static int flush_line(struct names *names)
{
    int code = buf_error(&names->line);

    if (code == 0)
        code = output_write(buf_span(&names->line), names->err);
    buf_clear(&names->line);
    return code;
}

int names_begin(struct names *names, const struct ctl *ctl, const struct table *table, bool ordered,
                struct err *err)
{
    *names = (struct names){
        .table = table, .json = ctl->json, .ordered = ordered && !table_sorted(table), .err = err};
    buf_init(&names->waiting, WAITING_MAX);
    buf_init(&names->name, 8 * KEY_NAME_MAX);
    buf_init(&names->line, 64 * KEY_NAME_MAX);
    if (names->json) {
        buf_add_text(&names->line, "{\"TableName\": ");
        json_add_string(&names->line, span_text(table->name));
        buf_add_text(&names->line, ", \"Names\": [");
    }
    return flush_line(names);
}

static int print(struct names *names, struct span name)
{
    struct buf *line = &names->line;

    if (names->json) {
        buf_add_text(line, names->count ? ",\n  " : "\n  ");
        json_add_string(line, name);
    } else {
        text_visible(name, line);
        buf_add_char(line, '\n');
    }
    names->count++;
    return flush_line(names);
}

/* The name that was held back last; where nothing waits, of length 0. */
static struct span last_waiting(const struct names *names)
{
    const struct buf *waiting = &names->waiting;
    size_t end = waiting->len ? waiting->len - 1 : 0, begin = end;

    while (begin > 0 && waiting->data[begin - 1])
        begin--;
    return span_of(waiting->data + begin, end - begin);
}

/* Prints what waits and is before NAME (len 0: all of it). */
static int print_before(struct names *names, struct span name)
{
    int code = 0;

    for (struct span last; code == 0 && (last = last_waiting(names)).len;) {
        if (name.len && span_compare(last, name) > 0)
            return 0;
        code = print(names, last);
        buf_resize(&names->waiting, names->waiting.len - last.len - 1);
    }
    return code;
}

int names_add(struct names *names, struct key key)
{
    const struct table *table = names->table;
    struct buf *name = &names->name;

    buf_clear(name);
    key_part_to_name(table, false, key.partition, table_sorted(table) ? "" : KEY_ITEM_SUFFIX, name);
    if (table_sorted(table)) {
        buf_add_char(name, '/');
        key_part_to_name(table, true, key.sort, KEY_ITEM_SUFFIX, name);
    }
    if (buf_error(name))
        return buf_error(name);
    if (!names->ordered)
        return print(names, buf_span(name));
    bool crowded = names->waiting.len + name->len + 1 > WAITING_MAX;
    int code = print_before(names, crowded ? span_of(NULL, 0) : buf_span(name));
    buf_add(&names->waiting, name->data, name->len + 1);
    return code ? code : buf_error(&names->waiting);
}

int names_end(struct names *names)
{
    int code = print_before(names, span_of(NULL, 0));

    if (code == 0 && names->json) {
        buf_addf(&names->line, "%s], \"Count\": %" PRIu64 "}\n", names->count ? "\n" : "",
                 names->count);
        code = flush_line(names);
    }
    return code;
}

void names_release(struct names *names)
{
    buf_release(&names->waiting);
    buf_release(&names->name);
    buf_release(&names->line);
}
