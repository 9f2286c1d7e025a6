#include "server/page_parts.h"

#include "api/api.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "http/server.h"
#include "http/tls.h"
#include "http1/parse.h"
#include "page/file.h"
#include "page/session.h"
#include "server/page_lines.h"
#include "server/queue.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Scripts and styles of ours only, nothing from outside, no text that becomes markup. */
static const char page_policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";
/* An answer of the API that is opened as a document does nothing. */
static const char data_policy[] = "default-src 'none'; frame-ancestors 'none'; sandbox";

void page_headers(struct http_exchange *x, bool document)
{
    http_header(x, "Content-Security-Policy", str_from(document ? page_policy : data_policy));
    http_header(x, "X-Content-Type-Options", STR("nosniff"));
    http_header(x, "X-Frame-Options", STR("DENY"));
    http_header(x, "Referrer-Policy", STR("no-referrer"));
    http_header(x, "Cross-Origin-Opener-Policy", STR("same-origin"));
    http_header(x, "Cross-Origin-Resource-Policy", STR("same-origin"));
    http_header(x, "Cache-Control", document ? STR("no-cache") : STR("no-store"));
}

bool page_file_send(struct http_exchange *x)
{
    struct str folder = STR("/ui/a/");
    const struct page_file *file = page_file_find(
        str_starts(x->head.path, folder) ? str_sub(x->head.path, folder.len, x->head.path.len)
                                         : STR("index.html"));

    if (!file)
        return false;
    http_header(x, "ETag", str_from(file->tag));
    if (str_is(http_head_get(&x->head, "If-None-Match"), file->tag))
        http_reply(x, 304, file->type, STR(""));
    else
        http_reply(x, 200, file->type, (struct str){file->bytes, file->len});
    return true;
}

bool page_secret_draw(char out[static SESSION_SECRET_BYTES + 1], struct err *err)
{
    _cleanup_(buf_done) struct buf hex = {0};

    if (tls_random_hex(&hex, SESSION_SECRET_BYTES / 2, err) < 0)
        return false;
    memcpy(out, hex.p, SESSION_SECRET_BYTES);
    out[SESSION_SECRET_BYTES] = '\0';
    return true;
}

void page_cookie_set(struct http_exchange *x, const char *name, const char *value, bool secure)
{
    long long seconds = *value ? SESSION_MS_MAX / 1000 : 0;

    http_header(x, "Set-Cookie",
                str_printf(&x->arena, "%s=%s; Path=/ui; Max-Age=%lld; HttpOnly; SameSite=Strict%s",
                           name, value, seconds, secure ? "; Secure" : ""));
}

static const char *event_word(enum api_event event)
{
    switch (event) {
    case API_ADDED: return "ADDED";
    case API_MODIFIED: return "MODIFIED";
    case API_DELETED: return "DELETED";
    case API_SYNCED: return "SYNCED";
    case API_BOOKMARK: return "PING";
    case API_CLOSED: break;
    }
    return "AGAIN";
}

void page_line_write(void *user, struct buf *buf, struct queue_item *item)
{
    buf_addf(buf, "{\"w\":%zu,\"t\":\"%s\"", (size_t)item->number, event_word(item->event));
    if (item->object) {
        buf_add(buf, STR(",\"o\":"));
        page_lines_add(user, item->object, buf);
    }
    buf_add(buf, STR("}\n"));
}

void page_line_tell(struct http_exchange *x, size_t number, const char *word, struct str text)
{
    _cleanup_(buf_done) struct buf buf = {0};

    buf_addf(&buf, "{\"w\":%zu,\"t\":\"%s\",\"message\":", number, word);
    json_write_string(&buf, text);
    buf_add(&buf, STR("}\n"));
    http_write(x, buf_str(&buf));
}
