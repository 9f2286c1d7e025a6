#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "http1/parse.h"
#include "page/file.h"
#include "page/gate.h"
#include "page/proxied.h"
#include "page/session.h"
#include "page/slim.h"
#include "page/turns.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

TEST(page_names_that_nobody_gave_the_server_are_refused)
{
    static const char *const names[] = {"gpu.example.org"};
    static const struct {
        const char *host;
        bool taken;
        const char *why;
    } rows[] = {
        {"127.0.0.1:7443", true, "a number cannot be turned to another address"},
        {"[::1]:7443", true, "nor one of IPv6"},
        {"localhost:7443", true, "browsers keep localhost to this machine"},
        {"LOCALHOST", true, "names have no case"},
        {"gpu.example.org", true, "it was given"},
        {"evil.example.org:7443", false, "an outsider's name that now has our address"},
        {"127.0.0.1.evil.org", false, "begins like a number"},
        {"localhost.evil.org", false, "begins like localhost"},
        {"127.0.0.1evil.", false, "three dots and letters"},
        {"[evil]", false, "brackets around a name"},
        {"[FE80::aF09.1]", true, "every kind of digit"},
        {"[::1/]", false, "a byte below the digits"},
        {"[::1", false, "a bracket that does not close"},
        {"[", false, "a bracket alone"},
        {"1.2.3/4", false, "no digit"},
        {"1.2.3", false, "too few dots"},
        {"[]", false, "brackets around nothing"},
        {"", false, "no name at all"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        EXPECT(gate_host(str_from(rows[i].host), names, COUNT_OF(names)) == rows[i].taken);
    }
}

TEST(page_requests_of_other_sites_are_refused)
{
    static const struct {
        const char *lines;
        bool same;
        const char *why;
    } rows[] = {
        {"", true, "a program says neither"},
        {"Sec-Fetch-Site: same-origin\r\n", true, "the page itself"},
        {"Sec-Fetch-Site: cross-site\r\n", false, "another site"},
        {"Sec-Fetch-Site: same-site\r\n", false, "another port of this host"},
        {"Sec-Fetch-Site: none\r\n", false, "typed by a person: not what the page's code asks"},
        {"Origin: https://127.0.0.1:7443\r\n", true, "the page itself, in an old browser"},
        {"Origin: https://127.0.0.1:9999\r\n", false, "another port"},
        {"Origin: https://evil.org\r\n", false, "another site, in an old browser"},
        {"Origin: null\r\n", false, "a sandboxed frame"},
        {"Sec-Fetch-Site: same-origin\r\nOrigin: https://evil.org\r\n", false, "one says no"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct http_head head;
        struct str text = str_printf(
            &arena, "GET /ui/session HTTP/1.1\r\nHost: 127.0.0.1:7443\r\n%s\r\n", rows[i].lines);

        test_case(rows[i].why);
        EXPECT(http_head_parse(text, &head, NULL) > 0);
        EXPECT(gate_same_origin(&head) == rows[i].same);
    }
}

TEST(page_cookies_are_found_by_their_whole_name)
{
    struct http_head head;
    struct str text = STR("GET / HTTP/1.1\r\nHost: a\r\nCookie: x-muster-1=no; muster-12=no; "
                          "muster-1=yes; empty=\r\n\r\n");

    EXPECT(http_head_parse(text, &head, NULL) > 0);
    EXPECT(str_is(gate_cookie(&head, STR("muster-1")), "yes"));
    EXPECT(str_is(gate_cookie(&head, STR("empty")), ""));
    EXPECT(!gate_cookie(&head, STR("muster")).p);
}

static struct str secret_of(struct arena *arena, int number)
{
    return str_printf(arena, "%064d", number);
}

TEST(page_a_link_signs_in_once_and_not_for_long)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct sessions sessions = {0};
    struct str token = STR_NONE;

    sessions_add_link(&sessions, secret_of(&arena, 1), STR("owner"), STR("owner"), 1000);
    EXPECT(!sessions_use_link(&sessions, &arena, secret_of(&arena, 2), 1000, &token));
    EXPECT(sessions_use_link(&sessions, &arena, secret_of(&arena, 1), 1001, &token));
    EXPECT(str_is(token, "owner"));
    EXPECT(!sessions_use_link(&sessions, &arena, secret_of(&arena, 1), 1002, &token));
    sessions_add_link(&sessions, secret_of(&arena, 3), STR("owner"), STR("owner"), 1000);
    EXPECT(!sessions_use_link(&sessions, &arena, secret_of(&arena, 3), 1000 + SESSION_LINK_MS_MAX,
                              &token));
    for (int i = 0; i < 2 * SESSION_LINK_MAX; i++)
        sessions_add_link(&sessions, secret_of(&arena, 100 + i), STR("owner"),
                          secret_of(&arena, 100 + i), 1000);
    EXPECT(sessions.links.count == SESSION_LINK_MAX);
    sessions_done(&sessions);
}

TEST(page_a_session_needs_both_secrets_and_ends)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct sessions sessions = {0};
    struct str id = secret_of(&arena, 1);
    struct str key = secret_of(&arena, 2);

    sessions_open(&sessions, id, key, STR("ann"), STR("team a"), 0);
    EXPECT(str_is(sessions_find(&sessions, id, key, 1), "ann"));
    EXPECT(str_is(sessions_who(&sessions, id, key, 1), "team a"));
    EXPECT(!sessions_find(&sessions, id, id, 1).p);
    EXPECT(!sessions_who(&sessions, id, id, 1).p);
    EXPECT(!sessions_find(&sessions, id, STR(""), 1).p);
    EXPECT(!sessions_find(&sessions, STR(""), key, 1).p);
    EXPECT(!sessions_find(&sessions, id, key, SESSION_MS_MAX).p);
    sessions_close(&sessions, id);
    EXPECT(!sessions_find(&sessions, id, key, 1).p);
    sessions_done(&sessions);
}

