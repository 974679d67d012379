/* SPDX-License-Identifier: MIT */
/*
 * A whole table compared with its folders: at the start, and where nothing tells of changes. The
 * lists of all replicas are put beside the rows; what differs is looked at file by file, under its
 * lock. What changes meanwhile is seen by whoever changes it, or next time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/folder/private.h"

#define RACY_NS NS_PER_S

struct entry {
    size_t name_at; /* in names */
    size_t number;  /* of the replica */
    bool told;      /* a row has the name */
    struct file_stat stat;
};

struct scanning {
    struct folder *folder;
    struct known *known;
    struct buf names;          /* of entries, each with its NUL */
    struct buf entries;        /* by name, once sorted */
    size_t number;             /* of the replica that is being listed */
    size_t replicas;           /* that were listed */
    struct buf doubtful, racy; /* names to be looked at, each with its NUL */
    struct buf findings;       /* of the doubtful */
    bool tidy;                 /* what programs that are no more have left is removed */
    int64_t racy_ns;           /* rows that changed later may be of other bytes than their file */
    struct err *err;
};

static struct entry *entries_of(const struct scanning *scanning, size_t *ret_count)
{
    *ret_count = scanning->entries.len / sizeof(struct entry);
    return (struct entry *)(void *)scanning->entries.data;
}

static void add_name(struct buf *names, const char *name)
{
    buf_add(names, name, strlen(name) + 1);
}

static int note_entry(void *context, const struct file_entry *file)
{
    struct scanning *scanning = context;
    struct entry entry = {
        .name_at = scanning->names.len, .number = scanning->number, .stat = file->stat};

    if (!name_is_item(span_text(file->name)))
        return 0;
    add_name(&scanning->names, file->name);
    buf_add(&scanning->entries, &entry, sizeof entry);
    return buf_error(&scanning->names) ? buf_error(&scanning->names)
                                       : buf_error(&scanning->entries);
}

static int list_in(struct scanning *scanning, size_t number, struct err *err)
{
    struct folder *folder = scanning->folder;
    size_t names = scanning->names.len, entries = scanning->entries.len;

    scanning->number = number;
    if (scanning->tidy)
        (void)replica_tidy(folder->replicas, number, scanning->known->folder, NULL);
    int r =
        replica_list(folder->replicas, number, scanning->known->folder, note_entry, scanning, err);
    if (r < 0 && r != -ENOMEM) {
        buf_resize(&scanning->names, names);
        buf_resize(&scanning->entries, entries);
    }
    return r;
}

/* In one replica of several a folder that cannot be listed is the replica's fault; one that is
 * missing is as an empty one, and is made after the grace. */
static int list_all(struct scanning *scanning, struct err *err)
{
    struct folder *folder = scanning->folder;
    size_t numbers[REPLICAS_MOST], count = replicas_numbers(folder->replicas, numbers);
    struct err first = {""};
    bool missing = false, listed = false;
    int failed = 0;

    for (size_t i = 0; i < count; i++) {
        struct replica_info info;
        struct err own = {""};
        replica_info(folder->replicas, numbers[i], &info);
        if (!info.in_use)
            continue;
        int r = list_in(scanning, numbers[i], &own);
        if (r == -ENOMEM)
            return err_set(err, ENOMEM, "no memory");
        missing |= r == -ENOENT;
        listed |= r == 0;
        scanning->replicas += r == 0 || (r == -ENOENT && count > 1);
        if (r < 0 && r != -ENOENT && count > 1)
            (void)replica_take_out(folder->replicas, numbers[i], err_text(&own, r), 0, NULL);
        if (r < 0 && !failed)
            failed = err_set(&first, -r, "%s", err_text(&own, r));
    }
    if (!listed)
        return failed ? err_set(err, -failed, "%s", first.text)
                      : err_set(err, EIO, "no replica is in use");
    return missing ? repair_later(folder, scanning->known, "", NULL, err) : 0;
}

static int compare_entries(const void *left, const void *right, void *names)
{
    const struct entry *a = left, *b = right;

    return strcmp((const char *)names + a->name_at, (const char *)names + b->name_at);
}

