#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "server/rewrite.h"
#include "test.h"

#include <stddef.h>

#define PREFIX "/api/v1/namespaces/n/services/s/proxy"

static const struct rewrite_at at = {{PREFIX, sizeof(PREFIX) - 1},
                                     {"127.0.0.1:8001", 14},
                                     {"10.1.0.2:80", 11}};

TEST(a_link_to_the_pod_itself_leads_through_the_proxy)
{
    static const struct {
        const char *url;
        const char *is;
        const char *why;
    } rows[] = {
        {"/x?y#z", PREFIX "/x?y#z", "a path of the same host"},
        {"/", PREFIX "/", "its root"},
        {"x/y", "x/y", "a relative one is right as it is"},
        {"?y", "?y", "so is a question"},
        {"", "", "and none"},
        {"http://10.1.0.2:80/x", PREFIX "/x", "the pod's own address means nothing outside"},
        {"//10.1.0.2:80/x", PREFIX "/x", "without a scheme"},
        {"http://127.0.0.1:8001/x", "http://127.0.0.1:8001" PREFIX "/x",
         "the host that was asked for"},
        {"http://example.com/x", "http://example.com/x", "another host"},
        {"http://10.1.0.2:80", "http://10.1.0.2:80", "no path, as in Kubernetes"},
        {PREFIX "/x", PREFIX "/x", "a program that knows where it is"},
        {"mailto:a@b", "mailto:a@b", "no place"},
        {"javascript:/x/", "javascript:/x/", "nor is this"},
        {"///x", "///x", "no host"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        test_case(rows[i].why);
        EXPECT(str_is(rewrite_url(&arena, &at, str_from(rows[i].url)), rows[i].is));
    }
}

TEST(links_of_a_page_are_rewritten_and_nothing_else)
{
    static const struct {
        const char *page;
        const char *is;
        const char *why;
    } rows[] = {
        {"<a href=\"/x\">/x</a>", "<a href=\"" PREFIX "/x\">/x</a>", "a link"},
        {"<A class=b HREF = '/x' id=c>", "<A class=b HREF = '" PREFIX "/x' id=c>",
         "other letters, quotes and blanks"},
        {"<img src=/x/y.png>", "<img src=" PREFIX "/x/y.png>", "no quotes"},
        {"<a data-x=\">\" href=\"/x\">", "<a data-x=\">\" href=\"" PREFIX "/x\">",
         "a bracket in quotes"},
        {"<div href=\"/x\" title=\"/y\">", "<div href=\"/x\" title=\"/y\">", "no links"},
        {"<script src=\"/s.js\"></script><a href=/x>",
         "<script src=\"" PREFIX "/s.js\"></script><a href=" PREFIX "/x>",
         "a script is behind one"},
        {"<script>a = '<a href=\"/x\">'</script ><a href=/x>",
         "<script>a = '<a href=\"/x\">'</script ><a href=" PREFIX "/x>", "what is in one is not"},
        {"<style><</style><a href=/x>", "<style><</style><a href=" PREFIX "/x>",
         "brackets in a row"},
        {"<!-- <a href=\"/x\"> --><a href=/x>", "<!-- <a href=\"/x\"> --><a href=" PREFIX "/x>",
         "a comment"},
        {"<!--><a href=/x>", "<!--><a href=" PREFIX "/x>", "a short one"},
        {"<!doctype html><p>a < b <<a href=/x>", "<!doctype html><p>a < b <<a href=" PREFIX "/x>",
         "brackets that are none"},
        {"<form action=\"/f\"><input formaction=/g><video poster=/p src=/v/>",
         "<form action=\"" PREFIX "/f\"><input formaction=" PREFIX "/g><video poster=" PREFIX
         "/p src=" PREFIX "/v/>",
         "several"},
        {"<a href=\"/x", "<a href=\"/x", "what ends in the middle stays"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t step = 1; step < 100; step += 98) {
            _cleanup_(buf_done) struct buf out = {0};
            struct rewrite rewrite = {.at = at};
            struct str page = str_from(rows[i].page);

            test_case(rows[i].why);
            for (size_t p = 0; p < page.len; p += step)
                rewrite_html(&rewrite, str_sub(page, p, step), p + step >= page.len, &out);
            EXPECT(str_is(buf_str(&out), rows[i].is));
            rewrite_done(&rewrite);
        }
}

TEST(a_tag_that_does_not_end_is_not_kept)
{
    _cleanup_(buf_done) struct buf out = {0};
    struct rewrite rewrite = {.at = at};

    rewrite_html(&rewrite, STR("<a "), false, &out);
    for (size_t i = 0; i < REWRITE_TAG_MAX; i++)
        rewrite_html(&rewrite, STR("xx"), false, &out);
    EXPECT(rewrite.tag.len == 0 && out.len == 3 + 2 * REWRITE_TAG_MAX);
    rewrite_html(&rewrite, STR("><a href=/x>"), true, &out);
    EXPECT(str_ends(buf_str(&out), STR("><a href=" PREFIX "/x>")));
    rewrite_done(&rewrite);
}

TEST(a_path_that_could_end_an_attribute_is_put_before_no_link)
{
    EXPECT(rewrite_prefix_is_plain(STR("/api/v1/namespaces/n/pods/https:p:443/proxy")));
    EXPECT(!rewrite_prefix_is_plain(STR("/api/v1/a\"b/proxy")));
    EXPECT(!rewrite_prefix_is_plain(STR("/api/v1/a>b/proxy")));
}
