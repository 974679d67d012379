/* SPDX-License-Identifier: MIT */
/*
 * The contract over a DynamoDB-compatible service, opened as a mount and itemctl open it: the
 * DynamoDB backend with its state database beside. tests/service/test_contract.py runs it.
 *
 * AWS_ENDPOINT_URL and keys come from the environment. The service's tables are dropped: it is for
 * engines that nobody else uses. ITEMFS_CONTRACT_LACKS names what the engine cannot do beyond what
 * no service can ("ttl streams"); ITEMFS_CONTRACT_MANY how many writes are many.
 */
#include "backend/source.h"
#include "tests/contract/fixture.h"

#define OPEN_MAX 4

static char directory[64];
static struct opened {
    struct config *config;
    struct source *source;
} opened[OPEN_MAX];

static void fail(const struct err *err)
{
    fprintf(stderr, "%s: %s\n", check_running, err->text);
    exit(1);
}

static struct backend *open_again(struct backend *other)
{
    struct opened *place = opened;
    struct err err = {""};
    char option[96];

    (void)other;
    while (place->source)
        place++;
    if (config_from_source("dynamodb:", &place->config, &err) < 0)
        fail(&err);
    snprintf(option, sizeof option, "state_dir=%s", directory);
    if (config_option(place->config, option, &err) < 0 ||
        config_option(place->config, "max_item_size=100000", &err) < 0 ||
        source_open(place->config, true, &place->source, &err) < 0)
        fail(&err);
    return place->source->backends[0];
}

struct names {
    char text[100][TABLE_NAME_MAX + 1];
    size_t count;
};

static int note_name(void *context, const struct table *table)
{
    struct names *names = context;

    snprintf(names->text[names->count++], sizeof names->text[0], "%s", table->name);
    return names->count == 100;
}

/* Those that are listed, and that of the leases, which is not. */
static void drop_tables(struct backend *backend)
{
    struct names names = {.count = 0};
    struct table *leases = NULL;
    struct err err = {""};

    if (backend_tables(backend, note_name, &names, &err) < 0)
        fail(&err);
    if (backend_describe(backend, span_text("itemfs-leases"), &leases, NULL) == 0)
        note_name(&names, leases);
    table_free(leases);
    for (size_t i = 0; i < names.count; i++) {
        struct table *table = NULL;
        if (backend_describe(backend, span_text(names.text[i]), &table, &err) < 0 ||
            backend_drop_table(backend, table, true, &err) < 0)
            fail(&err);
        table_free(table);
    }
}

static struct backend *open_new(void)
{
    snprintf(directory, sizeof directory, "/tmp/itemfs-contract-XXXXXX");
    if (!mkdtemp(directory))
        exit(1);
    struct backend *backend = open_again(NULL);
    drop_tables(backend);
    return backend;
}

static void close_one(struct backend *backend, bool remove)
{
    char command[96];

    if (remove)
        drop_tables(backend);
    for (size_t i = 0; i < OPEN_MAX; i++) {
        if (!opened[i].source || opened[i].source->backends[0] != backend)
            continue;
        source_close(opened[i].source);
        config_free(opened[i].config);
        opened[i] = (struct opened){NULL, NULL};
    }
    snprintf(command, sizeof command, "rm -r %s", directory);
    if (remove)
        check_int(system(command), 0);
}

static struct factory factory = {open_new, open_again, close_one, 100};
#define FACTORY factory

#include "tests/contract/changes.h"
#include "tests/contract/expiry.h"
#include "tests/contract/items.h"
#include "tests/contract/scratch.h"
#include "tests/contract/streams.h"
#include "tests/contract/tables.h"
#include "tests/contract/updates.h"
#include "tests/contract/walks.h"

/* Before all others, whichever are asked for. */
__attribute__((constructor)) static void read_environment(void)
{
    const char *named = getenv("ITEMFS_CONTRACT_LACKS"), *many = getenv("ITEMFS_CONTRACT_MANY");

    fixture_lacks = 1u << LACK_COUNTS | 1u << LACK_STYLES | 1u << LACK_RENAMES | 1u << LACK_SWEEPS |
                    1u << LACK_SCHEMA | 1u << LACK_NANOSECONDS;
    for (size_t i = 0; named && i < LACK_COUNT; i++)
        if (strstr(named, fixture_lack[i].name))
            fixture_lacks |= 1u << i;
    if (many)
        factory.many = atoi(many);
}

CHECK_MAIN(CONTRACT_ITEMS, CONTRACT_WALKS, CONTRACT_TABLES, CONTRACT_EXPIRY, CONTRACT_SCRATCH,
           CONTRACT_CHANGES, CONTRACT_STREAMS, CONTRACT_UPDATES)