TEST(page_one_who_signs_in_without_end_costs_only_himself)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct sessions sessions = {0};

    sessions_open(&sessions, secret_of(&arena, 1), secret_of(&arena, 1), STR("ann"), STR("ann"), 0);
    for (int i = 2; i < 3 * SESSION_PER_USER_MAX; i++) /* each time with another token */
        sessions_open(&sessions, secret_of(&arena, i), secret_of(&arena, i), secret_of(&arena, i),
                      STR("eve"), 0);
    EXPECT(sessions.open.count == SESSION_PER_USER_MAX + 1);
    EXPECT(str_is(sessions_find(&sessions, secret_of(&arena, 1), secret_of(&arena, 1), 1), "ann"));
    sessions_done(&sessions);
}

TEST(page_of_a_pod_only_what_is_shown_travels)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *pod = NULL;

    EXPECT(json_parse(&arena,
                      STR("{\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\",\"managedFields\":[1]},"
                          "\"spec\":{\"volumes\":[1],\"nodeName\":\"n\",\"containers\":[{\"name\":"
                          "\"c\",\"env\":[1],\"resources\":{}}],\"tolerations\":[]},"
                          "\"status\":{\"phase\":\"Running\"}}"),
                      &pod, NULL) == 0);
    EXPECT(str_is(json_text(&arena, slim(pod)),
                  "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"},\"spec\":{\"nodeName\":\"n\","
                  "\"containers\":[{\"name\":\"c\",\"resources\":{}}]},"
                  "\"status\":{\"phase\":\"Running\"}}"));
}

