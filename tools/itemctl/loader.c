/* SPDX-License-Identifier: MIT */
#include "tools/itemctl/loader.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"

#define BATCH_BYTES (4u << 20) /* of bodies: larger batches end earlier */
#define QUEUE_BATCHES 2        /* that wait, for each writer */
#define QUEUE_BYTES (4 * (size_t)BATCH_BYTES)

struct load_item {
    struct load_item *next;
    uint64_t number;
    uint64_t hash; /* of its key */
    struct place place;
    size_t partition, sort, body; /* lengths, in BYTES one behind the other */
    int64_t ttl;
    double units;
    char bytes[];
};

struct queue {
    struct load_item *first, **last;
    size_t count, bytes;
    double units;
};

struct writer {
    struct loader *loader;
    pthread_t thread;
    struct action *actions; /* room for a batch; the writer's own */
    struct queue batch;     /* what it writes, changed under the loader's lock only */
    bool busy;              /* guarded by it */
};

struct loader {
    const struct subject *subject;
    struct backend_bulk bulk;
    unsigned started;
    uint64_t added; /* the reader's own */

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t work;  /* a batch may be ready */
    pthread_cond_t done;  /* a writer has taken, written, or failed */
    struct queue queue;
    bool pushed; /* what waits is sent without waiting for full batches */
    bool closing;
    int code; /* of the failure at the lowest number; nothing is taken any more */
    struct err err;
    const struct load_item *failed; /* the first item of what was not written then */
    struct writer writers[];
};

/* ---- queues ---- */

static void queue_init(struct queue *queue)
{
    *queue = (struct queue){.last = &queue->first};
}

static void queue_add(struct queue *queue, struct load_item *item)
{
    item->next = NULL;
    *queue->last = item;
    queue->last = &item->next;
    queue->count++;
    queue->bytes += item->body;
    queue->units += item->units;
}

static struct load_item *queue_take(struct queue *queue)
{
    struct load_item *item = queue->first;

    queue->first = item->next;
    if (!queue->first)
        queue->last = &queue->first;
    queue->count--;
    queue->bytes -= item->body;
    queue->units -= item->units;
    return item;
}

static void queue_drop(struct queue *queue, size_t count)
{
    while (count--)
        free(queue_take(queue));
}

/* ---- a writer's thread ---- */

/* Whether the key of ITEM is being written. */
static bool is_under_way(const struct loader *loader, const struct load_item *item)
{
    for (unsigned i = 0; i < loader->started; i++)
        for (const struct load_item *other = loader->writers[i].batch.first; other;
             other = other->next)
            if (other->hash == item->hash)
                return true;
    return false;
}

static bool is_full(const struct loader *loader, const struct queue *queue)
{
    return queue->count >= loader->bulk.items || queue->bytes >= BATCH_BYTES ||
           (loader->bulk.units > 0 && queue->count > 1 && queue->units > loader->bulk.units);
}

static bool is_ready(const struct loader *loader)
{
    const struct queue *queue = &loader->queue;

    return loader->code == 0 && queue->first && (loader->pushed || is_full(loader, queue)) &&
           !is_under_way(loader, queue->first);
}

static struct action action_of(const struct loader *loader, const struct load_item *item)
{
    const char *sort = item->bytes + item->partition, *body = sort + item->sort;

    return (struct action){
        .kind = ACTION_PUT,
        .table = loader->subject->table,
        .key = {span_of(item->bytes, item->partition), span_of(sort, item->sort)},
        .body = span_of(body, item->body),
        .ttl = item->ttl,
        .units = item->units,
    };
}

/* Whether BATCH, which is not empty, takes ITEM too. */
static bool has_room(const struct loader *loader, const struct queue *batch,
                     const struct load_item *item)
{
    return batch->count < loader->bulk.items && batch->bytes < BATCH_BYTES &&
           !(loader->bulk.units > 0 && batch->units + item->units > loader->bulk.units);
}

static void take(struct writer *writer)
{
    struct loader *loader = writer->loader;
    struct queue taken;

    queue_init(&taken); /* beside the batch: of those with one key, one batch may have several */
    do {
        writer->actions[taken.count] = action_of(loader, loader->queue.first);
        queue_add(&taken, queue_take(&loader->queue));
    } while (loader->queue.first && has_room(loader, &taken, loader->queue.first) &&
             !is_under_way(loader, loader->queue.first));
    writer->batch = taken;
    writer->busy = true;
}

