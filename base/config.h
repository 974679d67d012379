/* SPDX-License-Identifier: MIT */
/*
 * mount.conf, and what a SOURCE on a command line stands for. Syntax is INI as inih reads it
 * (`;` and `#` comments, no line over 1 KiB); everything has a default; an unknown section or key,
 * a bad value or a key given twice is an error that names file and line.
 *
 *   [mount]          cache_size, cache_ttl, state_dir, uid, gid, umask, allow_other, read_only,
 *                    quiet, max_item_size, rename_grace, stream_poll, follow,
 *                    log_level
 *   [backend NAME]   type = sqlite, path = FILE (relative to the configuration file; NAME.db);
 *                    type = dynamodb, region, endpoint, profile, ca_file, tables, segments,
 *                    read_units, write_units;
 *                    type = folder, path = DIR, or replicas = DIR, DIR, or config = FILE.xml with
 *                    environment, layout, fsync, replica_timeout
 *   [table NAME]     backend, keys, tag_rule, show_keys, format, types, ttl, stream,
 *                    profile, and with it the keys that the profile has,
 *                    of a table that "itemctl deploy" makes key, and with it sort, index (as often
 *                    as there are indexes), seed,
 *                    where it is in a service read_units, write_units,
 *                    keep_seconds, keep_min with keep_max,
 *                    function, and with it function_timeout, function_retry, function_batch,
 *                    function_secret_file, function_ca_file
 *
 * A file without [backend] sections has one backend, "store", in items.db beside the file.
 */
#ifndef BASE_CONFIG_H
#define BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/function.h"
#include "base/log.h"
#include "base/table.h"

#define CONFIG_SEGMENTS_MOST 64
#define CONFIG_BATCH_MOST 100
#define CONFIG_KEEP_MOST UINT64_C(1000000000000) /* seconds, items */

#define CONFIG_REPLICAS_MOST 16

enum backend_type { BACKEND_TYPE_SQLITE, BACKEND_TYPE_DYNAMODB, BACKEND_TYPE_FOLDER };
/* What a folder is: its subdirectories are tables, or it is one; AUTO: as it is found. */
enum folder_layout { LAYOUT_AUTO, LAYOUT_TABLES, LAYOUT_TABLE };

struct path_list {
    char **paths; /* absolute */
    size_t count;
};

struct index_list {
    struct index *indexes;
    size_t count;
};

struct backend_config {
    char *name; /* "store" where no configuration file names one */
    enum backend_type type;
    char *path; /* sqlite: the store, absolute; else NULL */
    /* dynamodb; NULL: as the environment and AWS's own files say */
    char *region;
    char *endpoint; /* URL */
    char *profile;
    char *ca_file;                  /* absolute; certificates that the endpoint's may come from */
    char *tables;                   /* names that are shown, separated by commas; NULL: all */
    uint64_t segments;              /* that a table is read in at once, at most; 0: not set */
    double read_units, write_units; /* a second, that all tables together may consume; 0: any */
    /* folder */
    struct path_list replicas; /* at least one, unless: */
    char *config;              /* absolute; the tag store's configuration, which names them */
    char *environment;         /* in that */
    enum folder_layout layout;
    bool fsync_always;      /* every save is on stable storage before it is acknowledged */
    double replica_timeout; /* seconds that one replica may keep the others waiting; 5 */
    bool has_folder_key;    /* one of those below `folder` was set */
    unsigned replicas_line; /* of the file, which has path or replicas; 0: none */
};

/* A key of [table NAME] that its profile is to know (backend/profile/profile.h). */
struct profile_setting {
    char *name, *value;
    unsigned line; /* of the file */
};

/* Settings of a table; `has_*` says whether the configuration set it. */
struct table_config {
    char *name;
    char *backend; /* NULL: the first */
    bool has_keys, has_strict_tags, has_show_keys, has_format, has_ttl, has_stream, has_types;
    enum keys_style keys;
    bool strict_tags;
    bool show_keys;
    enum body_format format;
    enum type_names types;
    char *ttl; /* attribute; NULL with has_ttl: none */
    bool stream;
    struct key_attribute key, sort; /* of a declared table; key.name NULL: it is not declared */
    struct index_list indexes;      /* likewise */
    char *seed;                     /* absolute; items of a declared table; NULL: not named */
    double read_units, write_units; /* a second, that it may consume; 0: any */
    char *profile;                  /* NULL: none */
    struct profile_setting *profile_settings;
    size_t profile_setting_count;
    struct function function;     /* what its changes are delivered to; FUNCTION_NONE */
    unsigned line, function_line; /* of the section in its file, and of its function; 0: none */
    uint64_t keep_seconds;        /* since an item's mtime, that it is kept; 0: for ever */
    bool has_keep_min, has_keep_max;
    uint64_t keep_min, keep_max; /* when there are so many items, the oldest go until MIN are left;
                                    MAX 0: no matter how many there are */
    bool has_function_key;       /* one of those below was set */
    double function_timeout;     /* seconds that a call may take; 30 */
    double function_retry;       /* seconds before the second try, more before later ones; 1 */
    uint64_t function_batch;     /* records in a call at most; CONFIG_BATCH_MOST */
    char *function_secret_file;  /* absolute; what signs requests; NULL: they are not */
    char *function_ca_file;      /* absolute; certificates that the function's may come from */
};

