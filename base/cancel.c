/* SPDX-License-Identifier: MIT */
#include "base/cancel.h"

static _Thread_local const atomic_bool *current;

const atomic_bool *cancel_flag(void)
{
    return current;
}

void cancel_set(const atomic_bool *flag)
{
    current = flag;
}
