/* SPDX-License-Identifier: MIT */
#include "base/function.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "tests/check.h"

/* "[word][word]" of a program's, or the URL. */
static void check_parsed(const char *text, const char *want, const char *shown)
{
    cleanup(function_release) struct function function = {.kind = FUNCTION_NONE};
    cleanup(buf_release) struct buf got;
    struct err err = {""};

    buf_init(&got, 4096);
    check_int(function_parse(text, &function, &err), 0);
    check_text(span_text(err.text), "");
    for (char **word = function.arguments; word && *word; word++)
        buf_addf(&got, "[%s]", *word);
    if (function.url)
        buf_add_text(&got, function.url);
    check_text(buf_span(&got), want);
    check_text(span_text(function.shown), shown);
}

static void check_refused(const char *text, const char *why)
{
    struct function function = {.kind = FUNCTION_NONE};
    struct err err = {""};

    check_int(function_parse(text, &function, &err), -EINVAL);
    check_text(span_text(err.text), why);
    check(function.kind == FUNCTION_NONE && !function.url && !function.arguments);
}

/* What is shown leaves room in a line of the log for what is said of it. */
static void test_long_ones_are_shown_in_part(void)
{
    char text[2 * FUNCTION_SHOWN_MAX], shown[2 * FUNCTION_SHOWN_MAX];

    snprintf(text, sizeof text, "https://example.org/%0300d?secret", 0);
    snprintf(shown, sizeof shown, "https://example.org/%0*d...", FUNCTION_SHOWN_MAX - 23, 0);
    check_parsed(text, text, shown);
    check_int(strlen(shown), FUNCTION_SHOWN_MAX);
}

static void test_programs(void)
{
    check_parsed("exec:/bin/true", "[/bin/true]", "exec:/bin/true");
    check_parsed("exec:/bin/p --token x", "[/bin/p][--token][x]", "exec:/bin/p");
    check_parsed("exec: \t/bin/p\ta  b ", "[/bin/p][a][b]", "exec:/bin/p");
    check_parsed("exec:/bin/p \"a b\" 'c \"d' e\"f\"'g'", "[/bin/p][a b][c \"d][efg]",
                 "exec:/bin/p");
    check_parsed("exec:/bin/p \"\" '' x", "[/bin/p][][][x]", "exec:/bin/p");
    check_parsed("exec:/bin/p \"a\\\"b\\\\c\\n\" '\\\"' \\n", "[/bin/p][a\"b\\c\\n][\\\"][\\n]",
                 "exec:/bin/p");
    check_parsed("exec:/bin/\xff\x1b", "[/bin/\xff\x1b]", "exec:/bin/\\xFF\\x1B");
    check_parsed("exec:\"/opt/my programs/p\" $HOME * `x` ;|&", /* no shell */
                 "[/opt/my programs/p][$HOME][*][`x`][;|&]", "exec:/opt/my programs/p");
}

static void test_bad_programs(void)
{
    static const char relative[] = "exec: wants the whole path of a program: exec:/PATH/PROGRAM";

    check_refused("exec:", relative);
    check_refused("exec:  ", relative);
    check_refused("exec:p", relative);
    check_refused("exec:./p", relative);
    check_refused("exec:\"\" /bin/p", relative);
    check_refused("exec:/bin/p \"a", "a quote is not closed");
    check_refused("exec:/bin/p 'a\"", "a quote is not closed");
    check_refused("exec:/bin/p \"a\\\"", "a quote is not closed");
}

static void test_urls(void)
{
    static const char *const good[] = {
        "https://example.com",         "https://example.com:8443/a/b%20c",
        "HTTPS://EXAMPLE.com/",        "https://192.0.2.1/",
        "https://[2001:db8::1]:443/x", "http://localhost/",
        "http://LOCALHOST:1/",         "http://a.localhost/",
        "http://127.9.9.9/",           "http://10.0.0.1:65535/",
        "http://172.16.0.1/",          "http://172.31.255.255/",
        "http://192.168.1.1/",         "http://[::1]:8080/",
        "http://[fd00::1]/",           "http://worker-1:8080/hook",
    };

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        check_parsed(good[i], good[i], good[i]);
    check_parsed("https://h/p/q?token=secret&x=/y", "https://h/p/q?token=secret&x=/y",
                 "https://h/p/q");
    check_parsed("https://h?token=secret", "https://h?token=secret", "https://h");
}

static void test_bad_urls(void)
{
    static const char none[] = "a function is https://..., http://... or exec:/PATH/PROGRAM";
    static const char host[] = "what the URL names is no host, and no HOST:PORT";
    static const char blank[] =
        "the URL holds a blank, \"#\", \"\\\" or what is not ASCII; write %XX";
    static const char *const far[] = {"example.com", "8.8.8.8",     "172.32.0.1", "[2001:db8::1]",
                                      "10.example",  "169.254.1.1", "2130706433", "0x7f000001",
                                      "10.1",        "11.0.0.1",    "a.b"};

    check_refused("ftp://h/", none);
    check_refused("h", none);
    check_refused("https:/h", none);
    check_refused("https://", "the URL has no host");
    check_refused("https:///x", "the URL has no host");
    check_refused("https://:80/x", "the URL has no host");
    check_refused("https://[::1/x", "the URL has no host");
    check_refused("https://me:word@h/",
                  "a user in the URL; requests are signed with function_secret_file");
    check_refused("https://h:/", host);
    check_refused("https://h:0/", host);
    check_refused("https://h:65536/", host);
    check_refused("https://h:8x/", host);
    check_refused("https://h:1:2/", host);
    check_refused("https://[::1]x/", host);
    check_refused("https://[1.2.3.4]/", host);
    check_refused("https://h|/", host);
    check_refused("https://h/a b", blank);
    check_refused("https://h/a#b", blank);
    check_refused("https://h\\@evil/", blank);
    check_refused("https://h/\xc3\xa9", blank);
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
        char url[64], why[160];

        snprintf(url, sizeof url, "http://%s/", far[i]);
        snprintf(why, sizeof why,
                 "http:// to %s, which is not this machine, a private address or a name of one "
                 "word: use https://",
                 far[i]);
        check_refused(url, why);
    }
}

CHECK_MAIN(CHECK_TEST(test_long_ones_are_shown_in_part), CHECK_TEST(test_programs),
           CHECK_TEST(test_bad_programs), CHECK_TEST(test_urls), CHECK_TEST(test_bad_urls))
