#include "portal/portal.h"

#include "base/account.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/server.h"
#include "http1/parse.h"
#include "kube/client.h"
#include "kube/kube.h"
#include "kube/kubeconfig.h"
#include "page/gate.h"
#include "page/proxied.h"
#include "page/session.h"
#include "page/turns.h"
#include "portal/portal_internal.h"
#include "server/page_parts.h"
#include "server/request.h"
#include "server/route.h"
#include "server/server.h"
#include "tool/clock.h"
#include "tool/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Requests enter here: from which host and site, who asks, what for. */

#define OWN_BODY_BYTES_MAX ((size_t)64 << 10)
#define API_BODY_BYTES_MAX ((size_t)3 << 20)
#define CONNECTIONS_MAX    2048
#define TOKEN_BYTES_MAX    ((size_t)8 << 10) /* of one; an OIDC token with many groups has 4 KiB */

static struct visit *visit_of(struct http_exchange *x)
{
    return x->user;
}

static void portal_unref(struct portal *portal)
{
    if (--portal->refs)
        return;
    sessions_done(&portal->sessions);
    page_lines_done(&portal->lines);
    turns_done(&portal->turns);
    fair_done(&portal->fair);
    mem_free(portal);
}

void visit_sign_out(struct visit *visit)
{
    struct portal *portal = visit->portal;

    if (visit->viewer.token.len)
        sessions_close(&portal->sessions,
                       gate_cookie(&visit->request.x->head, str_from(portal->cookie)));
}

bool visit_holds(struct visit *visit)
{
    const struct portal *portal = visit->portal;
    const struct http_head *head = &visit->request.x->head;

    return !visit->viewer.token.len ||
           sessions_find(&portal->sessions, gate_cookie(head, str_from(portal->cookie)),
                         http_head_get(head, "X-Muster-Key"), clock_now_ms())
               .len;
}

/* ---- who asks ---- */

/* 1: by a proxy; 0: a proxy says nothing; negative: answered. */
static int visit_proxied(struct visit *visit)
{
    struct http_exchange *x = visit->request.x;
    const char *why = "";
    int r = proxied_read(&visit->portal->proxy, &x->head, http_peer_identity(x),
                         &visit->viewer.proxied, &why);

    if (r < 0)
        request_fail(&visit->request, 403, "Forbidden", "%s", why);
    return r;
}

/* False: answered. What a proxy's user does is told from what another site makes his browser do by
 * the header that browsers set, because he has no key. */
static bool visit_identify(struct visit *visit)
{
    struct portal *portal = visit->portal;
    const struct http_head *head = &visit->request.x->head;

    if (!gate_same_origin(head)) {
        request_fail(&visit->request, 403, "Forbidden", "the request comes from another site");
        return false;
    }
    int proxied = visit_proxied(visit);
    if (proxied < 0)
        return false;
    if (proxied > 0 && !str_is(http_head_get(head, "Sec-Fetch-Site"), "same-origin")) {
        request_fail(&visit->request, 403, "Forbidden",
                     "the browser does not say that the page itself asks (Sec-Fetch-Site)");
        return false;
    }
    visit->viewer.who = visit->viewer.proxied.name;
    if (proxied > 0)
        return true;
    struct str id = gate_cookie(head, str_from(portal->cookie));
    struct str key = http_head_get(head, "X-Muster-Key");
    visit->viewer.token = str_dup(request_arena(&visit->request),
                                  sessions_find(&portal->sessions, id, key, clock_now_ms()));
    visit->viewer.who = str_dup(request_arena(&visit->request),
                                sessions_who(&portal->sessions, id, key, clock_now_ms()));
    if (!visit->viewer.token.len)
        request_fail(&visit->request, 401, "Unauthorized",
                     "nobody is signed in here, or no longer; paste a token of the cluster");
    return visit->viewer.token.len > 0;
}

/* ---- what one viewer may have ---- */

