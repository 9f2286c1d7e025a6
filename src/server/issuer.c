#include "server/issuer.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/jwks.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <uv.h>

#define REFUSAL_BYTES_MAX 120 /* of the issuer's own words */

void issuer_form_add(struct buf *buf, const char *name, struct str value)
{
    if (buf->len && buf->p[buf->len - 1] != '?')
        buf_addc(buf, '&');
    buf_addf(buf, "%s=", name);
    buf_add_percent(buf, value);
}

/* ---- in the thread ---- */

static size_t on_bytes(char *bytes, size_t size, size_t count, void *user)
{
    struct issuer_look *look = user;

    if (look->body.len + size * count > ISSUER_BYTES_MAX)
        return 0;
    buf_add(&look->body, (struct str){bytes, size * count});
    return size * count;
}

static const char *percent(struct issuer_look *look, struct str text)
{
    _cleanup_(buf_done) struct buf buf = {0};

    buf_add_percent(&buf, text);
    return str_dup(&look->arena, buf_str(&buf)).p;
}

/* What a request has beyond its address: the form, and who sends it. */
static void set_form(struct issuer_look *look, CURL *curl, bool basic)
{
    _cleanup_(buf_done) struct buf form = {0};

    buf_add(&form, look->form);
    if (look->client_secret.len && basic) {
        curl_easy_setopt(curl, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
        curl_easy_setopt(curl, CURLOPT_USERNAME, percent(look, look->client_id));
        curl_easy_setopt(curl, CURLOPT_PASSWORD, percent(look, look->client_secret));
    } else {
        issuer_form_add(&form, "client_id", look->client_id);
        if (look->client_secret.len)
            issuer_form_add(&form, "client_secret", look->client_secret);
    }
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)form.len);
    curl_easy_setopt(curl, CURLOPT_COPYPOSTFIELDS, form.p);
}

enum ask {
    ASK_GET,
    ASK_TOKEN, /* the client's secret goes into the form */
    ASK_TOKEN_BASIC,
};

/* The status; 0: there was no answer, and err says why. */
static long look_ask(struct issuer_look *look, const char *url, enum ask ask)
{
    char error[CURL_ERROR_SIZE] = "";
    CURL *curl = curl_easy_init();
    long status = 0;

    buf_clear(&look->body);
    curl_easy_setopt(curl, CURLOPT_URL, url);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https");
#else
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS, (long)CURLPROTO_HTTPS);
#endif
    curl_easy_setopt(curl, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)ISSUER_TIMEOUT_MS);
    if (look->ca_file.len)
        curl_easy_setopt(curl, CURLOPT_CAINFO, look->ca_file.p);
    if (ask != ASK_GET)
        set_form(look, curl, ask == ASK_TOKEN_BASIC);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, look);
    CURLcode code = curl ? curl_easy_perform(curl) : CURLE_OUT_OF_MEMORY;
    if (code == CURLE_OK)
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(curl);
    if (code != CURLE_OK)
        (void)err_set(&look->err, -EIO, "%.120s: %s", url,
                      error[0] ? error : curl_easy_strerror(code));
    return status;
}

static bool look_get(struct issuer_look *look, const char *url)
{
    long status = look_ask(look, url, ASK_GET);

    if (status && status != 200)
        (void)err_set(&look->err, -EIO, "%.120s: it did not answer with HTTP status 200", url);
    return status == 200;
}

static bool list_has(const struct json *list, const char *word)
{
    JSON_FOREACH(list, each)
        if (str_is(json_str(each), word))
            return true;
    return false;
}

/* Claims come by scopes, and issuers refuse those that they do not have. */
static struct str scopes_of(struct arena *arena, const struct json *found)
{
    static const char *const wanted[] = {"profile", "email", "groups"};
    const struct json *offered = json_get(found, "scopes_supported");
    struct str scopes = STR("openid");

