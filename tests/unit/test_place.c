/* SPDX-License-Identifier: MIT */
/* Places in streams: their text, and what becomes of them when shards come and go. */
#include "backend/dynamodb/place.h"

#include <errno.h>
#include <stdlib.h>

#include "tests/check.h"

#define HEAD "1,00000000000000ff,2024-01-05T10:00:00.000"
#define BEGUN HEAD ",arn:aws:x/stream/y,"

/* "parent>child other" as the service lists them. */
static struct shards listed(const char *text)
{
    struct shards shards = {0};
    struct shard *shard;

    while (*text) {
        size_t len = strcspn(text, " ");
        const char *sign = memchr(text, '>', len);
        struct span id = span_of(text, len), parent = {NULL, 0};
        if (sign) {
            parent = span_of(text, (size_t)(sign - text));
            id = span_of(sign + 1, len - parent.len - 1);
        }
        check_int(shards_add(&shards, id, parent, &shard), 0);
        text += len + strspn(text + len, " ");
    }
    return shards;
}

static void check_place(const struct place *place, const char *want)
{
    struct buf text;

    buf_init(&text, 1 << 20);
    place_to_text(place, &text);
    check_text(buf_span(&text), want);
    buf_release(&text);
}

static struct place place_of(const char *text)
{
    struct place place = {.label = NULL};

    check_int(place_from_text(text, &place), 0);
    return place;
}

/* POSITION, and then LIST; what there is to be said is WANT. */
static void check_update(const char *position, const char *list, const char *want, bool want_lost)
{
    struct place place = place_of(position);
    struct shards shards = listed(list);
    bool lost = false;

    check_int(shards_update(&place.shards, &shards, true, &lost), 0);
    check_place(&place, want);
    check_int(lost, want_lost);
    place_release(&place);
}

static void texts_come_back(void)
{
    static const char *const texts[] = {
        "1,0123456789abcdef,",
        HEAD,
        BEGUN,
        BEGUN "shardId-,a=,b=end",
        BEGUN ",a=1,b=@1700000000",
        BEGUN "shard,=99999999999999999999999999999999999999",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct place place = place_of(texts[i]);
        check_place(&place, texts[i]);
        place_release(&place);
    }
    struct place place = place_of("1,ffffffffffffffff,l,a,x-,2=5,1=end");
    check(place.table_id == UINT64_MAX);
    check_place(&place, "1,ffffffffffffffff,l,a,x-,1=end,2=5");
    check_int(place.shards.count, 2);
    check(shards_find(&place.shards, "x-1")->done && !shards_find(&place.shards, "x-3"));
    place_release(&place);
}

static void what_is_no_text(void)
{
    static const char *const bad[] = {
        "",
        "1",
        "1,",
        "2" HEAD,
        "1,0123456789abcde,",
        "1,0123456789abcdefg,",
        BEGUN "a,b",
        BEGUN "a,b=x",
        BEGUN "a,b=-1",
        BEGUN "a,b=1,b=2",
        BEGUN ",=1",
        HEAD ",",
        HEAD ",,p,a=",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct place place = {.label = NULL};
        int code = place_from_text(bad[i], &place);
        if (code != -EINVAL)
            check_fail("\"%s\" is %d", bad[i], code);
    }
}

/* Whatever is cut or changed: a place that can be written, or none. */
static void damaged_texts(void)
{
    char text[] = BEGUN "shardId-,a=,b=end,c=123,d=@1700000000";

    for (size_t at = 0; at < sizeof text - 1; at++)
        for (const char *byte = ",=@1ax\x7f \n"; *byte; byte++) {
            struct place place;
            struct buf out;
            char kept = text[at];
            text[at] = *byte;
            buf_init(&out, 1 << 16);
            if (place_from_text(text, &place) == 0) {
                place_to_text(&place, &out);
                check_int(buf_error(&out), 0);
                place_release(&place);
            }
            buf_release(&out);
            text[at] = kept;
        }
}