static const struct fair_limits limits_of_a_viewer = {
    .requests_max = PORTAL_VIEWER_REQUESTS_MAX,
    .streams_max = PORTAL_VIEWER_STREAMS_MAX,
    .requests_full = "32 requests under way",
    .streams_full = "32 tabs open",
};
_Static_assert(PORTAL_VIEWER_REQUESTS_MAX == 32 && PORTAL_VIEWER_STREAMS_MAX == 32, "the words");

/* The exchange is released. */
static void visit_end(void *user)
{
    struct visit *visit = user;

    fair_leave(&visit->portal->fair, visit->viewer.who, &visit->load);
    portal_unref(visit->portal);
}

/* Before the body is read. False: answered, because this viewer has enough under way. */
static bool visit_take_part(struct visit *visit)
{
    struct portal *portal = visit->portal;
    struct http_exchange *x = visit->request.x;
    size_t announced = x->head.content_length > 0 ? (size_t)x->head.content_length : 0;

    visit->load.streams = str_is(x->head.path, "/ui/stream");
    visit->load.body_bytes = x->head.chunked || announced > x->body_max ? x->body_max : announced;
    const char *full = fair_enter(&portal->fair, visit->viewer.who, &visit->load);
    if (full) {
        http_header(x, "Retry-After", STR("1"));
        request_fail(&visit->request, 429, "TooManyRequests",
                     "you have %s, which is as much as one viewer may have; %s", full,
                     visit->load.streams ? "close some" : "try again in a second");
        return false;
    }
    portal->refs++;
    arena_defer(&x->arena, visit_end, visit);
    return true;
}

/* ---- signing in ---- */

struct sign_in {
    struct visit *visit;
    struct client_call *call;
    bool fresh; /* a session is opened; else it is only said who it is */
};

static void session_reply(struct visit *visit, int code, struct str user, const char *key)
{
    struct arena *arena = request_arena(&visit->request);
    struct json *answer =
        json_make(arena, "{user: $, owner: false, cluster: true, version: $, key: $?}", user,
                  MUSTER_VERSION, key ? str_from(key) : STR_NONE);

    http_reply(visit->request.x, code, "application/json", json_text(arena, answer));
}

static void session_open(struct visit *visit, struct str user)
{
    struct portal *portal = visit->portal;
    char id[SESSION_SECRET_BYTES + 1];
    char key[SESSION_SECRET_BYTES + 1];
    struct err err = {0};

    if (!page_secret_draw(id, &err) || !page_secret_draw(key, &err)) {
        request_fail(&visit->request, 500, "InternalError", "%s", err.text);
        return;
    }
    sessions_open(&portal->sessions, str_from(id), str_from(key), visit->viewer.token,
                  account_share(user), clock_now_ms());
    page_cookie_set(visit->request.x, portal->cookie, id, portal->secure);
    session_reply(visit, 201, user, key);
}

static void sign_in_over(struct sign_in *sign_in)
{
    sign_in->call = NULL;
    sign_in->visit->portal->sign_ins--;
}

static void on_known(void *user, const struct transport_reply *reply)
{
    struct sign_in *sign_in = user;
    struct visit *visit = sign_in->visit;
    struct json *review = NULL;

    sign_in_over(sign_in);
    if (reply->code) {
        log_warn(visit->portal->log, "page.sign-in", LOG_ERR(reply->err));
        request_fail(&visit->request, 502, "BadGateway", "the API server does not answer");
        return;
    }
    if (reply->status == 404) {
        request_fail(&visit->request, 501, "NotImplemented",
                     "the API server does not say whose a token is; that needs Kubernetes 1.28 or "
                     "later");
        return;
    }
    struct str name = STR_NONE;
    if (reply->status < 300 &&
        json_parse(request_arena(&visit->request), reply->body, &review, NULL) == 0)
        name = json_str_at(review, "status.userInfo.username");
    if (!name.len || str_is(name, "system:anonymous")) {
        visit_sign_out(visit);
        request_fail(&visit->request, 401, "Unauthorized",
                     "the token is not good here, or no longer; paste another one");
        return;
    }
    if (sign_in->fresh)
        session_open(visit, name);
    else
        session_reply(visit, 200, name, NULL);
}

