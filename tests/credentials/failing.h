/* SPDX-License-Identifier: MIT */
/* An allocator that fails once, for show_credentials. The linker sends the calls of our own code
 * here
 * (--wrap). */
#ifndef TESTS_CREDENTIALS_FAILING_H
#define TESTS_CREDENTIALS_FAILING_H

#include <stdbool.h>

/* After COUNT allocations from now, one fails. */
void failing_begin(long count);
/* No more; whether it came to the failure. */
bool failing_end(void);

#endif
