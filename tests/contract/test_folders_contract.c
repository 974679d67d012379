/* SPDX-License-Identifier: MIT */
/* The contract over two folders that hold the same files. */
#define REPLICAS 2
#include "tests/contract/folders.h"
