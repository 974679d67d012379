/* SPDX-License-Identifier: MIT */
#include "base/md5.h"

#include <stdio.h>

#include "tests/check.h"

static void check_digest(const unsigned char digest[MD5_BYTES], const char *want)
{
    char text[2 * MD5_BYTES + 1];

    for (size_t i = 0; i < MD5_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    check_text(span_text(text), want);
}

/* RFC 1321, appendix A.5 */
static void test_known(void)
{
    static const char *const cases[][2] = {
        {"", "d41d8cd98f00b204e9800998ecf8427e"},
        {"abc", "900150983cd24fb0d6963f7d28e17f72"},
        {"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
         "57edf4a22be3c955ac49da2e2107b67a"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char digest[MD5_BYTES];
        md5_of(span_text(cases[i][0]), digest);
        check_digest(digest, cases[i][1]);
    }
}

static void test_in_pieces(void)
{
    struct md5 *md5 = md5_new();
    unsigned char digest[MD5_BYTES];

    md5_add(md5, span_text("a"));
    md5_add(md5, span_of("", 0));
    md5_add(md5, span_text("bc"));
    md5_end(md5, digest);
    md5_free(md5);
    md5_free(NULL);
    check_digest(digest, "900150983cd24fb0d6963f7d28e17f72");
}

CHECK_MAIN(CHECK_TEST(test_known), CHECK_TEST(test_in_pieces))
