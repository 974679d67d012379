/* SPDX-License-Identifier: MIT */
#include "base/function.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/span.h"
#include "base/text.h"

#define TEXT_BYTES_MAX (64u << 10)
#define HOST_MAX 256
#define PROGRAM_PREFIX "exec:"
#define BLANKS " \t"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

void function_release(struct function *function)
{
    for (char **word = function->arguments; word && *word; word++)
        free(*word);
    free(function->arguments);
    free(function->url);
    free(function->shown);
    *function = (struct function){.kind = FUNCTION_NONE};
}

bool function_equal(const struct function *a, const struct function *b)
{
    char **left = a->arguments, **right = b->arguments;

    if (a->kind != b->kind || !text_equal(a->url, b->url) || !left != !right)
        return false;
    for (; left && *left && *right && strcmp(*left, *right) == 0; left++)
        right++;
    return !left || (!*left && !*right);
}

/* PREFIX and the first LEN bytes of TEXT, in their visible form and as far as they are shown; NULL:
 * no memory. */
static char *make_shown(const char *prefix, const char *text, size_t len)
{
    cleanup(buf_release) struct buf shown;
    size_t most = FUNCTION_SHOWN_MAX - strlen("...");

    buf_init(&shown, 4 * TEXT_BYTES_MAX);
    buf_add_text(&shown, prefix);
    text_visible(span_of(text, len), &shown);
    if (shown.len > FUNCTION_SHOWN_MAX) {
        while (((unsigned char)shown.data[most] & 0xC0) == 0x80) /* within a character */
            most--;
        buf_resize(&shown, most);
        buf_add_text(&shown, "...");
    }
    return buf_take(&shown, NULL);
}

/* ---- URLs ---- */

/* Of "HOST:PORT" or "[ADDRESS]:PORT", how long the host is; 0: there is none. */
static size_t host_length(const char *authority, size_t len)
{
    bool bracketed = len > 0 && authority[0] == '[';
    const char *end = len ? memchr(authority, bracketed ? ']' : ':', len) : NULL;

    if (bracketed)
        return end ? (size_t)(end - authority) + 1 : 0;
    return end ? (size_t)(end - authority) : len;
}

/* ":PORT", or nothing. */
static bool is_port(const char *text, size_t len)
{
    if (len == 0)
        return true;
    if (text[0] != ':' || len < 2 || len > 6 || strspn(text + 1, DIGITS) < len - 1)
        return false;
    long port = strtol(text + 1, NULL, 10);
    return port >= 1 && port <= 65535;
}

/* Of HOST: an address, "[ADDRESS]" or a name. */
static bool is_host(char *host)
{
    struct in6_addr address;
    size_t len = strlen(host);
    bool good;

    if (host[0] != '[')
        return host[0] && strspn(host, LETTERS DIGITS "-._") == len;
    host[len - 1] = '\0';
    good = inet_pton(AF_INET6, host + 1, &address) == 1;
    host[len - 1] = ']';
    return good;
}

static bool is_near_ipv4(const char *host)
{
    struct in_addr address;

    if (inet_pton(AF_INET, host, &address) != 1)
        return false;
    uint32_t number = ntohl(address.s_addr);
    return number >> 24 == 127 || number >> 24 == 10 || number >> 20 == 0xac1 ||
           number >> 16 == 0xc0a8;
}

static bool is_near_ipv6(char *host)
{
    struct in6_addr address;
    size_t len = strlen(host);

    host[len - 1] = '\0';
    bool read = inet_pton(AF_INET6, host + 1, &address) == 1;
    host[len - 1] = ']';
    return read && (IN6_IS_ADDR_LOOPBACK(&address) || (address.s6_addr[0] & 0xfe) == 0xfc);
}

/* This machine, private addresses, and names of one word, which no public name server has. One that
 * begins with a digit may be a number that stands for an address. */
static bool is_near(char *host)
{
    static const char tail[] = ".localhost";
    size_t len = strlen(host), tail_len = sizeof tail - 1;

    if (host[0] == '[')
        return is_near_ipv6(host);
    if (is_near_ipv4(host) || (len > tail_len && strcasecmp(host + len - tail_len, tail) == 0))
        return true;
    return !strchr(host, '.') && strspn(host, LETTERS) > 0;
}

