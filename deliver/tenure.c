/* SPDX-License-Identifier: MIT */
#include "deliver/tenure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#define STOP_S 3                /* that the keeper has to give the lease back */
#define RETRY_NS (NS_PER_S / 2) /* after a renewal that failed */

const struct tenure_times tenure_times = {
    .renew_ns = 3 * NS_PER_S,
    .fresh_ns = 7 * NS_PER_S,
    .lapse_ns = 10 * NS_PER_S,
    .look_ns = 2 * NS_PER_S,
};

void tenure_init(struct tenure *tenure, const char *holder)
{
    pthread_condattr_t steady;

    *tenure = (struct tenure){.times = tenure_times, .holder = holder, .over = true};
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&tenure->change, &steady);
    pthread_condattr_destroy(&steady);
    pthread_mutex_init(&tenure->lock, NULL);
    buf_init(&tenure->position, LEASE_TEXT_MAX);
    buf_init(&tenure->other, LEASE_TEXT_MAX);
}

void tenure_release(struct tenure *tenure)
{
    free(tenure->name);
    buf_release(&tenure->position);
    buf_release(&tenure->other);
    pthread_cond_destroy(&tenure->change);
    pthread_mutex_destroy(&tenure->lock);
}

/* Until something changes, or TIME_NS have passed. */
static void wait_locked(struct tenure *tenure, int64_t time_ns)
{
    struct timespec when;

    if (time_ns <= 0)
        return;
    clock_gettime(CLOCK_MONOTONIC, &when);
    int64_t at = (int64_t)when.tv_sec * NS_PER_S + when.tv_nsec + time_ns;
    when = (struct timespec){.tv_sec = at / NS_PER_S, .tv_nsec = at % NS_PER_S};
    pthread_cond_timedwait(&tenure->change, &tenure->lock, &when);
}

/* ---- the keeper ---- */

static void set_text_locked(struct buf *buf, struct span text)
{
    buf_clear(buf);
    buf_add_span(buf, text);
}

static void note_renewed_locked(struct tenure *tenure, int64_t began_ns)
{
    tenure->changed_ns = began_ns;
    atomic_store(&tenure->certain_until_ns, began_ns + tenure->times.fresh_ns);
}

static void lost_locked(struct tenure *tenure)
{
    tenure->held = false;
    tenure->count = 0;
    atomic_store(&tenure->over, true);
    pthread_cond_broadcast(&tenure->change);
}

/* What came of the last reading or writing. What is said of it is said once. */
static void tell(struct tenure *tenure, int code, const struct err *err)
{
    struct err trouble = {""};
    if (code < 0 && code != -ESTALE)
        err_set(&trouble, -code, "%s", err_text(err, code));
    pthread_mutex_lock(&tenure->lock);
    bool news = (trouble.text[0] != '\0') != (tenure->trouble.text[0] != '\0');
    tenure->trouble = trouble;
    pthread_mutex_unlock(&tenure->lock);
    if (news && trouble.text[0])
        log_warning("deliver", "table %s: its lease cannot be used: %s", tenure->name,
                    trouble.text);
    else if (news)
        log_info("deliver", "table %s: its lease can be used again", tenure->name);
}

static void renewed(struct tenure *tenure, int code, uint64_t asked, int64_t began_ns)
{
    scoped_lock(&tenure->lock);
    if (code == -ESTALE)
        lost_locked(tenure);
    if (code)
        return;
    tenure->count++;
    note_renewed_locked(tenure, began_ns);
    tenure->kept = asked;
    tenure->wanted = false;
    pthread_cond_broadcast(&tenure->change);
}

/* Writes the lease as it is wanted: renewed, or given back when LAST. */
static int renew(struct tenure *tenure, bool last)
{
    cleanup(buf_release) struct buf mark;
    struct err err = {""};
    int64_t began_ns = clock_steady_ns();

    buf_init(&mark, LEASE_TEXT_MAX);
    pthread_mutex_lock(&tenure->lock);
    uint64_t count = tenure->count, asked = tenure->asked;
    mark_add(buf_span(&tenure->position), &tenure->tally, &mark);
    int code = buf_error(&tenure->position) ? buf_error(&tenure->position) : buf_error(&mark);
    pthread_mutex_unlock(&tenure->lock);
    if (code == 0)
        code = backend_lease_write(tenure->backend, span_text(tenure->name), count,
                                   span_text(last ? "" : tenure->holder), buf_span(&mark), &err);
    renewed(tenure, code, asked, began_ns);
    if (code == -ESTALE)
        log_warning("deliver", "table %s: the lease is lost: another delivers", tenure->name);
    tell(tenure, code, &err);
    return code;
}

