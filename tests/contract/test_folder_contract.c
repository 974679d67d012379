/* SPDX-License-Identifier: MIT */
/* The contract over one folder of files. */
#define REPLICAS 1
#include "tests/contract/folders.h"
