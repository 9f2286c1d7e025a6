#include "base/account.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/server.h"
#include "http1/parse.h"
#include "page/gate.h"
#include "page/session.h"
#include "page/turns.h"
#include "server/page_lines.h"
#include "server/page_parts.h"
#include "server/page_signin.h"
#include "server/request.h"
#include "server/server.h"
#include "tool/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The web page under /ui.
 *
 *     GET    /ui/a/FILE       a file of the page; nothing secret is in them
 *     GET    /ui/...          index.html: each view has an address of its own
 *     POST   /ui/link         {"code"}: for URL/ui/enter#CODE; with a token in Authorization
 *     POST   /ui/session      {"code"} or {"token"} signs in; GET says who, DELETE signs out
 *     GET    /ui/login        and what else people whom an issuer signs in need (page_signin.h)
 *     GET    /ui/stream       what changes (page_stream.c)
 *     POST   /ui/whatif       {"manifest", "drain", "quota"}: what would happen, and to whom
 *            /ui/api...       the API, as the viewer; /ui/accounts too
 *
 * A request that acts for a viewer shows the cookie and the key of a session and comes from the page
 * itself; then it is asked by the API's own rules whether that viewer may. */

#define BODY_BYTES_MAX ((size_t)64 << 10)
#define WHATIF_RETRY_S 3

struct page {
    struct sessions sessions;
    const char *const *names;
    size_t name_count;
    void (*whatif)(void *user, const struct server_whatif *question); /* NULL: not here */
    void *whatif_user;
    struct turns turns; /* of those who ask it */
    struct page_lines lines;
    struct page_door door;
    char cookie[24]; /* its name: cookies know no ports, so that it has ours */
};

struct page *page_new(struct server *server, const struct server_options *options)
{
    struct page *page = MEM_NEW(struct page);

    page->names = options->page_names;
    while (page->names && page->names[page->name_count])
        page->name_count++;
    page->door = (struct page_door){&page->sessions, page->cookie, options->tls != NULL};
    (void)snprintf(page->cookie, sizeof(page->cookie), "muster-%u", (unsigned)server_port(server));
    return page;
}

void page_free(struct page *page)
{
    if (!page)
        return;
    sessions_done(&page->sessions);
    turns_done(&page->turns);
    page_lines_done(&page->lines);
    mem_free(page);
}

struct page_lines *page_lines(struct page *page)
{
    return &page->lines;
}

static bool path_is_api(struct str path)
{
    return str_is(path, "/ui/api") || str_starts(path, STR("/ui/api/")) ||
           str_is(path, "/ui/apis") || str_starts(path, STR("/ui/apis/")) ||
           str_is(path, "/ui/accounts");
}

size_t page_stream_watches(const struct request *request)
{
    const struct http_head *head = &request->x->head;

    if (request->page != PAGE_OWN || !str_is(head->path, "/ui/stream"))
        return 0;
    size_t count = http_query_all(request_arena(request), head->query, "watch", NULL, 0);
    return count ? count : 1; /* and is refused */
}

bool page_viewer(struct request *request, struct arena *arena, struct user *ret)
{
    const struct http_head *head = &request->x->head;
    struct page *page = request->server->page;
    struct str token = sessions_find(&page->sessions, gate_cookie(head, str_from(page->cookie)),
                                     http_head_get(head, "X-Muster-Key"), clock_now_ms());

    return token.len && identify_token(request->server, arena, token, STR_NONE, ret);
}

/* True: answered, because nobody or another site asks. */
static bool page_turn_away(struct request *request)
{
    if (!gate_same_origin(&request->x->head)) {
        request_fail(request, 403, "Forbidden", "the request comes from another site");
        return true;
    }
    if (page_viewer(request, request_arena(request), &request->user))
        return false;
    request_fail(request, 401, "Unauthorized",
                 "nobody is signed in here, or no longer; open the link of `muster open`");
    return true;
}

static bool path_needs_session(const struct http_head *head)
{
    bool post = str_is(head->method, "POST");

    return str_is(head->path, "/ui/stream") || (str_is(head->path, "/ui/whatif") && post) ||
           (str_is(head->path, "/ui/session") && !post);
}

/* Somebody typed the address alone into a browser; programs ask for JSON there. */
static bool is_typed(const struct http_head *head)
{
    return str_is(head->path, "/") && str_is(head->method, "GET") &&
           !http_head_get(head, "Authorization").len &&
           str_contains(http_head_get(head, "Accept"), STR("text/html"));
}