TEST(page_of_other_objects_what_is_long_stays_behind)
{
    static const struct {
        const char *object;
        const char *want;
        const char *why;
    } rows[] = {
        {"{\"kind\":\"Node\",\"status\":{\"images\":[1],\"daemonEndpoints\":{},\"phase\":\"x\"}}",
         "{\"kind\":\"Node\",\"status\":{\"phase\":\"x\"}}", "a node's images"},
        {"{\"kind\":\"Job\",\"metadata\":{\"annotations\":{"
         "\"kubectl.kubernetes.io/last-applied-configuration\":\"{}\",\"a\":\"b\"}},\"spec\":{}}",
         "{\"kind\":\"Job\",\"metadata\":{\"annotations\":{\"a\":\"b\"}},\"spec\":{}}",
         "what kubectl keeps for itself"},
        {"{\"kind\":\"Pod\"}", "{\"kind\":\"Pod\"}", "a pod without a spec"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *object = NULL;

        test_case(rows[i].why);
        EXPECT(json_parse(&arena, str_from(rows[i].object), &object, NULL) == 0);
        EXPECT(str_is(json_text(&arena, slim(object)), rows[i].want));
    }
}

TEST(page_is_small_and_has_no_code_in_its_markup)
{
    size_t bytes = 0;
    const struct page_file *index = page_file_find(STR("index.html"));

    EXPECT(index != NULL);
    for (size_t i = 0; i < page_file_count; i++) {
        struct str text = {page_files[i].bytes, page_files[i].len};

        bytes += page_files[i].len;
        test_case(page_files[i].name);
        /* The policy refuses what these write; and nothing is loaded from elsewhere. */
        EXPECT(!str_contains(text, STR("innerHTML")));
        EXPECT(!str_contains(text, STR("insertAdjacentHTML")));
        EXPECT(!str_contains(text, STR("document.write")));
        EXPECT(!str_contains(text, STR("src=\"http")));
        EXPECT(!str_contains(text, STR("url(http")));
    }
    EXPECT(bytes <= PAGE_BYTES_MAX);
    EXPECT(!page_file_find(STR("../secret")));
}

TEST(page_turns_are_one_a_user_and_only_so_many)
{
    static const char *const others[] = {"b", "c", "d", "e", "f", "g", "h", "i"};
    struct turns turns = {0};
    int first = turns_take(&turns, STR("a"));

    EXPECT(first >= 0);
    EXPECT(turns_take(&turns, STR("a")) == TURNS_OWN);
    for (int i = 1; i < TURNS_MAX; i++)
        EXPECT(turns_take(&turns, str_from(others[i])) >= 0);
    EXPECT(turns_take(&turns, STR("z")) == TURNS_ALL);
    EXPECT(turns_take(&turns, STR("a")) == TURNS_OWN);
    turns_give(&turns, first);
    EXPECT(turns_take(&turns, STR("z")) == first);
    turns_done(&turns);
}

static const struct proxied_rules proxied_rules = {.user_header = "X-Remote-User",
                                                   .group_header = "X-Remote-Group",
                                                   .secret = {"0123456789abcdef", 16},
                                                   .peer_name = "front"};

TEST(page_believes_headers_of_the_proxy_that_was_configured_and_of_nobody_else)
{
#define SECRET "X-Muster-Proxy-Secret: 0123456789abcdef\r\n"
    static const struct {
        const char *headers;
        const char *peer;
        int result;
        const char *why;
    } rows[] = {
        {"", "", 0, "no proxy says anything: a token may"},
        {SECRET "X-Remote-User: ann\r\n", "", 1, "the secret is the proxy's"},
        {"x-remote-user: ann\r\n", "front", 1, "so is the certificate"},
        {"X-Remote-User: ann\r\n", "", -EPERM, "anybody can write headers"},
        {"X-Remote-Group: admins\r\n", "", -EPERM, "a group alone is a try as well"},
        {"X-Remote-User: ann\r\n", "back", -EPERM, "another certificate of the same authority"},
        {"X-Muster-Proxy-Secret: 0123456789abcdeX\r\nX-Remote-User: ann\r\n", "", -EPERM,
         "a wrong secret"},
        {"X-Muster-Proxy-Secret: 0123456789abcdef0\r\nX-Remote-User: ann\r\n", "", -EPERM,
         "a longer one that begins well"},
        {"X-Muster-Proxy-Secret: 0\r\nX-Remote-User: ann\r\n", "", -EPERM, "a shorter one"},
        {SECRET, "", -EPERM, "the proxy names nobody"},
        {SECRET "X-Remote-User: eve\r\nX-Remote-User: ann\r\n", "", -EPERM,
         "the proxy let its client's header through"},
        {SECRET "X-Remote-User: system:admin\r\n", "", -EPERM, "no person has such a name"},
        {SECRET "X-Remote-User: ann\r\nX-Remote-Group: a, system:masters\r\n", "", -EPERM,
         "nor is a person in such a group"},
        {SECRET "X-Remote-User: ann\r\nX-Remote-Group: a,, b,\r\n", "", 1, "empty groups are none"},
        {SECRET "X-Remote-User: \r\n", "", -EPERM, "a user without a name"},
        {SECRET "X-Remote-User: \xc3\xa4nn\r\n", "", -EPERM, "no ASCII"},
        {"X-Muster-Proxy-Secret: \r\nX-Remote-User: ann\r\n", "", -EPERM, "an empty secret"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct str text =
            str_printf(&arena, "GET /ui/ HTTP/1.1\r\nHost: a\r\n%s\r\n", rows[i].headers);
        struct http_head head;
        struct proxied_user user;
        const char *why = "";

        test_case(rows[i].why);
        EXPECT(http_head_parse(text, &head, NULL) > 0);
        EXPECT(proxied_read(&proxied_rules, &head, str_from(rows[i].peer), &user, &why) ==
               rows[i].result);
        EXPECT(rows[i].result != 1 || str_is(user.name, "ann"));
    }
#undef SECRET
}

TEST(page_takes_groups_of_a_proxy_and_nothing_where_none_is_configured)
{
    struct str text = STR("GET / HTTP/1.1\r\nHost: a\r\nX-Muster-Proxy-Secret: 0123456789abcdef\r\n"
                          "X-Remote-User: ann\r\nX-Remote-Group: ml, vision\r\n"
                          "X-Remote-Group: ops\r\n\r\n");
    struct http_head head;
    struct proxied_user user;
    const char *why = "";

    EXPECT(http_head_parse(text, &head, NULL) > 0);
    EXPECT(proxied_read(&proxied_rules, &head, STR_NONE, &user, &why) == 1);
    EXPECT(user.group_count == 3 && str_is(user.groups[1], "vision") &&
           str_is(user.groups[2], "ops"));
    EXPECT(proxied_read(&(struct proxied_rules){.user_header = "X-Remote-User",
                                                .group_header = "X-Remote-Group"},
                        &head, STR_NONE, &user, &why) == 0);
    /* A certificate alone is enough, and a name that has another one behind it is not that name. */
    struct proxied_rules certified = {
        .user_header = "X-Remote-User", .group_header = "X-Remote-Group", .peer_name = "front"};
    EXPECT(proxied_is_on(&certified) && !proxied_is_on(&(struct proxied_rules){.peer_name = ""}));
    EXPECT(proxied_read(&certified, &head, STR_NONE, &user, &why) == -EPERM);
    EXPECT(proxied_read(&certified, &head, (struct str){"front\0team", 10}, &user, &why) == 1);
    EXPECT(proxied_read(&certified, &head, (struct str){"fron\0t", 6}, &user, &why) == -EPERM);
}

TEST(page_takes_only_so_many_groups_and_so_long_names)
{
    for (int more = 0; more < 2; more++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct http_head head;
        struct proxied_user user;
        const char *why = "";
        struct str groups = STR("");
        struct str name = STR("");

        test_case(more ? "one more than there may be" : "as many as there may be");
        for (int i = 0; i < PROXIED_GROUPS_MAX + more; i++)
            groups = str_printf(&arena, STR_FMT "g%d,", STR_ARG(groups), i);
        for (int i = 0; i < PROXIED_NAME_MAX + more; i++)
            name = str_printf(&arena, STR_FMT "n", STR_ARG(name));
        for (int i = 0; i < 2; i++) {
            struct str text = str_printf(
                &arena,
                "GET / HTTP/1.1\r\nHost: a\r\nX-Muster-Proxy-Secret: 0123456789abcdef\r\n"
                "X-Remote-User: " STR_FMT "\r\nX-Remote-Group: " STR_FMT "\r\n\r\n",
                STR_ARG(i ? name : STR("ann")), STR_ARG(i ? STR("") : groups));

            EXPECT(http_head_parse(text, &head, NULL) > 0);
            EXPECT(proxied_read(&proxied_rules, &head, STR_NONE, &user, &why) ==
                   (more ? -EPERM : 1));
        }
    }
}

TEST(page_secrets_of_another_length_are_none)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct sessions sessions = {0};
    struct str token = STR_NONE;

    sessions_add_link(&sessions, STR("short"), STR(""), STR("ann"), 0);
    EXPECT(!sessions_use_link(&sessions, &arena, STR("short"), 1, &token));
    sessions_open(&sessions, secret_of(&arena, 1), secret_of(&arena, 2), STR(""), STR(""), 0);
    sessions_open(&sessions, secret_of(&arena, 3), secret_of(&arena, 4), STR("b"), STR("bob"),
                  SESSION_MS_MAX); /* with it the first one, which is over, goes */
    EXPECT(sessions.open.count == 1);
    sessions_close(&sessions, secret_of(&arena, 1));
    EXPECT(sessions.open.count == 1);
    sessions_done(&sessions);
}
