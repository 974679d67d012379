/* SPDX-License-Identifier: MIT */
#include "backend/dynamodb/condition.h"

#include <errno.h>
#include <stdio.h>

#include "backend/check.h"
#include "base/cleanup.h"
#include "base/json.h"

struct expression {
    struct buf text, names, values; /* the latter two are open objects */
    unsigned attributes;
};

static void expression_init(struct expression *expression)
{
    buf_init(&expression->text, 65536);
    buf_init(&expression->names, DYNAMODB_BODY_MAX);
    buf_init(&expression->values, DYNAMODB_BODY_MAX);
    buf_add_char(&expression->names, '{');
    buf_add_char(&expression->values, '{');
}

static void expression_release(struct expression *expression)
{
    buf_release(&expression->text);
    buf_release(&expression->names);
    buf_release(&expression->values);
}

static void add_alias(struct expression *expression, const char *alias, struct span name)
{
    struct buf *names = &expression->names;

    if (names->len > 1)
        buf_add_char(names, ',');
    json_add_string(names, span_text(alias));
    buf_add_char(names, ':');
    json_add_string(names, name);
}

static void add_value(struct expression *expression, const char *alias, struct span typed)
{
    struct buf *values = &expression->values;

    if (values->len > 1)
        buf_add_char(values, ',');
    json_add_string(values, span_text(alias));
    buf_add_char(values, ':');
    buf_add_span(values, typed);
}

static void add_number(struct expression *expression, const char *alias, int64_t number)
{
    cleanup(buf_release) struct buf typed;

    buf_init(&typed, 128);
    buf_addf(&typed, "{\"N\":\"%lld\"}", (long long)number);
    add_value(expression, alias, buf_span(&typed));
}

static void add_typed(struct expression *expression, const char *alias, const struct value *value)
{
    cleanup(buf_release) struct buf typed;

    buf_init(&typed, DYNAMODB_BODY_MAX);
    value_to_typed(value, &typed);
    if (buf_error(&typed))
        expression->values.error = buf_error(&typed);
    add_value(expression, alias, buf_span(&typed));
}

/* AND #aN = :aN */
static void add_equal(struct expression *expression, const char *alias, const struct value *value)
{
    char value_alias[16];

    snprintf(value_alias, sizeof value_alias, ":%s", alias + 1);
    buf_addf(&expression->text, " AND %s = %s", alias, value_alias);
    add_typed(expression, value_alias, value);
}

struct alias {
    char text[16]; /* #aN */
};

static struct alias next_alias(struct expression *expression, struct span name)
{
    struct alias alias;

    snprintf(alias.text, sizeof alias.text, "#a%u", expression->attributes++);
    add_alias(expression, alias.text, name);
    return alias;
}

static bool is_key(const struct table *table, const struct member *member)
{
    struct span name = span_of(member->name, member->name_len);

    return span_equal(name, span_text(table->partition.name)) ||
           (table->sort.name && span_equal(name, span_text(table->sort.name)));
}

static bool is_flat(const struct value *value)
{
    return value->type != VALUE_M && value->type != VALUE_L;
}

static bool is_touched(const struct touch *touches, size_t count, struct span name)
{
    for (size_t i = 0; i < count; i++)
        if (span_equal(touches[i].name, name))
            return true;
    return false;
}

/* The attributes of BASE but for TOUCHES, as many as fit. */
static void add_base(struct expression *expression, const struct table *table,
                     const struct value *base, const struct touch *touches, size_t count, bool flat)
{
    for (size_t i = 0; i < base->map.count; i++) {
        const struct member *member = &base->map.members[i];
        struct span name = span_of(member->name, member->name_len);
        if (expression->attributes >= CONDITION_ATTRIBUTES_MAX)
            return;
        if (is_key(table, member) || (flat && !is_flat(&member->value)) ||
            is_touched(touches, count, name))
            continue;
        add_equal(expression, next_alias(expression, name).text, &member->value);
    }
}

/* LEAD it is there and has expired: before the service has deleted it. */
static void add_expired(struct expression *expression, const char *lead, const struct table *table,
                        int64_t now_s)
{
    if (!table->ttl_attribute)
        return;
    buf_add_text(&expression->text, lead);
    buf_add_text(&expression->text, " (attribute_type(#t, :n) AND #t <= :now AND #t > :gone)");
    add_alias(expression, "#t", span_text(table->ttl_attribute));
    add_value(expression, ":n", span_text("{\"S\":\"N\"}"));
    add_number(expression, ":now", table_passed_s(table, now_s));
    add_number(expression, ":gone", now_s > ITEM_LONG_GONE_S ? now_s - ITEM_LONG_GONE_S : 0);
}

static void expression_end(struct expression *expression, struct buf *out)
{
    buf_add_char(&expression->names, '}');
    request_text(out, "ConditionExpression", buf_span(&expression->text));
    request_raw(out, "ExpressionAttributeNames", buf_span(&expression->names));
    if (expression->values.len > 1) {
        buf_add_char(&expression->values, '}');
        request_raw(out, "ExpressionAttributeValues", buf_span(&expression->values));
    }
    if (buf_error(&expression->text) || buf_error(&expression->names) ||
        buf_error(&expression->values))
        out->error = out->error ? out->error : -ENOMEM;
}

