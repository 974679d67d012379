/* SPDX-License-Identifier: MIT */
#include "base/number.h"

#include <errno.h>

#include "base/cleanup.h"

#define DIGITS_MAX 38
#define EXPONENT_LEAST (-130) /* of the first digit, as in 1e-130 */
#define EXPONENT_MOST 125

/*
 * A number taken apart without changing its digits: the value is 0.DIGITS * 10^(point + exponent),
 * where DIGITS are `count` significant digits between which one "." may stand in the text. Nothing
 * is limited: the exponent stays text, because it may have any length too.
 */
struct decimal {
    bool negative;
    struct span digits; /* first to last that is not zero; empty for zero */
    size_t count;
    int64_t point;
    bool exponent_negative;
    struct span exponent;
};

/* The digits that TEXT begins with. */
static size_t digits_len(struct span text)
{
    size_t len = 0;
    while (len < text.len && text.data[len] >= '0' && text.data[len] <= '9')
        len++;
    return len;
}

static bool starts_with(struct span text, const char *any)
{
    return text.len > 0 && text.data[0] != '\0' && strchr(any, text.data[0]);
}

bool number_is_json(struct span text)
{
    if (starts_with(text, "-"))
        text = span_from(text, 1);
    size_t whole = digits_len(text);
    if (whole == 0 || (whole > 1 && text.data[0] == '0'))
        return false;
    text = span_from(text, whole);
    if (starts_with(text, ".")) {
        size_t fraction = digits_len(span_from(text, 1));
        if (fraction == 0)
            return false;
        text = span_from(text, 1 + fraction);
    }
    if (starts_with(text, "eE")) {
        text = span_from(text, 1);
        text = starts_with(text, "+-") ? span_from(text, 1) : text;
        size_t exponent = digits_len(text);
        return exponent > 0 && exponent == text.len;
    }
    return text.len == 0;
}

/* Finds the significant digits of MANTISSA, whose "." (if any) stands behind WHOLE digits. */
static void decimal_trim(struct span mantissa, size_t whole, struct decimal *decimal)
{
    size_t first = 0, last = mantissa.len;
    while (first < last && (mantissa.data[first] == '0' || mantissa.data[first] == '.'))
        first++;
    while (last > first && (mantissa.data[last - 1] == '0' || mantissa.data[last - 1] == '.'))
        last--;
    decimal->digits = span_of(mantissa.data + first, last - first);
    decimal->count = last - first - (first < whole && whole < last);
    decimal->point = first < whole ? (int64_t)(whole - first) : -(int64_t)(first - whole - 1);
    if (first == last)
        decimal->point = 0;
}

/* Takes TEXT apart: [+-] digits [. digits] [e [+-] digits], with a digit before the e. */
static bool decimal_parse(struct span text, struct decimal *ret_decimal)
{
    struct decimal decimal = {.negative = starts_with(text, "-")};
    if (starts_with(text, "+-"))
        text = span_from(text, 1);
    size_t whole = digits_len(text);
    size_t len = whole;
    if (starts_with(span_from(text, whole), "."))
        len += 1 + digits_len(span_from(text, whole + 1));
    if (len == 0 || (len == 1 && whole == 0))
        return false;
    decimal_trim(span_of(text.data, len), whole, &decimal);
    text = span_from(text, len);
    if (starts_with(text, "eE")) {
        text = span_from(text, 1);
        decimal.exponent_negative = starts_with(text, "-");
        text = starts_with(text, "+-") ? span_from(text, 1) : text;
        decimal.exponent = span_of(text.data, digits_len(text));
        if (decimal.exponent.len == 0)
            return false;
        text = span_from(text, decimal.exponent.len);
    }
    *ret_decimal = decimal;
    return text.len == 0;
}

/* Far beyond any length of text, so that sums with lengths keep their sign and do not overflow. */
#define EXPONENT_FAR (INT64_C(1) << 56)

