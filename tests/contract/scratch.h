/* SPDX-License-Identifier: MIT */
/* Scratch files, links and directories; drafts. */
#include "tests/contract/walks.h"

static int line_scratch(void *context, const struct scratch *scratch)
{
    static const char *const marks[] = {" ", "@ ", "/ "};

    line_add(context, scratch->name);
    line_add(context, span_text(marks[scratch->kind]));
    check(scratch->id > 0 && scratch->table_id > 0);
    return 0;
}

static const char *scratch_line(struct backend *b, const struct table *t, const char *partition,
                                uint64_t parent)
{
    static struct line line;
    struct err err = {""};

    line = (struct line){.len = 0};
    check_int(backend_scratch_list(b, t, span_text(partition), parent, line_scratch, &line, &err),
              0);
    return line.text;
}
#define check_scratch(b, t, partition, parent, want)                                               \
    check_text(span_text(scratch_line((b), (t), (partition), (parent))), (want))

static struct action scratch_action(const struct table *t, const char *partition, uint64_t parent,
                                    const char *name, enum scratch_kind kind, const char *body)
{
    return (struct action){.kind = ACTION_SCRATCH_PUT,
                           .table = t,
                           .body = span_text(body),
                           .scratch = {.table_id = t->id,
                                       .partition = span_text(partition),
                                       .parent = parent,
                                       .name = span_text(name),
                                       .kind = kind,
                                       .mode = 0640,
                                       .uid = 7,
                                       .gid = 4294967294u,
                                       .mtime_ns = 55,
                                       .ttl = 99}};
}

static uint64_t make_scratch(struct backend *b, const struct table *t, const char *partition,
                             uint64_t parent, const char *name, enum scratch_kind kind)
{
    struct action action = scratch_action(t, partition, parent, name, kind, "x");

    check_int(apply(b, &action), 0);
    check(action.made_id > 0);
    return action.made_id;
}

static int copy_scratch(void *context, const struct scratch *scratch)
{
    *(struct scratch *)context = *scratch;
    return 0;
}

static const char *scratch_body(struct backend *b, uint64_t id)
{
    static char text[64];
    struct err err = {""};
    struct buf body;

    buf_init(&body, sizeof text);
    int code = backend_scratch_read(b, id, &body, &err);
    snprintf(text, sizeof text, "%.*s", (int)body.len, body.data ? body.data : "");
    buf_release(&body);
    return code ? strerror(-code) : text;
}

static int erase_scratch(struct backend *b, uint64_t id)
{
    struct action action = {.kind = ACTION_SCRATCH_DELETE, .scratch.id = id};
    return apply(b, &action);
}

static void scratch_files_keep_everything(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct err err = {""};
    struct scratch found = {0};
    struct action action = scratch_action(t, "", 0, ".ada.swp", SCRATCH_FILE, "bytes");
    int64_t before = clock_now_ns();

    check_int(apply(b, &action), 0);
    uint64_t id = action.made_id;
    check_int(
        backend_scratch_find(b, t, NOTHING, 0, span_text(".ada.swp"), copy_scratch, &found, &err),
        0);
    check(found.id == id && found.mode == 0640 && found.uid == 7 && found.gid == 4294967294u);
    check(found.mtime_ns == 55 && found.ctime_ns >= before && found.ttl == 99 && found.size == 5);
    check(found.kind == SCRATCH_FILE && found.parent == 0 && found.table_id == t->id);
    check_text(span_text(scratch_body(b, id)), "bytes");
    action.scratch.id = id;
    action.scratch.mode = 0600;
    action.body = NOTHING; /* as it is */
    check_int(apply(b, &action), 0);
    check_text(span_text(scratch_body(b, id)), "bytes");
    action.body = span_text("");
    check_int(apply(b, &action), 0);
    check_text(span_text(scratch_body(b, id)), "");
    action.scratch.id = 0;
    check_int(apply(b, &action), -EEXIST);
    make_scratch(b, t, "", 0, ".link", SCRATCH_LINK);
    check_scratch(b, t, "", 0, ".ada.swp .link@ ");
    check_walk(b, t, "");
    check_int(backend_drop_table(b, t, false, &err), -ENOTEMPTY);
    check_int(erase_scratch(b, id), 0);
    check_int(erase_scratch(b, id), -ENOENT);
    check_text(span_text(scratch_body(b, id)), "No such file or directory");
    err_clear(&err);
    check_int(
        backend_scratch_find(b, t, NOTHING, 0, span_text(".ada.swp"), copy_scratch, &found, &err),
        -ENOENT);
    check_int(backend_drop_table(b, t, true, &err), 0);
    table_free(t);
    FACTORY.close(b, true);
}

