/* SPDX-License-Identifier: MIT */
#include "backend/replicas.h"

#include <errno.h>

const char *health_name(enum health health)
{
    static const char *const names[] = {"ONLINE", "OVERLOADED", "UNRESPONSIVE", "OFFLINE"};

    return names[health];
}

static int no_replicas(const struct backend *backend, struct err *err)
{
    return err_set(err, EOPNOTSUPP,
                   "a backend of type %s has no replicas: they are folders of files",
                   backend->ops->kind);
}

int backend_plug_in(struct backend *backend, const char *path, const struct plug_options *options,
                    struct plug_counts *ret_counts, struct err *err)
{
    *ret_counts = (struct plug_counts){0};
    return backend->ops->plug_in ? backend->ops->plug_in(backend, path, options, ret_counts, err)
                                 : no_replicas(backend, err);
}

int backend_plug_out(struct backend *backend, const char *path, const struct plug_options *options,
                     struct plug_counts *ret_counts, struct err *err)
{
    *ret_counts = (struct plug_counts){0};
    return backend->ops->plug_out ? backend->ops->plug_out(backend, path, options, ret_counts, err)
                                  : no_replicas(backend, err);
}

int backend_verify(struct backend *backend, const struct table *table,
                   const struct verify_options *options, difference_fn each,
                   struct verify_counts *ret_counts, struct err *err)
{
    *ret_counts = (struct verify_counts){0};
    return backend->ops->verify
               ? backend->ops->verify(backend, table, options, each, ret_counts, err)
               : no_replicas(backend, err);
}
