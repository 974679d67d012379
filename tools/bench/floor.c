/* SPDX-License-Identifier: MIT */
/*
 * The floor of a machine: a filesystem in memory that does nothing but answer, with every cache the
 * kernel has, so that a benchmark can tell what FUSE costs here from what itemfs costs. Directories
 * below the root and files in them; no checks, no persistence, nothing is given back to the system.
 *
 * usage: floor MOUNTPOINT [ro]     runs in the foreground until it is unmounted
 *
 * ro: opening and closing files is answered once, as on a read-only mount; files can be created and
 * read only.
 */
#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define FOREVER 1e9
#define BUCKETS (1u << 18)
#define WORKERS 16

struct file {
    fuse_ino_t node;
    bool directory;
    char *name;
    struct file *parent, *next_by_name;
    char *data;
    size_t size;
    struct timespec mtime;
    struct file **children; /* in order of creation; an entry's offset is its index + 1 */
    size_t child_count, children_max, at;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static struct file *by_name[BUCKETS];
static struct file **by_node; /* [node]; never shrinks */
static size_t node_count, nodes_max;

static void *grown(void *array, size_t count, size_t *max, size_t each)
{
    if (count < *max)
        return array;
    *max = *max ? *max * 2 : 1024;
    array = realloc(array, *max * each);
    if (!array)
        abort();
    return array;
}

static struct file **bucket(const struct file *parent, const char *name)
{
    size_t hash = parent->node * 31;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 1099511628211u;
    return &by_name[(hash >> 20) % BUCKETS];
}

static struct file *find(const struct file *parent, const char *name)
{
    struct file *file = *bucket(parent, name);
    while (file && (file->parent != parent || strcmp(file->name, name) != 0))
        file = file->next_by_name;
    return file;
}

static void place(struct file *file, struct file *parent, const char *name)
{
    file->name = strdup(name);
    file->parent = parent;
    struct file **first = bucket(parent, name);
    file->next_by_name = *first;
    *first = file;
    parent->children = grown(parent->children, parent->child_count, &parent->children_max,
                             sizeof *parent->children);
    file->at = parent->child_count;
    parent->children[parent->child_count++] = file;
}

static void displace(struct file *file)
{
    struct file **link = bucket(file->parent, file->name);
    while (*link != file)
        link = &(*link)->next_by_name;
    *link = file->next_by_name;
    file->parent->children[file->at] = NULL;
    free(file->name);
    file->name = NULL;
}

static struct file *file_new(struct file *parent, const char *name, bool directory)
{
    struct file *file = calloc(1, sizeof *file);
    if (!file)
        abort();
    by_node = grown(by_node, node_count, &nodes_max, sizeof *by_node);
    file->node = node_count;
    by_node[node_count++] = file;
    file->directory = directory;
    clock_gettime(CLOCK_REALTIME, &file->mtime);
    if (parent)
        place(file, parent, name);
    return file;
}

static struct file *of(fuse_ino_t node)
{
    return by_node[node];
}

static struct stat stat_of(const struct file *file)
{
    return (struct stat){.st_ino = file->node,
                         .st_mode = file->directory ? S_IFDIR | 0755 : S_IFREG | 0644,
                         .st_nlink = 1,
                         .st_size = (off_t)file->size,
                         .st_blocks = (blkcnt_t)(file->size + 511) / 512,
                         .st_mtim = file->mtime,
                         .st_ctim = file->mtime};
}

static struct fuse_entry_param entry_of(const struct file *file)
{
    return (struct fuse_entry_param){.ino = file->node,
                                     .attr = stat_of(file),
                                     .attr_timeout = FOREVER,
                                     .entry_timeout = FOREVER};
}

static void resize(struct file *file, size_t size)
{
    if (size > file->size) {
        file->data = realloc(file->data, size);
        if (!file->data)
            abort();
        memset(file->data + file->size, 0, size - file->size);
    }
    file->size = size;
    clock_gettime(CLOCK_REALTIME, &file->mtime);
}

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
    (void)userdata;
    conn->want |= conn->capable & (FUSE_CAP_READDIRPLUS | FUSE_CAP_ATOMIC_O_TRUNC);
    conn->want &= ~(unsigned)(FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_WRITEBACK_CACHE);
    conn->time_gran = 1;
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    pthread_mutex_lock(&lock);
    const struct file *file = find(of(parent), name);
    struct fuse_entry_param entry = {.entry_timeout = FOREVER};
    if (file)
        entry = entry_of(file);
    pthread_mutex_unlock(&lock);
    fuse_reply_entry(req, &entry);
}

static void op_getattr(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
    (void)fi;
    pthread_mutex_lock(&lock);
    struct stat stat = stat_of(of(node));
    pthread_mutex_unlock(&lock);
    fuse_reply_attr(req, &stat, FOREVER);
}

