/* SPDX-License-Identifier: MIT */
/*
 * The error convention of the whole project: functions return 0 or a negative errno, and put a
 * sentence for people into the caller's `struct err`. The first message wins, because the place
 * that failed knows most; outer layers add no second sentence. Library layers never print.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#define ERR_TEXT_MAX 512

struct err {
    char text[ERR_TEXT_MAX]; /* "" until something failed; UTF-8 without control bytes */
};

/*
 * Sets the message unless one is there, and returns -CODE (CODE is a positive errno), so that a
 * function can end in `return err_set(err, EINVAL, "...")`. ERR may be NULL. Bytes that a terminal
 * could act on (control bytes, invalid UTF-8) are shown as \xNN: messages quote names from outside.
 */
int err_set(struct err *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Forgets the message, so that the struct can serve another call. */
void err_clear(struct err *err);

/* The message, or strerror(-CODE) where there is none; CODE is a negative errno. */
const char *err_text(const struct err *err, int code);

#endif
