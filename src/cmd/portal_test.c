#include "api/kind.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "kube/kubeconfig.h"
#include "portal/portal.h"
#include "server/server.h"
#include "store/harness.h"
#include "test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

/* Requests of browsers to the portal, which asks an API server on a store in memory. */

#define OWNER_TOKEN "0123456789abcdef0123456789abcdef"
#define CONFIGMAPS  "/ui/api/v1/namespaces/default/configmaps"
#define JSON_TYPE   "Content-Type: application/json\r\n"

struct world {
    struct harness harness;
    struct server *server;
    struct portal *portal;
    struct arena arena;
    struct str session; /* headers of a browser that is signed in */
};

static void world_open(struct world *world, const struct proxied_rules *proxy)
{
    static const char *const names[] = {"page.example.org", NULL};
    struct err err = {0};

    *world = (struct world){.session = STR("")};
    harness_open(&world->harness, NULL);
    EXPECT(server_start(&world->harness.loop, world->harness.api,
                        &(struct server_options){.address = "127.0.0.1",
                                                 .token = STR(OWNER_TOKEN),
                                                 .token_key = STR("a key that signs tokens, 32 b")},
                        &world->server, &err) == 0);
    harness_settle(&world->harness);
    struct kube_config config = {
        .source = "test",
        .context = "",
        .ns = "default",
        .token = OWNER_TOKEN,
        .server = str_printf(&world->arena, "http://127.0.0.1:%u", server_port(world->server)).p};
    EXPECT(
        portal_start(&(struct portal_options){.loop = &world->harness.loop,
                                              .api = world->harness.api,
                                              .config = &config,
                                              .address = "127.0.0.1",
                                              .names = names,
                                              .proxy = proxy ? *proxy : (struct proxied_rules){0}},
                     &world->portal, &err) == 0);
}

static void world_close(struct world *world)
{
    portal_stop(world->portal);
    server_stop(world->server);
    harness_settle(&world->harness);
    harness_close(&world->harness);
    arena_done(&world->arena);
}

static int dial(struct world *world, struct str text)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(portal_port(world->portal)),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    EXPECT(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
    EXPECT(send(fd, text.p, text.len, MSG_NOSIGNAL) == (ssize_t)text.len);
    return fd;
}

/* Turns the loop until the connection ends, or `until` has come. */
static struct str received(struct world *world, int fd, const char *until)
{
    struct str text = harness_received(&world->harness, &world->arena, fd, until, (size_t)1 << 22);

    (void)close(fd);
    return text;
}

static struct str request_of(struct world *world,
                             const char *line,
                             const char *headers,
                             const char *body)
{
    bool host = strstr(headers, "Host: ") != NULL;

    return str_printf(&world->arena,
                      "%s HTTP/1.1\r\n%sConnection: close\r\n%sContent-Length: %zu\r\n\r\n%s", line,
                      host ? "" : "Host: localhost\r\n", headers, strlen(body), body);
}

static struct str ask(struct world *world, const char *line, const char *headers, const char *body)
{
    return received(world, dial(world, request_of(world, line, headers, body)), NULL);
}

static int status_of(struct str text)
{
    int64_t status = 0;

    (void)str_to_i64(str_sub(text, 9, 3), &status);
    return (int)status;
}

/* Between the first `begin` and the next `end`. */
static struct str part(struct str text, const char *begin, char end)
{
    struct str mark = str_from(begin);

    for (size_t i = 0; i + mark.len <= text.len; i++)
        if (str_starts(str_sub(text, i, text.len), mark)) {
            struct str rest = str_sub(text, i + mark.len, text.len);
            return str_sub(rest, 0, str_find(rest, end));
        }
    return STR_NONE;
}

static void sign_in(struct world *world)
{
    struct str said =
        ask(world, "POST /ui/session", JSON_TYPE, "{\"token\":\" " OWNER_TOKEN "\\n\"}");
    struct str cookie = part(said, "Set-Cookie: ", ';');
    struct str key = part(said, "\"key\":\"", '"');

    EXPECT(status_of(said) == 201 && cookie.len && key.len);
    world->session =
        str_printf(&world->arena, "Cookie: " STR_FMT "\r\nX-Muster-Key: " STR_FMT "\r\n",
                   STR_ARG(cookie), STR_ARG(key));
}