static void on_sign_in_close(struct http_exchange *x)
{
    struct sign_in *sign_in = visit_of(x)->request.stream;

    if (!sign_in->call)
        return;
    client_cancel(sign_in->call);
    sign_in_over(sign_in);
}

/* The API server says who it is, and so whether the token is good. */
static void session_ask(struct visit *visit, bool fresh)
{
    struct http_exchange *x = visit->request.x;
    struct sign_in *sign_in = ARENA_NEW(&x->arena, struct sign_in);

    if (visit->portal->sign_ins >= PORTAL_SIGN_INS_MAX) {
        request_fail(&visit->request, 429, "TooManyRequests",
                     "many sign in at once; try again in a second");
        return;
    }
    *sign_in = (struct sign_in){.visit = visit, .fresh = fresh};
    visit->request.stream = sign_in;
    visit->portal->sign_ins++;
    x->on_close = on_sign_in_close;
    sign_in->call =
        upstream_send(visit, &(struct upstream_request){
                                 .method = "POST",
                                 .path = STR("/apis/authentication.k8s.io/v1/selfsubjectreviews"),
                                 .content_type = "application/json",
                                 .body = STR("{\"apiVersion\":\"authentication.k8s.io/v1\","
                                             "\"kind\":\"SelfSubjectReview\"}"),
                                 .done = on_known,
                                 .user = sign_in,
                             });
}

/* It becomes a header: what cannot be in one is no token. */
static bool token_is_fit(struct str token)
{
    if (!token.len || token.len > TOKEN_BYTES_MAX)
        return false;
    for (size_t i = 0; i < token.len; i++)
        if (token.p[i] <= 0x20 || token.p[i] > 0x7e)
            return false;
    return true;
}

static void session_post(struct visit *visit)
{
    struct http_exchange *x = visit->request.x;
    struct json *body = NULL;

    if (!gate_same_origin(&x->head) ||
        !str_starts(http_head_get(&x->head, "Content-Type"), STR("application/json"))) {
        request_fail(&visit->request, 403, "Forbidden", "the request comes from another site");
        return;
    }
    if (json_parse(&x->arena, x->body, &body, NULL) == 0)
        visit->viewer.token = str_trim(json_str(json_get(body, "token")));
    if (!token_is_fit(visit->viewer.token)) {
        request_fail(&visit->request, 401, "Unauthorized",
                     "this is no token; on a cluster `kubectl create token NAME` prints one");
        return;
    }
    session_ask(visit, true);
}

/* ---- what if ---- */

struct whatif_visit {
    struct visit *visit;
    int turn;
};

static void on_whatif(void *user, struct str trouble, struct str json)
{
    struct whatif_visit *asked = user;
    struct visit *visit = asked->visit;
    struct http_exchange *x = visit->request.x;

    turns_give(&visit->portal->turns, asked->turn);
    if (trouble.len)
        request_fail(&visit->request, 422, "Invalid", STR_FMT, STR_ARG(str_sub(trouble, 0, 1000)));
    else
        http_reply(x, 200, "application/json", json);
    http_unref(x);
}

static void whatif_post(struct visit *visit)
{
    struct portal *portal = visit->portal;
    struct http_exchange *x = visit->request.x;
    struct json *body = NULL;
    struct err err = {0};

    if (!portal->whatif || !visit->viewer.token.len) {
        request_fail(&visit->request, 501, "NotImplemented",
                     "What if is asked in the name of a token, and a proxy signed you in; run "
                     "`muster simulate --live`, or sign in with a token");
        return;
    }
    if (json_parse(&x->arena, x->body, &body, &err) < 0) {
        request_fail(&visit->request, 400, "BadRequest", "%s", err.text);
        return;
    }
    struct whatif_visit *asked = ARENA_NEW(&x->arena, struct whatif_visit);
    *asked = (struct whatif_visit){visit, turns_take(&portal->turns, visit->viewer.who)};
    if (asked->turn < 0) {
        request_fail(&visit->request, 429, "TooManyRequests",
                     "a question is being worked out; ask again when it is answered");
        return;
    }
    (void)http_ref(x);
    portal->whatif(portal->whatif_user, &(struct server_whatif){
                                            .token = visit->viewer.token,
                                            .manifest = json_str(json_get(body, "manifest")),
                                            .drain = json_str(json_get(body, "drain")),
                                            .quota = json_str(json_get(body, "quota")),
                                            .done = on_whatif,
                                            .done_user = asked,
                                        });
}

