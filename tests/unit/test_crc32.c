/* SPDX-License-Identifier: MIT */
#include "base/crc32.h"

#include <stdlib.h>

#include "tests/check.h"

static void test_known(void)
{
    check_int(crc32_of(span_text("")), 0);
    check_int(crc32_of(span_text("a")), 0xE8B7BE43);
    check_int(crc32_of(span_text("{}")), 0xA3A6BF43);
    check_int(crc32_of(span_text("123456789")), 0xCBF43926);
    check_int(crc32_of(span_text("The quick brown fox jumps over the lazy dog")), 0x414FA339);
}

/* Bit by bit, as the polynomial is defined. */
static uint32_t by_bits(const unsigned char *data, size_t len)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < len; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xEDB88320) : 0);
    }
    return ~crc;
}

static void test_every_length(void)
{
    unsigned char data[100];
    srand(5);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)rand();
    for (size_t from = 0; from < 8; from++)
        for (size_t len = 0; len + from <= sizeof data; len++)
            check_int(crc32_of(span_of((const char *)data + from, len)), by_bits(data + from, len));
}

CHECK_MAIN(CHECK_TEST(test_known), CHECK_TEST(test_every_length))
