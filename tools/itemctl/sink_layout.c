/* SPDX-License-Identifier: MIT */
/*
 * An export in the layout of layout.h. It is made in FOLDER.partial, with the same names within,
 * and moved to FOLDER/AWSDynamoDB by one rename when all of it is there.
 *
 * A data file is ended when it holds DATA_BYTES; only then the position is recorded. It tells how
 * much of manifest-files.json counts, which has a line for each data file that is whole. What lies
 * beside these is what was under way, and is made again.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tools/itemctl/files.h"
#include "tools/itemctl/gzip.h"
#include "tools/itemctl/layout.h"
#include "tools/itemctl/sink.h"
#include "tools/itemctl/transfer.h"

#define DATA_BYTES (32u << 20) /* of a data file's lines */
#define DATA_NAME 32

struct layout_sink {
    struct sink sink; /* first */
    char *folder, *partial;
    char *top; /* PARTIAL/AWSDynamoDB */
    const char *table, *region;
    char id[LAYOUT_ID_TEXT];
    char *root;      /* the export in TOP */
    int manifest;    /* ROOT/manifest-files.json */
    uint64_t offset; /* of it */
    uint64_t files;  /* that are whole */
    struct gzip_writer *data;
    uint64_t data_items, data_bytes;
};

static struct layout_sink *layout_of(struct sink *sink)
{
    return (struct layout_sink *)sink;
}

static void add_line(struct buf *lines, struct span typed)
{
    buf_add_text(lines, "{\"Item\":");
    buf_add_span(lines, typed);
    buf_add_text(lines, "}\n");
}

static void data_name(uint64_t number, char ret_name[DATA_NAME])
{
    snprintf(ret_name, DATA_NAME, "%08" PRIu64 ".json.gz", number);
}

static char *data_path(const struct layout_sink *layout, uint64_t number)
{
    char name[DATA_NAME];

    data_name(number, name);
    return path_make("%s/data/%s", layout->root, name);
}

/* ---- what an earlier export left ---- */

static int make_directory(const char *path, struct err *err)
{
    return mkdir(path, 0777) < 0 && errno != EEXIST ? file_failed(path, err) : 0;
}

/* The id of the export that is in TOP; false: none. */
static bool find_id(struct layout_sink *layout)
{
    DIR *directory = opendir(layout->top);
    bool found = false;

    for (const struct dirent *entry; directory && !found && (entry = readdir(directory));)
        if (layout_is_id(entry->d_name)) {
            memcpy(layout->id, entry->d_name, sizeof layout->id);
            found = true;
        }
    if (directory)
        closedir(directory);
    return found;
}

/* Data files from number FIRST on. */
static void remove_data(const struct layout_sink *layout, uint64_t first)
{
    for (uint64_t number = first;; number++) {
        cleanup_free char *path = data_path(layout, number);
        if (!path || unlink(path) < 0)
            return;
    }
}

static void remove_export(const struct layout_sink *layout)
{
    static const char *const names[] = {LAYOUT_SUMMARY ".json",
                                        LAYOUT_SUMMARY ".checksum",
                                        LAYOUT_SUMMARY ".md5",
                                        LAYOUT_FILES ".json",
                                        LAYOUT_FILES ".checksum",
                                        LAYOUT_FILES ".md5",
                                        "_started"};
    cleanup_free char *data = path_make("%s/data", layout->root);

    remove_data(layout, 1);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        cleanup_free char *path = path_make("%s/%s", layout->root, names[i]);
        if (path)
            unlink(path);
    }
    if (data)
        rmdir(data);
    rmdir(layout->root);
}

static int open_manifest(struct layout_sink *layout, struct err *err)
{
    cleanup_free char *path = path_make("%s/" LAYOUT_FILES ".json", layout->root);
    struct stat found;

    if (!path)
        return -ENOMEM;
    layout->manifest = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (layout->manifest < 0 || fstat(layout->manifest, &found) < 0)
        return file_failed(path, err);
    if ((uint64_t)found.st_size < layout->offset)
        return -ESTALE;
    if (ftruncate(layout->manifest, (off_t)layout->offset) < 0 ||
        lseek(layout->manifest, (off_t)layout->offset, SEEK_SET) < 0)
        return file_failed(path, err);
    return 0;
}

