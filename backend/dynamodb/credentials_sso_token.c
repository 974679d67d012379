/* SPDX-License-Identifier: MIT */
/*
 * The token of who is logged in to SSO. "aws sso login" puts it into a file; where the profile has
 * an sso-session, the file holds what it takes to renew the token, too, for as long as the login is
 * good. All programs of the user share the file: a renewed token goes back into it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "backend/dynamodb/provider.h"
#include "backend/dynamodb/secret.h"
#include "base/json.h"
#include "base/text.h"

#define RENEW_S (15 * 60)
#define TRIES 3
#define PAUSE_MS 100

/* Text members of the file, and of the answer that renews it. */
enum member { TOKEN, EXPIRES, REFRESH, CLIENT, SECRET, REGISTERED, MEMBERS };
static const char *const member_names[MEMBERS] = {"accessToken",  "expiresAt",
                                                  "refreshToken", "clientId",
                                                  "clientSecret", "registrationExpiresAt"};

struct login {
    char *members[MEMBERS]; /* NULL: absent */
    int64_t expires_s;
};

static void login_release(struct login *login)
{
    for (int i = 0; i < MEMBERS; i++) {
        secret_free(login->members[i]);
        login->members[i] = NULL;
    }
}

/* ---- the file ---- */

static char *login_path(const struct sso *sso)
{
    char hex[41];
    cleanup_free char *folder = path_expand("~/.aws/sso/cache");
    sha1_hex(span_text(sso->session ? sso->session : sso->start_url), hex);
    return folder ? text_format("%s/%s.json", folder, hex) : NULL;
}

static int read_login(const char *path, struct login *login, struct err *err)
{
    cleanup(secret_buf_release) struct buf text = {0};
    struct err reason = {""};
    int r = file_read(path, SECRET_BYTES_MAX, &text, &reason);
    if (r == -ENOENT)
        return err_set(err, EACCES, "nobody is logged in: run aws sso login");
    if (r == 0)
        r = json_check(buf_span(&text), NULL, &reason);
    if (r < 0)
        return err_set(err, r == -ENOMEM ? ENOMEM : EACCES, "%s: %s", path, err_text(&reason, r));
    for (int i = 0; i < MEMBERS && r == 0; i++)
        r = member_text(buf_span(&text), member_names[i], &login->members[i], &reason);
    if (r == -ENOMEM)
        return err_set(err, ENOMEM, "no memory");
    if (r == 0 && login->members[TOKEN] && login->members[EXPIRES] &&
        time_parse(span_text(login->members[EXPIRES]), &login->expires_s))
        return 0;
    return err_set(err, EACCES, "%s: has no accessToken or no expiresAt", path);
}

static void add_member(struct buf *out, const char *name, const char *value)
{
    buf_add_text(out, out->len > 1 ? ", " : "");
    json_add_string(out, span_text(name));
    buf_add_text(out, ": ");
    json_add_string(out, span_text(value));
}

/* Puts TEXT in the place of the file, all at once, readable to its owner only. */
static int replace_file(const char *path, struct span text)
{
    cleanup_free char *beside = text_format("%s.XXXXXX", path);
    if (!beside)
        return -ENOMEM;
    int fd = mkostemp(beside, O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t written = write(fd, text.data, text.len);
    bool good = written == (ssize_t)text.len && fsync(fd) == 0;
    good = close(fd) == 0 && good;
    if (good && rename(beside, path) == 0)
        return 0;
    unlink(beside);
    return -EIO;
}

/* Where this fails, the token is good all the same; the next to need one renews it again. */
static void write_login(const struct sso *sso, const char *path, const struct login *login)
{
    cleanup(secret_buf_release) struct buf text = {0};
    if (secret_buf_init(&text, SECRET_BYTES_MAX) < 0)
        return;
    buf_add_char(&text, '{');
    add_member(&text, "startUrl", sso->start_url);
    add_member(&text, "region", sso->region);
    for (int i = 0; i < MEMBERS; i++)
        if (login->members[i])
            add_member(&text, member_names[i], login->members[i]);
    buf_add_text(&text, "}");
    if (!buf_error(&text))
        replace_file(path, buf_span(&text));
}

/* ---- renewing ---- */

static bool can_renew(const struct sso *sso, const struct login *login, int64_t now_s)
{
    int64_t registered_s;
    return sso->session && login->members[REFRESH] && login->members[CLIENT] &&
           login->members[SECRET] && login->members[REGISTERED] &&
           time_parse(span_text(login->members[REGISTERED]), &registered_s) && registered_s > now_s;
}

/* SECONDS from now, as text; NULL for what is no such time. */
static char *time_after(int64_t now_s, double seconds)
{
    char text[32];
    struct tm parts;
    if (!(seconds >= 1 && seconds < 1e9))
        return NULL;
    time_t when = (time_t)(now_s + (int64_t)seconds);
    if (!gmtime_r(&when, &parts) || !strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts))
        return NULL;
    return strdup(text);
}

