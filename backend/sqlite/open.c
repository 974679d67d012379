/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/sqlite/store.h"
#include "base/cleanup.h"

/* Held while a store is opened; guards open_stores. See probe.c for why they are listed. */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static struct store *open_stores;

static void store_close(struct backend *backend);

static const struct backend_ops store_ops = {
    .kind = "sqlite",
    .capabilities =
        BACKEND_KEEPS_BYTES | BACKEND_SCRATCH | BACKEND_ORDERED | BACKEND_LOG | BACKEND_SETTINGS,
    .close = store_close,
    .tables = store_tables,
    .describe = store_describe,
    .create_table = store_create_table,
    .drop_table = store_drop_table,
    .alter_table = store_alter_table,
    .alter_indexes = store_alter_indexes,
    .get = store_get,
    .walk = store_walk,
    .query = store_query,
    .partitions = store_partitions,
    .partition = store_partition,
    .index_values = store_index_values,
    .write = store_write,
    .update = store_update,
    .sync = store_sync,
    .scratch_list = store_scratch_list,
    .scratch_find = store_scratch_find,
    .scratch_read = store_scratch_read,
    .draft_list = store_draft_list,
    .draft_read = store_draft_read,
    .poll = store_poll,
    .log_position = store_log_position,
    .log = store_log,
    .change_id = store_change_id,
    .stream_open = store_stream_open,
    .stream_next = store_stream_next,
    .stream_position = store_stream_position,
    .stream_behind = store_stream_behind,
    .stream_close = store_stream_close,
    .lease_read = store_lease_read,
    .lease_write = store_lease_write,
    .maintain = store_maintain,
    .expired = store_expired,
    .statfs = store_statfs,
};

static struct store *store_new(const char *path, const struct sqlite_options *options)
{
    struct store *store = calloc(1, sizeof *store);

    if (!store)
        return NULL;
    store->leave_expired = options->leave_expired;
    store->show_expired = options->show_expired;
    store->backend.ops = &store_ops;
    store->backend.max_item_size =
        options->max_item_size ? options->max_item_size : ITEM_SIZE_DEFAULT;
    store->read_only = options->read_only;
    store->wal_fd = -1;
    store->schema.stale = true;
    store->queue_end = &store->queue;
    pthread_mutex_init(&store->readers_lock, NULL);
    pthread_cond_init(&store->readers_free, NULL);
    pthread_mutex_init(&store->queue_lock, NULL);
    pthread_mutex_init(&store->sync_lock, NULL);
    pthread_cond_init(&store->sync_done, NULL);
    pthread_mutex_init(&store->poll_lock, NULL);
    pthread_mutex_init(&store->checkpoint_lock, NULL);
    pthread_mutex_init(&store->keeper_lock, NULL);
    store->path = strdup(path);
    if (!store->path) {
        free(store);
        return NULL;
    }
    return store;
}

/* Readers first, the writer last: it checkpoints and removes the log where nobody else is left. */
static void store_free(struct store *store)
{
    while (store->idle) {
        struct conn *conn = store->idle;
        store->idle = conn->next;
        conn_close(conn);
    }
    conn_close(store->poller);
    conn_close(store->keeper);
    conn_close(store->writer);
    if (store->wal_fd >= 0)
        close(store->wal_fd);
    tables_free(store->schema.tables, store->schema.count);
    pthread_mutex_destroy(&store->readers_lock);
    pthread_cond_destroy(&store->readers_free);
    pthread_mutex_destroy(&store->queue_lock);
    pthread_mutex_destroy(&store->sync_lock);
    pthread_cond_destroy(&store->sync_done);
    pthread_mutex_destroy(&store->poll_lock);
    pthread_mutex_destroy(&store->checkpoint_lock);
    pthread_mutex_destroy(&store->keeper_lock);
    free(store->path);
    free(store->uri);
    free(store);
}

static void store_close(struct backend *backend)
{
    struct store *store = store_of(backend);

    scoped_lock(&open_lock);
    for (struct store **at = &open_stores; *at; at = &(*at)->next_open)
        if (*at == store) {
            *at = store->next_open;
            break;
        }
    store_free(store);
}

