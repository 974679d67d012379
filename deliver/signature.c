/* SPDX-License-Identifier: MIT */
#include "deliver/signature.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"

#define MESSAGE_BYTES_MAX (SIZE_MAX / 2)

struct secret {
    char bytes[SECRET_BYTES_MAX + 1]; /* one more, to see that there is more */
    size_t len;
};

static void secret_wipe(struct secret *secret)
{
    explicit_bzero(secret, sizeof *secret);
}

static int check_file(int fd, const char *path, struct err *err)
{
    struct stat file;

    if (fstat(fd, &file) < 0)
        return err_set(err, errno, "secret %s: %s", path, strerror(errno));
    if (!S_ISREG(file.st_mode))
        return err_set(err, EINVAL, "secret %s: no regular file", path);
    if (file.st_mode & (S_IRWXG | S_IRWXO))
        return err_set(err, EACCES,
                       "secret %s: mode %04o lets others in; only its owner may read it (chmod "
                       "600)",
                       path, file.st_mode & 07777u);
    return 0;
}

static int read_bytes(int fd, const char *path, struct secret *secret, struct err *err)
{
    ssize_t got = 1;

    while (got > 0 && secret->len < sizeof secret->bytes) {
        got = read(fd, secret->bytes + secret->len, sizeof secret->bytes - secret->len);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            secret->len += (size_t)got;
    }
    if (got < 0)
        return err_set(err, errno, "secret %s: %s", path, strerror(errno));
    if (secret->len > SECRET_BYTES_MAX)
        return err_set(err, EINVAL, "secret %s: larger than %d bytes", path, SECRET_BYTES_MAX);
    while (secret->len && memchr("\r\n", secret->bytes[secret->len - 1], 2))
        secret->len--;
    return secret->len ? 0 : err_set(err, EINVAL, "secret %s: empty", path);
}

static int read_secret(const char *path, struct secret *secret, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    if (fd < 0)
        return err_set(err, errno, "secret %s: %s", path, strerror(errno));
    int code = check_file(fd, path, err);
    if (code == 0)
        code = read_bytes(fd, path, secret, err);
    close(fd);
    return code;
}

static void add_header(int64_t time_s, const unsigned char mac[32], struct buf *out)
{
    buf_addf(out, "Itemfs-Signature: t=%" PRId64 ",v1=", time_s);
    for (int i = 0; i < 32; i++)
        buf_addf(out, "%02x", mac[i]);
}

int signature_header(const char *path, int64_t time_s, struct span body, struct buf *out,
                     struct err *err)
{
    cleanup(secret_wipe) struct secret secret = {.len = 0};
    cleanup(buf_release) struct buf message;
    unsigned char mac[32];

    buf_init(&message, MESSAGE_BYTES_MAX);
    buf_addf(&message, "%" PRId64 ".", time_s);
    buf_add_span(&message, body);
    if (buf_error(&message))
        return err_set(err, ENOMEM, "no memory to sign a request");
    int code = read_secret(path, &secret, err);
    if (code < 0)
        return code;
    hmac_sha256(span_of(secret.bytes, secret.len), buf_span(&message), mac);
    add_header(time_s, mac, out);
    return buf_error(out);
}
