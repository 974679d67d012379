/* SPDX-License-Identifier: MIT */
/*
 * A table read in segments, each by a thread of its own, one page (1 MB at most) after another; a
 * partition by one thread. What a page holds is made ready there, and waits in a queue. A segment
 * has one page under way and one waiting, so that memory is bounded and a slow reader is not run
 * away from. The first failure ends all of them, and reaches the reader behind what came before.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/dynamodb/read.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/clock.h"

#define LOOK_MS 100
#define SEGMENT_BYTES (8 << 20) /* a table of that size is worth another segment */

struct page_record {
    struct item_meta meta;
    size_t partition_at, partition_len, sort_at, sort_len, body_at, body_len; /* in bytes */
};

struct page {
    struct page *next;
    struct segment *segment;
    struct scan_mark mark;
    struct buf bytes;
    struct buf records; /* struct page_record[] */
};

struct segment {
    struct parallel_scan *scan;
    unsigned number;
    struct buf after; /* typed key that it begins behind; len 0: at its beginning */
    pthread_t thread;
    bool waiting; /* it has a page in the queue */
};

struct parallel_scan {
    struct scan scan; /* first */
    struct service *service;
    struct table *table;
    struct scan_range range; /* its partition is in `fixed` */
    struct buf fixed;        /* the request's unchanging part, an open object */
    const char *operation;
    atomic_bool cancelled;
    size_t at; /* the reader's next record of the first page; the reader's own */

    pthread_mutex_t lock;  /* guards all below */
    pthread_cond_t filled; /* a page came, or a segment ended */
    pthread_cond_t taken;  /* a page went, or all is cancelled */
    struct page *first, **last;
    unsigned running;
    int code;
    struct err err;
    unsigned started, count; /* threads; the reader's own */
    struct segment segments[];
};

static struct parallel_scan *parallel_of(struct scan *scan)
{
    return (struct parallel_scan *)scan;
}

static void page_free(struct page *page)
{
    if (!page)
        return;
    buf_release(&page->bytes);
    buf_release(&page->records);
    free(page);
}

/* --- A segment's thread --- */

static size_t keep(struct page *page, struct span bytes)
{
    size_t at = page->bytes.len;
    buf_add_span(&page->bytes, bytes);
    return at;
}

static int keep_record(void *context, const struct record *record)
{
    struct page *page = context;
    struct page_record kept = {.meta = record->meta,
                               .partition_len = record->key.partition.len,
                               .sort_len = record->key.sort.len,
                               .body_len = record->body.len};
    kept.partition_at = keep(page, record->key.partition);
    kept.sort_at = keep(page, record->key.sort);
    kept.body_at = keep(page, record->body);
    buf_add(&page->records, &kept, sizeof kept);
    return buf_error(&page->bytes) || buf_error(&page->records) ? -ENOMEM : 0;
}

static struct page *page_new(struct segment *segment)
{
    const struct scan_range *range = &segment->scan->range;
    struct page *page = calloc(1, sizeof *page);
    if (!page)
        return NULL;
    page->segment = segment;
    if (range->mark)
        page->mark = range->mark(range->mark_context);
    buf_init(&page->bytes, SIZE_MAX / 8);
    buf_init(&page->records, SIZE_MAX / 8);
    return page;
}

/* Waits until the segment's last page was taken. False: the scan was cancelled. */
static bool hand_over(struct segment *segment, struct page *page)
{
    struct parallel_scan *scan = segment->scan;
    scoped_lock(&scan->lock);
    while (segment->waiting && !scan->cancelled)
        pthread_cond_wait(&scan->taken, &scan->lock);
    if (scan->cancelled) {
        page_free(page);
        return false;
    }
    segment->waiting = true;
    *scan->last = page;
    scan->last = &page->next;
    pthread_cond_signal(&scan->filled);
    return true;
}

