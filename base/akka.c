/* SPDX-License-Identifier: MIT */
#include "base/akka.h"

#include <errno.h>
#include <inttypes.h>

#include "base/cleanup.h"
#include "base/md5.h"
#include "base/number.h"
#include "base/text.h"

#define SHARD_DIGITS 40
#define PATTERN_CHARACTERS ".$|()[{^?*+\\" /* that mean something in a regular expression */
#define SHOWN_MAX 100                      /* bytes of an id in a message */
#define PARTS_USED 2

/* The bytes of TEXT to show in a message. */
static int shown(struct span text)
{
    return text.len < SHOWN_MAX ? (int)text.len : SHOWN_MAX;
}

/* How many UTF-16 units the UTF-8 TEXT has: only characters of four bytes have two. */
static size_t utf16_units(struct span text)
{
    size_t units = 0;

    for (size_t at = 0; at < text.len; units++) {
        size_t step = text_utf8_step(span_from(text, at), false);

        units += step == 4;
        at += step ? step : 1;
    }
    return units;
}

int akka_check_id(struct span id, struct err *err)
{
    size_t units;

    if (!text_is_utf8(id, false))
        return err_set(err, EINVAL, "a persistence id is Unicode text, and \"%.*s\" is none",
                       shown(id), id.data);
    units = utf16_units(id);
    if (units == 0)
        return err_set(err, EINVAL, "a persistence id cannot be empty");
    if (units > AKKA_ID_MOST)
        return err_set(err, EINVAL,
                       "a persistence id has %d UTF-16 units at most, and this one has %zu: "
                       "\"%.*s...\"",
                       AKKA_ID_MOST, units, shown(id), id.data);
    return 0;
}

int akka_check_separator(struct span separator, struct err *err)
{
    if (separator.len == 0 || !text_is_utf8(separator, false))
        return err_set(err, EINVAL, "a separator is text, and not empty");
    for (size_t i = 0; i < separator.len; i++)
        if (memchr(PATTERN_CHARACTERS, separator.data[i], sizeof PATTERN_CHARACTERS - 1))
            return err_set(err, EINVAL,
                           "the separator \"%.*s\" has a \"%c\", with which the plugin takes it "
                           "for a pattern",
                           shown(separator), separator.data, separator.data[i]);
    return 0;
}

int akka_sequence(struct span text, int64_t *ret_sequence, struct err *err)
{
    int64_t sequence;

    if (!number_is_json(text) || !number_to_int64(text, &sequence) || sequence < 0)
        return err_set(err, EINVAL,
                       "a sequence number is a whole number from 0 to %" PRId64 ", not %.*s",
                       INT64_MAX, shown(text), text.data);
    *ret_sequence = sequence;
    return 0;
}

/* ---- an id's parts ---- */

struct parts {
    bool separated;                /* the id has a separator */
    struct span parts[PARTS_USED]; /* the first ones */
    size_t count;                  /* of all, without empty ones at the end */
};

static struct parts split(struct span id, struct span separator)
{
    struct parts parts = {.separated = false};
    size_t number = 0;

    for (bool more = true; more; number++) {
        const char *found = id.len ? memmem(id.data, id.len, separator.data, separator.len) : NULL;
        struct span part = found ? span_of(id.data, (size_t)(found - id.data)) : id;

        if (number < PARTS_USED)
            parts.parts[number] = part;
        if (part.len)
            parts.count = number + 1;
        more = found;
        if (more)
            id = span_from(id, part.len + separator.len);
        parts.separated |= more;
    }
    return parts;
}

/* Appends the part NUMBER with "-" behind it; nothing where ID has no separator. */
static int add_part(const struct akka_rules *rules, struct span id, size_t number, const char *what,
                    struct buf *out, struct err *err)
{
    const struct parts parts = split(id, rules->separator);

