/* SPDX-License-Identifier: MIT */
/* What profile.c (the two files, look-up) and profile_read.c (one file's text) share. */
#ifndef BACKEND_DYNAMODB_PROFILE_PRIVATE_H
#define BACKEND_DYNAMODB_PROFILE_PRIVATE_H

#include <stddef.h>

#include "backend/dynamodb/profile.h"

struct profile_setting {
    char *key;
    char *subkey; /* NULL: the value is the setting's own */
    char *value;  /* may be a secret */
};
struct profile_section {
    enum profile_kind kind;
    char *header; /* as it stands between the brackets */
    char *name;   /* "" where the kind has none */
    struct profile_setting *settings;
    size_t count;
};
struct profile_text {
    struct profile_section *sections;
    size_t count;
};

/* Reads a file's TEXT into RET_TEXT, which is empty. On failure it may hold a part. */
int profile_read(enum profile_file file, struct span text, const char *path,
                 struct profile_text *ret_text, struct err *err);

#endif
