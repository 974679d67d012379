/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "tests/check.h"

static void test_err_first_wins(void)
{
    struct err err = {""};
    check_int(err_set(&err, EINVAL, "first %d", 1), -EINVAL);
    check_int(err_set(&err, ENOENT, "second"), -ENOENT);
    check_text(span_text(err_text(&err, -ENOENT)), "first 1");
    err_clear(&err);
    check_text(span_text(err_text(&err, -ENOENT)), "No such file or directory");
    check_text(span_text(err_text(NULL, -EINVAL)), "Invalid argument");
    check_int(err_set(NULL, EIO, "nobody listens"), -EIO);
    err_clear(NULL);
}

static void test_err_is_safe_to_show(void)
{
    struct err err = {""};
    err_set(&err, EINVAL, "name \"%s\"", "a\x1b[2J\n\x7f\xff\xc2\x9b\xc3\xa9");
    check_text(span_text(err.text), "name \"a\\x1B[2J\\x0A\\x7F\\xFF\\xC2\\x9B\xc3\xa9\"");
}

static void test_err_is_cut(void)
{
    char text[2000];
    struct err err = {""};
    /* Two-byte characters that the cut would go through. */
    for (size_t i = 0; i + 2 < sizeof text; i += 2)
        memcpy(text + i, "\xc3\xa9", 3);
    err_set(&err, EINVAL, "x%s", text);
    size_t len = strlen(err.text);
    check(len < ERR_TEXT_MAX && len > ERR_TEXT_MAX - 8);
    check_text(span_of(err.text + len - 5, 5), "\xc3\xa9...");
    err_clear(&err);
    memset(text, '\n', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    err_set(&err, EINVAL, "%s", text);
    check_int(strlen(err.text), 127 * 4 + 3 - 4 * (127 * 4 + 3 >= ERR_TEXT_MAX));
    check_text(span_of(err.text + strlen(err.text) - 7, 7), "\\x0A...");
}

static void test_buf_grows(void)
{
    cleanup(buf_release) struct buf buf;
    buf_init(&buf, 1 << 20);
    check(buf.data == NULL);
    buf_add_text(&buf, "");
    check(buf.data == NULL);
    buf_add_text(&buf, "ab");
    buf_add_char(&buf, 'c');
    buf_addf(&buf, "-%d-%s", 5, "x");
    buf_add_span(&buf, span_of("\0y", 2));
    check_span(buf_span(&buf), span_of("abc-5-x\0y", 9));
    check_int(buf.data[buf.len], 0);
    for (int i = 0; i < 100000; i++)
        buf_add_char(&buf, 'z');
    check_int(buf.len, 100009);
    check_int(buf_error(&buf), 0);
    buf_addf(&buf, "%0500d", 7);
    check_int(buf.len, 100509);
    check_text(span_text(buf.data + 100506), "007");
}

static void test_buf_maximum(void)
{
    cleanup(buf_release) struct buf buf;
    buf_init(&buf, 5);
    buf_add_text(&buf, "12345");
    check_int(buf_error(&buf), 0);
    buf_add_char(&buf, '6');
    check_int(buf_error(&buf), -EFBIG);
    check_text(buf_span(&buf), "12345");
    buf_splice(&buf, 0, 1, span_text(""));
    check_text(buf_span(&buf), "12345");
    size_t len = 77;
    check(buf_take(&buf, &len) == NULL);
    check_int(len, 77);
    buf_clear(&buf);
    check_int(buf_error(&buf), 0);
    check_int(buf.len, 0);
    buf_addf(&buf, "%s", "123456");
    check_int(buf_error(&buf), -EFBIG);
    check_int(buf.len, 0);
    buf_clear(&buf);
    buf_add(&buf, "x", SIZE_MAX);
    check_int(buf_error(&buf), -EFBIG);
}

static void test_buf_splice(void)
{
    cleanup(buf_release) struct buf buf;
    buf_init(&buf, 100);
    buf_add_text(&buf, "hello world");
    buf_splice(&buf, 0, 5, span_text("bye"));
    check_text(buf_span(&buf), "bye world");
    buf_splice(&buf, 3, 0, span_text(" cruel"));
    check_text(buf_span(&buf), "bye cruel world");
    buf_splice(&buf, buf.len, 0, span_text("!"));
    check_text(buf_span(&buf), "bye cruel world!");
    buf_splice(&buf, 3, 12, span_text(""));
    check_text(buf_span(&buf), "bye!");
    check_int(buf.data[4], 0);
}

static void test_buf_resize_and_take(void)
{
    struct buf buf;
    size_t len;
    buf_init(&buf, 100);
    char *empty = buf_take(&buf, &len);
    check(empty && empty[0] == '\0');
    check_int(len, 0);
    free(empty);
    buf_resize(&buf, 3);
    check_span(buf_span(&buf), span_of("\0\0\0", 3));
    buf_add_text(&buf, "ab");
    buf_resize(&buf, 4);
    char *data = buf_take(&buf, &len);
    check_span(span_of(data, len), span_of("\0\0\0a", 4));
    check_int(data[4], 0);
    check(buf.data == NULL && buf.len == 0);
    free(data);
    buf_add_text(&buf, "again");
    check_text(buf_span(&buf), "again");
    buf_release(&buf);
    check(buf.data == NULL);
}

static size_t count_lines(FILE *file, char *last, int size)
{
    size_t count = 0;
    char line[4096];
    rewind(file);
    while (fgets(line, sizeof line, file)) {
        count++;
        snprintf(last, (size_t)size, "%s", line);
    }
    return count;
}

static void test_log(void)
{
    char last[4096];
    FILE *file = tmpfile();
    log_open("itemfs", file, LOG_LEVEL_INFO);
    log_debug("save", "not shown");
    log_info("save", "line %s", "\x1b[0m");
    check_int(count_lines(file, last, sizeof last), 1);
    check_text(span_text(last), "itemfs: info: save: line \\x1B[0m\n");
    for (int i = 0; i < 3 * LOG_BURST; i++)
        log_warning("burst", "line %d", i);
    check_int(count_lines(file, last, sizeof last), 1 + LOG_BURST);
    check_text(span_text(last), "itemfs: warning: burst: line 19\n");
    log_error("other", "%0*d", 3000, 1);
    check_int(count_lines(file, last, sizeof last), 2 + LOG_BURST);
    /* Sites share slots: one of many takes that of "burst", and its count is written then. */
    bool counted = false;
    for (int i = 0; i < 1000; i++) {
        char site[16];
        snprintf(site, sizeof site, "site%d", i);
        log_info(site, "x");
    }
    rewind(file);
    while (fgets(last, sizeof last, file))
        counted |= strcmp(last, "itemfs: info: burst: 40 further lines were left out\n") == 0;
    check(counted);
    log_open("itemfs", NULL, LOG_LEVEL_ERROR);
    fclose(file);
}

CHECK_MAIN(CHECK_TEST(test_err_first_wins), CHECK_TEST(test_err_is_safe_to_show),
           CHECK_TEST(test_err_is_cut), CHECK_TEST(test_buf_grows), CHECK_TEST(test_buf_maximum),
           CHECK_TEST(test_buf_splice), CHECK_TEST(test_buf_resize_and_take), CHECK_TEST(test_log))