static void scratch_trees_move_whole(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_SORTED))
        return;
    struct table *t = make_table(b, "orders", "cust:N", "day", NULL);
    struct table *other = make_table(b, "other", "id", NULL, NULL);
    uint64_t top = make_scratch(b, t, "10", 0, ".tmp", SCRATCH_DIRECTORY);
    uint64_t sub = make_scratch(b, t, "10", top, "sub", SCRATCH_DIRECTORY);
    uint64_t file = make_scratch(b, t, "10", sub, "f", SCRATCH_FILE);
    struct action action = scratch_action(t, "10", file, "x", SCRATCH_FILE, "");

    check_scratch(b, t, "10", 0, ".tmp/ ");
    check_scratch(b, t, "10", top, "sub/ ");
    check_scratch(b, t, "", 0, "");
    check_int(apply(b, &action), -ENOTDIR);
    action.scratch.parent = 123456;
    check_int(apply(b, &action), -ENOENT);
    check_int(erase_scratch(b, top), -ENOTEMPTY);
    action = scratch_action(t, "10", sub, ".tmp", SCRATCH_DIRECTORY, "");
    action.scratch.id = top;
    check_int(apply(b, &action), -EINVAL); /* into itself */
    action = scratch_action(other, "", 0, ".moved", SCRATCH_DIRECTORY, "");
    action.scratch.id = top;
    check_int(apply(b, &action), 0);
    check_scratch(b, t, "10", 0, "");
    check_scratch(b, other, "", 0, ".moved/ ");
    check_scratch(b, other, "", sub, "f ");
    check_int(erase_scratch(b, file), 0);
    check_int(erase_scratch(b, sub), 0);
    check_int(erase_scratch(b, top), 0);
    check_scratch(b, other, "", 0, "");
    table_free(t);
    table_free(other);
    FACTORY.close(b, true);
}

static void scratch_changes_are_conditional(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct err err = {""};
    struct scratch found = {0};
    struct action action = scratch_action(t, "", 0, "a", SCRATCH_FILE, "one");

    check_int(apply(b, &action), 0);
    action.scratch.id = action.made_id;
    struct condition first = {COND_VERSION, action.meta.version}, second;
    action.condition = first;
    action.body = span_text("two");
    check_int(apply(b, &action), 0);
    check(action.meta.version != first.version);
    second = (struct condition){COND_VERSION, action.meta.version};
    check_int(backend_scratch_find(b, t, NOTHING, 0, span_text("a"), copy_scratch, &found, &err),
              0);
    check(found.version == second.version);
    /* What the first version's owner wants comes too late. */
    action.condition = first;
    action.scratch.name = span_text("b");
    action.body = span_text("three");
    check_int(apply(b, &action), -ESTALE);
    struct action delete = {
        .kind = ACTION_SCRATCH_DELETE, .scratch.id = action.scratch.id, .condition = first};
    check_int(apply(b, &delete), -ESTALE);
    check_scratch(b, t, "", 0, "a ");
    check_text(span_text(scratch_body(b, action.scratch.id)), "two");
    delete.condition = second;
    check_int(apply(b, &delete), 0);
    check_int(apply(b, &delete), -ESTALE);
    action.condition = second;
    check_int(apply(b, &action), -ESTALE);
    table_free(t);
    FACTORY.close(b, true);
}

static int note_scratch_time(void *context, const struct log_entry *entry)
{
    if (entry->kind == LOG_SCRATCH)
        *(uint64_t *)context = (uint64_t)entry->time_ns;
    return 0;
}

static void log_tells_scratch_versions(struct backend *b, const struct action *make)
{
    struct err err = {""};
    uint64_t told = 0, end = log_end(b);
    struct action gone[2] = {*make,
                             {.kind = ACTION_SCRATCH_DELETE, .scratch.id = make->scratch.id}};

    check_int(backend_write(b, gone, 1, 0, &err), 0);
    check_int(backend_log(b, end, 10, note_scratch_time, &told, &err), 0);
    check(told == gone[0].meta.version);
    check_int(backend_write(b, gone, 2, 0, &err), 0);
    check_int(backend_log(b, end, 10, note_scratch_time, &told, &err), 0);
    check(told > gone[0].meta.version);
}