/* ---- a request's way ---- */

/* A URL is made of it: what would end the path there, or mean something else, is refused. The API
 * server takes %2F for the slash that it stands for, and we look at the path before that. */
static bool path_is_plain(struct str path)
{
    for (size_t i = 0; i < path.len; i++) {
        char c = path.p[i];
        struct str escape = str_sub(path, i, 3);
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '/' || c == '-' || c == '.' || c == '_' || c == '~' || c == '%' ||
                     c == ':';

        if (!plain || http_equal_nocase(escape, STR("%2f")))
            return false;
    }
    return true;
}

/* False: answered. */
static bool visit_enter_api(struct visit *visit)
{
    struct http_exchange *x = visit->request.x;
    struct route *route = &visit->request.route;
    struct err err = {0};

    x->head.path = str_sub(x->head.path, sizeof("/ui") - 1, x->head.path.len);
    visit->api = true;
    if (!visit_identify(visit))
        return false;
    if (!path_is_plain(x->head.path) || str_find(x->head.query, '#') < x->head.query.len ||
        route_parse(&x->arena, x->head.path, route, &err) < 0) {
        request_fail(&visit->request, 400, "BadRequest", "%s",
                     err.text[0] ? err.text
                                 : "the path has characters that no path of the API has");
        return false;
    }
    if (route_leads_into_pods(route)) {
        request_fail(&visit->request, 403, "Forbidden",
                     "the page does not lead into pods; use kubectl");
        return false;
    }
    x->body_max = API_BODY_BYTES_MAX;
    return visit_take_part(visit);
}

static bool path_is_api(struct str path)
{
    return str_is(path, "/ui/api") || str_starts(path, STR("/ui/api/")) ||
           str_is(path, "/ui/apis") || str_starts(path, STR("/ui/apis/"));
}

static bool path_needs_viewer(const struct http_head *head)
{
    bool post = str_is(head->method, "POST");

    return str_is(head->path, "/ui/stream") || (str_is(head->path, "/ui/whatif") && post) ||
           (str_is(head->path, "/ui/session") && !post);
}

static void begin(void *user, struct http_exchange *x)
{
    struct visit *visit = ARENA_NEW(&x->arena, struct visit);
    struct portal *portal = user;
    bool read = str_is(x->head.method, "GET") || str_is(x->head.method, "HEAD");
    bool api = path_is_api(x->head.path);

    visit->portal = portal;
    visit->request.x = x;
    x->user = visit;
    x->body_max = OWN_BODY_BYTES_MAX;
    if (str_is(x->head.path, "/")) {
        http_header(x, "Location", STR("/ui/"));
        http_reply(x, 302, "text/plain", STR("the page is at /ui/\n"));
        return;
    }
    if (!str_is(x->head.path, "/ui") && !str_starts(x->head.path, STR("/ui/"))) {
        http_reply(x, 404, "text/plain", STR("the page is at /ui/\n"));
        return;
    }
    page_headers(x, !api && read && !path_needs_viewer(&x->head));
    if (!gate_host(http_head_get(&x->head, "Host"), portal->names, portal->name_count))
        request_fail(&visit->request, 421, "Misdirected",
                     "the page is not known by this name; start the operator with --page-name "
                     "NAME");
    else if (api)
        (void)visit_enter_api(visit);
    else if (path_needs_viewer(&x->head) && visit_identify(visit))
        (void)visit_take_part(visit);
}

static bool method_is_forwarded(struct str method)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};

    for (size_t i = 0; i < COUNT_OF(methods); i++)
        if (str_is(method, methods[i]))
            return true;
    return false;
}

