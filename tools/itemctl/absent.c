/* SPDX-License-Identifier: MIT */
#include "tools/itemctl/absent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tools/itemctl/files.h"

#define STORE "/items.db"

int absent_stand_in(struct ctl *ctl)
{
    for (size_t i = 0; i < ctl->config->backend_count; i++) {
        struct backend_config *backend = &ctl->config->backends[i];
        char place[] = "/tmp/itemctl-XXXXXX";
        if (!backend->path || access(backend->path, F_OK) == 0 || errno != ENOENT)
            continue;
        char *path = mkdtemp(place) ? path_make("%s" STORE, place) : NULL;
        if (!path)
            return err_set(&ctl->err, errno, "%s: %s", place, strerror(errno));
        free(backend->path);
        backend->path = path;
        ctl->stands_in = true;
    }
    return 0;
}

bool absent_is(const struct ctl *ctl, const struct config *read, size_t place)
{
    const char *path = ctl->config->backends[place].path;

    return path && strcmp(path, read->backends[place].path) != 0;
}

static void take_away(const char *path)
{
    static const char *const endings[] = {"", "-wal", "-shm"};
    cleanup_free char *directory = strndup(path, strlen(path) - strlen(STORE));

    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        cleanup_free char *file = path_make("%s%s", path, endings[i]);
        if (file)
            (void)unlink(file);
    }
    if (directory)
        (void)rmdir(directory);
}

bool absent_end(struct ctl *ctl, const struct config *read)
{
    bool any = false;

    for (size_t i = 0; i < ctl->config->backend_count; i++) {
        struct backend_config *backend = &ctl->config->backends[i];
        if (!absent_is(ctl, read, i))
            continue;
        source_close(ctl->source);
        ctl->source = NULL;
        take_away(backend->path);
        free(backend->path);
        backend->path = strdup(read->backends[i].path);
        any = true;
    }
    return any;
}