/* Versions, and what the log tells of them, are in order, also within one batch. */
static void scratch_versions_grow(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct err err = {""};
    struct action make = scratch_action(t, "", 0, "a", SCRATCH_FILE, "one");

    check_int(apply(b, &make), 0);
    make.scratch.id = make.made_id;
    struct action twice[2] = {make, make};
    check_int(backend_write(b, twice, 2, 0, &err), 0);
    check(make.meta.version < twice[0].meta.version);
    check(twice[0].meta.version < twice[1].meta.version);
    if (backend_can(b, BACKEND_LOG))
        log_tells_scratch_versions(b, &make);
    table_free(t);
    FACTORY.close(b, true);
}

static void scratch_is_in_the_log(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    uint64_t end = log_end(b);
    struct err err = {""};
    uint64_t a = make_scratch(b, t, "", 0, "a", SCRATCH_FILE);
    struct action swap[2] = {{.kind = ACTION_SCRATCH_DELETE, .scratch.id = a},
                             scratch_action(t, "", 0, "a", SCRATCH_FILE, "new")};
    uint64_t tmp = make_scratch(b, t, "", 0, "tmp", SCRATCH_FILE);

    swap[1].scratch.id = tmp;
    check_int(backend_write(b, swap, 2, 0, &err), 0);
    check_scratch(b, t, "", 0, "a ");
    swap[1].body = span_text("newer");
    check_int(apply(b, &swap[1]), 0);
    check_log(b, end,
              "scratch:insert:a scratch:insert:tmp scratch:remove:a scratch:remove:tmp"
              " scratch:insert:a scratch:modify:a");
    /* A save by rename: scratch goes, item comes. */
    struct action save[2] = {{.kind = ACTION_SCRATCH_DELETE, .scratch.id = tmp},
                             put_action(t, key_of("ada", NULL), "{}")};
    save[1].condition.kind = COND_EXISTS;
    check_int(backend_write(b, save, 2, 0, &err), -ENOENT);
    check_scratch(b, t, "", 0, "a ");
    save[1].condition.kind = COND_ABSENT;
    err_clear(&err);
    check_int(backend_write(b, save, 2, 0, &err), 0);
    check_scratch(b, t, "", 0, "");
    check_get(b, t, "ada", NULL, "{}");
    struct action bad = scratch_action(t, "", 0, "a/b", SCRATCH_FILE, "");
    check_int(apply(b, &bad), -EINVAL);
    bad.scratch.name = NOTHING;
    check_int(apply(b, &bad), -EINVAL);
    table_free(t);
    FACTORY.close(b, true);
}

/* A file beside and an item change together, or neither does. */
static void scratch_and_items_change_together(void)
{
    struct backend *b = FACTORY.open();
    struct table *t = make_table(b, "users", "id", NULL, NULL);
    struct action file = scratch_action(t, "", 0, "tmp", SCRATCH_FILE, "{\"n\":2}");
    struct err err = {""};

    check_int(put(b, t, "ada", NULL, "{\"n\":1}"), 0);
    check_int(apply(b, &file), 0);
    file.scratch.id = file.made_id;
    struct action exchange[2] = {file, put_action(t, key_of("ada", NULL), "{\"n\":2}")};
    exchange[0].condition = (struct condition){COND_VERSION, file.meta.version};
    exchange[0].body = span_text("{\"n\":1}");
    for (uint64_t i = 0; i < 2; i++) { /* first the item is another one, then the file */
        exchange[1].condition =
            (struct condition){COND_VERSION, get_meta(b, t, exchange[1].key).version ^ !i};
        exchange[0].condition.version = file.meta.version ^ i;
        err_clear(&err);
        check_int(backend_write(b, exchange, 2, 0, &err), -ESTALE);
        check_get(b, t, "ada", NULL, "{\"n\":1}");
        check_text(span_text(scratch_body(b, file.made_id)), "{\"n\":2}");
    }
    exchange[0].condition.version = file.meta.version;
    err_clear(&err);
    check_int(backend_write(b, exchange, 2, 0, &err), 0);
    check_get(b, t, "ada", NULL, "{\"n\":2}");
    check_text(span_text(scratch_body(b, file.made_id)), "{\"n\":1}");
    check_int(exchange[0].made_id, file.made_id);
    check(exchange[0].meta.version != file.meta.version);

    /* A save of a temporary that somebody has changed meanwhile. */
    struct action save[2] = {{.kind = ACTION_SCRATCH_DELETE,
                              .scratch.id = file.made_id,
                              .condition = {COND_VERSION, file.meta.version}},
                             put_action(t, key_of("bob", NULL), "{}")};
    check_int(backend_write(b, save, 2, 0, &err), -ESTALE);
    check_absent(b, t, "bob");
    check_scratch(b, t, "", 0, "tmp ");
    table_free(t);
    FACTORY.close(b, true);
}