bool page_begin(struct request *request)
{
    struct http_exchange *x = request->x;
    const struct page *page = request->server->page;

    if (page && is_typed(&x->head)) {
        http_header(x, "Location", STR("/ui/"));
        http_reply(x, 302, "text/plain", STR("the page is at /ui/\n"));
        return true;
    }
    if (!page || (!str_is(x->head.path, "/ui") && !str_starts(x->head.path, STR("/ui/"))))
        return false;
    bool api = path_is_api(x->head.path);
    bool read = str_is(x->head.method, "GET") || str_is(x->head.method, "HEAD");
    page_headers(x, !api && read && !path_needs_session(&x->head));
    if (!gate_host(http_head_get(&x->head, "Host"), page->names, page->name_count)) {
        request_fail(request, 421, "Misdirected",
                     "the page is not known by this name; open it by its address, or start muster "
                     "with --page-name NAME");
        return true;
    }
    request->page = api ? PAGE_API : PAGE_OWN;
    if (api) {
        x->head.path = str_sub(x->head.path, sizeof("/ui") - 1, x->head.path.len);
        return page_turn_away(request);
    }
    x->body_max = BODY_BYTES_MAX;
    return path_needs_session(&x->head) && page_turn_away(request);
}

/* ---- signing in ---- */

static void session_reply(struct request *request, int code, const char *key)
{
    struct arena *arena = request_arena(request);
    struct json *answer = json_new_object(arena);

    json_add_str(arena, answer, "user", request->user.name);
    json_add_bool(arena, answer, "owner", request->user.owner);
    json_add_c(arena, answer, "version", MUSTER_VERSION);
    if (key)
        json_add_c(arena, answer, "key", key);
    http_reply(request->x, code, "application/json", json_text(arena, answer));
}

/* The token that the body brings, or the one its link stands for. */
static struct str session_token(struct request *request)
{
    struct arena *arena = request_arena(request);
    struct json *body = NULL;
    struct str token = STR_NONE;

    if (json_parse(arena, request->x->body, &body, NULL) < 0)
        return STR_NONE;
    struct str code = json_str(json_get(body, "code"));
    if (!code.len)
        return str_trim(json_str(json_get(body, "token")));
    (void)sessions_use_link(&request->server->page->sessions, arena, code, clock_now_ms(), &token);
    return token;
}

static void session_open(struct request *request)
{
    struct server *server = request->server;
    char id[SESSION_SECRET_BYTES + 1];
    char key[SESSION_SECRET_BYTES + 1];
    struct err err = {0};

    if (!gate_same_origin(&request->x->head) ||
        !str_starts(http_head_get(&request->x->head, "Content-Type"), STR("application/json"))) {
        request_fail(request, 403, "Forbidden", "the request comes from another site");
        return;
    }
    struct str token = session_token(request);
    if (!token.len ||
        !identify_token(server, request_arena(request), token, STR_NONE, &request->user)) {
        request_fail(request, 401, "Unauthorized",
                     "the link was used before or is older than ten minutes, or the token is not "
                     "good; `muster open` makes a new link");
        return;
    }
    if (!page_secret_draw(id, &err) || !page_secret_draw(key, &err)) {
        request_fail(request, 500, "InternalError", "%s", err.text);
        return;
    }
    sessions_open(&server->page->sessions, str_from(id), str_from(key), token,
                  account_share(request->user.name), clock_now_ms());
    page_cookie_set(request->x, server->page->cookie, id, server->page->door.secure);
    session_reply(request, 201, key);
}

static void session_close(struct request *request)
{
    struct page *page = request->server->page;

    sessions_close(&page->sessions, gate_cookie(&request->x->head, str_from(page->cookie)));
    page_cookie_set(request->x, page->cookie, "", page->door.secure);
    http_reply(request->x, 200, "application/json", STR("{}"));
}

