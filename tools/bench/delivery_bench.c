/* SPDX-License-Identifier: MIT */
/*
 * The parts of tools/bench/delivery that must not be slow themselves.
 *
 *   delivery_bench write STORE TABLE RATE SECONDS
 * Puts of 300 bytes, RATE a second at most: prints what was reached, and the mean time of one in
 * us.
 *
 *   delivery_bench serve
 * An HTTP server that takes everything: prints its port.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/sqlite/sqlite.h"
#include "base/clock.h"

#define ITEMS 10000
#define REQUEST_MAX (4u << 20)

/* ---- writing ---- */

__attribute__((noreturn)) static void fail(const char *what)
{
    fprintf(stderr, "delivery_bench: %s\n", what);
    exit(1);
}

static void put(struct backend *backend, const struct table *table, unsigned number)
{
    char key[32], body[400];
    struct err err = {""};

    snprintf(key, sizeof key, "item-%05u", number % ITEMS);
    snprintf(body, sizeof body,
             "{\n  \"name\": \"%s\",\n  \"count\": %u,\n  \"text\": \"%0200d\",\n"
             "  \"list\": [1, 2, 3],\n  \"map\": {\"a\": true, \"b\": null}\n}\n",
             key, number, 7);
    struct action action = {.kind = ACTION_PUT,
                            .table = table,
                            .key.partition = span_text(key),
                            .body = span_text(body)};
    if (backend_write(backend, &action, 1, 0, &err) < 0)
        fail(err.text);
}

static void sleep_until(int64_t at_ns)
{
    int64_t left_ns = at_ns - clock_steady_ns();

    if (left_ns > 0)
        nanosleep(&(struct timespec){.tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S},
                  NULL);
}

static void write_paced(struct backend *backend, const struct table *table, double rate,
                        double seconds)
{
    int64_t begin_ns = clock_steady_ns(), spent_ns = 0;
    unsigned count = 0;

    while ((double)(clock_steady_ns() - begin_ns) < seconds * (double)NS_PER_S) {
        /* Ten at a time: a sleep is not exact enough for one. */
        sleep_until(begin_ns + (int64_t)((double)count / rate * (double)NS_PER_S));
        int64_t start_ns = clock_steady_ns();
        for (int i = 0; i < 10; i++)
            put(backend, table, count++);
        spent_ns += clock_steady_ns() - start_ns;
    }
    printf("%.0f %.2f\n",
           (double)count / ((double)(clock_steady_ns() - begin_ns) / (double)NS_PER_S),
           (double)spent_ns / 1e3 / count);
}

static int run_write(char **arguments)
{
    struct sqlite_options options = {.create = false};
    struct backend *backend;
    struct table *table;
    struct err err = {""};

    if (sqlite_open(arguments[0], &options, &backend, &err) < 0 ||
        backend_describe(backend, span_text(arguments[1]), &table, &err) < 0)
        fail(err.text);
    write_paced(backend, table, strtod(arguments[2], NULL), strtod(arguments[3], NULL));
    table_free(table);
    backend_close(backend);
    return 0;
}

/* ---- serving ---- */

/* One request of the connection. False at its end. */
static bool answer(int connection, char *room)
{
    static const char reply[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    size_t have = 0, want = SIZE_MAX;

    while (have < want) {
        ssize_t got = read(connection, room + have, REQUEST_MAX - have);
        if (got <= 0)
            return false;
        have += (size_t)got;
        room[have] = '\0';
        const char *end = want == SIZE_MAX ? strstr(room, "\r\n\r\n") : NULL;
        const char *length = end ? strstr(room, "Content-Length: ") : NULL;
        if (length)
            want = (size_t)(end + 4 - room) + strtoul(length + 16, NULL, 10);
    }
    return write(connection, reply, sizeof reply - 1) == sizeof reply - 1;
}

static int run_serve(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    char *room = malloc(REQUEST_MAX + 1);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (!room || listener < 0 || bind(listener, (struct sockaddr *)&address, len) < 0 ||
        listen(listener, 16) < 0 || getsockname(listener, (struct sockaddr *)&address, &len) < 0)
        fail("cannot listen");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        int connection = accept(listener, NULL, NULL);
        if (connection < 0)
            fail("cannot accept");
        while (answer(connection, room))
            ;
        close(connection);
    }
}

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "write") == 0)
        return run_write(argv + 2);
    if (argc == 2 && strcmp(argv[1], "serve") == 0)
        return run_serve();
    fail("usage: delivery_bench write STORE TABLE RATE SECONDS | serve");
}