static bool is_open(const struct stat *file)
{
    for (const struct store *store = open_stores; store; store = store->next_open)
        if (store->device == file->st_dev && store->inode == file->st_ino)
            return true;
    return false;
}

int store_check_file(const struct store *store, struct err *err)
{
    struct stat file, log;

    if (stat(store->path, &file) == 0 && file.st_dev == store->device &&
        file.st_ino == store->inode &&
        (store->wal_fd < 0 || (fstat(store->wal_fd, &log) == 0 && log.st_nlink > 0)))
        return 0;
    return err_set(err, EIO,
                   "%s (or its -wal) was removed or replaced while in use: what is open here is "
                   "not the store any more; unmount before moving files",
                   store->path);
}

/* mknod, for it leaves no descriptor to close. */
static int make_file(const char *path, struct err *err)
{
    if (mknod(path, S_IFREG | 0600, 0) == 0 || errno == EEXIST)
        return 0;
    return err_set(err, errno, "%s cannot be made: %s", path, strerror(errno));
}

/* Finds or makes the file, and refuses what is no store. */
static int store_locate(struct store *store, bool create, struct err *err)
{
    const char *path = store->path;
    struct stat file;

    if (stat(path, &file) < 0 && errno == ENOENT && create) {
        int code = make_file(path, err);
        if (code)
            return code;
    }
    if (stat(path, &file) < 0)
        return err_set(err, errno, "%s: %s", path, strerror(errno));
    if (S_ISDIR(file.st_mode))
        return err_set(err, EISDIR, "%s is a directory", path);
    if (!S_ISREG(file.st_mode))
        return err_set(err, EINVAL, "%s is not a regular file", path);
    store->device = file.st_dev;
    store->inode = file.st_ino;
    return is_open(&file) ? 0 : probe_file(path, err);
}

/* On a read-only filesystem SQLite reads a store only when told that nobody can write it. */
static int make_uri(struct store *store)
{
    cleanup(buf_release) struct buf uri;
    struct statvfs filesystem;
    struct stat log;

    buf_init(&uri, 1 << 20);
    buf_addf(&uri, "%s-wal", store->path);
    if (buf_error(&uri))
        return buf_error(&uri);
    bool has_log = stat(uri.data, &log) == 0 && log.st_size > 0;
    if (has_log || statvfs(store->path, &filesystem) < 0 || !(filesystem.f_flag & ST_RDONLY))
        return 0;
    buf_clear(&uri);
    buf_add_text(&uri, "file:");
    for (const char *at = store->path; *at; at++)
        if (strchr("%?#", *at))
            buf_addf(&uri, "%%%02X", (unsigned)(unsigned char)*at);
        else
            buf_add_char(&uri, *at);
    buf_add_text(&uri, "?immutable=1");
    store->uri = buf_take(&uri, NULL);
    return store->uri ? 0 : -ENOMEM;
}

static int on_commit(void *context, sqlite3 *db, const char *name, int pages)
{
    struct store *store = context;

    (void)db;
    (void)name;
    if ((unsigned)pages < store->wal_pages) /* it has started anew */
        store->wal_kept = 0;
    store->wal_pages = (unsigned)pages;
    return SQLITE_OK;
}

static int check_writable(const struct store *store, struct err *err)
{
    if (access(store->path, W_OK) == 0)
        return 0;
    return err_set(err, errno == EROFS ? EROFS : EACCES, "%s can only be read: mount with -o ro",
                   store->path);
}