/* The difference of two exponents as written, exact up to EXPONENT_FAR. Beyond that the sign is
 * right, since each further digit only makes the difference larger. */
static int64_t exponent_difference(const struct decimal *a, const struct decimal *b)
{
    size_t len = a->exponent.len > b->exponent.len ? a->exponent.len : b->exponent.len;
    int64_t difference = 0;
    for (size_t i = 0; i < len; i++) {
        size_t a_pad = len - a->exponent.len, b_pad = len - b->exponent.len;
        int a_digit = i < a_pad ? 0 : a->exponent.data[i - a_pad] - '0';
        int b_digit = i < b_pad ? 0 : b->exponent.data[i - b_pad] - '0';
        difference = difference * 10 + (a->exponent_negative ? -a_digit : a_digit) -
                     (b->exponent_negative ? -b_digit : b_digit);
        if (difference > EXPONENT_FAR || difference < -EXPONENT_FAR)
            break;
    }
    return difference;
}

/* Where the decimal point stands, counted from the first significant digit. */
static int64_t decimal_point(const struct decimal *decimal)
{
    static const struct decimal zero;
    return decimal->point + exponent_difference(decimal, &zero);
}

/* The next digit of DIGITS, which it shortens; 0 when none is left. */
static char next_digit(struct span *digits)
{
    if (digits->len > 0 && digits->data[0] == '.')
        *digits = span_from(*digits, 1);
    if (digits->len == 0)
        return '0';
    char digit = digits->data[0];
    *digits = span_from(*digits, 1);
    return digit;
}

static void add_repeated(struct buf *out, char c, int64_t count)
{
    for (; count > 0; count--)
        buf_add_char(out, c);
}

/* Appends a plain decimal. */
static void decimal_write(const struct decimal *decimal, int64_t point, struct buf *out)
{
    if (decimal->count == 0) {
        buf_add_char(out, '0');
        return;
    }
    if (decimal->negative)
        buf_add_char(out, '-');
    struct span digits = decimal->digits;
    if (point <= 0) {
        buf_add_text(out, "0.");
        add_repeated(out, '0', -point);
    }
    for (int64_t i = 0; i < (int64_t)decimal->count; i++) {
        if (i > 0 && i == point)
            buf_add_char(out, '.');
        buf_add_char(out, next_digit(&digits));
    }
    add_repeated(out, '0', point - (int64_t)decimal->count);
}

/* Bytes of a number that a message shows. */
static int shown_len(struct span text)
{
    return (int)(text.len < 60 ? text.len : 60);
}

static bool in_range(const struct decimal *decimal, int64_t point)
{
    return decimal->count == 0 || (point > EXPONENT_LEAST && point - 1 <= EXPONENT_MOST);
}

int number_canonical(struct span text, struct buf *out, struct err *err)
{
    int shown = shown_len(text);
    struct decimal decimal;
    if (!decimal_parse(text, &decimal))
        return err_set(err, EINVAL, "\"%.*s\" is not a number", shown, text.data ? text.data : "");
    if (decimal.count > DIGITS_MAX)
        return err_set(err, ERANGE, "number %.*s has more than %d significant digits", shown,
                       text.data, DIGITS_MAX);
    int64_t point = decimal_point(&decimal);
    if (!in_range(&decimal, point))
        return err_set(err, ERANGE, "number %.*s is outside of 1e-130 .. 9.99e125", shown,
                       text.data);
    decimal_write(&decimal, point, out);
    return 0;
}

/*
 * Order form: one byte for the sign; one for the exponent (-130 .. 125 are just 256 values); the
 * digits in pairs, each as a byte 1 .. 100; a zero byte, below all pairs. Of negative numbers all
 * but the sign is inverted. No form begins another one.
 */
enum { ORDER_NEGATIVE = 0x40, ORDER_ZERO = 0x80, ORDER_POSITIVE = 0xC0 };