struct config {
    char *path;          /* absolute, of the file that it was read from; NULL: of none */
    uint64_t cache_size; /* bytes of bodies kept in memory; K, M, G suffixes; 32M */
    double cache_ttl;    /* seconds; for backends that tell of no changes; 1 */
    char *state_dir; /* $XDG_STATE_HOME/itemfs, ~/.local/state/itemfs, /var/lib/itemfs for root */
    bool has_uid, has_gid; /* else the mounting user's */
    uid_t uid;
    gid_t gid;
    unsigned umask; /* octal; 022: files 0644, directories 0755 */
    bool allow_other;
    bool read_only;
    bool quiet;             /* chmod and chown of items succeed silently */
    uint64_t max_item_size; /* bytes; 16M */
    double rename_grace; /* seconds that an item renamed to a scratch name waits for a new one; 3 */
    double stream_poll;  /* seconds between looks at a service's stream, 0.1 to 60; 1 */
    bool watch;          /* what others do to folders is watched: of a mount; set by its program */
    bool follow;         /* streams of services are read, so that caches need no cache_ttl; true */
    enum log_level log_level;
    struct backend_config *backends;
    size_t backend_count; /* at least 1 */
    struct table_config *tables;
    size_t table_count;
};

/*
 * What SOURCE stands for: a file whose name ends in ".conf" is read as a configuration;
 * "dynamodb:REGION" or "dynamodb:REGION/TABLE" is a service (REGION may be empty, then AWS's own
 * settings name it); any other file name is an embedded store, which must be there unless it is
 * FILE.db; a directory, or a name that ends in "/", is a folder of files, which must be there.
 * -ENOENT and -EACCES for a configuration file that cannot be read; -EINVAL with
 * "FILE:LINE: reason".
 */
int config_from_source(const char *source, struct config **ret_config, struct err *err);
void config_free(struct config *config);

/* The same for a configuration's TEXT, which came from PATH (for messages and relative names). */
int config_parse(struct span text, const char *path, struct config **ret_config, struct err *err);

/*
 * TEXT, of the configuration PATH, once more, but that [backend NAME], a folder's, has the replica
 * ADD (absolute; NULL: none) besides the others, and REMOVE (likewise) no more. Nothing else of it
 * changes. -EINVAL where a value cannot say so, or the section has no list of its own.
 */
int config_edit_replicas(struct span text, const char *path, const char *name, const char *add,
                         const char *remove, struct buf *out, struct err *err);

/*
 * TEXT, of the configuration PATH, once more, but that [table NAME], which is added where it is
 * missing, has FUNCTION as its function, as "function =" would be written, and "types = kernstack"
 * unless it says something of types. Nothing else of it changes. -EINVAL where a line of it cannot
 * say so.
 */
int config_edit_function(struct span text, const char *path, const char *name, const char *function,
                         struct buf *out, struct err *err);

/* The keys that a configuration may hold, by number from 0: the name, or NULL behind the last.
 * SECTION gets "mount", "backend" or "table". */
const char *config_key(size_t number, const char **ret_section);

/*
 * Applies one mount option ("uid=1000", "ro", "allow_other", "cache_size=64M"): the same names and
 * rules as in [mount], "ro" for read_only. 1: not one of ours (the caller passes it on to FUSE).
 */
int config_option(struct config *config, const char *option, struct err *err);

/* Adds a copy of PATH. -ENOMEM; -EINVAL (too many, or twice the same). */
int path_list_add(struct path_list *list, const char *path, struct err *err);
void path_list_release(struct path_list *list);
bool path_list_has(const struct path_list *list, const char *path);
bool path_list_equal(const struct path_list *a, const struct path_list *b);

/* The settings for a table, or NULL; and applying them over a description from a backend. */
const struct table_config *config_table(const struct config *config, struct span name);
void config_apply(const struct config *config, struct table *table);
/* Gives TABLE, which is to be made, the keys and indexes that it is declared with, if it is; its
 * keys are plain then, unless config_apply says otherwise. -ENOMEM. */
int config_shape(const struct config *config, struct table *table);

#endif
