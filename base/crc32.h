/* SPDX-License-Identifier: MIT */
/* The checksum of Ethernet, zip and gzip (polynomial 0xEDB88320, ITU-T V.42), as in x-amz-crc32. */
#ifndef BASE_CRC32_H
#define BASE_CRC32_H

#include <stdint.h>

#include "base/span.h"

uint32_t crc32_of(struct span data);

#endif
