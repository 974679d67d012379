/* SPDX-License-Identifier: MIT */
#include "base/cancel.h"

static _Thread_local const atomic_bool *current;

const atomic_bool *cancel_flag(void)
{
    return current;
}

bool cancelled_by_flag(const void *context)
{
    const atomic_bool *flag = context;

    return flag && atomic_load(flag);
}

void cancel_set(const atomic_bool *flag)
{
    current = flag;
}