TEST(portal_answers_only_who_comes_by_its_name_and_from_the_page)
{
    static const struct {
        const char *line;
        const char *headers;
        int status;
        const char *why;
    } rows[] = {
        {"GET /", "", 302, "the page is elsewhere"},
        {"GET /metrics", "", 404, "nothing else is here"},
        {"GET /uii", "", 404, "nor what begins alike"},
        {"GET /ui/", "", 200, "the page needs nobody to be signed in"},
        {"GET /ui/a/nothing.js", "", 404, "a file that it does not have"},
        {"PUT /ui/", "", 405, "nobody writes a file of it"},
        {"GET /ui/", "Host: evil.org\r\n", 421, "a name that nobody gave it"},
        {"GET /ui/", "Host: page.example.org\r\n", 200, "one that it was given"},
        {"GET /ui/link", "", 404, "links are made elsewhere"},
        {"GET /ui/session", "", 401, "nobody is signed in"},
        {"GET /ui/stream?watch=v1/pods", "", 401, "and sees nothing"},
        {"POST /ui/whatif", JSON_TYPE, 401, "and asks nothing"},
        {"GET " CONFIGMAPS, "", 401, "and reads nothing"},
        {"GET /ui/api", "", 401, "not even what there is"},
        {"GET /ui/apis", "", 401, "nor of which groups"},
        {"GET " CONFIGMAPS, "Sec-Fetch-Site: cross-site\r\n", 403, "another site asks"},
        {"GET " CONFIGMAPS, "X-Remote-User: ann\r\n", 401,
         "no proxy was configured: it says nothing"},
        {"POST /ui/session", "Content-Type: text/plain\r\n", 403, "a form of another site"},
        {"POST /ui/session", JSON_TYPE "Origin: http://evil.org\r\n", 403, "a script of one"},
    };
    struct world world;

    world_open(&world, NULL);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        EXPECT(status_of(ask(&world, rows[i].line, rows[i].headers, "")) == rows[i].status);
    }
    world_close(&world);
}

TEST(portal_signs_in_by_a_token_that_the_api_server_knows)
{
    static const struct {
        const char *body;
        const char *why;
    } rows[] = {
        {"", "no body"},
        {"{}", "no token"},
        {"{\"token\":\"a b\"}", "what cannot be in a header"},
        {"{\"token\":\"a\\u007f\"}", "what cannot be seen"},
        {"{\"token\":\"someone-elses\"}", "nobody's"},
    };
    struct world world;

    world_open(&world, NULL);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        EXPECT(status_of(ask(&world, "POST /ui/session", JSON_TYPE, rows[i].body)) == 401);
    }
    test_case(NULL);
    sign_in(&world);
    struct str said = ask(&world, "GET /ui/session", world.session.p, "");
    EXPECT(status_of(said) == 200 && part(said, "\"user\":\"", '"').len);
    struct str cookie = part(world.session, "Cookie: ", '\r');
    EXPECT(status_of(ask(&world, "GET /ui/session",
                         str_printf(&world.arena, "Cookie: " STR_FMT "\r\n", STR_ARG(cookie)).p,
                         "")) == 401); /* the cookie alone goes with requests of other sites, too */
    EXPECT(status_of(ask(&world, "DELETE /ui/session", world.session.p, "")) == 200);
    EXPECT(status_of(ask(&world, "GET /ui/session", world.session.p, "")) == 401);
    world_close(&world);
}

