/* SPDX-License-Identifier: MIT */
/*
 * Key parts in columns: S is TEXT of the same bytes (NUL and lone surrogates included), B is BLOB,
 * N is a BLOB whose byte order is the numeric order (number_to_order). An absent sort part is ''.
 * SQLite orders TEXT before BLOB and each by bytes, so '' comes before every part of any type.
 */
#include <errno.h>

#include "backend/sqlite/store.h"
#include "base/cleanup.h"
#include "base/number.h"

void bind_text(sqlite3_stmt *statement, int at, struct span text)
{
    sqlite3_bind_text64(statement, at, text.len ? text.data : "", text.len, SQLITE_STATIC,
                        SQLITE_UTF8);
}

void bind_blob(sqlite3_stmt *statement, int at, struct span data)
{
    sqlite3_bind_blob64(statement, at, data.len ? data.data : "", data.len, SQLITE_STATIC);
}

void bind_time(sqlite3_stmt *statement, int at, int64_t value)
{
    if (value)
        sqlite3_bind_int64(statement, at, value);
    else
        sqlite3_bind_null(statement, at);
}

static int bind_order(sqlite3_stmt *statement, int at, struct span number)
{
    cleanup(buf_release) struct buf order;

    buf_init(&order, 256);
    number_to_order(number, &order);
    if (buf_error(&order))
        return buf_error(&order);
    int rc = sqlite3_bind_blob64(statement, at, order.data, order.len, SQLITE_TRANSIENT);
    return rc == SQLITE_OK ? 0 : -ENOMEM;
}

int bind_part(sqlite3_stmt *statement, int at, enum value_type type, struct span part)
{
    if (part.len && type == VALUE_N)
        return bind_order(statement, at, part);
    if (part.len && type == VALUE_B)
        bind_blob(statement, at, part);
    else
        bind_text(statement, at, part);
    return 0;
}

int bind_key(sqlite3_stmt *statement, int at, const struct table *table, struct key key)
{
    int code = bind_part(statement, at, table->partition.type, key.partition);
    return code ? code : bind_part(statement, at + 1, table->sort.type, key.sort);
}

int column_span(sqlite3_stmt *statement, int at, struct span *ret_span)
{
    if (sqlite3_column_type(statement, at) == SQLITE_NULL) {
        *ret_span = span_of(NULL, 0);
        return 0;
    }
    const char *data = sqlite3_column_blob(statement, at); /* of TEXT: its bytes as they are */
    int len = sqlite3_column_bytes(statement, at);
    if (!data && len)
        return -ENOMEM;
    *ret_span = span_of(data ? data : "", (size_t)len);
    return 0;
}

int column_part(sqlite3_stmt *statement, int at, enum value_type type, struct buf *buf,
                struct span *ret_part)
{
    struct span raw;
    int code = column_span(statement, at, &raw);

    if (code || type != VALUE_N || raw.len == 0) {
        if (code == 0)
            *ret_part = raw;
        return code;
    }
    buf_clear(buf);
    code = number_from_order(raw, buf);
    if (code)
        return -EUCLEAN;
    *ret_part = buf_span(buf);
    return buf_error(buf);
}

void column_meta(sqlite3_stmt *statement, int at, struct item_meta *ret_meta)
{
    *ret_meta = (struct item_meta){
        .version = (uint64_t)sqlite3_column_int64(statement, at + META_VERSION),
        .size = (uint64_t)sqlite3_column_int64(statement, at + META_SIZE),
        .mtime_ns = sqlite3_column_int64(statement, at + META_MTIME),
        .ctime_ns = sqlite3_column_int64(statement, at + META_CTIME),
        .ttl = sqlite3_column_int64(statement, at + META_EXPIRES),
        .change_ns = sqlite3_column_int64(statement, at + META_CHANGED),
        .change = (enum change_type)sqlite3_column_int(statement, at + META_CHANGE),
    };
}
