/* SPDX-License-Identifier: MIT */
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "tests/check.h"

static void test_utf8(void)
{
    static const struct {
        const char *text;
        bool plain, surrogates;
    } cases[] = {
        {"", true, true},
        {"plain text, longer than a word of eight bytes", true, true},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", true, true},
        {"\xf4\x8f\xbf\xbf", true, true},
        {"\xef\xbf\xbf", true, true},
        {"\xee\x80\x80", true, true},
        {"\xed\x9f\xbf", true, true},
        {"\xed\xa0\x80", false, true},   /* a lone high surrogate */
        {"x\xed\xbf\xbfy", false, true}, /* a lone low one */
        {"\xed\xb0\x80\xed\xa0\x80", false, true},
        {"\xed\xa0\x80\xed\xb0\x80", false, false}, /* a pair has a form of its own */
        {"\xed\xa0\x80x\xed\xb0\x80", false, true},
        {"\xed\xa0\x80"
         "12345678"
         "\xed\xb0\x80",
         false, true},
        {"\x80", false, false},
        {"\xc3", false, false},
        {"\xc0\xaf", false, false},
        {"\xc1\xbf", false, false},
        {"\xe0\x9f\xbf", false, false},
        {"\xf0\x8f\xbf\xbf", false, false},
        {"\xf4\x90\x80\x80", false, false},
        {"\xf5\x80\x80\x80", false, false},
        {"\xff", false, false},
        {"\xe2\x82", false, false},
        {"\xe2\x28\xa1", false, false},
        {"12345678\xff", false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (text_is_utf8(span_text(cases[i].text), false) != cases[i].plain ||
            text_is_utf8(span_text(cases[i].text), true) != cases[i].surrogates)
            check_fail("case %zu", i);
    }
    check(text_is_utf8(span_of("a\0b", 3), false));
}

static void test_visible(void)
{
    cleanup(buf_release) struct buf out;
    buf_init(&out, 1000);
    text_visible(span_of("a\0\t\xc3\xa9\xed\xa0\x80\xc2\x85\x7f~", 12), &out);
    check_text(buf_span(&out), "a\\x00\\x09\xc3\xa9\\xED\\xA0\\x80\\xC2\\x85\\x7F~");
}

static void check_base64(const char *plain, size_t len, const char *standard, const char *url)
{
    cleanup(buf_release) struct buf out;
    buf_init(&out, 1000);
    base64_encode(span_of(plain, len), false, &out);
    check_text(buf_span(&out), standard);
    buf_clear(&out);
    base64_encode(span_of(plain, len), true, &out);
    check_text(buf_span(&out), url);
    buf_clear(&out);
    check_int(base64_decode(span_text(standard), false, &out), 0);
    check_span(buf_span(&out), span_of(plain, len));
    buf_clear(&out);
    check_int(base64_decode(span_text(url), true, &out), 0);
    check_span(buf_span(&out), span_of(plain, len));
}

static void test_base64(void)
{
    check_base64("", 0, "", "");
    check_base64("f", 1, "Zg==", "Zg");
    check_base64("fo", 2, "Zm8=", "Zm8");
    check_base64("foo", 3, "Zm9v", "Zm9v");
    check_base64("foobar", 6, "Zm9vYmFy", "Zm9vYmFy");
    check_base64("\xff\xff\xff", 3, "////", "____");
    check_base64("\xfb\xef\xbe\0", 4, "++++AA==", "----AA");
}

static void test_base64_strict(void)
{
    static const char *const standard[] = {
        "Z",    "Zg",       "Zg=",    "Zg===", "Zh==", "Zm9=", "Zm9v=",   "=",
        "====", "Zg==Zg==", "Zm9v\n", " Zm9v", "Zm-_", "Z===", "Zm9vYm!y"};
    static const char *const url[] = {"Z", "Zg==", "Zh", "Zm9", "Zm+/", "Zm9vY", "Zm9vYmFyZ"};
    cleanup(buf_release) struct buf out;
    buf_init(&out, 1000);
    buf_add_text(&out, "kept");
    for (size_t i = 0; i < sizeof standard / sizeof standard[0]; i++) {
        if (base64_decode(span_text(standard[i]), false, &out) != -EINVAL)
            check_fail("%s is taken", standard[i]);
    }
    for (size_t i = 0; i < sizeof url / sizeof url[0]; i++) {
        if (base64_decode(span_text(url[i]), true, &out) != -EINVAL)
            check_fail("%s is taken as url", url[i]);
    }
    check_text(buf_span(&out), "kept");
    check_int(buf_error(&out), 0);
}

static void test_base64_random(void)
{
    cleanup(buf_release) struct buf text;
    cleanup(buf_release) struct buf back;
    buf_init(&text, 10000);
    buf_init(&back, 10000);
    srand(11);
    for (int round = 0; round < 2000; round++) {
        char data[64];
        size_t len = (size_t)(rand() % 64);
        for (size_t i = 0; i < len; i++)
            data[i] = (char)rand();
        buf_clear(&text);
        buf_clear(&back);
        base64_encode(span_of(data, len), round & 1, &text);
        check_int(base64_decode(buf_span(&text), round & 1, &back), 0);
        check_span(buf_span(&back), span_of(data, len));
    }
}

static void test_sha256(void)
{
    char hex[65];
    sha256_hex(span_text(""), hex);
    check_text(span_text(hex), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    sha256_hex(span_text("abc"), hex);
    check_text(span_text(hex), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static void test_sha1(void)
{
    char hex[41];
    sha1_hex(span_text(""), hex);
    check_text(span_text(hex), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    sha1_hex(span_text("abc"), hex);
    check_text(span_text(hex), "a9993e364706816aba3e25717850c26c9cd0d89d");
}

static void check_hmac(struct span key, const char *data, const char *want)
{
    unsigned char mac[32];
    char hex[65];
    hmac_sha256(key, span_text(data), mac);
    for (size_t i = 0; i < sizeof mac; i++)
        snprintf(hex + 2 * i, 3, "%02x", mac[i]);
    check_text(span_text(hex), want);
}

/* Cases of RFC 4231; keys around the length of a block, as Python's hmac has it. */
static void test_hmac_sha256(void)
{
    char key[131];
    memset(key, 0x0B, sizeof key);
    check_hmac(span_of(key, 20), "Hi There",
               "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    check_hmac(span_text("Jefe"), "what do ya want for nothing?",
               "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xAA, sizeof key);
    check_hmac(span_of(key, 131), "Test Using Larger Than Block-Size Key - Hash Key First",
               "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    check_hmac(span_of(key, 63), "abc",
               "d266bf8e63e138ddff6fb42d7c769f06a54470bffdc77a7b6defaff051708922");
    check_hmac(span_of(key, 64), "abc",
               "2f8cff867f2668ca93d3c5b03ba9f816746742eda349b3bc4bb35aa27816754c");
    check_hmac(span_of(key, 65), "abc",
               "102ebc7ceb9dff09e5a77413a3cd67382908ece255487006eb0e1e1b801f9ce6");
    check_hmac(span_of(NULL, 0), "",
               "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

/* Inode numbers are made of it, so these never change. */
static void test_hash64(void)
{
    check(hash64(span_text(""), 0) == UINT64_C(0xEFD01F60BA992926));
    check(hash64(span_text("ada"), 1) == UINT64_C(0x7F3B7AFBE7E44D38));
    check(hash64(span_text("ada"), 1) != hash64(span_text("ada"), 2));
}

static void check_time(int64_t ns, const char *want, const char *want_seconds)
{
    struct buf out;

    buf_init(&out, 100);
    text_time_ns(ns, &out);
    check_span(buf_span(&out), span_text(want));
    buf_clear(&out);
    text_time_s(ns / 1000000000, &out);
    check_span(buf_span(&out), span_text(want_seconds));
    buf_release(&out);
}

static void test_times(void)
{
    check_time(0, "1970-01-01T00:00:00.000000000Z", "1970-01-01T00:00:00Z");
    check_time(1704448800123456789, "2024-01-05T10:00:00.123456789Z", "2024-01-05T10:00:00Z");
    check_time(-1, "1969-12-31T23:59:59.999999999Z", "1970-01-01T00:00:00Z");
}

CHECK_MAIN(CHECK_TEST(test_times), CHECK_TEST(test_utf8), CHECK_TEST(test_visible),
           CHECK_TEST(test_base64), CHECK_TEST(test_base64_strict), CHECK_TEST(test_base64_random),
           CHECK_TEST(test_sha256), CHECK_TEST(test_sha1), CHECK_TEST(test_hmac_sha256),
           CHECK_TEST(test_hash64))
