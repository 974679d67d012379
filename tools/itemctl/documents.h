/* SPDX-License-Identifier: MIT */
/* Files of typed items, read whole: one item, an array of items, or an item a line. */
#ifndef ITEMCTL_DOCUMENTS_H
#define ITEMCTL_DOCUMENTS_H

#include "base/buf.h"
#include "base/err.h"

/* Reads FILE ("-": standard input) into TEXT; errors name it. */
int document_read(const char *file, struct buf *text, struct err *err);

/*
 * Calls EACH for every item of TEXT, which is an array when it begins with "[", else lines; LINE is
 * where the item begins, from 1. Blank lines are passed over. A negative value of EACH ends it, and
 * an error's sentence is put behind "FILE:LINE: ".
 */
typedef int (*document_fn)(void *context, struct span item, struct err *err);
int document_items(const char *file, struct span text, document_fn each, void *context,
                   struct err *err);

/* Sets ERR to "FILE:LINE: REASON", where a line and column in REASON, which a JSON error of an item
 * that begins at LINE names, become the file's. Returns CODE, a negative errno. */
int document_fail(const char *file, size_t line, int code, const struct err *reason,
                  struct err *err);

/* Nothing but white space. */
bool text_is_blank(struct span text);

#endif
