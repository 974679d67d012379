/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "tools/itemctl/output.h"

#define GRID_BYTES_MAX (64u << 20)
#define CELL_BYTES_MAX 4096 /* more than a line of any terminal; the rest would be cut anyway */
#define GAP 2

void grid_init(struct grid *grid, const char *const *heads, size_t columns)
{
    *grid = (struct grid){.heads = heads, .columns = columns, .whole = !heads};
    buf_init(&grid->text, GRID_BYTES_MAX);
    for (size_t i = 0; heads && i < columns; i++)
        grid->width[i] = strlen(heads[i]);
}

void grid_release(struct grid *grid)
{
    buf_release(&grid->text);
    free(grid->ends);
}

/* Characters of TEXT, which is UTF-8. */
static size_t width_of(struct span text)
{
    size_t width = 0;

    for (size_t i = 0; i < text.len; i++)
        width += ((unsigned char)text.data[i] & 0xC0) != 0x80;
    return width;
}

/* The beginning of TEXT that has at most WIDTH characters. */
static struct span cut_to(struct span text, size_t width)
{
    size_t at = 0;

    for (; at < text.len; at++)
        if (((unsigned char)text.data[at] & 0xC0) != 0x80 && width-- == 0)
            break;
    return span_of(text.data, at);
}

void grid_add(struct grid *grid, struct span cell)
{
    size_t column = grid->cells % grid->columns;
    size_t begin = grid->text.len;
    size_t width;

    if (grid->cells == grid->room) {
        size_t room = grid->room ? 2 * grid->room : 64;
        size_t *ends = reallocarray(grid->ends, room, sizeof *ends);

        if (!ends) {
            grid->text.error = -ENOMEM;
            return;
        }
        grid->ends = ends;
        grid->room = room;
    }
    text_visible(cell.len > CELL_BYTES_MAX ? cut_to(cell, CELL_BYTES_MAX / 4) : cell, &grid->text);
    grid->ends[grid->cells++] = grid->text.len;
    width = width_of(span_of(grid->text.data + begin, grid->text.len - begin));
    if (width > grid->width[column])
        grid->width[column] = width;
}

void grid_addf(struct grid *grid, const char *format, ...)
{
    cleanup_free char *text = NULL;
    va_list values;

    va_start(values, format);
    if (vasprintf(&text, format, values) < 0)
        text = NULL;
    va_end(values);
    if (text)
        grid_add(grid, span_text(text));
    else
        grid->text.error = -ENOMEM;
}

static size_t terminal_width(void)
{
    struct winsize size;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return isatty(STDOUT_FILENO) ? 80 : SIZE_MAX;
}

/* One cell; the last of a row is cut to what ROOM leaves, and others are filled up. */
static void put_cell(const struct grid *grid, size_t column, struct span text, size_t *room,
                     struct buf *line)
{
    size_t width = width_of(text);

    if (column + 1 == grid->columns) {
        bool cut = width > *room && *room > 1 && !grid->whole;

        buf_add_span(line, cut ? cut_to(text, *room - 1) : text);
        buf_add_text(line, cut ? "…\n" : "\n");
        return;
    }
    buf_add_span(line, text);
    for (size_t i = width; i < grid->width[column] + GAP; i++)
        buf_add_char(line, ' ');
    *room -= grid->width[column] + GAP < *room ? grid->width[column] + GAP : *room;
}

static struct span cell_text(const struct grid *grid, size_t cell)
{
    size_t begin = cell ? grid->ends[cell - 1] : 0;

    return span_of(grid->text.data + begin, grid->ends[cell] - begin);
}

int grid_print(struct grid *grid, struct err *err)
{
    cleanup(buf_release) struct buf out;
    size_t width = terminal_width(), room = width, column = 0;

    buf_init(&out, 4 * GRID_BYTES_MAX);
    if (grid->heads && !grid->headed && grid->cells)
        for (size_t i = 0; i < grid->columns; i++)
            put_cell(grid, i, span_text(grid->heads[i]), &room, &out);
    grid->headed |= grid->cells > 0;
    for (size_t i = 0; i < grid->cells; i++) {
        room = column ? room : width;
        put_cell(grid, column, cell_text(grid, i), &room, &out);
        column = column + 1 < grid->columns ? column + 1 : 0;
    }
    if (buf_error(&grid->text) || buf_error(&out))
        return err_set(err, ENOMEM, "no memory for a table");
    buf_clear(&grid->text);
    grid->cells = 0;
    return output_write(buf_span(&out), err);
}