/* For whoever shows a token in Authorization: no cookie does, so that no site can. */
static void link_make(struct request *request)
{
    struct str token = identify_bearer(request);
    char code[SESSION_SECRET_BYTES + 1];
    struct err err = {0};

    if (!token.len ||
        !identify_token(request->server, request_arena(request), token, STR_NONE, &request->user)) {
        request_fail(request, 401, "Unauthorized",
                     "a link is made for a token, and Authorization brings none that is good here");
        return;
    }
    if (!page_secret_draw(code, &err)) {
        request_fail(request, 500, "InternalError", "%s", err.text);
        return;
    }
    sessions_add_link(&request->server->page->sessions, str_from(code), token,
                      account_share(request->user.name), clock_now_ms());
    http_reply(request->x, 201, "application/json",
               str_printf(request_arena(request), "{\"code\":\"%s\"}", code));
}

int server_page_link(struct server *server, char ret_code[SERVER_LINK_BYTES + 1], struct err *err)
{
    _Static_assert(SERVER_LINK_BYTES == SESSION_SECRET_BYTES, "a code is a secret");
    if (!page_secret_draw(ret_code, err))
        return err->code;
    sessions_add_link(&server->page->sessions, str_from(ret_code), buf_str(&server->token),
                      STR("muster up"), clock_now_ms());
    return 0;
}

/* ---- what if ---- */

struct whatif_turn {
    struct request *request;
    int number;
};

static void on_whatif(void *user, struct str trouble, struct str json)
{
    struct whatif_turn *turn = user;
    struct request *request = turn->request;

    turns_give(&request->server->page->turns, turn->number);
    if (trouble.len)
        request_fail(request, 422, "Invalid", STR_FMT, STR_ARG(str_sub(trouble, 0, 1000)));
    else
        http_reply(request->x, 200, "application/json", json);
    http_unref(request->x);
}

static void whatif_refuse(struct request *request, bool own)
{
    status_reply(
        request,
        &(struct status){.code = 429,
                         .reason = "TooManyRequests",
                         .message = own ? STR("your last question is being worked out; ask again "
                                              "when it is answered")
                                        : STR("others are asking too; try again in a few "
                                              "seconds"),
                         .retry_after_s = WHATIF_RETRY_S});
}

static void whatif_ask_for(struct request *request)
{
    const struct http_head *head = &request->x->head;
    struct page *page = request->server->page;
    struct json *body = NULL;
    struct err err = {0};

    if (!page->whatif) {
        request_fail(request, 503, "ServiceUnavailable", "nothing answers this here");
        return;
    }
    if (json_parse(request_arena(request), request->x->body, &body, &err) < 0) {
        request_fail(request, 400, "BadRequest", "%s", err.text);
        return;
    }
    struct whatif_turn *turn = ARENA_NEW(request_arena(request), struct whatif_turn);
    *turn =
        (struct whatif_turn){request, turns_take(&page->turns, account_share(request->user.name))};
    if (turn->number < 0) {
        whatif_refuse(request, turn->number == TURNS_OWN);
        return;
    }
    (void)http_ref(request->x);
    page->whatif(
        page->whatif_user,
        &(struct server_whatif){
            .token = sessions_find(&page->sessions, gate_cookie(head, str_from(page->cookie)),
                                   http_head_get(head, "X-Muster-Key"), clock_now_ms()),
            .manifest = json_str(json_get(body, "manifest")),
            .drain = json_str(json_get(body, "drain")),
            .quota = json_str(json_get(body, "quota")),
            .done = on_whatif,
            .done_user = turn,
        });
}

void server_set_whatif(struct server *server,
                       void (*ask)(void *user, const struct server_whatif *question),
                       void *user)
{
    server->page->whatif = ask;
    server->page->whatif_user = user;
}

void page_handle(struct request *request)
{
    const struct http_head *head = &request->x->head;
    bool read = str_is(head->method, "GET") || str_is(head->method, "HEAD");
    bool post = str_is(head->method, "POST");

    if (str_is(head->path, "/ui/session") && post)
        session_open(request);
    else if (str_is(head->path, "/ui/session") && str_is(head->method, "DELETE"))
        session_close(request);
    else if (str_is(head->path, "/ui/session") && read)
        session_reply(request, 200, NULL);
    else if (str_is(head->path, "/ui/link") && post)
        link_make(request);
    else if (str_is(head->path, "/ui/stream") && read)
        page_stream_begin(request);
    else if (str_is(head->path, "/ui/whatif") && post)
        whatif_ask_for(request);
    else if (read && page_signin_is(head->path))
        page_signin_handle(request, &request->server->page->door);
    else if (!read)
        request_fail(request, 405, "MethodNotAllowed", "the page does not allow this method here");
    else if (!page_file_send(request->x))
        request_not_found(request);
}