static int check_host(const char *authority, size_t len, bool secure, struct err *err)
{
    size_t host_len = host_length(authority, len);
    char host[HOST_MAX];

    if (memchr(authority, '@', len))
        return err_set(err, EINVAL,
                       "a user in the URL; requests are signed with function_secret_file");
    if (host_len == 0 || host_len >= sizeof host)
        return err_set(err, EINVAL, "the URL has no host");
    memcpy(host, authority, host_len);
    host[host_len] = '\0';
    if (!is_host(host) || !is_port(authority + host_len, len - host_len))
        return err_set(err, EINVAL, "what the URL names is no host, and no HOST:PORT");
    if (!secure && !is_near(host))
        return err_set(err, EINVAL,
                       "http:// to %s, which is not this machine, a private address or a name of "
                       "one word: use https://",
                       host);
    return 0;
}

static int parse_url(const char *text, bool secure, struct function *function, struct err *err)
{
    const char *authority = strchr(text, '/') + 2;
    size_t authority_len = strcspn(authority, "/?#");

    for (const char *at = text; *at; at++)
        if (*at <= ' ' || *at > '~' || *at == '\\' || *at == '#')
            return err_set(err, EINVAL,
                           "the URL holds a blank, \"#\", \"\\\" or what is not ASCII; write %%XX");
    int code = check_host(authority, authority_len, secure, err);
    if (code < 0)
        return code;
    function->kind = FUNCTION_HTTP;
    function->url = strdup(text);
    function->shown = make_shown("", text, strcspn(text, "?"));
    return function->url && function->shown ? 0 : -ENOMEM;
}

/* ---- programs ---- */

/* Appends one word, and a NUL. Returns what follows it; NULL: a quote is not closed. */
static const char *take_word(const char *at, struct buf *words)
{
    char quote = '\0';

    for (; *at && (quote || !strchr(BLANKS, *at)); at++) {
        if (quote ? *at == quote : *at == '"' || *at == '\'')
            quote = quote ? '\0' : *at;
        else if (quote == '"' && *at == '\\' && (at[1] == '"' || at[1] == '\\'))
            buf_add_char(words, *++at);
        else
            buf_add_char(words, *at);
    }
    buf_add_char(words, '\0');
    return quote ? NULL : at;
}

/* The COUNT texts in WORDS, each with its NUL, as an array. */
static char **words_array(const struct buf *words, size_t count)
{
    char **array = calloc(count + 1, sizeof *array);
    const char *at = words->data;

    for (size_t i = 0; array && i < count; i++, at += strlen(at) + 1) {
        array[i] = strdup(at);
        if (!array[i])
            return array; /* short: the caller sees it */
    }
    return array;
}

static int parse_program(const char *text, struct function *function, struct err *err)
{
    cleanup(buf_release) struct buf words;
    size_t count = 0;

    buf_init(&words, TEXT_BYTES_MAX);
    for (text += strspn(text, BLANKS); *text; text += strspn(text, BLANKS), count++) {
        text = take_word(text, &words);
        if (!text)
            return err_set(err, EINVAL, "a quote is not closed");
    }
    if (buf_error(&words))
        return buf_error(&words);
    if (count == 0 || words.data[0] != '/')
        return err_set(err, EINVAL, "exec: wants the whole path of a program: exec:/PATH/PROGRAM");
    function->kind = FUNCTION_PROGRAM;
    function->arguments = words_array(&words, count);
    if (!function->arguments || !function->arguments[count - 1])
        return -ENOMEM;
    function->shown =
        make_shown(PROGRAM_PREFIX, function->arguments[0], strlen(function->arguments[0]));
    return function->shown ? 0 : -ENOMEM;
}

/* ---- both ---- */

int function_parse(const char *text, struct function *ret_function, struct err *err)
{
    struct function function = {.kind = FUNCTION_NONE};
    bool secure = strncasecmp(text, "https://", 8) == 0;
    int code;

    if (secure || strncasecmp(text, "http://", 7) == 0)
        code = parse_url(text, secure, &function, err);
    else if (strncmp(text, PROGRAM_PREFIX, strlen(PROGRAM_PREFIX)) == 0)
        code = parse_program(text + strlen(PROGRAM_PREFIX), &function, err);
    else
        code = err_set(err, EINVAL, "a function is https://..., http://... or exec:/PATH/PROGRAM");
    if (code < 0) {
        function_release(&function);
        return code;
    }
    *ret_function = function;
    return 0;
}
