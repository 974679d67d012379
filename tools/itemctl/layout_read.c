/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/number.h"
#include "base/text.h"
#include "base/value.h"
#include "tools/itemctl/documents.h"
#include "tools/itemctl/files.h"
#include "tools/itemctl/layout.h"

#define MANIFEST_MAX (256u << 20)
#define CHUNK_BYTES (256u << 10)

/* ---- where it is ---- */

static bool has_summary(const char *directory)
{
    cleanup_free char *path = path_make("%s/" LAYOUT_SUMMARY ".json", directory);

    return path && access(path, F_OK) == 0;
}

/* An export in a directory of TOP, where it is the only one; COUNT of them. */
static char *find_below(const char *top, size_t *ret_count)
{
    DIR *directory = opendir(top);
    char *found = NULL;

    *ret_count = 0;
    for (const struct dirent *entry; directory && (entry = readdir(directory));) {
        char *path = entry->d_name[0] == '.' ? NULL : path_make("%s/%s", top, entry->d_name);
        if (path && has_summary(path) && ++*ret_count == 1)
            found = path;
        else
            free(path);
    }
    if (directory)
        closedir(directory);
    return found;
}

static int find_export(const char *folder, char **ret_directory, struct err *err)
{
    cleanup_free char *top = path_make("%s/" LAYOUT_TOP, folder);
    char *found = has_summary(folder) ? strdup(folder) : NULL;
    size_t count = found ? 1 : 0;

    if (!found && top)
        found = find_below(top, &count);
    if (!found)
        found = find_below(folder, &count);
    if (count == 1 && found) {
        *ret_directory = found;
        return 0;
    }
    free(found);
    if (count > 1)
        return err_set(err, EINVAL, "%s: it holds %zu exports: name the directory of one", folder,
                       count);
    return err_set(err, EINVAL, "%s: no export of DynamoDB: there is no " LAYOUT_SUMMARY ".json",
                   folder);
}

/* ---- manifests ---- */

/* What lies beside a manifest: base64 of the MD5 of its TEXT. */
static int check_manifest(const struct layout *layout, const char *name, struct span text,
                          struct err *err)
{
    static const char *const suffixes[] = {"checksum", "md5"};
    char checksum[LAYOUT_MD5_TEXT];

    layout_checksum(text, checksum);
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        cleanup_free char *path = path_make("%s/%s.%s", layout->directory, name, suffixes[i]);
        cleanup(buf_release) struct buf told;
        buf_init(&told, 4096);
        if (!path)
            return -ENOMEM;
        if (access(path, F_OK) < 0)
            continue;
        int r = document_read(path, &told, err);
        if (r < 0)
            return r;
        while (told.len && strchr(" \r\n", told.data[told.len - 1]))
            buf_resize(&told, told.len - 1);
        if (!span_equal(buf_span(&told), span_text(checksum)))
            return err_set(err, EINVAL, "%s/%s.json: its MD5 is not that in %s.%s",
                           layout->directory, name, name, suffixes[i]);
    }
    return 0;
}

static int read_manifest(const struct layout *layout, const char *name, struct buf *text,
                         struct err *err)
{
    cleanup_free char *path = path_make("%s/%s.json", layout->directory, name);
    int r = path ? document_read(path, text, err) : -ENOMEM;

    return r < 0 ? r : check_manifest(layout, name, buf_span(text), err);
}

/* A member's text where it is of TYPE. */
static bool member_text(const struct value *object, const char *name, enum value_type type,
                        struct span *ret_text)
{
    const struct value *value = value_member(object, span_text(name));

    if (!value || value->type != type)
        return false;
    *ret_text = value_text(value);
    return true;
}

static int64_t member_count(const struct value *object, const char *name)
{
    struct span text;
    int64_t count;

    if (!member_text(object, name, VALUE_N, &text) || !number_to_int64(text, &count) || count < 0)
        return -1;
    return count;
}

/* Only whole exports in typed JSON. */
static int check_summary(const char *path, const struct value *summary, struct err *err)
{
    struct span format = span_text("none"), kind;

    if (summary->type != VALUE_M)
        return err_set(err, EINVAL, "%s: it is no JSON object", path);
    if (!member_text(summary, "outputFormat", VALUE_S, &format) ||
        !span_equal(format, span_text(LAYOUT_FORMAT)))
        return err_set(err, EINVAL, "%s: its outputFormat is %.*s, not " LAYOUT_FORMAT, path,
                       (int)format.len, format.data);
    if (member_text(summary, "exportType", VALUE_S, &kind) &&
        !span_equal(kind, span_text("FULL_EXPORT")))
        return err_set(err, EINVAL, "%s: it is an %.*s: only full exports can be imported", path,
                       (int)kind.len, kind.data);
    return 0;
}

