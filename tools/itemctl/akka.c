/* SPDX-License-Identifier: MIT */
/* akka: the questions that akka-persistence-dynamodb asks its tables. */
#include <errno.h>
#include <inttypes.h>

#include "backend/profile/akka.h"
#include "base/cleanup.h"
#include "tools/itemctl/akka_rows.h"
#include "tools/itemctl/arguments.h"
#include "tools/itemctl/itemctl.h"
#include "tools/itemctl/output.h"

#define ROWS_FULL 256

struct work {
    struct ctl *ctl;
    struct subject subject;
    const struct akka_columns *columns;
    struct akka_question question;
    bool by_tag;
    struct item_output output; /* typed lines */
    struct grid grid;          /* for people */
    uint64_t count;
};

/* A subcommand: its name, what its second argument is, and which options it takes. */
struct akka_command {
    const char *name;
    bool by_tag;
    const char *options; /* letters of option_letters */
    int (*run)(struct work *work);
};

/* ---- rows ---- */

static int print_line(void *context, const struct record *record, struct value *item)
{
    struct work *work = context;
    int r = item_output_add(&work->output, record);

    (void)item;
    work->count++;
    return r == 0 && item_output_full(&work->output) ? item_output_flush(&work->output) : r;
}

/* Takes the attribute COLUMN out of ITEM; as a cell where it is one. */
static void take_cell(struct work *work, struct value *item, const char *column, bool cell)
{
    const struct value *value = value_member(item, span_text(column));
    bool text = value && (value->type == VALUE_S || value->type == VALUE_N);

    if (cell)
        grid_add(&work->grid, text ? value_text(value) : span_text("-"));
    value_member_remove(item, span_text(column));
}

static int print_cells(void *context, const struct record *record, struct value *item)
{
    struct work *work = context;
    const struct akka_columns *columns = work->columns;
    cleanup(buf_release) struct buf rest;

    (void)record;
    buf_init(&rest, UINT32_MAX);
    take_cell(work, item, columns->partition_key, false);
    take_cell(work, item, columns->sort_key, false);
    take_cell(work, item, columns->persistence_id, work->by_tag);
    take_cell(work, item, columns->sequence_nr, true);
    value_to_plain(item, (struct value_style){.sort = true}, &rest);
    grid_add(&work->grid, buf_span(&rest));
    work->count++;
    return buf_error(&rest)          ? buf_error(&rest)
           : work->count % ROWS_FULL ? 0
                                     : grid_print(&work->grid, &work->ctl->err);
}

static int ask(struct work *work, akka_row_fn each)
{
    return akka_rows(work->ctl, &work->subject, work->columns, &work->question, each, work);
}

static int run_rows(struct work *work)
{
    int r;

    const char *const heads[] = {work->columns->persistence_id, work->columns->sequence_nr, "ROW"};

    item_output_init(&work->output, work->subject.table, true, &work->ctl->err);
    grid_init(&work->grid, heads + !work->by_tag, work->by_tag ? 3 : 2);
    r = ask(work, work->ctl->json ? print_line : print_cells);
    if (r == 0)
        r = item_output_flush(&work->output);
    if (r == 0)
        r = grid_print(&work->grid, &work->ctl->err);
    item_output_release(&work->output);
    grid_release(&work->grid);
    return r;
}

static int nothing_there(struct work *work)
{
    return ctl_fail(work->ctl, STATUS_ABSENT, "table %s has no such row of \"%.*s\"",
                    work->subject.table->name, (int)work->question.id.len, work->question.id.data);
}

/* The last row, and whether there is one. */
static void want_last(struct work *work)
{
    work->question.deleted = AKKA_DELETED_TOO;
    work->question.reverse = true;
    work->question.most = 1;
}

static int run_latest_snapshot(struct work *work)
{
    int r;

    want_last(work);
    r = run_rows(work);
    return r || work->count ? r : nothing_there(work);
}

static int print_number(void *context, const struct record *record, struct value *item)
{
    struct work *work = context;
    const struct value *number = value_member(item, span_text(work->columns->sequence_nr));
    cleanup(buf_release) struct buf line;

    (void)record;
    buf_init(&line, 64);
    buf_add_span(&line, value_text(number));
    buf_add_char(&line, '\n');
    work->count++;
    return buf_error(&line) ? buf_error(&line) : output_write(buf_span(&line), &work->ctl->err);
}

static int run_highest_sequence(struct work *work)
{
    int r;

    want_last(work);
    r = ask(work, print_number);
    return r || work->count ? r : nothing_there(work);
}

/* ---- the command ---- */