static void handle(void *user, struct http_exchange *x)
{
    struct visit *visit = visit_of(x);
    struct portal *portal = user;
    struct str path = x->head.path;
    bool read = str_is(x->head.method, "GET") || str_is(x->head.method, "HEAD");
    bool post = str_is(x->head.method, "POST");

    if (visit->api && !method_is_forwarded(x->head.method)) {
        request_fail(&visit->request, 405, "MethodNotAllowed",
                     "the page does not allow this method here");
    } else if (visit->api) {
        forward_begin(visit);
    } else if (str_is(path, "/ui/session") && post) {
        session_post(visit);
    } else if (str_is(path, "/ui/session") && str_is(x->head.method, "DELETE")) {
        visit_sign_out(visit);
        page_cookie_set(x, portal->cookie, "", portal->secure);
        http_reply(x, 200, "application/json", STR("{}"));
    } else if (str_is(path, "/ui/session") && read) {
        session_ask(visit, false);
    } else if (str_is(path, "/ui/link")) {
        request_fail(&visit->request, 404, "NotFound",
                     "links that sign in are made by muster up; here a token is pasted");
    } else if (str_is(path, "/ui/stream") && read) {
        stream_begin(visit);
    } else if (str_is(path, "/ui/whatif") && post) {
        whatif_post(visit);
    } else if (!read) {
        request_fail(&visit->request, 405, "MethodNotAllowed",
                     "the page does not allow this method here");
    } else if (!page_file_send(x)) {
        request_not_found(&visit->request);
    }
}

/* ---- beginning and end ---- */

static int clients_open(struct portal *portal, const struct kube_config *config, struct err *err)
{
    struct kube_config nobody = *config;
    struct client_options options = {
        .loop = portal->loop,
        .config = &nobody,
        .user_agent = "muster-page/" MUSTER_VERSION,
        .per_second = KUBE_PER_SECOND,
        .burst = KUBE_BURST,
        .under_way_max = KUBE_UNDER_WAY,
        .of_many = true,
        .log = portal->log,
    };

    /* A certificate of ours on the connection would make every request ours. */
    nobody.cert_pem = nobody.key_pem = STR_NONE;
    nobody.cert_file = nobody.key_file = nobody.token = nobody.token_file = NULL;
    nobody.exec = NULL;
    int r = client_new(&options, &portal->viewers, err);
    if (r < 0 || !proxied_is_on(&portal->proxy))
        return r;
    options.config = config;
    return client_new(&options, &portal->own, err);
}

int portal_start(const struct portal_options *options, struct portal **ret, struct err *err)
{
    struct portal *portal = MEM_NEW(struct portal);

    portal->refs = 1;
    portal->fair.limits = &limits_of_a_viewer;
    portal->loop = options->loop;
    portal->api = options->api;
    portal->log = options->log;
    portal->names = options->names;
    portal->proxy = options->proxy;
    portal->secure = options->secure;
    while (portal->names && portal->names[portal->name_count])
        portal->name_count++;
    int r = clients_open(portal, options->config, err);
    if (r == 0)
        r = http_server_start(&(struct http_server_options){.loop = options->loop,
                                                            .address = options->address,
                                                            .port = options->port,
                                                            .tls = options->tls,
                                                            .connections_max = CONNECTIONS_MAX,
                                                            .begin = begin,
                                                            .handle = handle,
                                                            .user = portal},
                              &portal->http, err);
    if (r < 0) {
        portal_stop(portal);
        return r;
    }
    (void)snprintf(portal->cookie, sizeof(portal->cookie), "muster-%u",
                   (unsigned)portal_port(portal));
    *ret = portal;
    return 0;
}

uint16_t portal_port(const struct portal *portal)
{
    return http_server_port(portal->http);
}

void portal_set_tls(struct portal *portal, struct tls_identity *tls)
{
    http_server_set_tls(portal->http, tls);
}

void portal_set_whatif(struct portal *portal,
                       void (*ask)(void *user, const struct server_whatif *question),
                       void *user)
{
    portal->whatif = ask;
    portal->whatif_user = user;
}

void portal_stop(struct portal *portal)
{
    if (!portal)
        return;
    /* on_close handlers still look at the portal. */
    http_server_stop(portal->http);
    client_free(portal->viewers);
    client_free(portal->own);
    portal_unref(portal);
}