static int read_summary(const struct layout *layout, int64_t *ret_items, struct err *err)
{
    cleanup_free char *path = path_make("%s/" LAYOUT_SUMMARY ".json", layout->directory);
    cleanup(value_release) struct value summary = {0};
    cleanup(buf_release) struct buf text;
    struct err reason = {""};

    buf_init(&text, MANIFEST_MAX);
    int r = path ? read_manifest(layout, LAYOUT_SUMMARY, &text, err) : -ENOMEM;
    if (r < 0)
        return r;
    r = value_from_plain(buf_span(&text), &summary, &reason);
    if (r < 0)
        return err_set(err, -r, "%s: %s", path, err_text(&reason, r));
    *ret_items = member_count(&summary, "itemCount");
    return check_summary(path, &summary, err);
}

/* ---- data files ---- */

/* The file that KEY names: its last part, in data/. */
static char *path_of_key(const struct layout *layout, struct span key)
{
    struct span name = key;
    const char *slash = key.len ? memrchr(key.data, '/', key.len) : NULL;

    if (slash)
        name = span_from(key, (size_t)(slash - key.data) + 1);
    if (name.len == 0 || name.data[0] == '.' || memchr(name.data, 0, name.len))
        return NULL;
    return path_make("%s/data/%.*s", layout->directory, (int)name.len, name.data);
}

static int describe_file(const struct layout *layout, const struct value *told,
                         struct layout_file *file, struct err *err)
{
    struct span key, md5;
    struct stat found;

    if (told->type != VALUE_M || !member_text(told, "dataFileS3Key", VALUE_S, &key))
        return err_set(err, EINVAL, "it names no dataFileS3Key");
    file->path = path_of_key(layout, key);
    if (!file->path)
        return err_set(err, EINVAL, "the dataFileS3Key \"%.*s\" names no file", (int)key.len,
                       key.data);
    file->items = member_count(told, "itemCount");
    if (member_text(told, "md5Checksum", VALUE_S, &md5)) {
        if (md5.len != LAYOUT_MD5_TEXT - 1)
            return err_set(err, EINVAL, "the md5Checksum \"%.*s\" is no MD5", (int)md5.len,
                           md5.data);
        memcpy(file->md5, md5.data, md5.len);
    }
    if (stat(file->path, &found) < 0)
        return file_failed(file->path, err);
    file->bytes = (uint64_t)found.st_size;
    return 0;
}

struct listing {
    struct layout *layout;
    int64_t items; /* -1: one does not say */
};

static int add_file(void *context, struct span line, struct err *err)
{
    struct listing *listing = context;
    struct layout *layout = listing->layout;
    cleanup(value_release) struct value told = {0};
    struct layout_file *more =
        reallocarray(layout->files, layout->count + 1, sizeof *layout->files);

    if (!more)
        return err_set(err, ENOMEM, "no memory");
    layout->files = more;
    more[layout->count] = (struct layout_file){0};
    int r = value_from_plain(line, &told, err);
    if (r == 0)
        r = describe_file(layout, &told, &more[layout->count], err);
    layout->count++;
    if (r == 0 && listing->items >= 0)
        listing->items =
            more[layout->count - 1].items < 0 ? -1 : listing->items + more[layout->count - 1].items;
    return r;
}

static int read_files(struct layout *layout, int64_t *ret_items, struct err *err)
{
    cleanup_free char *path = path_make("%s/" LAYOUT_FILES ".json", layout->directory);
    cleanup(buf_release) struct buf text;
    struct listing listing = {.layout = layout};

    buf_init(&text, MANIFEST_MAX);
    int r = path ? read_manifest(layout, LAYOUT_FILES, &text, err) : -ENOMEM;
    if (r == 0)
        r = document_items(path, buf_span(&text), add_file, &listing, err);
    *ret_items = listing.items;
    return r;
}