static int begin(struct layout_sink *layout, struct err *err)
{
    if (layout_make_id(layout->id) < 0)
        return err_set(err, EIO, "the system gives no random numbers");
    free(layout->root);
    layout->root = path_make("%s/%s", layout->top, layout->id);
    cleanup_free char *data = path_make("%s/%s/data", layout->top, layout->id);
    cleanup_free char *started = path_make("%s/%s/_started", layout->top, layout->id);
    int r = layout->root && data && started ? make_directory(layout->partial, err) : -ENOMEM;

    if (r == 0)
        r = make_directory(layout->top, err);
    if (r == 0)
        r = make_directory(layout->root, err);
    if (r == 0)
        r = make_directory(data, err);
    if (r == 0)
        r = file_make(started, span_of("", 0), err);
    return r < 0 ? r : open_manifest(layout, err);
}

static int layout_take_up(struct sink *sink, const struct position *position, bool known,
                          struct err *err)
{
    struct layout_sink *layout = layout_of(sink);
    bool found = find_id(layout);

    layout->root = found ? path_make("%s/%s", layout->top, layout->id) : NULL;
    if (found && !layout->root)
        return -ENOMEM;
    if (found && known && position->offset) {
        layout->offset = position->offset;
        layout->files = position->line;
        int r = open_manifest(layout, err);
        if (r != -ESTALE) {
            remove_data(layout, layout->files + 1);
            return r < 0 ? r : SINK_GOES_ON;
        }
        close(layout->manifest);
        layout->offset = layout->files = 0;
    }
    if (found)
        remove_export(layout);
    int r = begin(layout, err);
    return r < 0 ? r : found ? SINK_OF_NO_USE : SINK_NEW;
}

/* ---- data files ---- */

static int layout_put(struct sink *sink, struct span lines, uint64_t items, struct err *err)
{
    struct layout_sink *layout = layout_of(sink);
    int r = 0;

    if (!layout->data) {
        cleanup_free char *path = data_path(layout, layout->files + 1);
        r = path ? gzip_create(path, &layout->data, err) : -ENOMEM;
    }
    layout->data_items += items;
    layout->data_bytes += lines.len;
    return r < 0 ? r : gzip_write(layout->data, lines, err);
}

/* The data file under way is whole now, and the manifest tells of it. */
static int end_data(struct layout_sink *layout, struct err *err)
{
    cleanup_free char *data = path_make("%s/data", layout->root);
    cleanup(buf_release) struct buf line;
    unsigned char digest[MD5_BYTES] = {0};
    char name[DATA_NAME];
    int r = data ? gzip_finish(layout->data, digest, err) : -ENOMEM;

    if (r == 0)
        r = directory_sync(data, err);
    buf_init(&line, 4096);
    data_name(layout->files + 1, name);
    layout_add_file(&line, layout->id, name, layout->data_items, digest);
    if (r == 0)
        r = buf_error(&line);
    if (r == 0)
        r = file_write(layout->manifest, LAYOUT_FILES ".json", buf_span(&line), err);
    if (r == 0 && fdatasync(layout->manifest) < 0)
        r = file_failed(LAYOUT_FILES ".json", err);
    gzip_writer_free(layout->data);
    layout->data = NULL;
    layout->data_items = layout->data_bytes = 0;
    layout->offset += line.len;
    layout->files++;
    return r;
}

static int layout_settle(struct sink *sink, struct position *position, bool now, struct err *err)
{
    struct layout_sink *layout = layout_of(sink);

    if (!layout->data || (!now && layout->data_bytes < DATA_BYTES))
        return 0;
    int r = end_data(layout, err);
    position->offset = layout->offset;
    position->line = layout->files;
    return r < 0 ? r : 1;
}

/* ---- the end ---- */

/* What the manifest NAME, whose text this is, is verified by. */
static int add_checksums(const struct layout_sink *layout, const char *name, struct span text,
                         struct err *err)
{
    static const char *const suffixes[] = {".checksum", ".md5"};
    char checksum[LAYOUT_MD5_TEXT];
    int r = 0;

    layout_checksum(text, checksum);
    for (size_t i = 0; r == 0 && i < sizeof suffixes / sizeof suffixes[0]; i++) {
        cleanup_free char *path = path_make("%s/%s%s", layout->root, name, suffixes[i]);
        r = path ? file_make(path, span_text(checksum), err) : -ENOMEM;
    }
    return r;
}

static int check_files(const struct layout_sink *layout, struct err *err)
{
    cleanup(buf_release) struct buf text;

    buf_init(&text, SIZE_MAX / 8);
    buf_resize(&text, layout->offset);
    if (buf_error(&text))
        return buf_error(&text);
    if (pread(layout->manifest, text.data, text.len, 0) != (ssize_t)text.len)
        return file_failed(LAYOUT_FILES ".json", err);
    return add_checksums(layout, LAYOUT_FILES, buf_span(&text), err);
}