/* Puts a member of the answer in the place of what was there; an absent one leaves it. */
static void take_member(struct login *login, enum member member, char *value)
{
    if (!value)
        return;
    secret_free(login->members[member]);
    login->members[member] = value;
}

static bool read_renewed(struct span answer, int64_t now_s, struct login *login)
{
    char *token = NULL, *refresh = NULL, *expires = NULL;
    struct span seconds;
    bool good = json_check(answer, NULL, NULL) == 0 &&
                member_text(answer, member_names[TOKEN], &token, NULL) == 0 && token &&
                member_text(answer, member_names[REFRESH], &refresh, NULL) == 0 &&
                member_raw(answer, "expiresIn", &seconds, NULL) > 0 &&
                (expires = time_after(now_s, strtod(seconds.data, NULL)));
    if (!good) {
        secret_free(token);
        secret_free(refresh);
        return false;
    }
    take_member(login, TOKEN, token);
    take_member(login, REFRESH, refresh);
    take_member(login, EXPIRES, expires);
    time_parse(span_text(expires), &login->expires_s);
    return true;
}

/* False where it is refused, or fails: the token that is there may still do. */
static bool renew(const struct sso *sso, int64_t now_s, struct login *login)
{
    static const char *const headers[] = {"Content-Type: application/json", NULL};
    cleanup(secret_response_release) struct http_response response;
    cleanup(secret_buf_release) struct buf body = {0};
    cleanup_free char *url = text_format("%s/token", sso->oidc_endpoint);
    http_response_init(&response);
    if (!url || secret_buf_init(&body, SECRET_BYTES_MAX) < 0)
        return false;
    buf_add_char(&body, '{');
    add_member(&body, "grantType", "refresh_token");
    add_member(&body, "clientId", login->members[CLIENT]);
    add_member(&body, "clientSecret", login->members[SECRET]);
    add_member(&body, "refreshToken", login->members[REFRESH]);
    buf_add_char(&body, '}');
    const struct http_request request = {
        .method = "POST", .url = url, .headers = headers, .body = buf_span(&body)};
    return !buf_error(&body) &&
           provider_ask(sso->http, &request, TRIES, PAUSE_MS, &response, NULL) == 0 &&
           response.status == 200 && read_renewed(buf_span(&response.body), now_s, login);
}

int sso_token(const struct sso *sso, char **ret_token, struct err *err)
{
    cleanup(login_release) struct login login = {0};
    cleanup_free char *path = login_path(sso);
    int64_t now_s = sso->now_s();
    if (!path)
        return err_set(err, ENOMEM, "no memory");
    int r = read_login(path, &login, err);
    if (r < 0)
        return r;
    if (login.expires_s - now_s < RENEW_S && can_renew(sso, &login, now_s) &&
        renew(sso, now_s, &login))
        write_login(sso, path, &login);
    if (login.expires_s <= now_s)
        return err_set(err, EACCES, "the login has expired: run aws sso login");
    *ret_token = login.members[TOKEN];
    login.members[TOKEN] = NULL;
    return 0;
}
