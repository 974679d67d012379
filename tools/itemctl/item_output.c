/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "base/cleanup.h"
#include "base/item.h"
#include "base/text.h"
#include "tools/itemctl/output.h"

#define LINES_MAX (UINT32_C(1) << 30) /* a typed line of the largest item fits */
#define LINES_FULL (1u << 20)
#define ROWS_FULL 256
#define BARE_VALUE "$value" /* item.h */

void item_output_init(struct item_output *output, const struct table *table, bool json,
                      struct err *err)
{
    size_t columns = 0;

    *output = (struct item_output){.table = table, .json = json, .err = err};
    output->heads[columns++] = table->partition.name;
    if (table_sorted(table))
        output->heads[columns++] = table->sort.name;
    output->heads[columns++] = "ITEM";
    buf_init(&output->lines, LINES_MAX);
    grid_init(&output->grid, output->heads, columns);
}

void item_output_release(struct item_output *output)
{
    buf_release(&output->lines);
    grid_release(&output->grid);
}

static void add_part(struct grid *grid, enum value_type type, struct span part)
{
    cleanup(buf_release) struct buf text;

    buf_init(&text, 2 * KEY_PART_MAX);
    if (type == VALUE_B)
        base64_encode(part, false, &text);
    else
        buf_add_span(&text, part);
    grid_add(grid, buf_span(&text));
}

/* ITEM, without its key, on one line in plain form; what is no object stands for itself. */
static void add_plain(const struct value *item, struct buf *out)
{
    const struct value *bare = value_member(item, span_text(BARE_VALUE));

    value_to_plain(item->map.count == 1 && bare ? bare : item, (struct value_style){.sort = true},
                   out);
}

static int add_row(struct item_output *output, const struct record *record)
{
    const struct table *table = output->table;
    cleanup(value_release) struct value item = {0};
    cleanup(buf_release) struct buf text = {0};
    int r = item_from_body(table, record->key, record->body,
                           item_ttl_beside(record->body, record->meta.ttl), &item, output->err);

    if (r < 0)
        return r;
    buf_init(&text, LINES_MAX);
    value_member_remove(&item, span_text(table->partition.name));
    if (table_sorted(table))
        value_member_remove(&item, span_text(table->sort.name));
    add_plain(&item, &text);
    add_part(&output->grid, table->partition.type, record->key.partition);
    if (table_sorted(table))
        add_part(&output->grid, table->sort.type, record->key.sort);
    grid_add(&output->grid, buf_span(&text));
    return 0;
}

int item_output_add(struct item_output *output, const struct record *record)
{
    cleanup(buf_release) struct buf typed;
    int r;

    buf_init(&typed, LINES_MAX);
    if (!output->json)
        return add_row(output, record);
    r = item_to_typed(output->table, record->key, record->body,
                      item_ttl_beside(record->body, record->meta.ttl), &typed, output->err);
    if (r == 0)
        r = value_map_rename(buf_span(&typed), output->table->types, &output->lines, output->err);
    buf_add_char(&output->lines, '\n');
    if (r == 0 && buf_error(&output->lines))
        r = err_set(output->err, -buf_error(&output->lines), "no memory for an item");
    return r;
}

bool item_output_full(const struct item_output *output)
{
    return output->lines.len >= LINES_FULL || output->grid.text.len >= LINES_FULL ||
           output->grid.cells >= ROWS_FULL * output->grid.columns;
}

int item_output_flush(struct item_output *output)
{
    int r;

    if (!output->json)
        return grid_print(&output->grid, output->err);
    r = output_write(buf_span(&output->lines), output->err);
    buf_clear(&output->lines);
    return r;
}

int item_output_raw(const struct table *table, const struct record *record, const char *column,
                    struct err *err)
{
    cleanup(value_release) struct value item = {0};
    int r = item_from_body(table, record->key, record->body,
                           item_ttl_beside(record->body, record->meta.ttl), &item, err);
    const struct value *value = r ? NULL : value_member(&item, span_text(column));

    if (r < 0)
        return r;
    if (!value)
        return err_set(err, ENOENT, "the item has no attribute \"%s\"", column);
    if (value->type != VALUE_B && value->type != VALUE_S)
        return err_set(err, EINVAL, "\"%s\" is of type %s, and only B and S are bytes", column,
                       value_type_name(value->type));
    return output_write(value_text(value), err);
}
