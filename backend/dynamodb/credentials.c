/* SPDX-License-Identifier: MIT */
/*
 * A source holds what its provider gave last, and asks again in time. Two limits, as in the SDKs:
 *
 *   left            a get
 *   15 min or more  copies what is held
 *   10 to 15 min    ADVISED: refreshes, unless another thread does, or one has tried within the
 *                   last minute; what is held is good whatever comes of it
 *   less            NEEDED: refreshes, or waits for the thread that does; its failure is the get's
 *
 * NEEDED it is, too, where nothing is held yet, and where the service has refused what is held.
 * Credentials of short life would be NEEDED at once, always; they are not asked for again within a
 * minute, unless they have expired. A failure is given to all who come within a few seconds: many
 * threads that each wait for a service that is out would wait one after the other.
 *
 * The lock is not held while the provider works; `refreshing` keeps others out of it.
 */
#include "backend/dynamodb/credentials.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "backend/dynamodb/provider.h"
#include "backend/dynamodb/secret.h"
#include "base/text.h"

#define ADVISED_S (15 * 60)
#define NEEDED_S (10 * 60)
#define PAUSE_S 60        /* between refreshes that are not urgent */
#define FAILURE_PAUSE_S 5 /* a failure is given again for so long */

enum need { NEED_NOTHING, NEED_ADVISED, NEED_NOW };

struct credential_source {
    struct provider *provider;
    int64_t (*now_s)(void);
    pthread_mutex_t lock;
    pthread_cond_t refreshed; /* `refreshing` has ended */
    /* All below are guarded by lock. */
    bool refreshing;
    struct credentials held; /* no access key: none yet */
    bool refused;            /* the service says that what is held has expired */
    int64_t tried_s;         /* when a refresh ended last; 0: never */
    int failure;             /* of that refresh: 0 or a negative errno */
    struct err problem;
};

struct credential_source *credential_source_new(struct provider *provider, int64_t (*now_s)(void))
{
    struct credential_source *source = calloc(1, sizeof *source);
    if (!source) {
        provider_free(provider);
        return NULL;
    }
    source->provider = provider;
    source->now_s = now_s;
    pthread_mutex_init(&source->lock, NULL);
    pthread_cond_init(&source->refreshed, NULL);
    return source;
}

void credential_source_close(struct credential_source *source)
{
    if (!source)
        return;
    credentials_release(&source->held);
    provider_free(source->provider);
    pthread_cond_destroy(&source->refreshed);
    pthread_mutex_destroy(&source->lock);
    free(source);
}

const char *credential_source_name(const struct credential_source *source)
{
    return source->provider->name;
}

/* ---- with the lock held ---- */

/* A clock that went back counts as a long time. */
static bool tried_within(const struct credential_source *source, int64_t now_s, int64_t seconds)
{
    return source->tried_s && now_s >= source->tried_s && now_s - source->tried_s < seconds;
}

static enum need need_of(const struct credential_source *source, int64_t now_s)
{
    int64_t left = source->held.expires_s - now_s;
    bool recent = tried_within(source, now_s, PAUSE_S);
    if (!source->held.access_key || source->refused)
        return NEED_NOW;
    if (!source->held.expires_s || left >= ADVISED_S)
        return NEED_NOTHING;
    if (left >= NEEDED_S)
        return recent ? NEED_NOTHING : NEED_ADVISED;
    return recent && !source->failure && left > 0 ? NEED_NOTHING : NEED_NOW;
}

/* What is held goes on for a while, though its time is over: better than nothing, and the service
 * that gives them is known to be late at times. */
static void outlast(struct credential_source *source, int64_t now_s)
{
    source->held.expires_s = now_s + ADVISED_S;
    source->refused = false;
    source->failure = 0;
}

/* Takes over FRESH, or the failure R of fetching it. */
static void settle(struct credential_source *source, int r, struct credentials *fresh,
                   const struct err *problem)
{
    int64_t now_s = source->now_s();
    source->tried_s = now_s;
    source->failure = r;
    source->problem = *problem;
    if (r == 0) {
        credentials_release(&source->held);
        source->held = *fresh;
        source->refused = false;
    } else if (source->provider->ops->outlasts && source->held.access_key && r != -ENOMEM) {
        outlast(source, now_s);
    }
}

/* ---- refreshing ---- */

static int fetch(struct credential_source *source, struct credentials *fresh, struct err *err)
{
    struct provider *provider = source->provider;
    struct credentials found = {0};
    struct err reason = {""};
    int r = provider->ops->fetch(provider, &found, &reason);
    if (r == 0 && found.session_token && !*found.session_token) {
        free(found.session_token);
        found.session_token = NULL;
    }
    if (r == 0)
        r = credentials_check(&found, &reason);
    if (r == 0 && found.expires_s && found.expires_s <= source->now_s())
        r = err_set(&reason, EACCES, "they have expired");
    if (r == 0) {
        *fresh = found;
        return 0;
    }
    credentials_release(&found);
    return err_set(err, -r, "credentials of %s: %s", provider->name, err_text(&reason, r));
}

/* The lock is given up meanwhile. */
static void refresh(struct credential_source *source)
{
    struct credentials fresh = {0};
    struct err problem = {""};
    source->refreshing = true;
    pthread_mutex_unlock(&source->lock);
    int r = fetch(source, &fresh, &problem);
    pthread_mutex_lock(&source->lock);
    settle(source, r, &fresh, &problem);
    source->refreshing = false;
    pthread_cond_broadcast(&source->refreshed);
}

/* Sees to it that what is held can be used, or says why not. */
static int ensure(struct credential_source *source, struct err *err)
{
    enum need need = need_of(source, source->now_s());
    while (need == NEED_NOW && source->refreshing) {
        pthread_cond_wait(&source->refreshed, &source->lock);
        need = need_of(source, source->now_s());
    }
    if (need == NEED_NOTHING || source->refreshing)
        return 0;
    bool again = source->failure && tried_within(source, source->now_s(), FAILURE_PAUSE_S);
    if (!again)
        refresh(source);
    if (need == NEED_ADVISED || !source->failure)
        return 0;
    return err_set(err, -source->failure, "%s", source->problem.text);
}

int credential_source_get(struct credential_source *source, struct credentials *ret_credentials,
                          struct err *err)
{
    scoped_lock(&source->lock);
    int r = ensure(source, err);
    if (r == 0 && credentials_copy(&source->held, ret_credentials) < 0)
        r = err_set(err, ENOMEM, "no memory");
    return r;
}

void credential_source_expired(struct credential_source *source, const struct credentials *used)
{
    scoped_lock(&source->lock);
    const struct credentials *held = &source->held;
    if (text_equal(held->access_key, used->access_key) &&
        text_equal(held->session_token, used->session_token))
        source->refused = true;
}
