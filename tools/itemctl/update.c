/* SPDX-License-Identifier: MIT */
/* incr, decr, append: an attribute changed by what it is (base/update.h) */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/number.h"
#include "tools/itemctl/arguments.h"
#include "tools/itemctl/itemctl.h"
#include "tools/itemctl/keys.h"
#include "tools/itemctl/output.h"

/* Where an update goes, and what comes of it. */
struct target {
    struct subject subject;
    struct key_bytes key;
    struct buf number;
};

static void target_init(struct target *target)
{
    *target = (struct target){0};
    key_bytes_init(&target->key);
    buf_init(&target->number, 512);
}

static void target_release(struct target *target)
{
    subject_release(&target->subject);
    key_bytes_release(&target->key);
    buf_release(&target->number);
}

static int target_update(struct ctl *ctl, struct target *target, const struct update *update)
{
    struct item_meta meta;

    return backend_update(target->subject.backend, target->subject.table,
                          key_bytes_key(&target->key), update, &meta, &target->number, &ctl->err);
}

/* ---- incr, decr ---- */

static const struct option_spec count_options[] = {
    {"--sort-key", 1, false}, {"--attr", 1, false}, {NULL, 0, false}};

/* The canonical STEP, which is taken away where DOWN. */
static int parse_step(struct ctl *ctl, const char *text, bool down, struct buf *step)
{
    struct err reason = {""};
    int r;

    if (down)
        buf_add_char(step, '-');
    r = number_canonical(span_text(text), step, &reason);
    if (r < 0)
        return ctl_usage(ctl, "step %.200s: %s", text, err_text(&reason, r));
    if (down && step->len > 1 && step->data[1] == '-')
        buf_splice(step, 0, 2, span_of(NULL, 0));
    return buf_error(step);
}

/* {"N":"5"}, or 5 for people. */
static int print_number(struct ctl *ctl, const struct target *target)
{
    cleanup(buf_release) struct buf line;

    buf_init(&line, 1024);
    buf_add_text(&line, ctl->json ? "{\"N\":\"" : "");
    buf_add_span(&line, buf_span(&target->number));
    buf_add_text(&line, ctl->json ? "\"}\n" : "\n");
    return buf_error(&line) ? buf_error(&line) : output_write(buf_span(&line), &ctl->err);
}

static int count(struct ctl *ctl, bool down)
{
    const struct arguments *arguments = ctl->arguments;
    const char *attribute = arguments_value(arguments, "--attr");
    const char *text = arguments->rest_count > 2 ? arguments->rest[2] : "1";
    cleanup(target_release) struct target target;
    cleanup(buf_release) struct buf step;
    int r;

    target_init(&target);
    buf_init(&step, 512);
    r = parse_step(ctl, text, down, &step);
    if (r == 0)
        r = subject_open(ctl, &target.subject);
    if (r == 0)
        r = key_from_words(ctl, target.subject.table, arguments->rest[1], &target.key);
    if (r)
        return r;
    const struct update update = {UPDATE_ADD, span_text(attribute ? attribute : ITEM_VALUE),
                                  buf_span(&step)};
    r = target_update(ctl, &target, &update);
    return r < 0 ? r : print_number(ctl, &target);
}

static int run_incr(struct ctl *ctl)
{
    return count(ctl, false);
}

static int run_decr(struct ctl *ctl)
{
    return count(ctl, true);
}

const struct command command_incr = {
    .name = "incr",
    .usage = "TABLE KEY [STEP] [--attr NAME] [--sort-key KEY]",
    .summary = "Add to a number, at once, and print what it is then",
    .options = count_options,
    .least = 2,
    .most = 3,
    .access = COMMAND_WRITES,
    .run = run_incr,
};

const struct command command_decr = {
    .name = "decr",
    .usage = "TABLE KEY [STEP] [--attr NAME] [--sort-key KEY]",
    .summary = "Take from a number, at once, and print what it is then",
    .options = count_options,
    .least = 2,
    .most = 3,
    .access = COMMAND_WRITES,
    .run = run_decr,
};

/* ---- append ---- */

static const struct option_spec append_options[] = {
    {"-k", 1, false}, {"--sort-key", 1, false}, {"--unique", 0, false}, {NULL, 0, false}};

static int run_append(struct ctl *ctl)
{
    const struct arguments *arguments = ctl->arguments;
    bool unique = arguments_option(arguments, "--unique", 0);
    cleanup(target_release) struct target target;
    struct err reason = {""};
    int r;

    target_init(&target);
    r = json_check(span_text(arguments->rest[2]), NULL, &reason);
    if (r < 0)
        return ctl_usage(ctl, "value %.200s: %s", arguments->rest[2], err_text(&reason, r));
    r = subject_open(ctl, &target.subject);
    if (r == 0)
        r = key_from_options(ctl, target.subject.table, &target.key);
    if (r)
        return r;
    const struct update update = {unique ? UPDATE_APPEND_UNIQUE : UPDATE_APPEND,
                                  span_text(arguments->rest[1]), span_text(arguments->rest[2])};
    return target_update(ctl, &target, &update);
}

const struct command command_append = {
    .name = "append",
    .usage = "TABLE -k KEY [--sort-key KEY] ATTR VALUE [--unique]",
    .summary = "Put a value, as JSON, behind the last of a list, at once",
    .options = append_options,
    .least = 3,
    .most = 3,
    .access = COMMAND_WRITES,
    .run = run_append,
};