/* The first entry called NAME, or COUNT. */
static size_t find_entry(const struct entry *entries, size_t count, const char *names,
                         const char *name)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(names + entries[middle].name_at, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && strcmp(names + entries[low].name_at, name) == 0 ? low : count;
}

/* ENTRIES: the COUNT that are called NAME. ROW: NULL where it has none. */
static void add_doubtful(struct scanning *scanning, const char *name, const struct entry *entries,
                         size_t count, const struct item_meta *row)
{
    struct finding finding = {.name_at = scanning->doubtful.len,
                              .number = REPLICAS_MOST,
                              .plain =
                                  (count == 0 || count == scanning->replicas) && !(row && row->ttl),
                              .version = row ? row->version : 0};

    for (size_t i = 0; i < count; i++)
        finding.plain &= entries[i].stat.size == entries[0].stat.size &&
                         entries[i].stat.mtime_ns == entries[0].stat.mtime_ns &&
                         !(row && file_is_lost(&entries[i].stat, row));
    if (count) {
        finding.number = entries[0].number;
        finding.stat = entries[0].stat;
    }
    add_name(&scanning->doubtful, name);
    buf_add(&scanning->findings, &finding, sizeof finding);
}

/* What has the row's time may have been written once more within one tick of the clock, or have
 * another time, which cannot be told. */
static bool is_racy(const struct scanning *scanning, const struct item_meta *row)
{
    if (time_is_cut(row->mtime_ns))
        return true;
    return row->change_ns >= scanning->racy_ns && row->mtime_ns >= row->change_ns - 2 * RACY_NS;
}

static int check_row(void *context, const struct record *record)
{
    struct scanning *scanning = context;
    char name[NAME_MAX + 1];
    size_t count, equal = 0;
    struct entry *entries = entries_of(scanning, &count);

    if (file_name_of_key(scanning->known->table, record->key, name, NULL) < 0)
        return 0; /* a key of another rule, which no file has */
    size_t first = find_entry(entries, count, scanning->names.data, name), at = first;
    for (; at < count && strcmp(scanning->names.data + entries[at].name_at, name) == 0; at++) {
        entries[at].told = true;
        equal += same_file(&entries[at].stat, &record->meta);
    }
    if (equal < scanning->replicas)
        add_doubtful(scanning, name, entries + first, at - first, &record->meta);
    else if (is_racy(scanning, &record->meta))
        add_name(&scanning->racy, name);
    return buf_error(&scanning->findings) ? buf_error(&scanning->findings)
                                          : buf_error(&scanning->racy);
}

static void add_untold(struct scanning *scanning)
{
    size_t count;
    const struct entry *entries = entries_of(scanning, &count);
    const char *names = scanning->names.data;
    size_t next;

    for (size_t i = 0; names && i < count; i = next) {
        const char *name = names + entries[i].name_at;
        for (next = i + 1; next < count && strcmp(names + entries[next].name_at, name) == 0;)
            next++;
        if (!entries[i].told)
            add_doubtful(scanning, name, entries + i, next - i, NULL);
    }
}

static int look_at(struct scanning *scanning, const struct buf *names, unsigned flags,
                   struct err *err)
{
    int r = buf_error(names);

    for (size_t at = 0; r == 0 && at < names->len; at += strlen(names->data + at) + 1)
        r = reconcile(scanning->folder, scanning->known, names->data + at, flags, err);
    return r;
}

static int import_doubtful(struct scanning *scanning, struct err *err)
{
    struct buf *findings = &scanning->findings;
    int r = buf_error(findings) ? buf_error(findings) : buf_error(&scanning->doubtful);

    if (r < 0)
        return err_set(err, ENOMEM, "no memory");
    return import_files(scanning->folder, scanning->known, scanning->doubtful.data,
                        (struct finding *)(void *)findings->data,
                        findings->len / sizeof(struct finding), err);
}

static int last_time(void *context, const struct log_entry *entry)
{
    *(int64_t *)context = entry->time_ns;
    return 0;
}