/* Whether the lease, as it was read at READ_NS, may be taken. One that names this daemon was
 * written by it, though it may not have heard of that. */
static bool is_free_locked(struct tenure *tenure, const struct lease *lease, int64_t read_ns)
{
    struct span holder = buf_span(&lease->holder);

    if (lease->count != tenure->count) {
        tenure->count = lease->count;
        tenure->changed_ns = read_ns;
    }
    return holder.len == 0 || span_equal(holder, span_text(tenure->holder)) ||
           read_ns - tenure->changed_ns >= tenure->times.lapse_ns;
}

static bool look(struct tenure *tenure, const struct lease *lease)
{
    struct span holder = buf_span(&lease->holder);
    pthread_mutex_lock(&tenure->lock);
    bool is_free = is_free_locked(tenure, lease, clock_steady_ns());
    bool news = !is_free && !span_equal(buf_span(&tenure->other), holder);
    set_text_locked(&tenure->other, holder);
    pthread_mutex_unlock(&tenure->lock);
    if (news)
        log_info("deliver", "table %s: changes are delivered by %.*s", tenure->name,
                 (int)holder.len, holder.data);
    return is_free;
}

static void begin_locked(struct tenure *tenure, struct span mark, int64_t began_ns)
{
    struct span position;

    mark_read(mark, &position, &tenure->tally);
    tenure->held = true;
    tenure->number++;
    tenure->count++;
    note_renewed_locked(tenure, began_ns);
    tenure->kept = tenure->asked;
    set_text_locked(&tenure->position, position);
    buf_clear(&tenure->other);
    atomic_store(&tenure->over, tenure->called_off);
    pthread_cond_broadcast(&tenure->change);
}

static int take(struct tenure *tenure, const struct lease *lease, struct err *err)
{
    int64_t began_ns = clock_steady_ns();
    bool first = lease->position.len == 0;
    struct span mark = first ? span_text(STREAM_OLDEST) : buf_span(&lease->position);
    int code = backend_lease_write(tenure->backend, span_text(tenure->name), lease->count,
                                   span_text(tenure->holder), mark, err);

    if (code)
        return code;
    scoped_lock(&tenure->lock);
    begin_locked(tenure, mark, began_ns);
    return 0;
}

/* Takes the lease where it is free. */
static int strive(struct tenure *tenure)
{
    cleanup(lease_release) struct lease lease;
    struct err err = {""};
    bool is_free = false;

    lease_init(&lease);
    int code = backend_lease_read(tenure->backend, span_text(tenure->name), &lease, &err);
    if (code == 0)
        is_free = look(tenure, &lease);
    if (is_free)
        code = take(tenure, &lease, &err);
    tell(tenure, code, &err);
    return code;
}

/* When there is something to do, not before LEAST_NS; false: the keeper is to end. */
static bool await_work(struct tenure *tenure, int64_t least_ns)
{
    scoped_lock(&tenure->lock);
    while (!tenure->ending) {
        int64_t now_ns = clock_steady_ns(), due_ns = least_ns;
        bool asked = tenure->wanted || tenure->asked != tenure->kept;
        if (tenure->held && !asked && tenure->changed_ns + tenure->times.renew_ns > due_ns)
            due_ns = tenure->changed_ns + tenure->times.renew_ns;
        if (due_ns <= now_ns)
            return true;
        wait_locked(tenure, due_ns - now_ns);
    }
    return false;
}

static bool is_held(struct tenure *tenure)
{
    scoped_lock(&tenure->lock);
    return tenure->held;
}

static void *keeper_main(void *context)
{
    struct tenure *tenure = context;
    int64_t least_ns = 0;

    cancel_set(&tenure->hopeless);
    while (await_work(tenure, least_ns)) {
        int code = is_held(tenure) ? renew(tenure, false) : strive(tenure);
        least_ns = clock_steady_ns();
        if (!is_held(tenure))
            least_ns += tenure->times.look_ns;
        else if (code < 0)
            least_ns += RETRY_NS;
    }
    if (is_held(tenure))
        (void)renew(tenure, true);
    scoped_lock(&tenure->lock);
    tenure->held = false;
    tenure->ended = true;
    atomic_store(&tenure->over, true);
    pthread_cond_broadcast(&tenure->change);
    return NULL;
}