static void op_setattr(fuse_req_t req, fuse_ino_t node, struct stat *attr, int which,
                       struct fuse_file_info *fi)
{
    (void)fi;
    pthread_mutex_lock(&lock);
    if (which & FUSE_SET_ATTR_SIZE)
        resize(of(node), (size_t)attr->st_size);
    struct stat stat = stat_of(of(node));
    pthread_mutex_unlock(&lock);
    fuse_reply_attr(req, &stat, FOREVER);
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    (void)mode;
    pthread_mutex_lock(&lock);
    struct fuse_entry_param entry = entry_of(file_new(of(parent), name, true));
    pthread_mutex_unlock(&lock);
    fuse_reply_entry(req, &entry);
}

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    pthread_mutex_lock(&lock);
    struct file *file = find(of(parent), name);
    if (file)
        displace(file);
    pthread_mutex_unlock(&lock);
    fuse_reply_err(req, file ? 0 : ENOENT);
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
                      const char *new_name, unsigned flags)
{
    (void)flags;
    pthread_mutex_lock(&lock);
    struct file *file = find(of(parent), name), *target = find(of(new_parent), new_name);
    if (file && target)
        displace(target);
    if (file) {
        displace(file);
        place(file, of(new_parent), new_name);
    }
    pthread_mutex_unlock(&lock);
    fuse_reply_err(req, file ? 0 : ENOENT);
}

static bool opens_once;

static void op_open(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
    if (opens_once) {
        fuse_reply_err(req, ENOSYS);
        return;
    }
    pthread_mutex_lock(&lock);
    if (fi->flags & O_TRUNC)
        resize(of(node), 0);
    pthread_mutex_unlock(&lock);
    fi->keep_cache = 1;
    fi->noflush = (fi->flags & O_ACCMODE) == O_RDONLY;
    fuse_reply_open(req, fi);
}

static void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
                      struct fuse_file_info *fi)
{
    (void)mode;
    pthread_mutex_lock(&lock);
    struct fuse_entry_param entry = entry_of(file_new(of(parent), name, false));
    pthread_mutex_unlock(&lock);
    fi->keep_cache = 1;
    fuse_reply_create(req, &entry, fi);
}

static void op_read(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset,
                    struct fuse_file_info *fi)
{
    (void)fi;
    pthread_mutex_lock(&lock);
    const struct file *file = of(node);
    size_t at = (size_t)offset < file->size ? (size_t)offset : file->size;
    size_t left = file->size - at;
    fuse_reply_buf(req, file->data + at, left < size ? left : size);
    pthread_mutex_unlock(&lock);
}

static void op_write(fuse_req_t req, fuse_ino_t node, const char *data, size_t size, off_t offset,
                     struct fuse_file_info *fi)
{
    (void)fi;
    pthread_mutex_lock(&lock);
    struct file *file = of(node);
    size_t end = (size_t)offset + size;
    resize(file, end > file->size ? end : file->size);
    memcpy(file->data + offset, data, size);
    pthread_mutex_unlock(&lock);
    fuse_reply_write(req, size);
}

static void op_close(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
    (void)node;
    (void)fi;
    fuse_reply_err(req, 0);
}

static void op_flush(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
    (void)node;
    (void)fi;
    fuse_reply_err(req, opens_once ? ENOSYS : 0);
}

static void op_fsync(fuse_req_t req, fuse_ino_t node, int datasync, struct fuse_file_info *fi)
{
    (void)datasync;
    op_close(req, node, fi);
}

static void op_opendir(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
    (void)node;
    fi->cache_readdir = fi->keep_cache = 1;
    fuse_reply_open(req, fi);
}

static void op_readdirplus(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset,
                           struct fuse_file_info *fi)
{
    (void)fi;
    char *out = malloc(size);
    size_t used = 0;
    if (!out)
        abort();
    pthread_mutex_lock(&lock);
    const struct file *dir = of(node);
    for (size_t i = (size_t)offset; i < dir->child_count; i++) {
        if (!dir->children[i])
            continue;
        struct fuse_entry_param entry = entry_of(dir->children[i]);
        size_t need = fuse_add_direntry_plus(req, out + used, size - used, dir->children[i]->name,
                                             &entry, (off_t)i + 1);
        if (need > size - used)
            break;
        used += need;
    }
    pthread_mutex_unlock(&lock);
    fuse_reply_buf(req, out, used);
    free(out);
}

static void op_getxattr(fuse_req_t req, fuse_ino_t node, const char *name, size_t size)
{
    (void)node;
    (void)name;
    (void)size;
    fuse_reply_err(req, EOPNOTSUPP);
}

static const struct fuse_lowlevel_ops ops = {
    .init = op_init,
    .lookup = op_lookup,
    .getattr = op_getattr,
    .setattr = op_setattr,
    .mkdir = op_mkdir,
    .unlink = op_unlink,
    .rmdir = op_unlink,
    .rename = op_rename,
    .open = op_open,
    .create = op_create,
    .read = op_read,
    .write = op_write,
    .flush = op_flush,
    .release = op_close,
    .fsync = op_fsync,
    .opendir = op_opendir,
    .readdirplus = op_readdirplus,
    .getxattr = op_getxattr,
};

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3)
        return 2;
    opens_once = argc == 3;
    file_new(NULL, "", true); /* node 0 is none */
    file_new(NULL, "", true); /* the root */
    struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
    fuse_opt_add_arg(&args, argv[0]);
    struct fuse_session *session = fuse_session_new(&args, &ops, sizeof ops, NULL);
    if (!session || fuse_session_mount(session, argv[1]) < 0)
        return 1;
    struct fuse_loop_config *loop = fuse_loop_cfg_create();
    fuse_loop_cfg_set_max_threads(loop, WORKERS);
    fuse_loop_cfg_set_idle_threads(loop, WORKERS);
    fuse_session_loop_mt(session, loop);
    fuse_loop_cfg_destroy(loop);
    fuse_session_destroy(session);
    fuse_opt_free_args(&args);
    return 0;
}
