/* SPDX-License-Identifier: MIT */
/* What the files of source.h share. */
#ifndef BACKEND_SOURCE_PRIVATE_H
#define BACKEND_SOURCE_PRIVATE_H

#include "backend/backend.h"
#include "backend/source.h"
#include "base/config.h"

int source_open_backend(const struct config *config, const struct backend_config *settings,
                        bool create, struct backend **ret_backend, struct err *err);
int source_open_folder(const struct config *config, const struct backend_config *settings,
                       struct backend **ret_backend, struct err *err);
/* PATH without links and dots, on the heap, also where its end is not there: a disk that is not
 * mounted is still called the same. -ENOMEM. */
int source_real_path(const char *path, char **ret_real);
/* -EINVAL: two replicas, of one backend or of two, are the same folder, or one lies in the other.
 */
int source_check_folders(const struct config *config, struct err *err);
/* The message OWN of a state database that could not be opened, with what can be done. */
int source_explain_state(int code, const struct err *own, struct err *err);

/* source_profile.c: the choices of a source, which are in place also where this fails. */
int source_choose_profiles(struct source *source, struct err *err);
void source_forget_profiles(struct source *source);
/* source_table and source_tables of a source that source_show made. */
int source_shown_table(struct source *source, struct span name, struct backend **ret_backend,
                       struct table **ret_table, struct err *err);
int source_shown_tables(struct source *source, table_fn each, void *context, struct err *err);

#endif