static void segment_init(const struct segment *segment, struct reading *reading, struct err *err)
{
    const struct parallel_scan *scan = segment->scan;
    reading_init(reading, scan->service, scan->table, err);
    reading->operation = scan->operation;
    reading->bodies = scan->range.bodies;
    reading->typed = scan->range.typed;
    reading->cancelled = &scan->cancelled;
    buf_add_span(&reading->fixed, buf_span(&scan->fixed));
    buf_add_span(&reading->after, buf_span(&segment->after));
    if (scan->count > 1) {
        char number[16], total[16];
        snprintf(number, sizeof number, "%u", segment->number);
        snprintf(total, sizeof total, "%u", scan->count);
        request_raw(&reading->fixed, "Segment", span_text(number));
        request_raw(&reading->fixed, "TotalSegments", span_text(total));
    }
}

static int read_segment(struct segment *segment, struct err *err)
{
    cleanup(reading_release) struct reading reading;
    bool last = false;
    int r = 0;

    segment_init(segment, &reading, err);
    while (r == 0 && !last) {
        struct page *page = page_new(segment);
        if (!page)
            return -ENOMEM;
        reading.each = keep_record;
        reading.context = page;
        r = reading_page(&reading, &last);
        if (r < 0 || page->records.len == 0)
            page_free(page);
        else if (!hand_over(segment, page))
            return -EINTR;
    }
    return r;
}

/* Ended: the reader looks whether that was the last one. */
static void finish(struct parallel_scan *scan, int code, const struct err *err)
{
    scoped_lock(&scan->lock);
    scan->running--;
    if (code < 0 && scan->code == 0 && !scan->cancelled) {
        scan->code = code;
        err_set(&scan->err, -code, "%s", err_text(err, code));
        scan->cancelled = true;
        pthread_cond_broadcast(&scan->taken);
    }
    pthread_cond_signal(&scan->filled);
}

static void *segment_main(void *argument)
{
    struct segment *segment = argument;
    struct err err = {""};

    finish(segment->scan, read_segment(segment, &err), &err);
    return NULL;
}

/* --- The reader --- */

/* For a page, or so long that it is time to look whether somebody still waits for it. */
static void wait_locked(struct parallel_scan *scan)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_MS * 1000000;
    until.tv_sec += until.tv_nsec / NS_PER_S;
    until.tv_nsec %= NS_PER_S;
    pthread_cond_timedwait(&scan->filled, &scan->lock, &until);
}

/* The first page; NULL at the end, or where CODE says why not. */
static struct page *wait_page(struct parallel_scan *scan, int *ret_code, struct err *err)
{
    scoped_lock(&scan->lock);
    while (!scan->first && scan->running > 0 && !is_cancelled())
        wait_locked(scan);
    *ret_code = scan->first || !is_cancelled() ? 0 : err_set(err, EINTR, "interrupted");
    if (!scan->first && scan->code && *ret_code == 0)
        *ret_code = err_set(err, -scan->code, "%s", err_text(&scan->err, scan->code));
    return scan->first;
}

static void drop_page(struct parallel_scan *scan)
{
    scoped_lock(&scan->lock);
    struct page *page = scan->first;
    scan->first = page->next;
    if (!scan->first)
        scan->last = &scan->first;
    page->segment->waiting = false;
    pthread_cond_broadcast(&scan->taken);
    page_free(page);
}

static int give(const struct page *page, size_t at, record_fn each, void *context)
{
    const struct page_record *kept = (const struct page_record *)(const void *)page->records.data;
    const char *bytes = page->bytes.data;
    kept += at;
    struct record record = {
        .key = {span_of(bytes + kept->partition_at, kept->partition_len),
                span_of(bytes + kept->sort_at, kept->sort_len)},
        .meta = kept->meta,
        .body = span_of(page->segment->scan->range.bodies ? bytes + kept->body_at : NULL,
                        kept->body_len),
    };
    return each(context, &record);
}

/* --- Beginning and end --- */

/* Signals are for the threads that wait for them. */
static int start_quietly(struct segment *segment)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&segment->thread, NULL, segment_main, segment);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

/* With fewer threads than segments a part of the table would be missing. */
static int start(struct parallel_scan *scan, struct err *err)
{
    while (scan->started < scan->count) {
        struct segment *segment = &scan->segments[scan->started];
        pthread_mutex_lock(&scan->lock);
        scan->running++;
        pthread_mutex_unlock(&scan->lock);
        int code = start_quietly(segment);
        if (code) {
            pthread_mutex_lock(&scan->lock);
            scan->running--;
            pthread_mutex_unlock(&scan->lock);
            return err_set(err, code, "cannot start a thread: %s", strerror(code));
        }
        scan->started++;
    }
    return 0;
}

