/* SPDX-License-Identifier: MIT */
/*
 * Eight bytes a step ("slicing by eight"): table N holds what a byte comes to when N more bytes
 * have followed it. Byte by byte, the check of a page of 1 MB would take as long as reading its
 * JSON.
 */
#include "base/crc32.h"

#include <pthread.h>

#define SLICES 8

static uint32_t tables[SLICES][256]; /* filled once, read only afterwards */

static void tables_fill(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ UINT32_C(0xEDB88320) : crc >> 1;
        tables[0][byte] = crc;
    }
    for (int slice = 1; slice < SLICES; slice++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t crc = tables[slice - 1][byte];
            tables[slice][byte] = crc >> 8 ^ tables[0][crc & 0xFF];
        }
}

static uint32_t step_eight(uint32_t crc, const unsigned char *at)
{
    crc ^= at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    return tables[7][crc & 0xFF] ^ tables[6][crc >> 8 & 0xFF] ^ tables[5][crc >> 16 & 0xFF] ^
           tables[4][crc >> 24] ^ tables[3][at[4]] ^ tables[2][at[5]] ^ tables[1][at[6]] ^
           tables[0][at[7]];
}

uint32_t crc32_of(struct span data)
{
    static pthread_once_t filled = PTHREAD_ONCE_INIT;
    const unsigned char *at = (const unsigned char *)data.data;
    size_t left = data.len;
    uint32_t crc = UINT32_MAX;

    pthread_once(&filled, tables_fill);
    for (; left >= SLICES; left -= SLICES, at += SLICES)
        crc = step_eight(crc, at);
    for (; left > 0; left--, at++)
        crc = crc >> 8 ^ tables[0][(crc ^ *at) & 0xFF];
    return ~crc;
}