static bool is_of_an_item(int code)
{
    return code == -EINVAL || code == -EFBIG || code == -ERANGE || code == -ENAMETOOLONG;
}

/* Writes the COUNT actions; RET_DONE of them. Where the service finds fault with an item it does
 * not say with which: they are tried one by one. */
static int write_batch(const struct writer *writer, size_t count, size_t *ret_done, struct err *err)
{
    struct backend *backend = writer->loader->subject->backend;
    int r = backend_write(backend, writer->actions, count, WRITE_LOOSE, err);

    *ret_done = r == 0 ? count : 0;
    if (count == 1 || !is_of_an_item(r))
        return r;
    err_clear(err);
    for (r = 0; r == 0 && *ret_done < count; *ret_done += r == 0)
        r = backend_write(backend, &writer->actions[*ret_done], 1, WRITE_LOOSE, err);
    return r;
}

/* What came before has been taken already: it is written, or fails too. */
static void fail(struct writer *writer, int code, const struct err *err)
{
    struct loader *loader = writer->loader;

    if (loader->code && loader->failed->number < writer->batch.first->number)
        return;
    loader->failed = writer->batch.first;
    loader->code = code;
    loader->err = *err;
}

static void *writer_main(void *argument)
{
    struct writer *writer = argument;
    struct loader *loader = writer->loader;
    scoped_lock(&loader->lock);

    for (;;) {
        struct err err = {""};
        size_t done;
        while (!is_ready(loader) && !loader->closing)
            pthread_cond_wait(&loader->work, &loader->lock);
        if (loader->closing)
            return NULL;
        take(writer);
        size_t count = writer->batch.count;
        if (is_ready(loader))
            pthread_cond_signal(&loader->work);
        pthread_cond_signal(&loader->done);
        pthread_mutex_unlock(&loader->lock);
        int r = write_batch(writer, count, &done, &err);
        pthread_mutex_lock(&loader->lock);
        queue_drop(&writer->batch, done);
        writer->busy = false;
        if (r < 0)
            fail(writer, r, &err);
        pthread_cond_signal(&loader->done);
        if (r < 0) /* what is left of the batch stays: it is not done */
            return NULL;
    }
}

/* ---- the reader ---- */

static int start_writer(struct loader *loader, struct writer *writer, struct err *err)
{
    writer->loader = loader;
    queue_init(&writer->batch);
    writer->actions = calloc(loader->bulk.items, sizeof *writer->actions);
    if (!writer->actions)
        return err_set(err, ENOMEM, "no memory");
    int code = pthread_create(&writer->thread, NULL, writer_main, writer);
    if (code) {
        free(writer->actions);
        return err_set(err, code, "cannot start a thread: %s", strerror(code));
    }
    return 0;
}

static int start_writers(struct loader *loader, struct err *err)
{
    int r = 0;
    scoped_lock(&loader->lock);

    while (r == 0 && loader->started < loader->bulk.calls) {
        r = start_writer(loader, &loader->writers[loader->started], err);
        loader->started += r == 0;
    }
    return r;
}

int loader_new(const struct subject *subject, struct loader **ret_loader, struct err *err)
{
    struct backend_bulk bulk = backend_bulk(subject->backend, subject->table);
    struct loader *loader = calloc(1, sizeof *loader + bulk.calls * sizeof loader->writers[0]);
    pthread_condattr_t clock;

    if (!loader)
        return err_set(err, ENOMEM, "no memory");
    loader->subject = subject;
    loader->bulk = bulk;
    queue_init(&loader->queue);
    pthread_mutex_init(&loader->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&loader->work, NULL);
    pthread_cond_init(&loader->done, &clock);
    pthread_condattr_destroy(&clock);
    int r = start_writers(loader, err);
    if (r < 0)
        loader_free(loader);
    else
        *ret_loader = loader;
    return r;
}