void number_to_order(struct span text, struct buf *out)
{
    struct decimal decimal;
    if (!decimal_parse(text, &decimal))
        return;
    if (decimal.count == 0) {
        buf_add_char(out, (char)ORDER_ZERO);
        return;
    }
    unsigned invert = decimal.negative ? 0xFF : 0;
    buf_add_char(out, (char)(decimal.negative ? ORDER_NEGATIVE : ORDER_POSITIVE));
    int64_t exponent = decimal_point(&decimal) - 1 - EXPONENT_LEAST;
    buf_add_char(out, (char)((unsigned)exponent ^ invert));
    struct span digits = decimal.digits;
    while (digits.len > 0) {
        int pair = 10 * (next_digit(&digits) - '0');
        pair += next_digit(&digits) - '0';
        buf_add_char(out, (char)((unsigned)(pair + 1) ^ invert));
    }
    buf_add_char(out, (char)invert);
}

int number_from_order(struct span order, struct buf *out)
{
    const unsigned char *at = (const unsigned char *)order.data;
    if (order.len == 1 && at[0] == ORDER_ZERO) {
        buf_add_char(out, '0');
        return 0;
    }
    size_t pairs = order.len < 4 ? 0 : order.len - 3;
    if (pairs == 0 || pairs > DIGITS_MAX / 2 + 1)
        return -EINVAL;
    if (at[0] != ORDER_NEGATIVE && at[0] != ORDER_POSITIVE)
        return -EINVAL;
    unsigned invert = at[0] == ORDER_NEGATIVE ? 0xFF : 0;
    char digits[DIGITS_MAX + 2];
    for (size_t i = 0; i < pairs; i++) {
        unsigned pair = at[2 + i] ^ invert;
        if (pair < 1 || pair > 100)
            return -EINVAL;
        digits[2 * i] = (char)('0' + (pair - 1) / 10);
        digits[2 * i + 1] = (char)('0' + (pair - 1) % 10);
    }
    size_t count = 2 * pairs - (digits[2 * pairs - 1] == '0');
    if (at[order.len - 1] != invert || digits[0] == '0' || digits[count - 1] == '0' ||
        count > DIGITS_MAX)
        return -EINVAL;
    struct decimal decimal = {
        .negative = invert != 0, .digits = span_of(digits, count), .count = count};
    decimal_write(&decimal, (int64_t)(at[1] ^ invert) + EXPONENT_LEAST + 1, out);
    return 0;
}

bool number_to_int64(struct span text, int64_t *ret_value)
{
    struct decimal decimal;
    if (!number_is_json(text) || !decimal_parse(text, &decimal))
        return false;
    int64_t point = decimal_point(&decimal);
    if (decimal.count > 0 && (point < (int64_t)decimal.count || point > 19))
        return false;
    int64_t value = 0; /* summed up as a negative number, of which there is one more */
    struct span digits = decimal.digits;
    for (int64_t i = 0; decimal.count > 0 && i < point; i++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, next_digit(&digits) - '0', &value))
            return false;
    }
    if (!decimal.negative && __builtin_sub_overflow(0, value, &value))
        return false;
    *ret_value = value;
    return true;
}

/* Order of two numbers without their signs; neither is zero. */
static int compare_magnitude(const struct decimal *a, const struct decimal *b)
{
    int64_t difference = a->point - b->point + exponent_difference(a, b);
    if (difference != 0)
        return difference < 0 ? -1 : 1;
    struct span a_digits = a->digits, b_digits = b->digits;
    while (a_digits.len > 0 || b_digits.len > 0) {
        int order = next_digit(&a_digits) - next_digit(&b_digits);
        if (order != 0)
            return order;
    }
    return 0;
}

static int decimal_sign(const struct decimal *decimal)
{
    return decimal->count == 0 ? 0 : decimal->negative ? -1 : 1;
}

