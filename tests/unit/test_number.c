/* SPDX-License-Identifier: MIT */
#include "base/number.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "tests/check.h"

static void test_grammar(void)
{
    static const char *const good[] = {"0",    "-0",     "5",     "-12",
                                       "0.5",  "10.50",  "1e5",   "1E+5",
                                       "1e-5", "-0.0e0", "1e400", "123456789012345678901"};
    static const char *const bad[] = {"",    "-",   "+1",    "01",    "-01",      ".5",   "5.",
                                      "1e",  "1e+", "0x1",   "1 ",    " 1",       "1.e5", "NaN",
                                      "1,5", "--1", "1e5.0", "1.2.3", "Infinity", "1_0"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        if (!number_is_json(span_text(good[i])))
            check_fail("%s is refused", good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (number_is_json(span_text(bad[i])))
            check_fail("%s is taken", bad[i]);
    }
    check(!number_is_json(span_of("1\0", 2)));
}

#define ZEROS_129                                                                                  \
    "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"   \
    "000000000000000000000000000000000000000"

#define ZEROS_123                                                                                  \
    "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"   \
    "000000000000000000000000000000000"

static void test_canonical(void)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"0", "0"},
        {"-0", "0"},
        {"-0.000e500", "0"},
        {"0e999999999999999999999", "0"},
        {"5", "5"},
        {"+5", "5"},
        {"007", "7"},
        {".5", "0.5"},
        {"5.", "5"},
        {"-.5e1", "-5"},
        {"1.0", "1"},
        {"1e3", "1000"},
        {"1000", "1000"},
        {"1.50e1", "15"},
        {"12.3400", "12.34"},
        {"0.0012", "0.0012"},
        {"1200e-5", "0.012"},
        {"-12.5E-1", "-1.25"},
        {"100e-2", "1"},
        {"0000.00100", "0.001"},
        {"1e-130", "0." ZEROS_129 "1"},
        {"12345678901234567890123456789012345678", "12345678901234567890123456789012345678"},
        {"0.12345678901234567890123456789012345678", "0.12345678901234567890123456789012345678"},
        {"123456789012345678901234567890123456780", "123456789012345678901234567890123456780"},
        {"1e+00000000000000000000000000000000001", "10"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cleanup(buf_release) struct buf out;
        struct err err = {""};
        buf_init(&out, 1000);
        check_int(number_canonical(span_text(cases[i].text), &out, &err), 0);
        check_text(buf_span(&out), cases[i].want);
    }
}