void loader_free(struct loader *loader)
{
    if (!loader)
        return;
    pthread_mutex_lock(&loader->lock);
    loader->closing = true;
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->lock);
    for (unsigned i = 0; i < loader->started; i++) {
        struct writer *writer = &loader->writers[i];
        pthread_join(writer->thread, NULL);
        queue_drop(&writer->batch, writer->batch.count);
        free(writer->actions);
    }
    queue_drop(&loader->queue, loader->queue.count);
    pthread_cond_destroy(&loader->work);
    pthread_cond_destroy(&loader->done);
    pthread_mutex_destroy(&loader->lock);
    free(loader);
}

static struct load_item *item_new(const struct packed *packed, const struct place *place)
{
    struct span sort = buf_span(&packed->sort), body = buf_span(&packed->body);
    struct span partition = buf_span(&packed->partition);
    struct load_item *item = malloc(sizeof *item + partition.len + sort.len + body.len);

    if (!item)
        return NULL;
    *item = (struct load_item){.place = *place,
                               .hash = hash64(sort, hash64(partition, 0)),
                               .partition = partition.len,
                               .sort = sort.len,
                               .body = body.len,
                               .ttl = packed->ttl,
                               .units = packed->units};
    memcpy(item->bytes, partition.data, partition.len);
    if (sort.len)
        memcpy(item->bytes + partition.len, sort.data, sort.len);
    if (body.len)
        memcpy(item->bytes + partition.len + sort.len, body.data, body.len);
    return item;
}

static bool has_queue_room(const struct loader *loader)
{
    const struct queue *queue = &loader->queue;

    return queue->count < (size_t)QUEUE_BATCHES * loader->bulk.calls * loader->bulk.items &&
           queue->bytes < QUEUE_BYTES;
}

/* False: it became UNTIL_NS first. */
static bool wait_room(struct loader *loader, int64_t until_ns)
{
    while (loader->code == 0 && !has_queue_room(loader)) {
        int64_t left = until_ns - clock_steady_ns();
        struct timespec until;
        if (left <= 0)
            return false;
        clock_gettime(CLOCK_MONOTONIC, &until);
        int64_t at = until.tv_nsec + left;
        until.tv_sec += (time_t)(at / NS_PER_S);
        until.tv_nsec = (long)(at % NS_PER_S);
        pthread_cond_timedwait(&loader->done, &loader->lock, &until);
    }
    return true;
}

static int failure(const struct loader *loader, struct err *err)
{
    return loader->code ? err_set(err, -loader->code, "%s", err_text(&loader->err, loader->code))
                        : 0;
}

int loader_add(struct loader *loader, const struct packed *packed, const struct place *place,
               int64_t until_ns, struct err *err)
{
    scoped_lock(&loader->lock);

    if (!wait_room(loader, until_ns))
        return 1;
    if (loader->code)
        return failure(loader, err);
    struct load_item *item = item_new(packed, place);
    if (!item)
        return err_set(err, ENOMEM, "no memory");
    item->number = loader->added++;
    queue_add(&loader->queue, item);
    if (is_full(loader, &loader->queue))
        pthread_cond_signal(&loader->work);
    return 0;
}

static bool is_idle(const struct loader *loader)
{
    for (unsigned i = 0; i < loader->started; i++)
        if (loader->writers[i].busy)
            return false;
    return loader->code || !loader->queue.first;
}

int loader_drain(struct loader *loader, struct err *err)
{
    scoped_lock(&loader->lock);

    loader->pushed = true;
    while (!is_idle(loader)) {
        pthread_cond_broadcast(&loader->work);
        pthread_cond_wait(&loader->done, &loader->lock);
    }
    return failure(loader, err);
}

struct place loader_done(struct loader *loader, const struct place *here)
{
    const struct load_item *oldest = NULL;
    scoped_lock(&loader->lock);

    oldest = loader->queue.first;
    for (unsigned i = 0; i < loader->started; i++) {
        const struct load_item *first = loader->writers[i].batch.first;
        if (first && (!oldest || first->number < oldest->number))
            oldest = first;
    }
    return oldest ? oldest->place : *here;
}

bool loader_refused(struct loader *loader, struct place *ret_place, bool *ret_more)
{
    scoped_lock(&loader->lock);

    if (!loader->failed || !is_of_an_item(loader->code))
        return false;
    *ret_place = loader->failed->place;
    *ret_more = loader->started > 1;
    return true;
}