static const struct akka_command akka_commands[] = {
    {"events", false, "ftmda", run_rows},
    {"by-tag", true, "mda", run_rows},
    {"highest-sequence", false, "f", run_highest_sequence},
    {"latest-snapshot", false, "ft", run_latest_snapshot},
};
#define AKKA_COMMANDS (sizeof akka_commands / sizeof akka_commands[0])

static const struct option_spec akka_options[] = {
    {"--from", 1, false},    {"--to", 1, false},  {"--max", 1, false},
    {"--deleted", 0, false}, {"--all", 0, false}, {NULL, 0, false},
};
static const char option_letters[] = "ftmda"; /* of akka_options, in their order */

static const struct akka_command *find_command(const char *name)
{
    for (size_t i = 0; i < AKKA_COMMANDS; i++)
        if (strcmp(akka_commands[i].name, name) == 0)
            return &akka_commands[i];
    return NULL;
}

static int check_options(struct ctl *ctl, const struct akka_command *command)
{
    for (size_t i = 0; akka_options[i].name; i++)
        if (!strchr(command->options, option_letters[i]) &&
            arguments_option(ctl->arguments, akka_options[i].name, 0))
            return ctl_usage(ctl, "akka %s takes no %s", command->name, akka_options[i].name);
    return 0;
}

static int take_number(struct ctl *ctl, const char *option, int64_t *number)
{
    const char *text = arguments_value(ctl->arguments, option);

    if (text && akka_sequence(span_text(text), number, NULL) < 0)
        return ctl_usage(ctl, "%s is a whole number from 0 to %" PRId64 ", not \"%s\"", option,
                         INT64_MAX, text);
    return 0;
}

static int take_question(struct work *work, const struct akka_command *command)
{
    struct ctl *ctl = work->ctl;
    struct akka_question *question = &work->question;
    struct span subject = span_text(ctl->arguments->rest[2]);
    bool only = arguments_option(ctl->arguments, "--deleted", 0);
    bool too = arguments_option(ctl->arguments, "--all", 0);
    struct err reason = {""};
    int r = check_options(ctl, command);

    *question = (struct akka_question){.to = INT64_MAX, .most = -1};
    *(command->by_tag ? &question->tag : &question->id) = subject;
    question->deleted = too ? AKKA_DELETED_TOO : only ? AKKA_DELETED_ONLY : AKKA_DELETED_NOT;
    if (r == 0 && only && too)
        r = ctl_usage(ctl, "--deleted and --all exclude each other");
    if (r == 0 && command->by_tag && (subject.len == 0 || memchr(subject.data, ',', subject.len)))
        r = ctl_usage(ctl, "a tag is not empty and has no comma");
    if (r == 0 && !command->by_tag && akka_check_id(subject, &reason) < 0)
        r = ctl_usage(ctl, "%s", reason.text);
    if (r == 0)
        r = take_number(ctl, "--from", &question->from);
    if (r == 0)
        r = take_number(ctl, "--to", &question->to);
    return r ? r : take_number(ctl, "--max", &question->most);
}

static int run_akka(struct ctl *ctl)
{
    const char *const *words = ctl->arguments->rest;
    const struct akka_command *command = find_command(words[0]);
    const struct profile_choice *choice = source_choice(ctl->source, span_text(words[1]));
    const struct akka_columns columns =
        akka_columns_of(choice ? choice->profile : NULL, choice ? choice->options : NULL);
    struct work work = {.ctl = ctl, .columns = &columns};
    int r;

    if (!command)
        return ctl_usage(ctl, "there is no akka %s", words[0]);
    if (ctl->arguments->rest_count < 3)
        return ctl_usage(ctl, "akka %s needs a table and %s", command->name,
                         command->by_tag ? "a tag" : "a persistence id");
    work.by_tag = command->by_tag;
    r = take_question(&work, command);
    if (r == 0)
        r = source_table(ctl->source, span_text(words[1]), &work.subject.backend,
                         &work.subject.table, &ctl->err);
    if (r == 0)
        r = command->run(&work);
    subject_release(&work.subject);
    return r;
}

const struct command command_akka = {
    .name = "akka",
    .usage = "events TABLE ID [--from N] [--to N] [--max N] [--deleted|--all]\n"
             "       itemctl akka by-tag TABLE TAG [--max N] [--deleted|--all]\n"
             "       itemctl akka highest-sequence TABLE ID [--from N]\n"
             "       itemctl akka latest-snapshot TABLE ID [--from N] [--to N]",
    .summary = "Ask a table of akka-persistence-dynamodb for rows, as the plugin does",
    .options = akka_options,
    .least = 1,
    .most = 3,
    .run = run_akka,
};