static int summarize(const struct layout_sink *layout, uint64_t items, struct err *err)
{
    const struct layout_summary summary = {layout->id, layout->table, layout->region, items};
    cleanup_free char *path = path_make("%s/" LAYOUT_SUMMARY ".json", layout->root);
    cleanup(buf_release) struct buf text;

    buf_init(&text, 65536);
    layout_add_summary(&text, &summary);
    int r = path ? buf_error(&text) : -ENOMEM;
    if (r == 0)
        r = file_make(path, buf_span(&text), err);
    return r < 0 ? r : add_checksums(layout, LAYOUT_SUMMARY, buf_span(&text), err);
}

static int publish(const struct layout_sink *layout, struct err *err)
{
    cleanup_free char *top = path_make("%s/" LAYOUT_TOP, layout->folder);
    cleanup_free char *path = path_make("%s/" LAYOUT_TOP "/%s", layout->folder, layout->id);
    int r = top && path ? directory_sync(layout->root, err) : -ENOMEM;

    if (r == 0)
        r = make_directory(layout->folder, err);
    if (r == 0)
        r = make_directory(top, err);
    if (r == 0 && rename(layout->root, path) < 0)
        r = file_failed(path, err);
    if (r == 0)
        r = directory_sync(top, err);
    if (r == 0)
        r = directory_sync(layout->folder, err);
    if (r == 0)
        r = directory_sync_of(layout->folder, err);
    if (r == 0) {
        rmdir(layout->top);
        rmdir(layout->partial);
    }
    return r;
}

static int layout_finish(struct sink *sink, uint64_t items, struct err *err)
{
    struct layout_sink *layout = layout_of(sink);
    int r = 0;

    if (!layout->data && layout->files == 0) /* as of a table without items */
        r = layout_put(sink, span_of("", 0), 0, err);
    if (r == 0 && layout->data)
        r = end_data(layout, err);
    if (r == 0)
        r = check_files(layout, err);
    if (r == 0)
        r = summarize(layout, items, err);
    return r < 0 ? r : publish(layout, err);
}

static void layout_close(struct sink *sink)
{
    struct layout_sink *layout = layout_of(sink);

    gzip_writer_free(layout->data);
    if (layout->manifest >= 0)
        close(layout->manifest);
    free(layout->sink.position);
    free(layout->folder);
    free(layout->partial);
    free(layout->top);
    free(layout->root);
    free(layout);
}

static const struct sink_ops layout_ops = {
    .add = add_line,
    .take_up = layout_take_up,
    .write = layout_put,
    .settle = layout_settle,
    .finish = layout_finish,
    .close = layout_close,
};

static int name_paths(struct layout_sink *layout, const char *folder)
{
    layout->folder = realpath(folder, NULL);
    if (!layout->folder)
        layout->folder = strdup(folder);
    for (size_t len = layout->folder ? strlen(layout->folder) : 0;
         len > 1 && layout->folder[len - 1] == '/'; len--)
        layout->folder[len - 1] = '\0';
    if (!layout->folder)
        return -ENOMEM;
    layout->partial = path_make("%s.partial", layout->folder);
    layout->sink.position = path_make("%s.partial-position", layout->folder);
    layout->top = path_make("%s.partial/" LAYOUT_TOP, layout->folder);
    return layout->partial && layout->sink.position && layout->top ? 0 : -ENOMEM;
}

int sink_layout_open(struct ctl *ctl, const struct subject *subject, const char *folder,
                     struct sink **ret_sink, struct err *err)
{
    const struct backend_config *config = transfer_config(ctl, subject->backend);
    struct layout_sink *layout = calloc(1, sizeof *layout);
    struct stat found;

    if (!layout)
        return -ENOMEM;
    layout->sink.ops = &layout_ops;
    layout->manifest = -1;
    layout->table = subject->table->name;
    layout->region = config->region ? config->region : "local";
    int r = name_paths(layout, folder);
    if (r == 0 && stat(layout->folder, &found) == 0 && !S_ISDIR(found.st_mode))
        r = err_set(err, ENOTDIR, "%s: with --s3-layout it must be a directory", folder);
    if (r < 0)
        layout_close(&layout->sink);
    else
        *ret_sink = &layout->sink;
    return r;
}
