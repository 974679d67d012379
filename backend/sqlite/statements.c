/* SPDX-License-Identifier: MIT */
#include "backend/sqlite/statements.h"

/* Not expired at the second ?N. */
#define LIVE(n) "(expires IS NULL OR expires > ?" #n ")"
#define ITEM_KEY "table_id = ?1 AND pk = ?2 AND sk = ?3"

/* Entries that move a table's directory time: items, and scratch directly in it, come or gone. */
#define MOVES "change IN (1, 3) AND (kind = 0 OR (kind = 2 AND scratch_parent IS NULL))"
#define LATEST                                                                                     \
    "SELECT table_id, max(time) AS time FROM change"                                               \
    " WHERE seq > (SELECT value FROM meta WHERE name = 'rolled_seq') AND " MOVES                   \
    " GROUP BY table_id"

#define TABLES(with, latest, which)                                                                \
    with "SELECT id, name, key_name, key_type, sort_name, sort_type, ttl, keys, stream, created,"  \
         " max(changed, coalesce(" latest ", 0)) FROM tables " which

#define WALK(columns, where, order)                                                                \
    "SELECT pk, sk, " META_COLUMNS columns " FROM item WHERE table_id = ?1 AND " where             \
    " AND " LIVE(4) " ORDER BY " order " LIMIT ?5"
#define BEHIND "(pk, sk) > (?2, ?3)"
#define BEHIND_IN_PARTITION "pk = ?2 AND sk > ?3"

/* ?1 table, ?2 partition, ?3 from, ?4 to, ?5 now, ?6 limit, ?7 index. */
#define QUERY(upper, order)                                                                        \
    "SELECT pk, sk, " META_COLUMNS ", body FROM item"                                              \
    " WHERE table_id = ?1 AND pk = ?2 AND sk >= ?3" upper " AND " LIVE(5) " ORDER BY sk " order    \
                                                                          " LIMIT ?6"
#define INDEX_QUERY(upper, order)                                                                  \
    "SELECT item.pk, item.sk, " META_COLUMNS ", body FROM entry"                                   \
    " CROSS JOIN item ON item.table_id = ?1 AND item.pk = entry.pk AND item.sk = entry.sk"         \
    " WHERE index_id = (SELECT id FROM indexes WHERE table_id = ?1 AND name = ?7)"                 \
    " AND ipk = ?2 AND isk >= ?3" upper " AND " LIVE(5) " ORDER BY isk " order ", entry.pk " order \
                                                        ", entry.sk " order " LIMIT ?6"

#define LOG_ENTRIES                                                                                \
    "SELECT seq, table_id, kind, pk, sk, change, time, origin, streamed, expired, old, new,"       \
    " old_ttl, new_ttl, scratch_parent, scratch_name, tables.key_type, tables.sort_type"           \
    " FROM change LEFT JOIN tables ON tables.id = change.table_id"
/* A record of the stream of table ?N. */
#define RECORD_OF(n) "change.table_id = ?" #n " AND change.kind = 0 AND change.streamed = 1"

#define SCRATCH_COLUMNS                                                                            \
    "id, table_id, partition, parent, name, kind, mode, uid, gid, mtime, ctime, ttl, size"
#define SCRATCH_INSIDE                                                                             \
    "WITH RECURSIVE inside(id) AS (SELECT id FROM scratch WHERE parent = ?1"                       \
    " UNION SELECT scratch.id FROM scratch JOIN inside ON scratch.parent = inside.id)"

