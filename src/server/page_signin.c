#include "server/page_signin.h"

#include "base/account.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "http/server.h"
#include "http1/parse.h"
#include "page/gate.h"
#include "page/session.h"
#include "server/oidc.h"
#include "server/page_parts.h"
#include "server/request.h"
#include "server/signin.h"
#include "tool/clock.h"

#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stddef.h>

#define LOGIN_PATH    "/ui/login"
#define ISSUER_AT     LOGIN_PATH "/issuer"
#define CALLBACK_PATH "/ui/callback"

bool page_signin_is(struct str path)
{
    return str_is(path, LOGIN_PATH) || str_is(path, ISSUER_AT) || str_is(path, CALLBACK_PATH);
}

static struct str cookie_name(struct arena *arena, const struct page_door *door)
{
    return str_printf(arena, "%s-signin", door->cookie);
}

/* It comes along when the issuer sends the browser back, which a strict one would not. */
static void cookie_set(struct http_exchange *x, const struct page_door *door, const char *secret)
{
    http_header(x, "Set-Cookie",
                str_printf(&x->arena,
                           STR_FMT "=%s; Path=" CALLBACK_PATH
                                   "; Max-Age=%lld; HttpOnly; SameSite=Lax%s",
                           STR_ARG(cookie_name(&x->arena, door)), secret,
                           *secret ? (long long)(SESSION_LINK_MS_MAX / 1000) : 0,
                           door->secure ? "; Secure" : ""));
}

static struct signin signin_of(struct request *request,
                               const struct page_door *door,
                               struct str secret)
{
    const struct http_head *head = &request->x->head;

    return (struct signin){
        .key = buf_str(&request->server->token_key),
        .secret = secret,
        .back = str_printf(request_arena(request), "%s://" STR_FMT CALLBACK_PATH,
                           door->secure ? "https" : "http", STR_ARG(http_head_get(head, "Host"))),
    };
}

static void tell(struct http_exchange *x, int status, struct str why)
{
    _cleanup_(buf_done) struct buf html = {0};

    buf_add(&html,
            STR("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
                "content=\"width=device-width, initial-scale=1\"><title>Sign in - Muster</title>"
                "<link rel=\"stylesheet\" href=\"/ui/a/style.css\"><main><div class=\"card enter\">"
                "<h1>Nobody is signed in</h1><p class=\"note bad\" role=\"alert\">"));
    buf_add_html(&html, why);
    buf_add(&html, STR("</p><p><a href=\"/ui/\">Sign in again</a></p></div></main></html>\n"));
    http_reply(x, status, "text/html; charset=utf-8", buf_str(&html));
}

/* ---- to the issuer ---- */

static void login(struct request *request, const struct page_door *door)
{
    struct arena *arena = request_arena(request);
    char secret[SESSION_SECRET_BYTES + 1];
    struct err err = {0};

    if (!oidc_issuer(request->server->oidc).len) {
        tell(request->x, 404,
             STR("no issuer signs people in here: muster up has no --oidc-issuer-url"));
        return;
    }
    if (!page_secret_draw(secret, &err)) {
        tell(request->x, 500, str_from(err.text));
        return;
    }
    struct signin signin = signin_of(request, door, str_from(secret));
    struct str address = oidc_signin_address(request->server->oidc, arena, &signin);
    if (!address.len) {
        tell(request->x, 503,
             STR("the issuer does not answer, or has no authorization_endpoint; muster's log says "
                 "more (oidc.issuer)"));
        return;
    }
    cookie_set(request->x, door, secret);
    http_header(request->x, "Location", address);
    http_reply(request->x, 302, "text/plain", STR("sign in at the issuer\n"));
}

static void tell_issuer(struct request *request)
{
    struct arena *arena = request_arena(request);
    struct json *answer = json_new_object(arena);

    json_add_str(arena, answer, "issuer", oidc_issuer(request->server->oidc));
    http_reply(request->x, 200, "application/json", json_text(arena, answer));
}

/* ---- and back ---- */

struct callback {
    struct request *request;
    const struct page_door *door;
};

static void on_signed_in(void *user, const struct user *who, struct str token, const char *why)
{
    struct callback *callback = user;
    struct request *request = callback->request;
    char code[SESSION_SECRET_BYTES + 1];
    struct err err = {0};

    if (!who) {
        tell(request->x, 403, str_from(why));
    } else if (!page_secret_draw(code, &err)) {
        tell(request->x, 500, str_from(err.text));
    } else {
        sessions_add_link(callback->door->sessions, str_from(code), token, account_share(who->name),
                          clock_now_ms());
        cookie_set(request->x, callback->door, "");
        http_header(request->x, "Location",
                    str_printf(request_arena(request), "/ui/enter#%s", code));
        http_reply(request->x, 302, "text/plain", STR("the page is at /ui/\n"));
    }
    http_unref(request->x);
}

/* Why the issuer's answer is not for this browser, or is none; empty: it is. */
static struct str callback_trouble(struct request *request, const struct signin *signin)
{
    struct arena *arena = request_arena(request);
    struct str query = request->x->head.query;
    struct str state = http_query(arena, query, "state");
    struct str wanted = signin_state(arena, signin);
    struct str issuer = http_query(arena, query, "iss"); /* RFC 9207 */
    struct str error = http_query(arena, query, "error");

    if (!signin->secret.len || state.len != wanted.len ||
        gnutls_memcmp(state.p, wanted.p, wanted.len) != 0)
        return STR("this sign-in was begun in another browser, or more than ten minutes ago; begin "
                   "again");
    if (issuer.len && !str_eq(issuer, oidc_issuer(request->server->oidc)))
        return STR("another issuer than the one of --oidc-issuer-url answered");
    if (error.len)
        return str_printf(arena, "the issuer signs nobody in: " STR_FMT " " STR_FMT, STR_ARG(error),
                          STR_ARG(http_query(arena, query, "error_description")));
    return http_query(arena, query, "code").len ? STR_NONE : STR("the issuer's answer has no code");
}

static void callback(struct request *request, const struct page_door *door)
{
    struct arena *arena = request_arena(request);
    struct signin signin =
        signin_of(request, door, gate_cookie(&request->x->head, cookie_name(arena, door)));
    struct str trouble = callback_trouble(request, &signin);

    if (trouble.len || !request->server->oidc) {
        tell(request->x, 400, trouble);
        return;
    }
    struct callback *turn = ARENA_NEW(arena, struct callback);
    *turn = (struct callback){request, door};
    (void)http_ref(request->x);
    if (oidc_signin(request->server->oidc, arena, &signin,
                    http_query(arena, request->x->head.query, "code"), on_signed_in, turn))
        return;
    tell(request->x, 503, STR("others are signing in; load this page again"));
    http_unref(request->x);
}

void page_signin_handle(struct request *request, const struct page_door *door)
{
    if (str_is(request->x->head.path, LOGIN_PATH))
        login(request, door);
    else if (str_is(request->x->head.path, ISSUER_AT))
        tell_issuer(request);
    else
        callback(request, door);
}
