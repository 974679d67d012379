/* SPDX-License-Identifier: MIT */
/*
 * The tag store's own configuration: XML, with the paths of a schema's folders in
 *
 *   ROOT / lucinda_db / ENVIRONMENT / schemas / schema
 *
 * where ROOT may be lucinda_db itself. Of several lucinda_db, ENVIRONMENT or schemas the first one
 * counts, as for the PHP client. A path is taken as it is written; a relative one is below the
 * file's folder, which is where a project's PHP programs run.
 *
 * A document type, and so any entity that is not XML's own, is refused: nothing is expanded, and
 * nothing fetched.
 */
#ifndef BASE_SCHEMAS_H
#define BASE_SCHEMAS_H

#include "base/buf.h"
#include "base/config.h"
#include "base/err.h"
#include "base/span.h"

#define SCHEMAS_BYTES_MAX (1u << 20)

/* The paths, absolute. TEXT came from PATH (absolute). -EINVAL with "PATH:LINE: reason". */
int schemas_read(struct span text, const char *path, const char *environment,
                 struct path_list *ret_list, struct err *err);

/* TEXT once more, but that it has ADD (absolute; NULL: none) behind the other paths, and REMOVE
 * (likewise) no more. Nothing else of it changes. -EINVAL where that cannot be done. */
int schemas_edit(struct span text, const char *path, const char *environment, const char *add,
                 const char *remove, struct buf *out, struct err *err);

/* ---- between schemas.c and schemas_edit.c ---- */

/* An absolute path of what is written in the file PATH; on the heap. */
char *schemas_absolute(const char *path, struct span written);

#endif