int number_compare(struct span a, struct span b)
{
    struct decimal left = {0}, right = {0};
    if (!decimal_parse(a, &left) || !decimal_parse(b, &right))
        return span_compare(a, b);
    int left_sign = decimal_sign(&left), right_sign = decimal_sign(&right);
    if (left_sign != right_sign || left_sign == 0)
        return left_sign - right_sign;
    return left_sign * compare_magnitude(&left, &right);
}

/*
 * The digits of a sum, each at its power of ten, with room for one more before the largest number
 * and for 38 behind the first digit of the smallest. While numbers are being summed up a place may
 * be negative, or above 9.
 */
#define COLUMN_FIRST (EXPONENT_MOST + 1) /* power of ten of the first place */
#define COLUMN_PLACES (COLUMN_FIRST - EXPONENT_LEAST + DIGITS_MAX)
struct column {
    signed char places[COLUMN_PLACES];
};

static void column_add(struct column *column, const struct decimal *decimal)
{
    struct span digits = decimal->digits;
    signed char *at = &column->places[COLUMN_FIRST - (decimal_point(decimal) - 1)];
    while (digits.len > 0) {
        signed char digit = (signed char)(next_digit(&digits) - '0');
        *at = (signed char)(decimal->negative ? *at - digit : *at + digit);
        at++;
    }
}

/* Makes each place a digit, 0 to 9. False where that cannot be: the sum is below zero. */
static bool column_carry(struct column *column)
{
    int carry = 0;
    for (size_t i = COLUMN_PLACES; i-- > 0;) {
        int place = column->places[i] + carry;
        carry = place < 0 ? -((9 - place) / 10) : place / 10;
        column->places[i] = (signed char)(place - 10 * carry);
    }
    return carry == 0;
}

/* Turns a sum that column_carry found below zero round: its places then are those of the sum plus a
 * power of ten, so that each is taken from 9, and 1 is added. */
static void column_negate(struct column *column)
{
    for (size_t i = 0; i < COLUMN_PLACES; i++)
        column->places[i] = (signed char)(9 - column->places[i]);
    column->places[COLUMN_PLACES - 1]++;
    column_carry(column);
}

static int column_write(const struct column *column, bool negative, struct buf *out)
{
    char digits[COLUMN_PLACES];
    size_t first = 0, last = COLUMN_PLACES;
    while (first < last && column->places[first] == 0)
        first++;
    while (last > first && column->places[last - 1] == 0)
        last--;
    for (size_t i = first; i < last; i++)
        digits[i] = (char)('0' + column->places[i]);
    struct decimal sum = {.negative = negative,
                          .digits = span_of(digits + first, last - first),
                          .count = last - first};
    int64_t point = COLUMN_FIRST + 1 - (int64_t)first;
    if (sum.count > DIGITS_MAX || !in_range(&sum, point))
        return -ERANGE;
    decimal_write(&sum, point, out);
    return 0;
}

static int column_add_text(struct column *column, struct span text, struct err *err)
{
    cleanup(buf_release) struct buf canonical;
    struct decimal decimal;
    buf_init(&canonical, 512);
    int error = number_canonical(text, &canonical, err);
    error = error ? error : buf_error(&canonical);
    if (error == 0 && decimal_parse(buf_span(&canonical), &decimal))
        column_add(column, &decimal);
    return error;
}

int number_add(struct span a, struct span b, struct buf *out, struct err *err)
{
    struct column column = {{0}};
    int error = column_add_text(&column, a, err);
    error = error ? error : column_add_text(&column, b, err);
    if (error)
        return error;
    bool negative = !column_carry(&column);
    if (negative)
        column_negate(&column);
    error = column_write(&column, negative, out);
    if (error)
        return err_set(err, ERANGE,
                       "the sum of %.*s and %.*s has more than %d significant digits, or is "
                       "outside of 1e-130 .. 9.99e125",
                       shown_len(a), a.data, shown_len(b), b.data, DIGITS_MAX);
    return buf_error(out);
}