/* The first connection: it writes, or with read_only polls. */
static int open_first(struct store *store, struct conn **ret_conn, struct err *err)
{
    struct conn *conn;
    int flags = store->read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
    int code = store->read_only ? 0 : check_writable(store, err);

    if (code == 0)
        code = conn_open(store, flags, &conn, err);
    if (code)
        return code;
    code = schema_prepare(conn, store->read_only, store->path, err);
    if (code) {
        conn_abandon(conn);
        return code;
    }
    sqlite3_db_config(conn->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    *ret_conn = conn;
    return 0;
}

static int take_id(struct store *store, struct conn *conn, struct err *err)
{
    scoped_statement *statement = NULL;
    int code = conn_statement(conn, STATEMENT_META_GET, &statement, err);

    if (code)
        return code;
    bind_text(statement, 1, span_text("store"));
    code = conn_step(conn, statement, err);
    if (code < 0)
        return code;
    const char *id = code ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    if (!id || strlen(id) != sizeof store->id - 1)
        return err_set(err, EUCLEAN, "%s: the store's id is missing", store->path);
    memcpy(store->id, id, sizeof store->id);
    return 0;
}

/* SQLite's own name for the file: symbolic links resolved, so that -wal is found beside it. */
static int take_path(struct store *store, struct conn *conn, struct err *err)
{
    char *path = strdup(sqlite3_db_filename(conn->db, "main"));

    if (!path)
        return err_set(err, ENOMEM, "out of memory");
    free(store->path);
    store->path = path;
    return 0;
}

/* The log's descriptor for fdatasync; and its directory entry reaches the disk now. */
static int open_wal(struct store *store, struct err *err)
{
    const char *database = sqlite3_db_filename(store->writer->db, "main");
    const char *slash = strrchr(store->path, '/');
    cleanup_free char *directory = strndup(store->path, slash ? (size_t)(slash - store->path) : 0);

    store->wal_fd = open(sqlite3_filename_wal(database), O_RDONLY | O_CLOEXEC);
    if (store->wal_fd < 0)
        return err_set(err, errno, "%s-wal: %s", store->path, strerror(errno));
    if (!directory)
        return err_set(err, ENOMEM, "out of memory");
    int fd = open(*directory ? directory : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) /* a directory that we may not read: nothing more can be done for it */
        return 0;
    fsync(fd);
    close(fd);
    return 0;
}

static int open_rest(struct store *store, struct err *err)
{
    struct conn *first = store->read_only ? store->poller : store->writer;
    int code = take_path(store, first, err);

    if (code == 0)
        code = take_id(store, first, err);
    if (code == 0 && !store->read_only) {
        sqlite3_wal_hook(store->writer->db, on_commit, store);
        code = open_wal(store, err);
        if (code == 0)
            code = conn_open(store, SQLITE_OPEN_READONLY, &store->poller, err);
        if (code == 0)
            code = conn_open(store, SQLITE_OPEN_READWRITE, &store->keeper, err);
        if (code == 0)
            code = conn_exec(store->keeper, "PRAGMA cache_size = -256", err);
    }
    if (code == 0)
        code = conn_number(store->poller, STATEMENT_DATA_VERSION, &store->polled, err);
    if (code == 0 && getrandom(&store->origin, sizeof store->origin, 0) < 0)
        code = err_set(err, EIO, "no random numbers from the system");
    store->origin &= INT64_MAX;
    return code;
}

static int store_open(struct store *store, bool create, struct err *err)
{
    int code = store_locate(store, create && !store->read_only, err);

    if (code == 0 && store->read_only)
        code = make_uri(store);
    if (code == 0)
        code = open_first(store, store->read_only ? &store->poller : &store->writer, err);
    return code ? code : open_rest(store, err);
}

static void configure_sqlite(void)
{
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0); /* a lock less on every allocation */
}

int sqlite_open(const char *path, const struct sqlite_options *options,
                struct backend **ret_backend, struct err *err)
{
    static pthread_once_t configured = PTHREAD_ONCE_INIT;

    pthread_once(&configured, configure_sqlite);
    scoped_lock(&open_lock);
    struct store *store = store_new(path, options);
    if (!store)
        return err_set(err, ENOMEM, "out of memory");
    int code = store_open(store, options->create, err);
    if (code) {
        store_free(store);
        return err_set(err, -code, "%s: %s", path, err_text(NULL, code));
    }
    store->next_open = open_stores;
    open_stores = store;
    *ret_backend = &store->backend;
    return 0;
}