void request_condition(struct buf *out, const struct table *table, struct condition condition,
                       const struct value *base, bool flat, int64_t now_s)
{
    cleanup(expression_release) struct expression expression = {.attributes = 0};

    if (condition.kind == COND_NONE)
        return;
    expression_init(&expression);
    add_alias(&expression, "#p", span_text(table->partition.name));
    if (condition.kind == COND_ABSENT) {
        buf_add_text(&expression.text, "attribute_not_exists(#p)");
        add_expired(&expression, " OR", table, now_s);
    } else {
        buf_add_text(&expression.text, "attribute_exists(#p)");
        if (condition.kind == COND_VERSION)
            add_base(&expression, table, base, NULL, 0, flat);
        else
            add_expired(&expression, " AND NOT", table, now_s);
    }
    expression_end(&expression, out);
}

static void add_touch(struct expression *expression, struct buf *set, struct buf *remove,
                      const struct touch *touch, bool flat)
{
    struct alias alias = next_alias(expression, touch->name);
    char after[16];

    if (!touch->before)
        buf_addf(&expression->text, " AND attribute_not_exists(%s)", alias.text);
    else if (!flat || is_flat(touch->before))
        add_equal(expression, alias.text, touch->before);
    if (!touch->after) {
        buf_addf(remove, "%s%s", remove->len ? ", " : " REMOVE ", alias.text);
        return;
    }
    snprintf(after, sizeof after, ":s%s", alias.text + 2);
    buf_addf(set, "%s%s = %s", set->len ? ", " : "SET ", alias.text, after);
    add_typed(expression, after, touch->after);
}

void request_change(struct buf *out, const struct table *table, const struct touch *touches,
                    size_t count, const struct value *rest, bool flat)
{
    cleanup(expression_release) struct expression expression = {.attributes = 0};
    cleanup(buf_release) struct buf set, remove;

    buf_init(&set, 65536);
    buf_init(&remove, 65536);
    expression_init(&expression);
    add_alias(&expression, "#p", span_text(table->partition.name));
    buf_add_text(&expression.text, "attribute_exists(#p)");
    for (size_t i = 0; i < count; i++)
        add_touch(&expression, &set, &remove, &touches[i], flat);
    if (rest)
        add_base(&expression, table, rest, touches, count, flat);
    buf_add_span(&set, buf_span(&remove));
    if (set.len)
        request_text(out, "UpdateExpression", buf_span(&set));
    expression_end(&expression, out);
}

/* The values that an update's expressions name: :v, :l is the list of it alone, :zero what counts
 * where the attribute is absent, :kind the type that it must have. */
static void add_update_values(struct expression *expression, const struct update *update,
                              const struct value *value, bool made, bool from_null)
{
    struct value item = *value, list = {.type = VALUE_L, .list = {&item, 1}};
    bool add = update->kind == UPDATE_ADD;

    if (add || update->kind == UPDATE_APPEND_UNIQUE)
        add_typed(expression, ":v", value);
    if (!add)
        add_typed(expression, ":l", &list);
    if (made)
        add_value(expression, ":zero", span_text(add ? "{\"N\":\"0\"}" : "{\"L\":[]}"));
    add_value(expression, ":kind",
              span_text(from_null ? "{\"S\":\"NULL\"}"
                        : add     ? "{\"S\":\"N\"}"
                                  : "{\"S\":\"L\"}"));
}

void request_update(struct buf *out, const struct table *table, const struct update *update,
                    const struct value *value, bool from_null, int64_t now_s)
{
    cleanup(expression_release) struct expression expression = {.attributes = 0};
    bool made = !from_null && !span_equal(update->attribute, span_text(ITEM_VALUE));
    const char *old = made ? "if_not_exists(#a, :zero)" : "#a";
    char set[64];

    expression_init(&expression);
    add_alias(&expression, "#p", span_text(table->partition.name));
    add_alias(&expression, "#a", update->attribute);
    buf_add_text(&expression.text, "attribute_exists(#p)");
    add_expired(&expression, " AND NOT", table, now_s);
    buf_add_text(&expression.text, " AND (attribute_type(#a, :kind)");
    if (update->kind == UPDATE_APPEND_UNIQUE)
        buf_add_text(&expression.text, " AND NOT contains(#a, :v)");
    if (made) {
        add_alias(&expression, "#bare", span_text(ITEM_VALUE));
        buf_add_text(&expression.text,
                     " OR attribute_not_exists(#a) AND attribute_not_exists(#bare)");
    }
    buf_add_char(&expression.text, ')');
    add_update_values(&expression, update, value, made, from_null);
    if (from_null)
        snprintf(set, sizeof set, "SET #a = :v");
    else if (update->kind == UPDATE_ADD)
        snprintf(set, sizeof set, "SET #a = %s + :v", old);
    else
        snprintf(set, sizeof set, "SET #a = list_append(%s, :l)", old);
    request_text(out, "UpdateExpression", span_text(set));
    expression_end(&expression, out);
}

int condition_failed(const struct table *table, struct key key, enum condition_kind kind,
                     struct err *err)
{
    struct item_label label = item_label(table, key);

    switch (kind) {
    case COND_ABSENT: return err_set(err, EEXIST, "%s: already exists", label.text);
    case COND_EXISTS: return err_set(err, ENOENT, "%s: does not exist", label.text);
    default: return err_set(err, ESTALE, "%s: was changed meanwhile", label.text);
    }
}