static void test_canonical_limits(void)
{
    static const struct {
        const char *text;
        int error;
    } cases[] = {
        {"9.99e125", 0},
        {"9.9999999999999999999999999999999999999e125", 0},
        {"1e126", -ERANGE},
        {"-1e126", -ERANGE},
        {"10e125", -ERANGE},
        {"1e-130", 0},
        {"9e-131", -ERANGE},
        {"0.1e-130", -ERANGE},
        {"-1e-131", -ERANGE},
        {"1e999999999999999999999999", -ERANGE},
        {"1e-999999999999999999999999", -ERANGE},
        {"123456789012345678901234567890123456789", -ERANGE},
        {"1.23456789012345678901234567890123456789", -ERANGE},
        {"", -EINVAL},
        {"-", -EINVAL},
        {".", -EINVAL},
        {"e5", -EINVAL},
        {"1e", -EINVAL},
        {"1e+", -EINVAL},
        {"NaN", -EINVAL},
        {"Infinity", -EINVAL},
        {" 1", -EINVAL},
        {"1 ", -EINVAL},
        {"0x10", -EINVAL},
        {"1_000", -EINVAL},
        {"+-1", -EINVAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cleanup(buf_release) struct buf out;
        struct err err = {""};
        buf_init(&out, 1000);
        int error = number_canonical(span_text(cases[i].text), &out, &err);
        if (error != cases[i].error || (error && err.text[0] == '\0') || (error && out.len))
            check_fail("%s gives %d: %s", cases[i].text, error, err.text);
    }
    cleanup(buf_release) struct buf out;
    buf_init(&out, 1000);
    check_int(number_canonical(span_text("-1e-130"), &out, NULL), 0);
    check_int(out.len, 133);
    check_int(number_canonical(span_of("1\0", 2), &out, NULL), -EINVAL);
}

static void test_int64(void)
{
    static const struct {
        const char *text;
        bool fits;
        int64_t value;
    } cases[] = {
        {"0", true, 0},
        {"-0.0", true, 0},
        {"5.0", true, 5},
        {"1e3", true, 1000},
        {"-12e1", true, -120},
        {"1500e-2", true, 15},
        {"0e99999999999", true, 0},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"-9223372036854775809", false, 0},
        {"1e18", true, 1000000000000000000},
        {"1e19", false, 0},
        {"1e999999999999999999999", false, 0},
        {"1e-1", false, 0},
        {"1.5", false, 0},
        {"007", false, 0},
        {"", false, 0},
        {"x", false, 0},
        {"1e-999999999999999999999", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t value = 77;
        if (number_to_int64(span_text(cases[i].text), &value) != cases[i].fits ||
            value != (cases[i].fits ? cases[i].value : 77))
            check_fail("%s gives %lld", cases[i].text, (long long)value);
    }
}

static int sign(int order)
{
    return (order > 0) - (order < 0);
}

static void check_order(const char *a, const char *b, int want)
{
    int got = sign(number_compare(span_text(a), span_text(b)));
    int back = sign(number_compare(span_text(b), span_text(a)));
    if (got != want || back != -want)
        check_fail("%s and %s give %d and %d, not %d", a, b, got, back, want);
}

static void test_compare(void)
{
    check_order("0", "-0", 0);
    check_order("0", "0.000e5", 0);
    check_order("1", "1.0", 0);
    check_order("10", "1e1", 0);
    check_order("0.1", "1e-1", 0);
    check_order("100e-2", "1", 0);
    check_order("12345678901234567890123456789012345678901",
                "12345678901234567890123456789012345678902", -1);
    check_order("9", "10", -1);
    check_order("-9", "-10", 1);
    check_order("-1", "1", -1);
    check_order("0", "1e-400", -1);
    check_order("0", "-1e-400", 1);
    check_order("0.5", "0.51", -1);
    check_order("-0.5", "-0.51", 1);
    check_order("1e400", "1e401", -1);
    check_order("1e-400", "1e-401", 1);
    check_order("1e99999999999999999999999999", "1e99999999999999999999999998", 1);
    check_order("10e99999999999999999999999998", "1e99999999999999999999999999", 0);
    check_order("1e-99999999999999999999999999", "1e99999999999999999999999999", -1);
    check_order("1e000000000000000000000000002", "100", 0);
    check_order("99999e99999999999999999999", "1e100000000000000000000", 1);
}

/* A random number as DynamoDB keeps them, in some spelling. */
static void random_number(char text[200])
{
    size_t len = 0;
    int digits = 1 + rand() % 38, point = rand() % 39;
    if (rand() % 2)
        text[len++] = '-';
    if (rand() % 20 == 0)
        digits = 1;
    text[len++] = (char)('1' + rand() % 9);
    for (int i = 1; i < digits; i++) {
        if (i == point)
            text[len++] = '.';
        text[len++] = (char)('0' + (rand() % 3 ? rand() % 10 : 0));
    }
    text[len] = '\0';
    if (rand() % 2)
        sprintf(text + len, "e%d", rand() % 180 - 100);
}

/* A number in canonical and in order form. */
struct forms {
    struct buf canonical, order;
};

static void forms_release(struct forms *forms)
{
    buf_release(&forms->canonical);
    buf_release(&forms->order);
}

/* False for a number out of range. */
static bool forms_make(const char *text, struct forms *forms)
{
    buf_init(&forms->canonical, 1000);
    buf_init(&forms->order, 1000);
    if (number_canonical(span_text(text), &forms->canonical, NULL) != 0)
        return false;
    number_to_order(buf_span(&forms->canonical), &forms->order);
    return true;
}

static void check_forms(const char *a, const char *b)
{
    cleanup(forms_release) struct forms left;
    cleanup(forms_release) struct forms right;
    bool good = forms_make(a, &left);
    if (!forms_make(b, &right) || !good)
        return;
    int want = sign(number_compare(span_text(a), span_text(b)));
    int got = sign(span_compare(buf_span(&left.order), buf_span(&right.order)));
    size_t common = left.order.len < right.order.len ? left.order.len : right.order.len;
    int bytes = sign(memcmp(left.order.data, right.order.data, common));
    if (got != want || bytes != want)
        check_fail("%s and %s are ordered %d and %d, not %d", a, b, got, bytes, want);
    cleanup(buf_release) struct buf back;
    buf_init(&back, 1000);
    check_int(number_from_order(buf_span(&left.order), &back), 0);
    check_span(buf_span(&back), buf_span(&left.canonical));
}

static void test_order_form(void)
{
    static const char *const edges[] = {"0",
                                        "1",
                                        "-1",
                                        "1e-130",
                                        "-1e-130",
                                        "9.99e125",
                                        "-9.99e125",
                                        "0.5",
                                        "0.51",
                                        "0.501",
                                        "-0.5",
                                        "-0.51",
                                        "-0.501",
                                        "99",
                                        "100",
                                        "101",
                                        "1e125",
                                        "-1e125",
                                        "0.1",
                                        "0.01",
                                        "10",
                                        "12",
                                        "120",
                                        "1.2",
                                        "12345",
                                        "99999999999999999999999999999999999999",
                                        "-99999999999999999999999999999999999999"};
    size_t count = sizeof edges / sizeof edges[0];
    for (size_t i = 0; i < count * count; i++)
        check_forms(edges[i / count], edges[i % count]);
    srand(12);
    for (int round = 0; round < 20000; round++) {
        char a[200], b[200];
        random_number(a);
        random_number(b);
        check_forms(a, b);
        check_forms(a, a);
    }
}

static void test_order_form_refused(void)
{
    static const struct span bad[] = {
        {"", 0},
        {"\x80\x00", 2},
        {"\xc0", 1},
        {"\xc0\x80\x00", 3},
        {"\xc0\x80\x00\x00", 4},
        {"\xc0\x80\x66\x00", 4},
        {"\xc0\x80\x02\xff", 4},
        {"\xc0\x80\x0b\x01\x00", 5},
        {"\xc0\x80\x02\x00", 4},
        {"\x41\x80\x0b\x00", 4},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cleanup(buf_release) struct buf out;
        buf_init(&out, 1000);
        if (number_from_order(bad[i], &out) != -EINVAL || out.len)
            check_fail("case %zu is taken", i);
    }
}

static void check_sum(const char *a, const char *b, const char *want)
{
    cleanup(buf_release) struct buf sum;
    struct err err = {""};
    buf_init(&sum, 1000);
    int error = number_add(span_text(a), span_text(b), &sum, &err);
    check_int(error, want ? 0 : -ERANGE);
    check((error == 0) == (err.text[0] == '\0'));
    check_text(buf_span(&sum), want ? want : "");
    buf_clear(&sum);
    check_int(number_add(span_text(b), span_text(a), &sum, NULL), error);
    check_text(buf_span(&sum), want ? want : "");
}

#define NINES_38 "99999999999999999999999999999999999999"

static void test_add(void)
{
    check_sum("1", "1", "2");
    check_sum("1.5", "1", "2.5");
    check_sum("0.1", "0.2", "0.3");
    check_sum("5", "-10", "-5");
    check_sum("-9", "-9", "-18");
    check_sum("-0.09", "-0.09", "-0.18");
    check_sum("1", "-1", "0");
    check_sum("-0", "0e5", "0");
    check_sum("99", "-90", "9");
    check_sum("999", "1", "1000");
    check_sum("-1000", "1", "-999");
    check_sum("1e3", "+1.50", "1001.5");
    check_sum("9007199254740992", "1", "9007199254740993");
    check_sum("9223372036854775807", "1", "9223372036854775808");
    check_sum("12345678901234567890123456789012345678", "1",
              "12345678901234567890123456789012345679");
    check_sum("0.00000000000000000000000000000000000001", "0.1",
              "0.10000000000000000000000000000000000001");
    check_sum("1e-130", "-1e-130", "0");
    check_sum("1e-130", "1e-130", "0." ZEROS_129 "2");
}

static void test_add_limits(void)
{
    /* 38 digits, a carry that leaves one, and what would have to be rounded. */
    check_sum(NINES_38, "1", "100000000000000000000000000000000000000");
    check_sum(NINES_38, "2", NULL);
    check_sum(NINES_38, "0.1", NULL);
    check_sum("1e38", "-1", NINES_38);
    check_sum("1e38", "1", NULL);
    check_sum("1e-130", "1", NULL);
    check_sum("9.9e125", "9e123", "999" ZEROS_123);
    check_sum("9.9e125", "1e124", NULL);
    check_sum("-9.9e125", "-1e124", NULL);
    check_sum("1.1e-129", "-1e-129", "0." ZEROS_129 "1");
    check_sum("1.01e-129", "-1e-129", NULL);
    struct buf out;
    struct err err = {""};
    buf_init(&out, 100);
    check_int(number_add(span_text("1x"), span_text("1"), &out, &err), -EINVAL);
    check_text(span_text(err.text), "\"1x\" is not a number");
    check_int(number_add(span_text("1"), span_text(NINES_38 "9"), &out, NULL), -ERANGE);
    check_int(number_add(span_text("1e126"), span_text("1"), &out, NULL), -ERANGE);
    check_int(out.len, 0);
    buf_release(&out);
}

/* Reads "A B SUM", where SUM is - for one out of range, and reckons with Python's decimals. */
static const char python[] =
    "python3 -c '\n"
    "import decimal, sys\n"
    "decimal.getcontext().prec = 600\n"
    "for line in sys.stdin:\n"
    "    a, b, got = line.split()\n"
    "    sum = (decimal.Decimal(a) + decimal.Decimal(b)).normalize()\n"
    "    fits = not sum or (len(sum.as_tuple().digits) <= 38 and -130 <= sum.adjusted() <= 125)\n"
    "    want = (format(sum, \"f\") if sum else \"0\") if fits else \"-\"\n"
    "    assert got == want, (a, b, got, want)\n"
    "'";

static void test_add_like_python(void)
{
    FILE *pipe = popen(python, "w");
    size_t sums = 0;
    srand(7);
    for (int i = 0; pipe && i < 50000; i++) {
        cleanup(buf_release) struct buf sum;
        char a[200], b[200];
        buf_init(&sum, 1000);
        random_number(a);
        random_number(b);
        if (rand() % 8 == 0) /* nearly the same size: digits go away */
            sprintf(b, "%s%s", a[0] == '-' ? "" : "-", a[0] == '-' ? a + 1 : a);
        else if (rand() % 2)
            snprintf(b, sizeof b, "%s%d.%d", rand() % 2 ? "-" : "", rand(), rand() % 1000);
        int error = number_add(span_text(a), span_text(b), &sum, NULL);
        check(error == 0 || error == -ERANGE);
        sums += error == 0;
        fprintf(pipe, "%s %s %.*s\n", a, b, error ? 1 : (int)sum.len, error ? "-" : sum.data);
    }
    check(pipe && pclose(pipe) == 0);
    check(sums > 10000);
}

CHECK_MAIN(CHECK_TEST(test_grammar), CHECK_TEST(test_canonical), CHECK_TEST(test_canonical_limits),
           CHECK_TEST(test_int64), CHECK_TEST(test_compare), CHECK_TEST(test_order_form),
           CHECK_TEST(test_order_form_refused), CHECK_TEST(test_add), CHECK_TEST(test_add_limits),
           CHECK_TEST(test_add_like_python))
