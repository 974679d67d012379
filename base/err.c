/* SPDX-License-Identifier: MIT */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* Copies TEXT into the message in its visible form; what does not fit is cut and marked. No heap:
 * a message must be possible when memory ran out. */
static void err_fill(struct err *err, struct span text, bool cut)
{
    static const char mark[] = "...";
    size_t room = sizeof err->text - sizeof mark;
    size_t len = 0;
    while (text.len > 0) {
        char shown[TEXT_VISIBLE_MAX];
        size_t shown_len;
        size_t used = text_visible_step(text, shown, &shown_len);
        if (len + shown_len > room) {
            cut = true;
            break;
        }
        memcpy(err->text + len, shown, shown_len);
        len += shown_len;
        text = span_of(text.data + used, text.len - used);
    }
    memcpy(err->text + len, mark, cut ? sizeof mark : 0);
    err->text[cut ? len + sizeof mark - 1 : len] = '\0';
}

int err_set(struct err *err, int code, const char *format, ...)
{
    if (!err || err->text[0] != '\0')
        return -code;
    char text[ERR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    int written = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (written < 0)
        return -code;
    size_t len = (size_t)written < sizeof text ? (size_t)written : sizeof text - 1;
    /* A character cut in two by vsnprintf would be shown as bytes: drop the piece. */
    bool cut = (size_t)written > len;
    while (cut && len > 0 && ((unsigned char)text[len - 1] & 0xC0) == 0x80)
        len--;
    if (cut && len > 0 && (unsigned char)text[len - 1] >= 0xC0)
        len--;
    err_fill(err, span_of(text, len), cut);
    return -code;
}

void err_clear(struct err *err)
{
    if (err)
        err->text[0] = '\0';
}

const char *err_text(const struct err *err, int code)
{
    return err && err->text[0] != '\0' ? err->text : strerror(-code);
}
