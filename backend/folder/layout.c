/* SPDX-License-Identifier: MIT */
/*
 * Whether the folders are one table each, or hold tables. It is remembered in the table of replicas
 * (outs.c), and stays so as long as there is a table: a file that somebody puts beside the tables'
 * folders, a table whose last file goes, and a disk that is not mounted change nothing. What has
 * become of a table of the other kind could not be told from its being gone.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backend/folder/private.h"
#include "base/log.h"
#include "base/text.h"

#define LAYOUT_KEY "layout"

/* The tables of the state database. */
struct tables {
    size_t count;
    char first[NAME_MAX + 1];
};

static int note_table(void *context, const struct table *table)
{
    struct tables *tables = context;

    if (is_internal_name(table->name))
        return 0;
    if (tables->count++ == 0)
        snprintf(tables->first, sizeof tables->first, "%s", table->name);
    return 0;
}

static int note_item(void *context, const struct file_entry *entry)
{
    (void)context;
    return entry->stat.regular && name_is_item(span_text(entry->name));
}

struct looking {
    struct folder *folder;
    bool found; /* a file of an item, in the root of one that is in use */
    struct err *err;
};

static int look(void *context, size_t number, const struct replica_info *info)
{
    struct looking *looking = context;
    struct replicas *replicas = looking->folder->replicas;
    struct err own = {""};
    int r = info->in_use ? replica_list(replicas, number, "", note_item, NULL, &own) : 0;

    looking->found |= r == 1;
    if (r >= 0)
        return 0;
    if (r != -ENOMEM && replica_take_out(replicas, number, err_text(&own, r), 0, NULL) == 0)
        return 0;
    return err_set(looking->err, -r, "%s", err_text(&own, r));
}

/* LAYOUT_AUTO: it is not remembered. */
static int read_layout(struct folder *folder, enum folder_layout *ret_layout, struct err *err)
{
    cleanup(buf_release) struct buf text;
    int64_t noted_ns;

    buf_init(&text, OUTS_ROW_MOST);
    *ret_layout = LAYOUT_AUTO;
    int r = outs_get(folder, LAYOUT_KEY, &text, &noted_ns, err);
    if (r == 0)
        *ret_layout = strcmp(text.data, "table") == 0 ? LAYOUT_TABLE : LAYOUT_TABLES;
    return r == -ENOENT ? 0 : r;
}

static int refuse(const struct folder *folder, const struct tables *tables, bool one_table,
                  struct err *err)
{
    if (one_table)
        return err_set(err, EINVAL,
                       "%s held %s%s when it was used last, and is no table itself: layout = "
                       "tables (or delete its state database, with the tables' drafts, streams and "
                       "settings)",
                       folder->place, tables->count > 1 ? "tables, as " : "the table ",
                       tables->first);
    return err_set(err, EINVAL,
                   "%s was the table %s itself when it was used last: layout = table (or delete "
                   "its state database, with the table's drafts, stream and settings)",
                   folder->place, tables->first);
}

static int decide(struct folder *folder, enum folder_layout wanted, const struct tables *tables,
                  struct err *err)
{
    struct looking looking = {.folder = folder, .err = err};
    enum folder_layout noted;
    int r = read_layout(folder, &noted, err);
    enum folder_layout before = tables->count ? noted : LAYOUT_AUTO;

    if (r == 0 && wanted == LAYOUT_AUTO && before != LAYOUT_TABLE)
        r = replicas_each(folder->replicas, look, &looking);
    if (r < 0)
        return r;
    if (looking.found && before == LAYOUT_TABLES)
        log_warning("folder", "%s holds tables: a file *.json beside them is no item",
                    folder->place);
    if (wanted == LAYOUT_AUTO)
        wanted = before != LAYOUT_AUTO ? before : looking.found ? LAYOUT_TABLE : LAYOUT_TABLES;
    folder->one_table = wanted == LAYOUT_TABLE;
    if ((before != LAYOUT_AUTO && before != wanted) || (folder->one_table && tables->count > 1))
        return refuse(folder, tables, folder->one_table, err);
    return noted == wanted
               ? 0
               : outs_put(folder, LAYOUT_KEY, folder->one_table ? "table" : "tables", 0, err);
}

int layout_decide(struct folder *folder, enum folder_layout wanted, struct err *err)
{
    struct tables tables = {.count = 0};
    int r = backend_tables(folder->imports, note_table, &tables, err);

    return r ? r : decide(folder, wanted, &tables, err);
}