const char *const statement_sql[STATEMENT_COUNT] = {
    [STATEMENT_BEGIN_WRITE] = "BEGIN IMMEDIATE",
    [STATEMENT_BEGIN_READ] = "BEGIN",
    [STATEMENT_COMMIT] = "COMMIT",
    [STATEMENT_ROLLBACK] = "ROLLBACK",
    [STATEMENT_SAVEPOINT] = "SAVEPOINT batch",
    [STATEMENT_RELEASE] = "RELEASE batch",
    [STATEMENT_ROLLBACK_TO] = "ROLLBACK TO batch",
    [STATEMENT_DATA_VERSION] = "PRAGMA data_version",
    [STATEMENT_META_GET] = "SELECT value FROM meta WHERE name = ?1",
    [STATEMENT_META_SET] = "UPDATE meta SET value = ?2 WHERE name = ?1",

    [STATEMENT_TABLES] = TABLES("WITH latest AS (" LATEST ") ", "latest.time",
                                "LEFT JOIN latest ON latest.table_id = tables.id ORDER BY name"),
    [STATEMENT_TABLE_NAMED] =
        TABLES("", "(SELECT time FROM (" LATEST ") WHERE table_id = tables.id)", "WHERE name = ?1"),
    [STATEMENT_INDEXES] = "SELECT id, name, key_name, key_type, sort_name, sort_type FROM indexes"
                          " WHERE table_id = ?1 ORDER BY id",
    [STATEMENT_TABLE_INSERT] =
        "INSERT INTO tables(name, key_name, key_type, sort_name, sort_type, ttl, keys, stream,"
        " created, changed) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)",
    [STATEMENT_TABLE_UPDATE] =
        "UPDATE tables SET name = ?2, ttl = ?3, keys = ?4, stream = ?5 WHERE id = ?1",
    [STATEMENT_TABLE_DELETE] = "DELETE FROM tables WHERE id = ?1",
    [STATEMENT_TABLE_HAS_ITEM] = "SELECT 1 FROM item WHERE table_id = ?1 AND " LIVE(2) " LIMIT 1",
    [STATEMENT_TABLE_HAS_SCRATCH] = "SELECT 1 FROM scratch WHERE table_id = ?1 LIMIT 1",
    [STATEMENT_TABLE_DROP_ITEMS] = "DELETE FROM item WHERE table_id = ?1",
    [STATEMENT_TABLE_DROP_ENTRIES] =
        "DELETE FROM entry WHERE index_id IN (SELECT id FROM indexes WHERE table_id = ?1)",
    [STATEMENT_TABLE_DROP_INDEXES] = "DELETE FROM indexes WHERE table_id = ?1",
    [STATEMENT_TABLE_DROP_PARTITIONS] = "DELETE FROM partition WHERE table_id = ?1",
    [STATEMENT_TABLE_DROP_SCRATCH] = "DELETE FROM scratch WHERE table_id = ?1",
    [STATEMENT_TABLE_EXPIRES] = "UPDATE item SET expires = itemfs_expires(pk, sk, hidden_ttl, body)"
                                " WHERE table_id = ?1",
    [STATEMENT_TABLE_ITEMS] = "SELECT pk, sk, hidden_ttl, body FROM item WHERE table_id = ?1",
    [STATEMENT_INDEX_INSERT] =
        "INSERT INTO indexes(table_id, name, key_name, key_type, sort_name, sort_type)"
        " VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
    [STATEMENT_SCHEMA_MOVED] = "UPDATE meta SET value = value + 1 WHERE name = 'schema'",
    [STATEMENT_ROLL_TABLES] = "UPDATE tables SET changed = max(changed, latest.time)"
                              " FROM (" LATEST ") AS latest WHERE latest.table_id = tables.id",
    [STATEMENT_ROLL_META] = "UPDATE meta SET value = (SELECT coalesce(max(seq), 0) FROM change)"
                            " WHERE name = 'rolled_seq'",

    [STATEMENT_ITEM_FIND] = "SELECT " META_COLUMNS ", hidden_ttl, body FROM item WHERE " ITEM_KEY,
    [STATEMENT_ITEM_INSERT] =
        "INSERT INTO item(table_id, pk, sk, version, size, mtime, ctime, expires, changed, change,"
        " hidden_ttl, body) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    [STATEMENT_ITEM_UPDATE] =
        "UPDATE item SET version = ?4, size = ?5, mtime = ?6, ctime = ?7, expires = ?8,"
        " changed = ?9, change = ?10, hidden_ttl = ?11, body = ?12 WHERE " ITEM_KEY,
    [STATEMENT_ITEM_TOUCH] = "UPDATE item SET mtime = ?4, ctime = ?5 WHERE " ITEM_KEY,
    [STATEMENT_ITEM_DELETE] = "DELETE FROM item WHERE " ITEM_KEY,
    [STATEMENT_ENTRY_INSERT] =
        "INSERT INTO entry(index_id, ipk, isk, pk, sk) VALUES(?1, ?2, ?3, ?4, ?5)",
    [STATEMENT_ENTRY_DELETE] = "DELETE FROM entry"
                               " WHERE index_id = ?1 AND ipk = ?2 AND isk = ?3 AND pk = ?4"
                               " AND sk = ?5",
    [STATEMENT_PARTITION_ADD] =
        "INSERT INTO partition(table_id, pk, items, scratch, changed) VALUES(?1, ?2, 1, 0, ?3)"
        " ON CONFLICT DO UPDATE SET items = items + 1, changed = max(changed, excluded.changed)",
    [STATEMENT_PARTITION_REMOVE] = "UPDATE partition"
                                   " SET items = items - 1, changed = max(changed, ?3)"
                                   " WHERE table_id = ?1 AND pk = ?2",
    [STATEMENT_PARTITION_PRUNE] =
        "DELETE FROM partition WHERE table_id = ?1 AND pk = ?2 AND items <= 0 AND scratch <= 0",
    [STATEMENT_PARTITION_SCRATCH] =
        "INSERT INTO partition(table_id, pk, items, scratch, changed) VALUES(?1, ?2, 0, ?4, ?3)"
        " ON CONFLICT DO UPDATE SET scratch = scratch + excluded.scratch,"
        " changed = max(changed, excluded.changed)",
    [STATEMENT_CHANGE_INSERT] =
        "INSERT INTO change(table_id, kind, pk, sk, change, time, origin, streamed, expired, old,"
        " new, old_ttl, new_ttl, scratch_parent, scratch_name)"
        " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",

    [STATEMENT_GET] = "SELECT " META_COLUMNS ", body FROM item WHERE " ITEM_KEY " AND " LIVE(4),
    [STATEMENT_GET_META] = "SELECT " META_COLUMNS " FROM item WHERE " ITEM_KEY " AND " LIVE(4),
    [STATEMENT_WALK] = WALK("", BEHIND, "pk, sk"),
    [STATEMENT_WALK_BODIES] = WALK(", body", BEHIND, "pk, sk"),
    [STATEMENT_WALK_PARTITION] = WALK("", BEHIND_IN_PARTITION, "sk"),
    [STATEMENT_WALK_PARTITION_BODIES] = WALK(", body", BEHIND_IN_PARTITION, "sk"),
    [STATEMENT_QUERY] = QUERY("", "ASC"),
    [STATEMENT_QUERY_TO] = QUERY(" AND sk <= ?4", "ASC"),
    [STATEMENT_QUERY_REVERSE] = QUERY("", "DESC"),
    [STATEMENT_QUERY_TO_REVERSE] = QUERY(" AND sk <= ?4", "DESC"),
    [STATEMENT_INDEX_QUERY] = INDEX_QUERY("", "ASC"),
    [STATEMENT_INDEX_QUERY_TO] = INDEX_QUERY(" AND isk <= ?4", "ASC"),
    [STATEMENT_INDEX_QUERY_REVERSE] = INDEX_QUERY("", "DESC"),
    [STATEMENT_INDEX_QUERY_TO_REVERSE] = INDEX_QUERY(" AND isk <= ?4", "DESC"),
    [STATEMENT_INDEX_VALUE] =
        "SELECT ipk FROM entry"
        " CROSS JOIN item ON item.table_id = ?1 AND item.pk = entry.pk AND item.sk = entry.sk"
        " WHERE index_id = (SELECT id FROM indexes WHERE table_id = ?1 AND name = ?3)"
        " AND ipk > ?2 AND " LIVE(4) " ORDER BY ipk LIMIT 1",
    [STATEMENT_PARTITIONS] =
        "WITH gone AS (SELECT pk, count(*) AS items FROM item INDEXED BY item_expires"
        " WHERE expires <= ?3 AND table_id = ?1 GROUP BY pk)"
        " SELECT partition.pk, partition.items - coalesce(gone.items, 0) AS live, changed"
        " FROM partition LEFT JOIN gone ON gone.pk = partition.pk"
        " WHERE table_id = ?1 AND partition.pk > ?2 AND (live > 0 OR scratch > 0) ORDER BY "
        "partition.pk LIMIT ?4",
    [STATEMENT_PARTITION_GET] =
        "SELECT items - (SELECT count(*) FROM item INDEXED BY item_expires"
        " WHERE expires <= ?3 AND table_id = ?1 AND pk = ?2), changed, scratch"
        " FROM partition WHERE table_id = ?1 AND pk = ?2",

    [STATEMENT_SCRATCH_INSERT] =
        "INSERT INTO scratch(table_id, partition, parent, name, kind, mode, uid, gid, mtime, ctime,"
        " ttl, size, body) VALUES(?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    [STATEMENT_SCRATCH_UPDATE] =
        "UPDATE scratch SET table_id = ?2, partition = ?3, parent = ?4, name = ?5, kind = ?6,"
        " mode = ?7, uid = ?8, gid = ?9, mtime = ?10, ctime = ?11, ttl = ?12 WHERE id = ?1",
    [STATEMENT_SCRATCH_BODY] = "UPDATE scratch SET size = ?2, body = ?3 WHERE id = ?1",
    [STATEMENT_SCRATCH_FOLLOW] = "UPDATE scratch SET table_id = ?2, partition = ?3"
                                 " WHERE id IN (" SCRATCH_INSIDE " SELECT id FROM inside)",
    [STATEMENT_SCRATCH_WITHIN] = SCRATCH_INSIDE " SELECT 1 FROM inside WHERE id = ?2",
    [STATEMENT_SCRATCH_CHILD] = "SELECT 1 FROM scratch WHERE parent = ?1 LIMIT 1",
    [STATEMENT_SCRATCH_DELETE] = "DELETE FROM scratch WHERE id = ?1",
    [STATEMENT_SCRATCH_GET] = "SELECT " SCRATCH_COLUMNS " FROM scratch WHERE id = ?1",
    [STATEMENT_SCRATCH_READ] = "SELECT body FROM scratch WHERE id = ?1",
    [STATEMENT_SCRATCH_LIST] = "SELECT " SCRATCH_COLUMNS " FROM scratch"
                               " WHERE table_id = ?1 AND partition = ?2 AND parent = ?3"
                               " ORDER BY name",
    [STATEMENT_SCRATCH_FIND] = "SELECT " SCRATCH_COLUMNS " FROM scratch"
                               " WHERE table_id = ?1 AND partition = ?2 AND parent = ?3"
                               " AND name = ?4",
    [STATEMENT_SCRATCH_MOVED] = "UPDATE scratch SET mtime = ?2, ctime = max(?2, ctime + 1)"
                                " WHERE id = ?1",
    [STATEMENT_DRAFT_INSERT] = "INSERT INTO draft(table_name, path, code, reason, time, size, body)"
                               " VALUES(?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    [STATEMENT_DRAFT_UPDATE] = "UPDATE draft SET table_name = ?2, path = ?3, code = ?4,"
                               " reason = ?5, time = ?6, size = ?7, body = ?8 WHERE id = ?1",
    [STATEMENT_DRAFT_DELETE] = "DELETE FROM draft WHERE id = ?1",
    [STATEMENT_DRAFT_LIST] = "SELECT id, table_name, path, code, reason, time, size FROM draft"
                             " WHERE ?1 = '' OR table_name = ?1 ORDER BY time, id",
    [STATEMENT_DRAFT_READ] = "SELECT body FROM draft WHERE id = ?1",

    [STATEMENT_LOG] =
        LOG_ENTRIES " WHERE seq > ?1 AND (kind > 2 OR tables.id IS NOT NULL) ORDER BY seq LIMIT ?2",
    [STATEMENT_LOG_POSITION] = "SELECT coalesce(max(seq), 0) FROM change",
    [STATEMENT_STREAM] =
        LOG_ENTRIES " WHERE seq > ?1 AND seq <= ?3 AND " RECORD_OF(4) " ORDER BY seq LIMIT ?2",
    [STATEMENT_STREAM_BEHIND] = "SELECT count(*) FROM change WHERE seq > ?1 AND " RECORD_OF(2),
    [STATEMENT_DROPPED] = "SELECT coalesce((SELECT value FROM meta WHERE name = 'dropped_seq'), 0)",
    [STATEMENT_LEASE_READ] = "SELECT count, holder, position FROM lease WHERE name = ?1",
    [STATEMENT_LEASE_TAKE] = "INSERT INTO lease(name, count, holder, position)"
                             " VALUES(?1, ?2 + 1, ?3, ?4) ON CONFLICT DO NOTHING",
    [STATEMENT_LEASE_KEEP] = "UPDATE lease SET count = ?2 + 1, holder = ?3, position = ?4"
                             " WHERE name = ?1 AND count = ?2",
    [STATEMENT_EXPIRY_FIRST] = "SELECT coalesce(min(expires), 0) FROM item INDEXED BY item_expires"
                               " WHERE expires IS NOT NULL",
    [STATEMENT_EXPIRED_NEXT] = "SELECT table_id, pk, sk FROM item INDEXED BY item_expires"
                               " WHERE expires <= ?1 ORDER BY expires LIMIT 1",
    [STATEMENT_EXPIRED] = "SELECT table_id, pk, sk FROM item INDEXED BY item_expires"
                          " WHERE expires <= ?1 ORDER BY expires LIMIT ?2",
    [STATEMENT_TRIM_END] =
        "SELECT coalesce(max(seq), 0) FROM (SELECT seq, time FROM change"
        " WHERE seq > (SELECT value FROM meta WHERE name = 'trimmed_seq')"
        " AND seq < (SELECT max(seq) FROM change) ORDER BY seq LIMIT ?2) WHERE time < ?1",
    [STATEMENT_TRIM_SHORT] = "DELETE FROM change"
                             " WHERE seq > (SELECT value FROM meta WHERE name = 'trimmed_seq')"
                             " AND seq <= ?2 AND streamed = 0 AND time < ?1",
    [STATEMENT_TRIM_LONG_END] =
        "SELECT coalesce(max(seq), 0) FROM (SELECT seq, time FROM change"
        " WHERE seq < (SELECT max(seq) FROM change) ORDER BY seq LIMIT ?2) WHERE time < ?1",
    [STATEMENT_TRIM_LONG] = "DELETE FROM change WHERE seq <= ?2 AND time < ?1",
    [STATEMENT_LOG_FIRST] = "SELECT coalesce((SELECT time FROM change"
                            " WHERE seq < (SELECT max(seq) FROM change) ORDER BY seq LIMIT 1), 0)",
};