static int order_paths(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* All paths, sorted, to free; NULL: no memory. */
static const char **sorted_paths(const struct layout *layout)
{
    const char **paths = calloc(layout->count + 1, sizeof *paths);

    for (size_t i = 0; paths && i < layout->count; i++)
        paths[i] = layout->files[i].path;
    if (paths)
        qsort(paths, layout->count, sizeof *paths, order_paths);
    return paths;
}

static bool is_data(const char *name)
{
    size_t len = strlen(name);

    return name[0] != '.' && len > 3 && strcmp(name + len - 3, ".gz") == 0;
}

/* Every data file that DIRECTORY has, which is named DATA, is among the COUNT PATHS. */
static int check_told(DIR *directory, const char *data, const char *const *paths, size_t count,
                      struct err *err)
{
    for (const struct dirent *entry; (entry = readdir(directory));) {
        cleanup_free char *path = path_make("%s/%s", data, entry->d_name);
        const char *found = path;

        if (!path)
            return err_set(err, ENOMEM, "no memory");
        if (is_data(entry->d_name) && !bsearch(&found, paths, count, sizeof *paths, order_paths))
            return err_set(err, EINVAL, "%s: " LAYOUT_FILES ".json does not tell of it", path);
    }
    return 0;
}

/* No data file may be left out silently, nor be read twice. */
static int check_listed(const struct layout *layout, struct err *err)
{
    cleanup_free char *data = path_make("%s/data", layout->directory);
    cleanup_free const char **paths = sorted_paths(layout);
    int r = 0;

    if (!data || !paths)
        return err_set(err, ENOMEM, "no memory");
    DIR *directory = opendir(data);
    for (size_t i = 1; r == 0 && i < layout->count; i++)
        if (strcmp(paths[i - 1], paths[i]) == 0)
            r = err_set(err, EINVAL, "%s: " LAYOUT_FILES ".json tells of it twice", paths[i]);
    if (r == 0 && directory)
        r = check_told(directory, data, paths, layout->count, err);
    if (directory)
        closedir(directory);
    return r;
}

int layout_open(const char *folder, struct layout *ret_layout, struct err *err)
{
    struct layout layout = {0};
    int64_t summary = -1, listed = -1;
    int r = find_export(folder, &layout.directory, err);

    if (r == 0)
        r = read_summary(&layout, &summary, err);
    if (r == 0)
        r = read_files(&layout, &listed, err);
    if (r == 0 && summary >= 0 && listed >= 0 && summary != listed)
        r = err_set(err, EINVAL,
                    "%s: " LAYOUT_SUMMARY ".json tells of %" PRId64 " items, " LAYOUT_FILES
                    ".json of %" PRId64,
                    layout.directory, summary, listed);
    if (r == 0)
        r = check_listed(&layout, err);
    if (r < 0)
        layout_release(&layout);
    else
        *ret_layout = layout;
    return r;
}

void layout_release(struct layout *layout)
{
    for (size_t i = 0; i < layout->count; i++)
        free(layout->files[i].path);
    free(layout->files);
    free(layout->directory);
    *layout = (struct layout){0};
}

/* ---- what is in them ---- */

static int hash_file(const char *path, struct md5 *md5, struct err *err)
{
    cleanup_free char *chunk = malloc(CHUNK_BYTES);
    int fd = chunk ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) : -1;
    ssize_t got = 1;

    if (!chunk)
        return err_set(err, ENOMEM, "no memory");
    if (fd < 0)
        return file_failed(path, err);
    while ((got = read(fd, chunk, CHUNK_BYTES)) > 0)
        md5_add(md5, span_of(chunk, (size_t)got));
    int r = got < 0 ? file_failed(path, err) : 0;
    close(fd);
    return r;
}

int layout_verify(const struct layout_file *file, struct err *err)
{
    unsigned char digest[MD5_BYTES];
    cleanup(buf_release) struct buf text;

    buf_init(&text, LAYOUT_MD5_TEXT);
    if (!file->md5[0])
        return 0;
    struct md5 *md5 = md5_new();
    int r = md5 ? hash_file(file->path, md5, err) : -ENOMEM;
    if (r == 0) {
        md5_end(md5, digest);
        base64_encode(span_of((const char *)digest, MD5_BYTES), false, &text);
    }
    md5_free(md5);
    if (r == 0 && !span_equal(buf_span(&text), span_text(file->md5)))
        return err_set(err, EINVAL, "%s: its MD5 is not the md5Checksum of " LAYOUT_FILES ".json",
                       file->path);
    return r;
}

static int wrapped_item(struct json_reader *reader, struct span *ret_item, bool *ret_good,
                        struct err *err)
{
    struct json_token token;
    int r = json_next(reader, &token, err);

    if (r < 0 || token.kind != JSON_OBJECT)
        return r;
    r = json_next(reader, &token, err);
    if (r < 0 || token.kind != JSON_NAME || !span_equal(token.raw, span_text("Item")))
        return r;
    r = json_skip(reader, ret_item, err);
    if (r == 0)
        r = json_next(reader, &token, err);
    if (r < 0 || token.kind != JSON_OBJECT_END)
        return r;
    *ret_good = true;
    return json_next(reader, &token, err);
}

int layout_item(struct span line, struct span *ret_item, struct err *err)
{
    struct json_reader *reader = json_reader_new(line);
    bool good = false;

    if (!reader)
        return err_set(err, ENOMEM, "no memory");
    json_set_depth_max(reader, JSON_DEPTH_HARD_MAX);
    int r = wrapped_item(reader, ret_item, &good, err);
    json_reader_free(reader);
    if (r == 0 && !good)
        r = err_set(err, EINVAL, "the line is no {\"Item\": {..}}");
    return r;
}
