/* SPDX-License-Identifier: MIT */
/* drafts: saves that were refused, kept with their reason. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/text.h"
#include "tools/itemctl/arguments.h"
#include "tools/itemctl/itemctl.h"
#include "tools/itemctl/output.h"

#define DOCUMENT_MAX (256u << 20)

static const char *error_name(int code)
{
    const char *name = code ? strerrorname_np(code) : "none"; /* saved, but changed */

    return name ? name : "error";
}

/* ---- the list ---- */

struct draft_list {
    struct buf document;
    struct grid grid;
};

static void add_json_draft(struct buf *out, const struct draft *draft)
{
    buf_addf(out, "{\"Id\": %llu, \"Table\": ", (unsigned long long)draft->id);
    json_add_string(out, draft->table);
    buf_add_text(out, ", \"Path\": ");
    json_add_string(out, draft->path);
    buf_addf(out, ", \"Error\": \"%s\", \"Reason\": ", error_name(draft->code));
    json_add_string(out, draft->reason);
    buf_add_text(out, ", \"Time\": \"");
    text_time_ns(draft->time_ns, out);
    buf_addf(out, "\", \"Size\": %llu}", (unsigned long long)draft->size);
}

static int list_draft(void *context, const struct draft *draft)
{
    struct draft_list *list = context;
    cleanup(buf_release) struct buf time;

    buf_init(&time, 128);
    buf_add_text(&list->document, list->grid.cells ? ", " : "");
    add_json_draft(&list->document, draft);
    text_time_s(draft->time_ns / 1000000000, &time);
    grid_add(&list->grid, draft->table);
    grid_add(&list->grid, draft->path);
    grid_addf(&list->grid, "%llu", (unsigned long long)draft->size);
    grid_add(&list->grid, buf_span(&time));
    grid_add(&list->grid, draft->reason);
    return buf_error(&list->document);
}

/* A name that no draft has, and no table, is a mistake. */
static int check_table(struct ctl *ctl, struct span name)
{
    struct backend *backend;
    struct table *table;
    int r = source_table(ctl->source, name, &backend, &table, &ctl->err);

    if (r == 0)
        table_free(table);
    return r;
}

static int list_drafts(struct ctl *ctl, struct span table)
{
    static const char *const heads[] = {"TABLE", "PATH", "BYTES", "TIME", "REASON"};
    struct draft_list list;
    int r = 0;

    buf_init(&list.document, DOCUMENT_MAX);
    grid_init(&list.grid, heads, 5);
    list.grid.whole = true;
    buf_add_text(&list.document, "{\"Drafts\": [");
    for (size_t i = 0; r == 0 && i < ctl->source->count; i++)
        r = backend_draft_list(ctl->source->backends[i], table, list_draft, &list, &ctl->err);
    buf_add_text(&list.document, "]}\n");
    if (r == 0 && table.len && list.grid.cells == 0)
        r = check_table(ctl, table);
    if (r == 0)
        r = buf_error(&list.document);
    if (r == 0)
        r = ctl->json ? output_write(buf_span(&list.document), &ctl->err)
                      : grid_print(&list.grid, &ctl->err);
    buf_release(&list.document);
    grid_release(&list.grid);
    return r;
}

/* ---- one draft ---- */

/* The draft with exactly this path; a mount numbers the paths of a file's further drafts, so that
 * two have the same one only where two mounts made them at once: then the newest. */
struct draft_search {
    struct span path;
    uint64_t id; /* 0: none */
};

static int match_draft(void *context, const struct draft *draft)
{
    struct draft_search *search = context;

    if (span_equal(draft->path, search->path))
        search->id = draft->id;
    return 0;
}

static int find_draft(struct ctl *ctl, struct backend **ret_backend, uint64_t *ret_id)
{
    const char *table = ctl->arguments->rest[0], *path = ctl->arguments->rest[1];
    struct draft_search search = {.path = span_text(path)};

    for (size_t i = 0; i < ctl->source->count; i++) {
        struct backend *backend = ctl->source->backends[i];
        int r = backend_draft_list(backend, span_text(table), match_draft, &search, &ctl->err);

        if (r < 0)
            return r;
        if (search.id) {
            *ret_backend = backend;
            *ret_id = search.id;
            return 0;
        }
    }
    return err_set(&ctl->err, ENOENT, "there is no draft of %s in table %s", path, table);
}

/* Line by line, so that a terminal sees lines and nothing else. */
static int write_visible(struct span bytes, struct err *err)
{
    cleanup(buf_release) struct buf text;

    buf_init(&text, UINT32_MAX);
    while (bytes.len) {
        const char *newline = memchr(bytes.data, '\n', bytes.len);
        size_t length = newline ? (size_t)(newline - bytes.data) : bytes.len;

        text_visible(span_of(bytes.data, length), &text);
        buf_add_char(&text, '\n');
        length += newline != NULL;
        bytes = span_of(bytes.data + length, bytes.len - length);
    }
    return buf_error(&text) ? buf_error(&text) : output_write(buf_span(&text), err);
}

static int print_draft(struct ctl *ctl)
{
    cleanup(buf_release) struct buf body;
    struct backend *backend;
    uint64_t id;
    int r = find_draft(ctl, &backend, &id);

    buf_init(&body, UINT32_MAX);
    if (r == 0)
        r = backend_draft_read(backend, id, &body, &ctl->err);
    if (r < 0)
        return r;
    return ctl->json ? output_write(buf_span(&body), &ctl->err)
                     : write_visible(buf_span(&body), &ctl->err);
}

static int delete_draft(struct ctl *ctl)
{
    struct action action = {.kind = ACTION_DRAFT_DELETE};
    struct backend *backend;
    int r = find_draft(ctl, &backend, &action.draft.id);

    return r < 0 ? r : backend_write(backend, &action, 1, 0, &ctl->err);
}

static const struct option_spec drafts_options[] = {{"--delete", 0, false}, {NULL, 0, false}};

static int run_drafts(struct ctl *ctl)
{
    int count = ctl->arguments->rest_count;
    bool removes = arguments_option(ctl->arguments, "--delete", 0) != NULL;

    if (removes && count < 2)
        return ctl_usage(ctl, "drafts --delete needs TABLE and PATH");
    if (count < 2)
        return list_drafts(ctl, span_text(count ? ctl->arguments->rest[0] : NULL));
    return removes ? delete_draft(ctl) : print_draft(ctl);
}

const struct command command_drafts = {
    .name = "drafts",
    .usage = "[TABLE [PATH]] | --delete TABLE PATH",
    .summary = "List saves that were refused, print one, or delete one",
    .options = drafts_options,
    .least = 0,
    .most = 2,
    .run = run_drafts,
};