    for (size_t i = 0; i < COUNT_OF(wanted); i++)
        if (list_has(offered, wanted[i]))
            scopes = str_printf(arena, STR_FMT " %s", STR_ARG(scopes), wanted[i]);
    return scopes;
}

/* An address of https that a header can carry. */
static struct str https_of(struct issuer_look *look, const struct json *found, const char *name)
{
    struct str url = json_str(json_get(found, name));

    for (size_t i = 0; i < url.len; i++)
        if (url.p[i] <= ' ' || url.p[i] > '~')
            return STR_NONE;
    return str_starts(url, STR("https://")) && url.len < ISSUER_URL_BYTES
               ? str_dup(&look->arena, url)
               : STR_NONE;
}

static bool look_exchange(struct issuer_look *look, const struct json *found)
{
    const struct json *ways = json_get(found, "token_endpoint_auth_methods_supported");
    struct str url = https_of(look, found, "token_endpoint");
    struct json *answer = NULL;

    if (!url.len) {
        (void)err_set(&look->err, -EINVAL, "the issuer's token_endpoint is no address of https");
        return false;
    }
    bool basic = json_is_null(ways) || list_has(ways, "client_secret_basic");
    long status = look_ask(look, url.p, basic ? ASK_TOKEN_BASIC : ASK_TOKEN);
    if (!status)
        return false;
    if (json_parse(&look->arena, str_dup(&look->arena, buf_str(&look->body)), &answer, NULL) >= 0)
        look->id_token = json_str(json_get(answer, "id_token"));
    if (status == 200 && look->id_token.len)
        return true;
    struct str why = json_str(json_get(answer, "error_description"));
    if (!why.len)
        why = json_str(json_get(answer, "error"));
    (void)err_set(
        &look->err, -EACCES,
        "the issuer gives no ID token for the code%s (HTTP status %ld): " STR_FMT,
        status == 401 && !look->client_secret.len ? "; it may want --oidc-client-secret-file" : "",
        status, STR_ARG(str_sub(why, 0, REFUSAL_BYTES_MAX)));
    return false;
}

static void look_work(uv_work_t *work)
{
    struct issuer_look *look = work->data;
    struct str issuer = look->issuer;
    struct json *found = NULL;
    size_t len = issuer.len && issuer.p[issuer.len - 1] == '/' ? issuer.len - 1 : issuer.len;
    const char *url =
        str_printf(&look->arena, STR_FMT ISSUER_PATH, STR_ARG(str_sub(issuer, 0, len))).p;

    if (!look_get(look, url) ||
        json_parse(&look->arena, str_dup(&look->arena, buf_str(&look->body)), &found, &look->err) <
            0)
        return;
    struct str keys = https_of(look, found, "jwks_uri");
    look->authorization = https_of(look, found, "authorization_endpoint");
    look->scopes = scopes_of(&look->arena, found);
    if (!str_eq(json_str(json_get(found, "issuer")), issuer))
        (void)err_set(&look->err, -EINVAL, "%.120s: it calls itself \"%.80s\"", url,
                      str_c(&look->arena, json_str(json_get(found, "issuer"))));
    else if (!keys.len)
        (void)err_set(&look->err, -EINVAL, "%.120s: jwks_uri is no address of https", url);
    else if ((!look->form.len || look_exchange(look, found)) && look_get(look, keys.p))
        (void)jwks_read(buf_str(&look->body), &look->keys, &look->err);
}

/* ---- on the loop ---- */

static void look_on_end(uv_work_t *work, int status)
{
    struct issuer_look *look = work->data;

    (void)status;
    look->done(look);
}

bool issuer_look_begin(struct issuer_look *look, uv_loop_t *loop)
{
    look->work.data = look;
    return uv_queue_work(loop, &look->work, look_work, look_on_end) == 0;
}

void issuer_look_free(struct issuer_look *look)
{
    jwks_free(look->keys);
    buf_done(&look->body);
    arena_done(&look->arena);
    mem_free(look);
}