int tenure_start(struct tenure *tenure, struct backend *backend, const char *name, struct err *err)
{
    free(tenure->name);
    tenure->name = strdup(name);
    if (!tenure->name)
        return err_set(err, ENOMEM, "out of memory");
    tenure->backend = backend;
    tenure->ending = tenure->ended = false;
    tenure->count = 0;
    atomic_store(&tenure->hopeless, false);
    tenure->started = pthread_create(&tenure->keeper, NULL, keeper_main, tenure) == 0;
    return tenure->started ? 0 : err_set(err, EAGAIN, "cannot start a thread");
}

static void await_end(struct tenure *tenure)
{
    int64_t until_ns = clock_steady_ns() + STOP_S * NS_PER_S;

    scoped_lock(&tenure->lock);
    tenure->ending = true;
    pthread_cond_broadcast(&tenure->change);
    while (!tenure->ended && clock_steady_ns() < until_ns)
        wait_locked(tenure, until_ns - clock_steady_ns());
}

void tenure_stop(struct tenure *tenure)
{
    if (!tenure->started)
        return;
    await_end(tenure);
    atomic_store(&tenure->hopeless, true);
    pthread_join(tenure->keeper, NULL);
    tenure->started = false;
}

/* ---- the user ---- */

/* 0 while the user may go on under NUMBER (0: any or none). */
static int going_on_locked(const struct tenure *tenure, uint64_t number)
{
    if (tenure->leaving || tenure->called_off)
        return -EINTR;
    return number && (!tenure->held || tenure->number != number) ? -ESTALE : 0;
}

int tenure_begin(struct tenure *tenure, uint64_t *ret_number, struct buf *ret_position)
{
    scoped_lock(&tenure->lock);
    int code;
    while ((code = going_on_locked(tenure, 0)) == 0 && !tenure->held)
        pthread_cond_wait(&tenure->change, &tenure->lock);
    if (code)
        return code;
    *ret_number = tenure->number;
    set_text_locked(ret_position, buf_span(&tenure->position));
    return buf_error(ret_position);
}

int tenure_confirm(struct tenure *tenure, uint64_t number)
{
    scoped_lock(&tenure->lock);
    int code;
    while ((code = going_on_locked(tenure, number)) == 0 &&
           clock_steady_ns() >= atomic_load(&tenure->certain_until_ns)) {
        tenure->wanted = true;
        pthread_cond_broadcast(&tenure->change);
        pthread_cond_wait(&tenure->change, &tenure->lock);
    }
    return code;
}

bool tenure_is_uncertain(const void *context)
{
    const struct tenure *tenure = context;

    return atomic_load(&tenure->over) ||
           clock_steady_ns() >= atomic_load(&tenure->certain_until_ns);
}

int tenure_keep(struct tenure *tenure, uint64_t number, struct span position)
{
    scoped_lock(&tenure->lock);
    if (!tenure->held || tenure->number != number)
        return -ESTALE;
    set_text_locked(&tenure->position, position);
    uint64_t asked = ++tenure->asked;
    pthread_cond_broadcast(&tenure->change);
    while (tenure->held && tenure->number == number && tenure->kept < asked && !tenure->called_off)
        pthread_cond_wait(&tenure->change, &tenure->lock);
    if (tenure->held && tenure->number == number)
        return tenure->kept < asked ? -EINTR : 0;
    return -ESTALE;
}

int tenure_note(struct tenure *tenure, uint64_t number, struct span position)
{
    scoped_lock(&tenure->lock);
    if (!tenure->held || tenure->number != number)
        return -ESTALE;
    set_text_locked(&tenure->position, position);
    return going_on_locked(tenure, number);
}

void tenure_count(struct tenure *tenure, enum tally_kind kind, uint64_t more)
{
    scoped_lock(&tenure->lock);
    tenure->tally.of[kind] += more;
}

int tenure_pause(struct tenure *tenure, uint64_t number, int64_t time_ns)
{
    int64_t until_ns = clock_steady_ns() + time_ns;
    int code;

    scoped_lock(&tenure->lock);
    while ((code = going_on_locked(tenure, number)) == 0 && clock_steady_ns() < until_ns)
        wait_locked(tenure, until_ns - clock_steady_ns());
    return code;
}

void tenure_leave(struct tenure *tenure)
{
    scoped_lock(&tenure->lock);
    tenure->leaving = true;
    pthread_cond_broadcast(&tenure->change);
}

void tenure_call_off(struct tenure *tenure)
{
    scoped_lock(&tenure->lock);
    atomic_store(&tenure->called_off, true);
    atomic_store(&tenure->over, true);
    pthread_cond_broadcast(&tenure->change);
}
