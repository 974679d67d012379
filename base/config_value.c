/* SPDX-License-Identifier: MIT */
#include "base/config_value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"

#define SECONDS_MAX 31536000.0
#define UNITS_MAX 1e9
#define DIGITS "0123456789"

/* Digits of BASE from TEXT on; ret_rest is what follows them. False: none, or over MOST. */
static bool read_digits(const char *text, unsigned base, uint64_t most, uint64_t *ret_value,
                        const char **ret_rest)
{
    uint64_t value = 0;
    const char *at = text;

    for (; *at >= '0' && *at < (char)('0' + base); at++) {
        uint64_t digit = (uint64_t)(*at - '0');

        if (digit > most || value > (most - digit) / base)
            return false;
        value = value * base + digit;
    }
    *ret_value = value;
    *ret_rest = at;
    return at != text;
}

/* What a size's suffix multiplies by; 0: no such suffix. */
static uint64_t size_unit(const char *suffix)
{
    static const char units[] = "KMG";
    const char *unit;

    if (!*suffix)
        return 1;
    unit = strchr(units, *suffix);
    return unit && !suffix[1] ? UINT64_C(1) << (10 * (unit - units + 1)) : 0;
}

int config_value_size(const char *text, uint64_t least, uint64_t most, uint64_t *ret_bytes,
                      struct err *err)
{
    uint64_t unit = size_unit(text + strspn(text, DIGITS));
    uint64_t value;
    const char *rest;

    if (text[0] < '0' || text[0] > '9' || !unit)
        return err_set(err, EINVAL, "\"%s\" is no size; write bytes, or a number with K, M or G",
                       text);
    if (!read_digits(text, 10, most / unit, &value, &rest))
        return err_set(err, EINVAL, "\"%s\" is too large; the most is %llu bytes", text,
                       (unsigned long long)most);
    if (value * unit < least)
        return err_set(err, EINVAL, "\"%s\" is too small; the least is %llu bytes", text,
                       (unsigned long long)least);
    *ret_bytes = value * unit;
    return 0;
}

int config_value_count(const char *text, uint64_t least, uint64_t most, uint64_t *ret_count,
                       struct err *err)
{
    uint64_t value;
    const char *rest;

    if (!read_digits(text, 10, most, &value, &rest) || *rest || value < least || !text[0])
        return err_set(err, EINVAL, "\"%s\" is no number from %llu to %llu", text,
                       (unsigned long long)least, (unsigned long long)most);
    *ret_count = value;
    return 0;
}

/* Digits, and perhaps a point and more of them. */
static bool is_decimal(const char *text)
{
    size_t whole = strspn(text, DIGITS);
    size_t point = text[whole] == '.';
    size_t fraction = point ? strspn(text + whole + 1, DIGITS) : 0;

    return whole > 0 && (!point || fraction > 0) && !text[whole + point + fraction];
}

int config_value_seconds(const char *text, double *ret_seconds, struct err *err)
{
    double value;

    if (!is_decimal(text))
        return err_set(err, EINVAL, "\"%s\" is no number of seconds", text);
    value = strtod(text, NULL);
    if (value > SECONDS_MAX)
        return err_set(err, EINVAL, "\"%s\" seconds are more than a year", text);
    *ret_seconds = value;
    return 0;
}

int config_value_seconds_between(const char *text, double least, double most, double *ret_seconds,
                                 struct err *err)
{
    double value;
    int code = config_value_seconds(text, &value, err);

    if (code)
        return code;
    if (value < least || value > most)
        return err_set(err, EINVAL, "\"%s\" is no number of seconds from %g to %g", text, least,
                       most);
    *ret_seconds = value;
    return 0;
}

int config_value_units(const char *text, double *ret_units, struct err *err)
{
    double value = is_decimal(text) ? strtod(text, NULL) : 0;

    if (!(value > 0))
        return err_set(err, EINVAL, "\"%s\" is no number of units a second above 0", text);
    if (value > UNITS_MAX)
        return err_set(err, EINVAL, "\"%s\" is too large; the most is %.0f units a second", text,
                       UNITS_MAX);
    *ret_units = value;
    return 0;
}

int config_value_id(const char *text, uint32_t *ret_id, struct err *err)
{
    uint64_t value;
    const char *rest;

    /* The highest number means "none" in system calls. */
    if (!read_digits(text, 10, UINT32_MAX - 1, &value, &rest) || *rest)
        return err_set(err, EINVAL, "\"%s\" is no user or group number", text);
    *ret_id = (uint32_t)value;
    return 0;
}

int config_value_mode(const char *text, unsigned *ret_mode, struct err *err)
{
    uint64_t value;
    const char *rest;

    if (!read_digits(text, 8, 0777, &value, &rest) || *rest)
        return err_set(err, EINVAL, "\"%s\" is no octal number up to 777", text);
    *ret_mode = (unsigned)value;
    return 0;
}

static bool word_in(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return false;
}

int config_value_bool(const char *text, bool *ret_value, struct err *err)
{
    static const char *const yes[] = {"yes", "true", "on", "1", NULL};
    static const char *const no[] = {"no", "false", "off", "0", NULL};
    bool is_yes = word_in(text, yes);

    if (!is_yes && !word_in(text, no))
        return err_set(err, EINVAL, "\"%s\" is neither yes nor no", text);
    *ret_value = is_yes;
    return 0;
}

int config_value_word(const char *text, const char *const *words, unsigned *ret_place,
                      struct err *err)
{
    cleanup(buf_release) struct buf known;

    buf_init(&known, 256);
    for (unsigned i = 0; words[i]; i++) {
        if (strcmp(text, words[i]) == 0) {
            *ret_place = i;
            return 0;
        }
    }
    for (unsigned i = 0; words[i]; i++)
        buf_addf(&known, "%s%s", i ? ", " : "", words[i]);
    return err_set(err, EINVAL, "\"%s\" is not known here; known: %s", text,
                   buf_error(&known) ? "" : known.data);
}