    if (!parts.separated)
        return 0;
    if (number >= parts.count)
        return err_set(err, EINVAL,
                       "the plugin makes no key of the persistence id \"%.*s\": %s \"%.*s\" there "
                       "is nothing",
                       shown(id), id.data, what, shown(rules->separator), rules->separator.data);
    buf_add_span(out, parts.parts[number]);
    buf_add_char(out, '-');
    return 0;
}

/* ---- the hash ---- */

/* Appends the characters of TEXT, the last one first. */
static void reverse(struct span text, struct buf *out)
{
    size_t end = out->len + text.len;

    buf_resize(out, end);
    for (size_t at = 0, step; at < text.len && !buf_error(out); at += step) {
        step = text_utf8_step(span_from(text, at), false);
        end -= step;
        memcpy(out->data + end, text.data + at, step);
    }
}

/* The remainder of the absolute value of DIGEST, a signed number of 128 bits, the highest first. */
static uint32_t digest_remainder(const unsigned char digest[MD5_BYTES], uint32_t divisor)
{
    bool negative = digest[0] & 0x80;
    unsigned char positive[MD5_BYTES];
    unsigned carry = 1;
    uint64_t remainder = 0;

    for (size_t i = MD5_BYTES; i-- > 0;) {
        unsigned byte = negative ? (unsigned char)~digest[i] + carry : digest[i];

        positive[i] = (unsigned char)byte;
        carry = byte >> 8;
    }
    for (size_t i = 0; i < MD5_BYTES; i++)
        remainder = ((remainder << 8) | positive[i]) % divisor;
    return (uint32_t)remainder;
}

static int add_shard(const struct akka_rules *rules, struct span id, struct buf *out)
{
    unsigned char digest[MD5_BYTES];
    cleanup(buf_release) struct buf reversed;

    buf_init(&reversed, 4 * AKKA_ID_MOST);
    reverse(id, &reversed);
    if (buf_error(&reversed))
        return buf_error(&reversed);
    md5_of(buf_span(&reversed), digest);
    buf_addf(out, "%0*" PRIu64, SHARD_DIGITS,
             (uint64_t)digest_remainder(digest, (uint32_t)rules->shard_count) + 1);
    return 0;
}

/* ---- keys ---- */

int akka_partition_key(const struct akka_rules *rules, struct span id, int64_t sequence,
                       struct buf *out, struct err *err)
{
    int code = akka_check_id(id, err);

    if (code)
        return code;
    if (rules->partition == AKKA_SEQUENCE_NUMBER_BASED) {
        buf_add_span(out, id);
        buf_addf(out, "-%" PRId64, sequence % rules->shard_count);
    } else {
        code = add_part(rules, id, 0, "before", out, err);
        if (code == 0)
            code = add_shard(rules, id, out);
    }
    return code ? code : buf_error(out);
}

int akka_sort_key(const struct akka_rules *rules, struct span id, int64_t sequence, struct buf *out,
                  struct err *err)
{
    bool padded = rules->padded || rules->sort != AKKA_SEQ_NR;
    int code = akka_check_id(id, err);

    if (code == 0 && rules->sort == AKKA_PERSISTENCE_ID_WITH_SEQ_NR)
        code = add_part(rules, id, 1, "behind", out, err);
    if (code)
        return code;
    if (rules->sort == AKKA_WHOLE_ID)
        buf_add_span(out, id);
    else
        buf_addf(out, "%0*" PRId64, padded ? AKKA_SEQUENCE_DIGITS : 1, sequence);
    return buf_error(out);
}

bool akka_has_tag(struct span tags, struct span tag)
{
    bool more = true;

    while (more) {
        const char *comma = tags.len ? memchr(tags.data, AKKA_TAG_SEPARATOR, tags.len) : NULL;
        struct span one = comma ? span_of(tags.data, (size_t)(comma - tags.data)) : tags;

        if (span_equal(one, tag))
            return true;
        more = comma;
        if (more)
            tags = span_from(tags, one.len + 1);
    }
    return false;
}