static void partitions_hold_scratch_files(void)
{
    struct backend *b = FACTORY.open();
    if (cannot(b, LACK_SORTED))
        return;
    struct table *t = make_table(b, "orders", "cust", "day", NULL);
    struct err err = {""};
    uint64_t items, id;
    int64_t changed;

    check_int(put(b, t, "b", "1", "{}"), 0);
    id = make_scratch(b, t, "a", 0, ".tmp", SCRATCH_FILE);
    uint64_t other = make_scratch(b, t, "b", 0, ".tmp", SCRATCH_FILE);
    check_partition(b, t, "a", 0);
    check_partitions(b, t, "", 0, "a:0 b:1 ");
    check_partitions(b, t, "", 1, "a:0 ");
    check_partitions(b, t, "a", 1, "b:1 ");
    check_int(erase(b, t, "b", "1"), 0);
    check_partition(b, t, "b", 0);
    check_int(erase_scratch(b, id), 0);
    check_int(backend_partition(b, t, span_text("a"), &items, &changed, &err), -ENOENT);
    check_partitions(b, t, "", 0, "b:0 ");
    check_int(erase_scratch(b, other), 0);
    check_partitions(b, t, "", 0, "");
    table_free(t);
    FACTORY.close(b, true);
}

static int line_draft(void *context, const struct draft *draft)
{
    char text[200];

    snprintf(text, sizeof text, "%.*s/%.*s %d %.*s %" PRIu64 "; ", (int)draft->table.len,
             draft->table.data, (int)draft->path.len, draft->path.data, draft->code,
             (int)draft->reason.len, draft->reason.data, draft->size);
    line_add(context, span_text(text));
    check(draft->time_ns > 0 && draft->id > 0);
    return 0;
}

static const char *draft_line(struct backend *b, const char *table)
{
    static struct line line;
    struct err err = {""};

    line = (struct line){.len = 0};
    check_int(backend_draft_list(b, span_text(table), line_draft, &line, &err), 0);
    return line.text;
}

static void drafts_are_kept(void)
{
    struct backend *b = FACTORY.open();
    struct err err = {""};
    struct action first = {.kind = ACTION_DRAFT_PUT,
                           .body = span_of("{\0\xff", 3),
                           .draft = {.table = span_text("users"),
                                     .path = span_text("ada.json"),
                                     .code = EINVAL,
                                     .reason = span_text("line 1"),
                                     .time_ns = 2000}};
    struct action second = first;
    struct buf body;

    second.draft.table = span_text("orders");
    second.draft.time_ns = 1000;
    check_int(apply(b, &first), 0);
    check_int(apply(b, &second), 0);
    check_text(span_text(draft_line(b, "")),
               "orders/ada.json 22 line 1 3; users/ada.json 22 line 1 3; ");
    check_text(span_text(draft_line(b, "users")), "users/ada.json 22 line 1 3; ");
    buf_init(&body, 100);
    check_int(backend_draft_read(b, first.made_id, &body, &err), 0);
    check_span(buf_span(&body), first.body);
    first.draft.id = first.made_id;
    first.draft.reason = span_text("line 2");
    check_int(apply(b, &first), 0);
    check_text(span_text(draft_line(b, "users")), "users/ada.json 22 line 2 3; ");
    struct action gone = {.kind = ACTION_DRAFT_DELETE, .draft.id = first.draft.id};
    check_int(apply(b, &gone), 0);
    check_int(apply(b, &gone), -ENOENT);
    check_int(apply(b, &first), -ENOENT);
    check_int(backend_draft_read(b, first.draft.id, &body, &err), -ENOENT);
    check_text(span_text(draft_line(b, "users")), "");
    check_log(b, 0, "draft:insert draft:insert draft:modify draft:remove");
    buf_release(&body);
    FACTORY.close(b, true);
}

#define CONTRACT_SCRATCH                                                                           \
    CHECK_TEST(scratch_files_keep_everything), CHECK_TEST(scratch_trees_move_whole),               \
        CHECK_TEST(scratch_changes_are_conditional), CHECK_TEST(scratch_versions_grow),            \
        CHECK_TEST(scratch_is_in_the_log), CHECK_TEST(scratch_and_items_change_together),          \
        CHECK_TEST(partitions_hold_scratch_files), CHECK_TEST(drafts_are_kept)