/* From when on what was written may have been written once more, unseen: a second before the last
 * that was seen. */
static int find_racy_time(struct scanning *scanning, struct err *err)
{
    uint64_t end;
    int64_t last_ns = INT64_MAX;
    int r = backend_log_position(scanning->folder->imports, &end, err);

    if (r == 0 && end > 0)
        r = backend_log(scanning->folder->imports, end - 1, 1, last_time, &last_ns, err);
    scanning->racy_ns = last_ns == INT64_MAX ? INT64_MAX : last_ns - RACY_NS;
    return r;
}

/* What was listed, put beside the rows. */
static int compare_rows(struct scanning *scanning, struct err *err)
{
    const struct walk walk = {.limit = 0};
    size_t count;
    struct entry *entries = entries_of(scanning, &count);

    if (count)
        qsort_r(entries, count, sizeof *entries, compare_entries, scanning->names.data);
    int r = backend_walk(scanning->folder->imports, scanning->known->table, &walk, check_row,
                         scanning, err);
    if (r == 0)
        add_untold(scanning);
    return r;
}

static int compare(struct scanning *scanning, struct err *err)
{
    int r = list_all(scanning, err);

    if (r == 0)
        r = compare_rows(scanning, err);
    if (r < 0)
        return r;
    r = import_doubtful(scanning, err);
    return r ? r : look_at(scanning, &scanning->racy, LOOK_RACY, err);
}

static void scanning_init(struct scanning *scanning, struct folder *folder, struct known *known)
{
    *scanning = (struct scanning){.folder = folder, .known = known, .racy_ns = INT64_MAX};
    buf_init(&scanning->names, SIZE_MAX / 2);
    buf_init(&scanning->entries, SIZE_MAX / 2);
    buf_init(&scanning->doubtful, SIZE_MAX / 2);
    buf_init(&scanning->racy, SIZE_MAX / 2);
    buf_init(&scanning->findings, SIZE_MAX / 2);
}

static void scanning_release(struct scanning *scanning)
{
    buf_release(&scanning->names);
    buf_release(&scanning->entries);
    buf_release(&scanning->doubtful);
    buf_release(&scanning->racy);
    buf_release(&scanning->findings);
}

int scan_table(struct folder *folder, struct known *known, bool at_start, struct err *err)
{
    struct scanning scanning;
    int64_t begun_ns = clock_steady_ns();
    int r = 0;

    scanning_init(&scanning, folder, known);
    scanning.tidy = at_start && !folder->read_only;
    if (at_start)
        r = find_racy_time(&scanning, err);
    if (r == 0)
        r = compare(&scanning, err);
    scanning_release(&scanning);
    if (r == 0)
        known->scanned_ns = begun_ns;
    return r;
}

int scan_replica(struct folder *folder, struct known *known, size_t number, struct buf *names,
                 struct err *err)
{
    struct scanning scanning;

    scanning_init(&scanning, folder, known);
    scanning.tidy = true;
    scanning.replicas = 1;
    int r = list_in(&scanning, number, err);
    if (r == 0)
        r = compare_rows(&scanning, err);
    if (r == 0)
        buf_add_span(names, buf_span(&scanning.doubtful));
    scanning_release(&scanning);
    return r;
}

/* A folder that is gone is seen when folders are listed. */
int scan_all(struct folder *folder, int64_t pause_ns, bool at_start, struct err *err)
{
    struct known **all;
    size_t count;
    int r = known_all(folder, &all, &count, err);

    if (r < 0)
        return r;
    for (size_t i = 0; r == 0 && i < count; i++) {
        struct err own = {""};
        if (!known_is_due(all[i]) && clock_steady_ns() - all[i]->scanned_ns < pause_ns)
            continue;
        r = scan_table(folder, all[i], at_start, &own);
        if (r == -ENOENT && !folder->one_table)
            r = 0;
        if (r < 0)
            r = err_set(err, -r, "%s", err_text(&own, r));
    }
    known_free_all(all, count);
    return r;
}
