/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/text.h"
#include "tools/itemctl/doctor.h"
#include "tools/itemctl/output.h"

#define DOCUMENT_MAX (64u << 20)
#define COLUMNS 79
#define INDENT "         "

static const char *const level_words[] = {
    [DOCTOR_FINE] = "fine", [DOCTOR_NOTE] = "note", [DOCTOR_PROBLEM] = "problem"};

static void add_member(struct buf *out, const char *separator, const char *name, const char *text)
{
    buf_addf(out, "%s\"%s\": ", separator, name);
    json_add_string(out, span_text(text));
}

static int print_json(const struct doctor *doctor, struct err *err)
{
    cleanup(buf_release) struct buf out;

    buf_init(&out, DOCUMENT_MAX);
    add_member(&out, "{", "Source", doctor->ctl->source_name);
    buf_addf(&out, ", \"ProblemCount\": %zu, \"Findings\": [", doctor_problems(doctor));
    for (size_t i = 0; i < doctor->finding_count; i++) {
        const struct doctor_finding *finding = &doctor->findings[i];
        add_member(&out, i ? ", {" : "{", "Level", level_words[finding->level]);
        add_member(&out, ", ", "About", finding->about);
        add_member(&out, ", ", "Text", finding->text);
        buf_add_char(&out, '}');
    }
    buf_add_text(&out, "], \"Lines\": [");
    for (size_t i = 0; i < doctor->line_count; i++) {
        const struct doctor_line *line = &doctor->lines[i];
        add_member(&out, i ? ", {" : "{", "Section", line->section);
        add_member(&out, ", ", "Line", line->line);
        add_member(&out, ", ", "Why", line->why);
        buf_add_char(&out, '}');
    }
    buf_add_text(&out, "]}\n");
    return buf_error(&out) ? buf_error(&out) : output_write(buf_span(&out), err);
}

/* ---- for people ---- */

/* TEXT in lines that a terminal has room for: FIRST before the first one, REST before the others.
 */
static void add_wrapped(struct buf *out, const char *first, const char *rest, const char *text)
{
    cleanup(buf_release) struct buf shown;

    buf_init(&shown, DOCUMENT_MAX);
    text_visible(span_text(text), &shown);
    buf_add_text(out, first);
    size_t column = strlen(first);
    bool begun = false;
    for (const char *at = shown.data ? shown.data : ""; *at; begun = true) {
        size_t length = strcspn(at, " ");
        if (begun && column + 1 + length > COLUMNS) {
            buf_addf(out, "\n%s", rest);
            column = strlen(rest);
        } else if (begun) {
            buf_add_char(out, ' ');
            column++;
        }
        buf_add(out, at, length);
        column += length;
        at += length + (at[length] == ' ');
    }
    buf_add_char(out, '\n');
}

static void add_findings(const struct doctor *doctor, struct buf *out)
{
    static const char *const leads[] = {
        [DOCTOR_FINE] = INDENT, [DOCTOR_NOTE] = "  note:  ", [DOCTOR_PROBLEM] = "  WRONG: "};
    const char *about = NULL;

    for (size_t i = 0; i < doctor->finding_count; i++) {
        const struct doctor_finding *finding = &doctor->findings[i];
        if (!about || strcmp(about, finding->about) != 0)
            add_wrapped(out, "", "", finding->about);
        about = finding->about;
        add_wrapped(out, leads[finding->level], INDENT, finding->text);
    }
}

static void add_lines(const struct doctor *doctor, struct buf *out)
{
    const char *section = NULL;

    if (doctor->line_count)
        buf_add_text(out, "\nLines of mount.conf that would suit:\n");
    for (size_t i = 0; i < doctor->line_count; i++) {
        const struct doctor_line *line = &doctor->lines[i];
        if (!section || strcmp(section, line->section) != 0) {
            buf_add_char(out, '\n');
            add_wrapped(out, "", "", line->section);
        }
        section = line->section;
        if (*line->why)
            add_wrapped(out, "; ", "; ", line->why);
        add_wrapped(out, "", "", line->line);
    }
}

int doctor_print(const struct doctor *doctor, struct err *err)
{
    cleanup(buf_release) struct buf out;

    buf_init(&out, DOCUMENT_MAX);
    if (doctor->ctl->json)
        return print_json(doctor, err);
    add_findings(doctor, &out);
    add_lines(doctor, &out);
    if (doctor_problems(doctor) == 0)
        buf_add_text(&out, "\nNothing is wrong.\n");
    return buf_error(&out) ? buf_error(&out) : output_write(buf_span(&out), err);
}
