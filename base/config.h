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
 *                    read_units, write_units
 *   [table NAME]     backend, keys, tag_rule, show_keys, format, ttl, stream,
 *                    where it is in a service read_units, write_units,
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

#include "base/err.h"
#include "base/function.h"
#include "base/log.h"
#include "base/table.h"

#define CONFIG_SEGMENTS_MOST 64
#define CONFIG_BATCH_MOST 100

enum backend_type { BACKEND_TYPE_SQLITE, BACKEND_TYPE_DYNAMODB };

struct backend_config {
    char *name; /* "store" where no configuration file names one */
    enum backend_type type;
    char *path; /* sqlite: the store, absolute; dynamodb: NULL */
    /* dynamodb; NULL: as the environment and AWS's own files say */
    char *region;
    char *endpoint; /* URL */
    char *profile;
    char *ca_file;                  /* absolute; certificates that the endpoint's may come from */
    char *tables;                   /* names that are shown, separated by commas; NULL: all */
    uint64_t segments;              /* that a table is read in at once, at most; 0: not set */
    double read_units, write_units; /* a second, that all tables together may consume; 0: any */
};

/* Settings of a table; `has_*` says whether the configuration set it. */
struct table_config {
    char *name;
    char *backend; /* NULL: the first */
    bool has_keys, has_strict_tags, has_show_keys, has_format, has_ttl, has_stream;
    enum keys_style keys;
    bool strict_tags;
    bool show_keys;
    enum body_format format;
    char *ttl; /* attribute; NULL with has_ttl: none */
    bool stream;
    double read_units, write_units; /* a second, that it may consume; 0: any */
    struct function function;       /* what its changes are delivered to; FUNCTION_NONE */
    bool has_function_key;          /* one of those below was set */
    double function_timeout;        /* seconds that a call may take; 30 */
    double function_retry;          /* seconds before the second try, more before later ones; 1 */
    uint64_t function_batch;        /* records in a call at most; CONFIG_BATCH_MOST */
    char *function_secret_file;     /* absolute; what signs requests; NULL: they are not */
    char *function_ca_file;         /* absolute; certificates that the function's may come from */
};

struct config {
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
 * FILE.db. A name that ends in "/" or is a directory is -EOPNOTSUPP for now. -ENOENT and -EACCES
 * for a configuration file that cannot be read; -EINVAL with "FILE:LINE: reason".
 */
int config_from_source(const char *source, struct config **ret_config, struct err *err);
void config_free(struct config *config);

/* The same for a configuration's TEXT, which came from PATH (for messages and relative names). */
int config_parse(struct span text, const char *path, struct config **ret_config, struct err *err);

/* The keys that a configuration may hold, by number from 0: the name, or NULL behind the last.
 * SECTION gets "mount", "backend" or "table". */
const char *config_key(size_t number, const char **ret_section);

/*
 * Applies one mount option ("uid=1000", "ro", "allow_other", "cache_size=64M"): the same names and
 * rules as in [mount], "ro" for read_only. 1: not one of ours (the caller passes it on to FUSE).
 */
int config_option(struct config *config, const char *option, struct err *err);

/* The settings for a table, or NULL; and applying them over a description from a backend. */
const struct table_config *config_table(const struct config *config, struct span name);
void config_apply(const struct config *config, struct table *table);

#endif
