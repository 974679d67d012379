/* SPDX-License-Identifier: MIT */
#include "backend/dynamodb/place.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define FORM "1"
#define TABLE_DIGITS 16
#define SECONDS_DIGITS 12 /* at most */

int place_init(struct place *place, uint64_t table_id)
{
    *place = (struct place){.table_id = table_id, .label = strdup("")};
    return place->label ? 0 : -ENOMEM;
}

void place_release(struct place *place)
{
    free(place->label);
    free(place->arn);
    shards_release(&place->shards);
    *place = (struct place){0};
}

/* --- To text --- */

/* Whether what is known of SHARD has to be said: the rest follows (place.h). */
static bool is_told(const struct shards *shards, const struct shard *shard)
{
    if (shard->done)
        return !shard->divided;
    return shard->after || shard->since_s || shard_is_ready(shards, shard);
}

/* How many bytes all ids that are told have in common at their beginnings. */
static size_t common_prefix(const struct shards *shards, const char **ret_id)
{
    const char *first = NULL;
    size_t len = 0;

    for (size_t i = 0; i < shards->count; i++) {
        const char *id = shards->list[i].id;
        size_t same = 0;
        if (!is_told(shards, &shards->list[i]))
            continue;
        if (!first) {
            first = id;
            len = strlen(id);
        }
        while (same < len && id[same] == first[same])
            same++;
        len = same;
    }
    *ret_id = first;
    return len;
}

static void shard_to_text(const struct shard *shard, size_t prefix, struct buf *out)
{
    buf_addf(out, ",%s=", shard->id + prefix);
    if (shard->done)
        buf_add_text(out, "end");
    else if (shard->after)
        buf_add_text(out, shard->after);
    else if (shard->since_s)
        buf_addf(out, "@%" PRId64, shard->since_s);
}

void place_to_text(const struct place *place, struct buf *out)
{
    const struct shards *shards = &place->shards;
    const char *id;

    buf_addf(out, FORM ",%016" PRIx64 ",%s", place->table_id, place->label);
    if (!place->arn)
        return;
    size_t prefix = common_prefix(shards, &id);
    buf_addf(out, ",%s,%.*s", place->arn, (int)prefix, id ? id : "");
    for (size_t i = 0; i < shards->count; i++)
        if (is_told(shards, &shards->list[i]))
            shard_to_text(&shards->list[i], prefix, out);
}

/* --- From text --- */

/* The next of the words with commas between; false: there is none. */
static bool next_word(const char **text, struct span *ret_word)
{
    if (!*text)
        return false;
    size_t len = strcspn(*text, ",");
    *ret_word = span_of(*text, len);
    *text = (*text)[len] ? *text + len + 1 : NULL;
    return true;
}

static bool has_only(struct span word, const char *characters)
{
    for (size_t i = 0; i < word.len; i++)
        if (!strchr(characters, word.data[i]) || word.data[i] == '\0')
            return false;
    return word.len > 0;
}

static int read_progress(struct span word, struct shard *shard)
{
    static const char digits[] = "0123456789";

    if (word.len == 0)
        return 0;
    if (span_equal(word, span_text("end"))) {
        shard->done = true;
        return 0;
    }
    if (word.data[0] == '@') {
        struct span seconds = span_from(word, 1);
        if (!has_only(seconds, digits) || seconds.len > SECONDS_DIGITS)
            return -EINVAL;
        shard->since_s = strtoll(seconds.data, NULL, 10);
        return 0;
    }
    return has_only(word, digits) && word.len <= SHARD_TEXT_MAX ? shard_set(&shard->after, word)
                                                                : -EINVAL;
}

/* REST=HOW */
static int read_shard(struct span prefix, struct span word, struct shards *shards)
{
    const char *sign = word.len ? memchr(word.data, '=', word.len) : NULL;
    cleanup(buf_release) struct buf id;
    struct shard *shard;

    buf_init(&id, SHARD_TEXT_MAX + 1);
    if (!sign)
        return -EINVAL;
    size_t rest = (size_t)(sign - word.data);
    buf_add_span(&id, prefix);
    buf_add(&id, word.data, rest);
    if (buf_error(&id))
        return buf_error(&id) == -ENOMEM ? -ENOMEM : -EINVAL;
    int code = shards_add(shards, buf_span(&id), span_of(NULL, 0), &shard);
    if (code == 0)
        code = read_progress(span_from(word, rest + 1), shard);
    return code == -ENOMEM ? code : code ? -EINVAL : 0;
}

static int read_shards(const char *text, struct place *place)
{
    struct span arn, prefix, word;
    int code = 0;

    if (!next_word(&text, &arn))
        return 0;
    if (!word_is_fit(arn, PLACE_ARN_MAX) || !next_word(&text, &prefix))
        return -EINVAL;
    code = shard_set(&place->arn, arn);
    while (code == 0 && next_word(&text, &word))
        code = read_shard(prefix, word, &place->shards);
    size_t count = place->shards.count;
    shards_sort(&place->shards);
    return code == 0 && place->shards.count != count ? -EINVAL : code;
}

static int read_place(const char *text, struct place *place)
{
    struct span form, table, label;

    if (!next_word(&text, &form) || !next_word(&text, &table) || !next_word(&text, &label))
        return -EINVAL;
    if (!span_equal(form, span_text(FORM)) || table.len != TABLE_DIGITS ||
        !has_only(table, "0123456789abcdef"))
        return -EINVAL;
    if (label.len && !word_is_fit(label, PLACE_LABEL_MAX))
        return -EINVAL;
    place->table_id = strtoull(table.data, NULL, 16);
    int code = shard_set(&place->label, label);
    return code ? code : read_shards(text, place);
}

int place_from_text(const char *text, struct place *ret_place)
{
    struct place place = {.label = NULL};
    int code = read_place(text, &place);

    if (code)
        place_release(&place);
    else
        *ret_place = place;
    return code;
}
