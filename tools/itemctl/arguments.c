/* SPDX-License-Identifier: MIT */
#include "tools/itemctl/arguments.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct option_spec global_options[] = {
    {"-s", 1, false}, {"--source", 1, false}, {"--json", 0, true}, {"--help", 0, true},
    {"-h", 0, true},  {"--version", 0, true}, {NULL, 0, false},
};

/* Kernstack's own command line: "inspect tables [COMMAND ...]" is COMMAND, or tables. */
enum inspecting { INSPECT_NOTHING, INSPECT_WHAT, INSPECT_TABLES };

struct word_scan {
    char **at; /* the next word; ended by NULL */
    enum inspecting inspecting;
    struct arguments *arguments;
    struct err *err;
};

static const struct option_spec *find_spec(const struct option_spec *specs, struct span name)
{
    for (; specs && specs->name; specs++)
        if (span_equal(span_text(specs->name), name))
            return specs;
    return NULL;
}

static void take_global(struct arguments *arguments, const struct given_option *option)
{
    const char *name = option->name;

    if (strcmp(name, "-s") == 0 || strcmp(name, "--source") == 0)
        arguments->source = option->values[0];
    else if (strcmp(name, "--json") == 0)
        arguments->json = true;
    else if (strcmp(name, "--version") == 0)
        arguments->version = true;
    else
        arguments->help = true;
}

/* The values of OPTION: behind "=" in its own word (TEXT, or NULL), or the words that follow. */
static int take_values(struct word_scan *scan, const struct option_spec *spec, const char *text,
                       struct given_option *option)
{
    if (text && spec->values != 1)
        return err_set(scan->err, EINVAL, "%s takes %s", spec->name,
                       spec->values ? "two values, each a word of its own" : "no value");
    if (text) {
        option->values[0] = text;
        return 0;
    }
    for (int i = 0; i < spec->values; i++) {
        if (!*scan->at)
            return err_set(scan->err, EINVAL, "%s needs %s", spec->name,
                           spec->values == 1 ? "a value" : "two values");
        option->values[i] = *scan->at++;
    }
    return 0;
}

static int take_option(struct word_scan *scan, const char *word)
{
    struct arguments *arguments = scan->arguments;
    size_t length = word[1] == '-' ? strcspn(word, "=") : strlen(word);
    const char *text = word[length] ? word + length + 1 : NULL;
    const struct option_spec *global = find_spec(global_options, span_of(word, length));
    const struct option_spec *spec = global;
    struct given_option option = {0};
    int r;

    if (!spec && arguments->command)
        spec = find_spec(arguments->command->options, span_of(word, length));
    if (!spec)
        return err_set(scan->err, EINVAL, "there is no option %.*s%s", (int)length, word,
                       arguments->command ? "" : " before the command");
    option.name = spec->name;
    if (!spec->repeats &&
        (arguments_option(arguments, spec->name, 0) || (global && arguments->source)))
        return err_set(scan->err, EINVAL, "%s is given twice", spec->name);
    r = take_values(scan, spec, text, &option);
    if (r < 0)
        return r;
    if (global)
        take_global(arguments, &option);
    else
        arguments->options[arguments->option_count++] = option;
    return 0;
}

static const struct command *find_command(const struct command *const *commands, const char *word)
{
    for (; *commands; commands++)
        if (strcmp((*commands)->name, word) == 0)
            return *commands;
    return NULL;
}

static int take_word(struct word_scan *scan, const struct command *const *commands,
                     const char *word)
{
    struct arguments *arguments = scan->arguments;
    bool after_tables = scan->inspecting == INSPECT_TABLES;
    const struct command *command =
        !arguments->command || after_tables ? find_command(commands, word) : NULL;

    if (!arguments->command && scan->inspecting == INSPECT_NOTHING &&
        strcmp(word, "inspect") == 0) {
        scan->inspecting = INSPECT_WHAT;
        return 0;
    }
    if (scan->inspecting == INSPECT_WHAT && strcmp(word, "tables") != 0)
        return err_set(scan->err, EINVAL, "inspect is followed by tables, not by \"%s\"", word);
    arguments->inspects = arguments->inspects || scan->inspecting == INSPECT_WHAT;
    scan->inspecting = scan->inspecting == INSPECT_WHAT ? INSPECT_TABLES : INSPECT_NOTHING;
    if (arguments->command && !command)
        arguments->rest[arguments->rest_count++] = word;
    else if (!command)
        return err_set(scan->err, EINVAL, "there is no command \"%s\"", word);
    else
        arguments->command = command;
    return 0;
}

static int check_count(const struct arguments *arguments, struct err *err)
{
    const struct command *command = arguments->command;

    if (arguments->help || arguments->version)
        return 0;
    if (!command)
        return err_set(err, EINVAL, "no command given");
    if (arguments->rest_count < command->least)
        return err_set(err, EINVAL, "%s needs more arguments", command->name);
    if (arguments->rest_count > command->most)
        return err_set(err, EINVAL, "%s: one argument too many: \"%s\"", command->name,
                       arguments->rest[command->most]);
    return 0;
}

/* A number that is negative is none. */
static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] && word[1] != '.' && (word[1] < '0' || word[1] > '9');
}

int arguments_parse(int argc, char **argv, const struct command *const *commands,
                    struct arguments *ret_arguments, struct err *err)
{
    struct arguments *arguments = ret_arguments;
    struct word_scan scan = {.at = argv + (argc > 0), .arguments = arguments, .err = err};
    bool options_end = false;
    int r = 0;

    *arguments = (struct arguments){0};
    arguments->options = calloc((size_t)argc + 1, sizeof *arguments->options);
    arguments->rest = calloc((size_t)argc + 1, sizeof *arguments->rest);
    if (!arguments->options || !arguments->rest)
        return err_set(err, ENOMEM, "no memory");
    while (r == 0 && *scan.at) {
        const char *word = *scan.at++;

        if (!options_end && strcmp(word, "--") == 0)
            options_end = true;
        else if (!options_end && is_option(word))
            r = take_option(&scan, word);
        else
            r = take_word(&scan, commands, word);
    }
    return r < 0 ? r : check_count(arguments, err);
}

void arguments_release(struct arguments *arguments)
{
    free(arguments->options);
    free(arguments->rest);
    *arguments = (struct arguments){0};
}

const struct given_option *arguments_option(const struct arguments *arguments, const char *name,
                                            size_t from)
{
    for (size_t i = 0; i < arguments->option_count; i++)
        if (strcmp(arguments->options[i].name, name) == 0 && from-- == 0)
            return &arguments->options[i];
    return NULL;
}

const char *arguments_value(const struct arguments *arguments, const char *name)
{
    const struct given_option *option = arguments_option(arguments, name, 0);

    return option ? option->values[0] : NULL;
}
