/* SPDX-License-Identifier: MIT */
/* Every file of bodies/valid is accepted and comes out of a tree as it went in; every file of
 * bodies/invalid is refused with a line and a column. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/item.h"
#include "base/json.h"
#include "tests/check.h"

static const struct key the_key = {.partition = {"a", 1}};

static void read_file(const char *folder, const char *name, struct buf *out)
{
    char path[1024];
    char block[4096];
    size_t got;
    snprintf(path, sizeof path, "%s/bodies/%s/%s", TEST_DATA, folder, name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        check_fail("cannot open %s", path);
        return;
    }
    while ((got = fread(block, 1, sizeof block, file)) > 0)
        buf_add(out, block, got);
    fclose(file);
}

typedef void (*body_fn)(const struct table *table, const char *name, struct span body);

static size_t walk(const char *folder, body_fn check_body)
{
    char path[1024];
    size_t count = 0;
    struct table *table = table_new_default(span_text("t"));
    snprintf(path, sizeof path, "%s/bodies/%s", TEST_DATA, folder);
    DIR *directory = opendir(path);
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        if (entry->d_name[0] == '.')
            continue;
        cleanup(buf_release) struct buf body;
        buf_init(&body, 1 << 20);
        read_file(folder, entry->d_name, &body);
        /* A copy without spare room lets the sanitizer see reads behind the end. */
        size_t len = body.len;
        char *exact = malloc(len ? len : 1);
        memcpy(exact, body.data, len);
        check_body(table, entry->d_name, span_of(exact, len));
        free(exact);
        count++;
    }
    if (directory)
        closedir(directory);
    table_free(table);
    return count;
}

static void check_valid(const struct table *table, const char *name, struct span body)
{
    struct err err = {""};
    struct item_facts facts;
    bool incomplete = true;
    if (item_examine(table, the_key, body, &facts, &incomplete, &err) != 0 || incomplete)
        check_fail("%s is refused: %s", name, err.text);
    if (json_check(body, NULL, &err) != 0)
        check_fail("%s: json_check refuses it: %s", name, err.text);
    struct value item = {0}, again = {0};
    cleanup(buf_release) struct buf out;
    buf_init(&out, 1 << 20);
    int64_t ttl = 0;
    bool good = item_from_body(table, the_key, body, 0, &item, &err) == 0 &&
                item_to_body(table, &item, &out, &ttl, &err) == 0 &&
                item_examine(table, the_key, buf_span(&out), &facts, NULL, &err) == 0 &&
                item_from_body(table, the_key, buf_span(&out), ttl, &again, &err) == 0;
    if (!good || !value_equal(&item, &again))
        check_fail("%s does not come back: %s", name, err.text);
    value_release(&item);
    value_release(&again);
}

static void check_invalid(const struct table *table, const char *name, struct span body)
{
    struct err err = {""};
    struct item_facts facts = {.ttl = -5};
    int error = item_examine(table, the_key, body, &facts, NULL, &err);
    if (error != -EINVAL || !strstr(err.text, "line ") || !strstr(err.text, "column "))
        check_fail("%s gives %d: %s", name, error, err.text);
    if (facts.ttl != -5)
        check_fail("%s: facts are set on failure", name);
    struct value value;
    struct err other = {""};
    error = value_from_plain(body, &value, &other);
    if (error == 0)
        value_release(&value);
    bool by_key = strncmp(name, "key_", 4) == 0;
    if ((error == 0) != by_key)
        check_fail("%s: the tree says %d", name, error);
    if (error && strcmp(err.text, other.text) != 0)
        check_fail("%s: \"%s\" and \"%s\"", name, err.text, other.text);
}

/* No beginning of a valid body crashes, and a refused beginning can always be completed. */
static void check_beginnings(const struct table *table, const char *name, struct span body)
{
    size_t most = body.len < 300 ? body.len : 300;
    for (size_t len = 1; len < most; len++) {
        char *part = malloc(len);
        memcpy(part, body.data, len);
        bool incomplete = false;
        struct item_facts facts;
        struct err err = {""};
        int error = item_examine(table, the_key, span_of(part, len), &facts, &incomplete, &err);
        if (error && !incomplete)
            check_fail("%s, %zu bytes: %s, but not for its early end", name, len, err.text);
        free(part);
    }
}

static void test_valid(void)
{
    check(walk("valid", check_valid) >= 40);
}

static void test_invalid(void)
{
    check(walk("invalid", check_invalid) >= 60);
}

static void test_beginnings(void)
{
    walk("valid", check_beginnings);
}

CHECK_MAIN(CHECK_TEST(test_valid), CHECK_TEST(test_invalid), CHECK_TEST(test_beginnings))