static void shards_that_come(void)
{
    check_update(BEGUN, "a b", BEGUN ",a=,b=", false);
    check_update(BEGUN ",a=5", "a", BEGUN "a,=5", false);
    check_update(BEGUN ",a=5", "a a>b a>c", BEGUN "a,=5", false); /* they wait */
    check_update(BEGUN ",a=end", "a", BEGUN "a,=end", false);
    check_update(BEGUN ",a=end", "a a>b a>c b>d", BEGUN ",b=,c=", false);
    check_update(BEGUN ",a=5", "x>a y>x y", BEGUN "a,=5", false);    /* its parents were read */
    check_update(BEGUN ",a=5,x=", "x>a x", BEGUN ",a=5,x=", false);  /* but not this one */
    check_update(BEGUN ",b=5", "a a>b a>c", BEGUN ",b=5,c=", false); /* so c is of a */
    check_update(BEGUN ",b=5", "a>b z", BEGUN ",b=5,z=", false);
    check_update(BEGUN ",b=5", "b>b", BEGUN "b,=5", false);
    check_update(BEGUN ",b=", "b>a a>b", BEGUN "b,=", false); /* in a ring */
}

static void shards_that_go(void)
{
    check_update(BEGUN ",a=5", "b", BEGUN ",a=5,b=", false); /* the list may lag behind */
    check_update(BEGUN ",a=5", "a>b", BEGUN "a,=5", false);
    check_update(BEGUN ",a=end", "a>b", BEGUN "b,=", false);
    check_update(BEGUN ",a=end", "b>c", BEGUN "c,=", true); /* b was never read */
    check_update(BEGUN ",a=end,b=7", "b", BEGUN "b,=7", true);
}

static void shards_that_are_missing(void)
{
    struct place place = place_of(BEGUN ",a=5,b=6");
    struct shards shards = listed("a a>c");
    bool lost = false;

    shards_find(&place.shards, "a")->missing = true;
    shards_find(&place.shards, "b")->missing = true;
    check_int(shards_update(&place.shards, &shards, false, &lost), 0);
    check_place(&place, BEGUN "a,=5");
    check(lost);
    check(shards_find(&place.shards, "a")->doubted && !shards_find(&place.shards, "a")->missing);
    lost = false;
    shards_find(&place.shards, "a")->done = true; /* read to its end, and gone with its child */
    shards = listed("d");
    check_int(shards_update(&place.shards, &shards, false, &lost), 0);
    check_place(&place, BEGUN ",c=,d=");
    check(!lost);
    place_release(&place);
}

static void parents_first(void)
{
    struct shards shards = listed("a a>b b>c");

    shards_sort(&shards);
    check(shard_is_ready(&shards, &shards.list[0]));
    check(!shard_is_ready(&shards, &shards.list[1]) && !shard_is_ready(&shards, &shards.list[2]));
    shards.list[0].done = true;
    check(!shard_is_ready(&shards, &shards.list[0]) && shard_is_ready(&shards, &shards.list[1]));
    shards_release(&shards);
}

static void words(void)
{
    struct shards shards = {0};
    struct shard *shard;
    char longest[SHARD_TEXT_MAX + 2];

    memset(longest, 'x', sizeof longest);
    check_int(shards_add(&shards, span_of(longest, SHARD_TEXT_MAX), span_of(NULL, 0), &shard), 0);
    check_int(shards_add(&shards, span_of(longest, SHARD_TEXT_MAX + 1), span_of(NULL, 0), &shard),
              -EINVAL);
    static const char *const bad[] = {"", "a,b", "a=b", "a b", "a\n", "\x7f", "\xc3\xa9"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        check_int(shards_add(&shards, span_text(bad[i]), span_of(NULL, 0), &shard), -EINVAL);
        check_int(shards_add(&shards, span_text("a"), span_text(bad[i]), &shard), -EINVAL);
    }
    check_int(shards.count, 1);
    while (shards.count < SHARDS_MAX)
        if (shards_add(&shards, span_text("a"), span_of(NULL, 0), &shard) < 0)
            break;
    check_int(shards_add(&shards, span_text("a"), span_of(NULL, 0), &shard), -EFBIG);
    shards_release(&shards);
}

static void numbers_of_any_length(void)
{
    check(sequence_compare("999999999999999999999", "1000000000000000000000") < 0);
    check(sequence_compare("0010", "9") > 0);
    check(sequence_compare("10", "010") == 0);
    check(sequence_compare("12", "13") < 0 && sequence_compare("13", "12") > 0);
    check(sequence_compare("0", "000") == 0);
}

CHECK_MAIN(CHECK_TEST(texts_come_back), CHECK_TEST(what_is_no_text), CHECK_TEST(damaged_texts),
           CHECK_TEST(shards_that_come), CHECK_TEST(shards_that_go),
           CHECK_TEST(shards_that_are_missing), CHECK_TEST(parents_first), CHECK_TEST(words),
           CHECK_TEST(numbers_of_any_length))