int service_scan_next(struct scan *opened, size_t limit, record_fn each, void *context,
                      struct err *err)
{
    struct parallel_scan *scan = parallel_of(opened);
    int r = start(scan, err);

    for (size_t given = 0; r == 0 && given < limit;) {
        const struct page *page = wait_page(scan, &r, err);
        if (!page) {
            opened->ended = r == 0;
            break;
        }
        size_t count = page->records.len / sizeof(struct page_record);
        opened->mark = page->mark;
        opened->segment = page->segment->number;
        for (; r == 0 && given < limit && scan->at < count; given++)
            r = give(page, scan->at++, each, context);
        if (scan->at == count) {
            drop_page(scan);
            scan->at = 0;
        }
    }
    return r;
}

void service_scan_close(struct scan *opened)
{
    struct parallel_scan *scan = parallel_of(opened);

    pthread_mutex_lock(&scan->lock);
    scan->cancelled = true;
    pthread_cond_broadcast(&scan->taken);
    pthread_mutex_unlock(&scan->lock);
    for (unsigned i = 0; i < scan->started; i++)
        pthread_join(scan->segments[i].thread, NULL);
    while (scan->first)
        drop_page(scan);
    pthread_cond_destroy(&scan->filled);
    pthread_cond_destroy(&scan->taken);
    pthread_mutex_destroy(&scan->lock);
    for (unsigned i = 0; i < scan->count; i++)
        buf_release(&scan->segments[i].after);
    buf_release(&scan->fixed);
    table_free(scan->table);
    free(scan);
}

/* A small table is not worth the requests of many segments, and a small budget is used up by one.
 */
unsigned service_segments(struct service *service, const struct table *table)
{
    if (service_page_units(service, table) > 0)
        return 1;
    uint64_t bytes = service_table_bytes(service, table);
    uint64_t worth = bytes ? bytes / SEGMENT_BYTES + 1 : service->segments;
    return worth < service->segments ? (unsigned)worth : service->segments;
}

static int segments_init(struct parallel_scan *scan, const struct scan_range *range)
{
    int code = 0;

    for (unsigned i = 0; i < scan->count; i++) {
        struct segment *segment = &scan->segments[i];
        segment->scan = scan;
        segment->number = i;
        buf_init(&segment->after, DYNAMODB_BODY_MAX);
        if (range->after && range->after[i].partition.len)
            key_to_typed(scan->table, range->after[i], &segment->after);
        code = code ? code : buf_error(&segment->after);
    }
    return code;
}

static unsigned segment_count(struct service *service, const struct table *table,
                              const struct scan_range *range)
{
    if (range->partition.data)
        return 1;
    return range->segments ? range->segments : service_segments(service, table);
}

int service_scan_open(struct backend *backend, const struct table *table,
                      const struct scan_range *range, struct scan **ret_scan, struct err *err)
{
    struct service *service = service_of(backend);
    unsigned count = segment_count(service, table, range);
    struct parallel_scan *scan = calloc(1, sizeof *scan + count * sizeof scan->segments[0]);

    if (!scan)
        return err_set(err, ENOMEM, "no memory");
    pthread_mutex_init(&scan->lock, NULL);
    pthread_cond_init(&scan->filled, NULL);
    pthread_cond_init(&scan->taken, NULL);
    buf_init(&scan->fixed, DYNAMODB_BODY_MAX);
    scan->service = service;
    scan->range = *range;
    scan->range.bodies |= range->typed;
    scan->range.after = NULL; /* the caller's */
    scan->last = &scan->first;
    scan->count = scan->scan.segments = count;
    scan->table = table_copy(table);
    scan->operation = request_items(&scan->fixed, table, range->partition);
    if (!scan->table || segments_init(scan, range) < 0 || buf_error(&scan->fixed)) {
        service_scan_close(&scan->scan);
        return err_set(err, ENOMEM, "no memory");
    }
    *ret_scan = &scan->scan;
    return 0;
}
