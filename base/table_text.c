/* SPDX-License-Identifier: MIT */
/* Descriptions of tables as text: read from command lines, written as JSON. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/table.h"

static int copy_name(struct span text, char **ret_name, struct err *err)
{
    if (text.len == 0)
        return err_set(err, EINVAL, "an attribute or index needs a name");
    if (memchr(text.data, '\0', text.len))
        return err_set(err, EINVAL, "names may not hold NUL here");
    char *name = strndup(text.data, text.len);
    if (!name)
        return err_set(err, ENOMEM, "out of memory");
    *ret_name = name;
    return 0;
}

/* The type that TEXT ends in, ":S", ":N" or ":B". */
static bool parse_type(struct span text, enum value_type *ret_type)
{
    if (text.len < 2 || text.data[text.len - 2] != ':')
        return false;
    switch (text.data[text.len - 1]) {
    case 'S': *ret_type = VALUE_S; return true;
    case 'N': *ret_type = VALUE_N; return true;
    case 'B': *ret_type = VALUE_B; return true;
    default: return false;
    }
}

int key_attribute_parse(struct span text, struct key_attribute *ret_attribute, struct err *err)
{
    struct key_attribute attribute = {.type = VALUE_S};
    struct span name = text;
    if (parse_type(text, &attribute.type))
        name.len -= 2;
    else if (text.len > 0 && memchr(text.data, ':', text.len))
        return err_set(err, EINVAL, "\"%.*s\": the type behind \":\" must be S, N or B",
                       (int)text.len, text.data);
    int error = copy_name(name, &attribute.name, err);
    if (!error)
        *ret_attribute = attribute;
    return error;
}

int index_parse(struct span text, struct index *ret_index, struct err *err)
{
    const char *colon = text.len ? memchr(text.data, ':', text.len) : NULL;
    if (!colon)
        return err_set(err, EINVAL, "\"%.*s\": an index is NAME:PK[:TYPE][,SK[:TYPE]]",
                       (int)text.len, text.len ? text.data : "");
    struct span name = span_of(text.data, (size_t)(colon - text.data));
    struct span partition = span_of(colon + 1, text.len - name.len - 1);
    struct span sort = {0};
    const char *comma = partition.len ? memchr(partition.data, ',', partition.len) : NULL;
    if (comma) {
        sort = span_of(comma + 1, (size_t)(text.data + text.len - comma - 1));
        partition.len = (size_t)(comma - partition.data);
    }
    if (sort.len && memchr(sort.data, ',', sort.len))
        return err_set(err, EINVAL, "\"%.*s\": an index has at most two attributes, PK and SK",
                       (int)text.len, text.data);
    struct index index = {0};
    int error = copy_name(name, &index.name, err);
    error = error ? error : key_attribute_parse(partition, &index.partition, err);
    if (comma && !error)
        error = key_attribute_parse(sort, &index.sort, err);
    if (error)
        index_release(&index);
    else
        *ret_index = index;
    return error;
}

/* One entry of a KeySchema, after COMMA. */
static void add_key_attribute(struct buf *out, const char *separator,
                              const struct key_attribute *attribute, const char *role)
{
    if (!attribute->name)
        return;
    buf_addf(out, "%s{\"AttributeName\": ", separator);
    json_add_string(out, span_text(attribute->name));
    buf_addf(out, ", \"KeyType\": \"%s\", \"AttributeType\": \"%s\"}", role,
             value_type_name(attribute->type));
}

static void add_key_schema(struct buf *out, const struct key_attribute *partition,
                           const struct key_attribute *sort, const char *indent)
{
    char separator[32];
    snprintf(separator, sizeof separator, ",\n%s  ", indent);
    buf_addf(out, "%s\"KeySchema\": [", indent);
    add_key_attribute(out, separator + 1, partition, "HASH");
    add_key_attribute(out, separator, sort, "RANGE");
    buf_addf(out, "\n%s]", indent);
}

static void add_index(struct buf *out, const struct index *index)
{
    buf_add_text(out, "\n    {\n      \"IndexName\": ");
    json_add_string(out, span_text(index->name));
    buf_add_text(out, ",\n");
    add_key_schema(out, &index->partition, &index->sort, "      ");
    buf_add_text(out, "\n    }");
}

static void add_time(struct buf *out, int64_t time_ns)
{
    time_t seconds = (time_t)(time_ns / NS_PER_S);
    struct tm utc;
    char text[64];
    if (!gmtime_r(&seconds, &utc) || !strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc))
        buf_add_text(out, "null");
    else
        buf_addf(out, "\"%s\"", text);
}

void table_to_json(const struct table *table, struct buf *out)
{
    buf_add_text(out, "{\n  \"TableName\": ");
    json_add_string(out, span_text(table->name));
    buf_add_text(out, ",\n");
    add_key_schema(out, &table->partition, &table->sort, "  ");
    buf_addf(out, ",\n  \"Keys\": \"%s\",\n  \"TimeToLive\": ",
             table->keys == KEYS_TAGS ? "tags" : "plain");
    if (table->ttl_attribute)
        json_add_string(out, span_text(table->ttl_attribute));
    else
        buf_add_text(out, "null");
    buf_addf(out, ",\n  \"Stream\": %s,\n  \"Indexes\": [", table->stream ? "true" : "false");
    for (size_t i = 0; i < table->index_count; i++) {
        buf_add_text(out, i ? "," : "");
        add_index(out, &table->indexes[i]);
    }
    buf_add_text(out, table->index_count ? "\n  ],\n" : "],\n");
    if (table->read_units)
        buf_addf(out,
                 "  \"ProvisionedThroughput\": {\"ReadCapacityUnits\": %" PRIu64
                 ", \"WriteCapacityUnits\": %" PRIu64 "},\n",
                 table->read_units, table->write_units);
    buf_add_text(out, "  \"Created\": ");
    add_time(out, table->created_ns);
    buf_add_text(out, "\n}\n");
}