TEST(portal_sends_on_what_the_viewer_asks_of_the_api)
{
    static const struct {
        const char *line;
        const char *body;
        int status;
        const char *why;
    } rows[] = {
        {"POST " CONFIGMAPS, "{\"metadata\":{\"name\":\"a\"},\"data\":{\"k\":\"v\"}}", 201,
         "it is made"},
        {"GET " CONFIGMAPS "/a", "", 200, "and read"},
        {"GET " CONFIGMAPS "/b", "", 404, "another is not there"},
        {"GET " CONFIGMAPS "?limit=1", "", 200, "a list of one"},
        {"DELETE " CONFIGMAPS "/a", "", 200, "and it goes"},
        {"OPTIONS " CONFIGMAPS, "", 405, "what no page asks"},
        {"GET /ui/api/v1/namespaces/default/pods/p/exec?command=sh", "", 403, "into a pod"},
        {"GET /ui/api/v1/namespaces/default%2fconfigmaps/a", "", 400, "a slash in disguise"},
        {"GET /ui/api/v1/namespaces/de;fault/configmaps", "", 400, "no path of the API"},
        {"GET /ui/stream", "", 400, "a stream of nothing"},
        {"POST /ui/whatif", "{}", 501, "nobody works it out here"},
    };
    struct world world;

    world_open(&world, NULL);
    sign_in(&world);
    struct str headers = str_printf(&world.arena, STR_FMT JSON_TYPE, STR_ARG(world.session));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        EXPECT(status_of(ask(&world, rows[i].line, headers.p, rows[i].body)) == rows[i].status);
    }
    world_close(&world);
}

TEST(portal_streams_what_the_viewer_may_see_and_says_what_it_does_not_show)
{
    struct world world;

    world_open(&world, NULL);
    sign_in(&world);
    EXPECT(harness_create(&world.harness, &kind_pod, "default",
                          "{\"metadata\":{\"name\":\"seen\"},\"spec\":{\"containers\":["
                          "{\"name\":\"c\",\"image\":\"i\"}]}}") == 0);
    struct str request =
        request_of(&world, "GET /ui/stream?watch=v1/pods&watch=v1/secrets&namespace=default",
                   world.session.p, "");
    struct str text = received(&world, dial(&world, request), "\"seen\"");
    EXPECT(status_of(text) == 200 && str_contains(text, STR("\"seen\"")));
    text = received(&world, dial(&world, request), "ABSENT");
    EXPECT(str_contains(text, STR("does not show")) && str_contains(text, STR("v1/secrets")));
    world_close(&world);
}

TEST(portal_asks_in_the_name_that_a_proven_proxy_says)
{
#define SECRET "X-Muster-Proxy-Secret: 0123456789abcdef\r\n"
    static const struct {
        const char *headers;
        int status;
        const char *why;
    } rows[] = {
        {SECRET "X-Remote-User: ann\r\nSec-Fetch-Site: same-origin\r\n", 403,
         "she is known, and may not"},
        {SECRET "X-Remote-User: ann\r\nX-Remote-Group: admins\r\nSec-Fetch-Site: same-origin\r\n",
         200, "her group may"},
        {SECRET "X-Remote-User: ann\r\nX-Remote-Group: admins\r\n", 403,
         "the browser does not say that the page asks"},
        {"X-Remote-User: ann\r\nX-Remote-Group: admins\r\nSec-Fetch-Site: same-origin\r\n", 403,
         "anybody can write headers"},
    };
    struct world world;

    world_open(&world, &(struct proxied_rules){.user_header = "X-Remote-User",
                                               .group_header = "X-Remote-Group",
                                               .secret = STR("0123456789abcdef")});
    EXPECT(harness_create(&world.harness, &kind_clusterrolebinding, "",
                          "{\"metadata\":{\"name\":\"admins\"},\"roleRef\":{\"apiGroup\":"
                          "\"rbac.authorization.k8s.io\",\"kind\":\"ClusterRole\",\"name\":"
                          "\"cluster-admin\"},\"subjects\":[{\"kind\":\"Group\",\"apiGroup\":"
                          "\"rbac.authorization.k8s.io\",\"name\":\"admins\"}]}") == 0);
    harness_settle(&world.harness);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        EXPECT(status_of(ask(&world, "GET " CONFIGMAPS, rows[i].headers, "")) == rows[i].status);
    }
    world_close(&world);
#undef SECRET
}
