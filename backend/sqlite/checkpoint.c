/* SPDX-License-Identifier: MIT */
/*
 * Checkpoints: moving the log's pages into the main file. Maintenance does it beside the writer;
 * when writing goes on without a pause, the log would never be empty at the end of such a one and
 * grow for ever, so past STORE_WAL_MAX_PAGES the writer stops for one itself. A reader's
 * transaction that stays open keeps the log from starting anew: then it is tried again each time
 * the log has grown by an eighth, so that waiting never becomes what the writer does most.
 */
#include "backend/sqlite/store.h"
#include "base/cleanup.h"

#define KEEP_PAGES 1000
#define READERS_TRIES 100 /* about 200 ms */

int checkpoint_keep(struct store *store, struct err *err)
{
    unsigned pages = store->wal_pages;

    if (pages < store->wal_kept + KEEP_PAGES)
        return 0;
    scoped_lock(&store->checkpoint_lock);
    int rc =
        sqlite3_wal_checkpoint_v2(store->keeper->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    store->wal_kept = pages;
    if (rc == SQLITE_OK || (rc & 0xff) == SQLITE_BUSY) /* another process is at it */
        return 0;
    return conn_fail(store->keeper, rc, err, "checkpoint");
}

void checkpoint_bound(struct store *store)
{
    unsigned pages = store->wal_pages;

    if (pages < STORE_WAL_MAX_PAGES) {
        store->wal_tried = 0;
        return;
    }
    if (store->wal_tried && pages < store->wal_tried + store->wal_tried / 8)
        return;
    scoped_lock(&store->checkpoint_lock);
    store->writer->busy_tries = READERS_TRIES;
    /* A failure, too, is tried again; a full disk shows at the next commit. */
    sqlite3_wal_checkpoint_v2(store->writer->db, NULL, SQLITE_CHECKPOINT_RESTART, NULL, NULL);
    store->writer->busy_tries = 0;
    store->wal_tried = pages;
}
