#include "base/arena.h"
#include "base/count.h"
#include "base/str.h"
#include "cel/cel.h"
#include "cel/expression_test.h"
#include "cel/value.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Is function(text) true? */
static bool holds(const char *function, const char *text)
{
    struct arena arena = {0};
    struct str expression = str_printf(&arena, "%s('%s')", function, text);
    struct cel_result result = expression_value(&arena, expression.p, "{}", CEL_COST_MAX);
    bool truth = cel_is_true(result.value);

    test_case(expression.p);
    EXPECT(result.value.type == CEL_BOOL);
    if (result.value.type == CEL_ERROR)
        (void)fprintf(stderr, STR_FMT ": " STR_FMT "\n", STR_ARG(expression),
                      STR_ARG(result.value.s));
    test_case(text);
    arena_done(&arena);
    return truth;
}

TEST(a_quantity_counts_as_kubernetes_has_it)
{
    static const char *const texts[] = {
        "quantity('-1').sign() == -1 && quantity('0').sign() == 0 && quantity('1').sign() == 1",
        "quantity('1k').isInteger() && !(quantity('1m').isInteger())",
        "quantity('50k').asInteger() == 50000 && quantity('0.5').asApproximateFloat() == 0.5",
        "quantity('-1.5').asApproximateFloat() == -1.5",
        "quantity('1').add(2) == quantity('3') && quantity('1').sub(2) == quantity('-1')",
        "quantity('1').add(quantity('500m')) == quantity('1.5')",
        "quantity('1').sub(quantity('500m')).compareTo(quantity('0.5')) == 0",
        "quantity('200M').compareTo(quantity('0.2G')) == 0 && "
        "quantity('1').compareTo(quantity('2')) == -1",
        "quantity('2').compareTo(quantity('1')) == 1 && "
        "!(quantity('1').isGreaterThan(quantity('1')))",
        "quantity('1').isLessThan(quantity('2')) && quantity('1Ki') != quantity('1k')",
        "!isQuantity('') && !isQuantity('1x') && isQuantity('1.5Gi') && isQuantity('-1e3')",
        "'%s'.format([quantity('1500m')]) == '1500m'",
    };
    static const struct expression_error rows[] = {
        {"quantity('1.5').asInteger()", "cannot convert value to integer"},
        {"quantity('x')", "quantities must match the regular expression "
                          "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"},
        {"quantity('9223372036854775807').add(1)", "quantity overflow"},
        {"quantity('-9223372036854775807').sub(1)", "quantity overflow"},
    };

    expression_all_true(texts, COUNT_OF(texts), "{}");
    expression_all_fail(rows, COUNT_OF(rows), "{}");
}

TEST(a_version_is_semantic_and_may_be_normalized)
{
    static const struct {
        const char *text;
        bool strict;
        bool normalized;
    } rows[] = {
        {"1.2.3", true, true},
        {"0.0.0", true, true},
        {"1.0.0-alpha", true, true},
        {"1.0.0-alpha.1", true, true},
        {"1.0.0-0.3.7", true, true},
        {"1.0.0-x-y-z.A1", true, true},
        {"1.0.0+build.01", true, true},
        {"1.0.0-rc.1+Build-5", true, true},
        {"v1.2.3", false, true},
        {"1.2", false, true},
        {"v1", false, true},
        {"01.2.3", false, true},
        {"1.02.003", false, true},
        {"", false, false},
        {"v", false, false},
        {"1.", false, false},
        {"1.2.", false, false},
        {"1.2.3.4", false, false},
        {"a.b.c", false, false},
        {"1.2.x", false, false},
        {"1.2.+3", false, false},
        {"-1.2.3", false, false},
        {"1.2.3-", false, false},
        {"1.2.3-a..b", false, false},
        {"1.2.3-01", false, false},
        {"1.2.3-a_b", false, false},
        {"1.2.3-[", false, false},
        {"1.2.3-@", false, false},
        {"1.2.3-{", false, false},
        {"1.2.3-:", false, false},
        {"1.2.3+", false, false},
        {"1.2.3+a/b", false, false},
        {"1.2-alpha", false, false},
        {"1.2+build", false, false},
        {"1.99999999999999999999.3", false, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct str call = str_printf(&arena, "isSemver('%s', true)", rows[i].text);

        EXPECT(holds("isSemver", rows[i].text) == rows[i].strict);
        EXPECT(cel_is_true(expression_value(&arena, call.p, "{}", CEL_COST_MAX).value) ==
               rows[i].normalized);
        arena_done(&arena);
    }
}

TEST(versions_are_in_the_order_that_semver_says)
{
    static const char *const order[] = {
        "1.0.0-1",     "1.0.0-2",       "1.0.0-10",
        "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta",
        "1.0.0-beta",  "1.0.0-beta.2",  "1.0.0-beta.11",
        "1.0.0-rc.1",  "1.0.0",         "1.0.1",
        "1.1.0",       "2.0.0",
    };
    static const char *const texts[] = {
        "semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && "
        "semver('1.2.3').patch() == 3",
        "semver('v1.2', true) == semver('1.2.0') && semver('01.02.3', true) == semver('1.2.3')",
        "semver('1.0.0+a') == semver('1.0.0+b') && semver('1.0.0-a') != semver('1.0.0-b')",
        "'%s %s'.format([semver('1.2.3'), semver('1.2.3-rc.1')]) == '1.2.3 1.2.3-rc.1'",
        "semver('1.2.3', false) == semver('1.2.3')",
    };
    static const struct expression_error rows[] = {
        {"semver('1.2')", "\"1.2\" is no semantic version"},
        {"semver('v1.2.3', false)", "\"v1.2.3\" is no semantic version"},
    };

    for (size_t i = 0; i < COUNT_OF(order) * COUNT_OF(order); i++) {
        size_t a = i / COUNT_OF(order);
        size_t b = i % COUNT_OF(order);
        struct arena arena = {0};
        struct str text = str_printf(
            &arena,
            "semver('%s').compareTo(semver('%s')) == %d && "
            "semver('%s').isLessThan(semver('%s')) == %s && (semver('%s') == semver('%s')) == %s",
            order[a], order[b], a < b ? -1 : a > b, order[a], order[b], a < b ? "true" : "false",
            order[a], order[b], a == b ? "true" : "false");

        test_case(text.p);
        EXPECT(cel_is_true(expression_value(&arena, text.p, "{}", CEL_COST_MAX).value));
        arena_done(&arena);
    }
    expression_all_true(texts, COUNT_OF(texts), "{}");
    expression_all_fail(rows, COUNT_OF(rows), "{}");
}

TEST(a_named_format_tells_what_is_wrong_with_a_text)
{
    static const struct {
        const char *format;
        const char *text;
        bool good;
    } rows[] = {
        {"dns1123Label", "my-name", true},
        {"dns1123Label", "My-name", false},
        {"dns1123Label", "my-name-", false},
        {"dns1123Subdomain", "a.b-c.d", true},
        {"dns1123Subdomain", "a..b", false},
        {"dns1035Label", "a1", true},
        {"dns1035Label", "1a", false},
        {"qualifiedName", "example.com/name", true},
        {"qualifiedName", "a/b/c", false},
        {"labelValue", "", true},
        {"labelValue", "a b", false},
        {"dns1123LabelPrefix", "my-name-", true},
        {"dns1123LabelPrefix", "my-name", true},
        {"dns1123LabelPrefix", "my-name--", true},
        {"dns1123LabelPrefix", "-", false},
        {"dns1123LabelPrefix", "", false},
        {"dns1123LabelPrefix", "-a-", false},
        {"dns1123SubdomainPrefix", "a.b-", true},
        {"dns1123SubdomainPrefix", "AB-", false},
        {"dns1035LabelPrefix", "a-", true},
        {"dns1035LabelPrefix", "1a-", false},
        {"uri", "https://example.com/a?b", true},
        {"uri", "/a", true},
        {"uri", "a/b", false},
        {"uri", "", false},
        {"uri", "http://a b/", false},
        {"uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", true},
        {"uuid", "6BA7B8109DAD11D180B400C04FD430C8", true},
        {"uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c", false},
        {"uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8a", false},
        {"uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430cg", false},
        {"uuid", "6ba7b81-09dad-11d1-80b4-00c04fd430c8", false},
        {"uuid", "6ba7b810--9dad-11d1-80b4-00c04fd430c8", false},
        {"uuid", "6ba7b810/9dad/11d1/80b4/00c04fd430c8", false},
        {"uuid", "6ba7b810:9dad-11d1-80b4-00c04fd430c8", false},
        {"uuid", "6ba7b810@9dad-11d1-80b4-00c04fd430c8", false},
        {"byte", "aGk=", true},
        {"byte", "a", false},
        {"date", "2024-02-29", true},
        {"date", "2023-02-29", false},
        {"date", "2024-02-29T00:00:00Z", false},
        {"datetime", "2024-02-29T00:00:00Z", true},
        {"datetime", "2024-02-29", false},
        {"datetime", "2024-02-29T25:00:00Z", false},
    };
    struct arena arena = {0};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct str called =
            str_printf(&arena, "format.%s().validate('%s').hasValue() == %s", rows[i].format,
                       rows[i].text, rows[i].good ? "false" : "true");
        struct str named = str_printf(
            &arena,
            "format.named('%s').value() == format.%s() && "
            "format.named('%s').value().validate('%s').orValue([]).size() == %d",
            rows[i].format, rows[i].format, rows[i].format, rows[i].text, rows[i].good ? 0 : 1);

        expression_all_true(&called.p, 1, "{}");
        expression_all_true(&named.p, 1, "{}");
    }
    arena_done(&arena);
}

/* ---- addresses ---- */

TEST(an_address_is_one_only_in_a_form_that_kubernetes_takes)
{
    static const struct {
        const char *text;
        const char *as; /* NULL: it is none */
    } rows[] = {
        {"127.0.0.1", "127.0.0.1"},
        {"255.255.255.255", "255.255.255.255"},
        {"::", "::"},
        {"::1", "::1"},
        {"1::", "1::"},
        {"2001:DB8:0:0:0:0:0:1", "2001:db8::1"},
        {"2001:db8::ABcd:0:1", "2001:db8::abcd:0:1"},
        {"1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"},
        {"1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"},
        {"1:0:0:2:0:0:0:3", "1:0:0:2::3"},
        {"1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"},
        {"::1.2.3.4", "::102:304"},
        {"64:ff9b::1.2.3.4", "64:ff9b::102:304"},
        {"", NULL},
        {"1.2.3", NULL},
        {"1.2.3.4.5", NULL},
        {"1.2.3.4.", NULL},
        {"1.2..4", NULL},
        {"1.2.3.1000", NULL},
        {"1.2.3.256", NULL},
        {"1.2.3.04", NULL},
        {"1.2.3.x", NULL},
        {"1.2.3.4::", NULL},
        {"1:1.2.3.4::", NULL},
        {"::1.2.3", NULL},
        {"1:2:3:4:5:6:7:1.2.3.4", NULL},
        {":", NULL},
        {":::", NULL},
        {"1::2::3", NULL},
        {"1:2:3:4:5:6:7", NULL},
        {"1:2:3:4:5:6:7:8:9", NULL},
        {"1:2:3:4:5:6:7:8::", NULL},
        {"1:2:3:4::5:6:7:8", NULL},
        {"12345::", NULL},
        {"g::", NULL},
        {"G::", NULL},
        {"::/", NULL},
        {"::@", NULL},
        {"::`", NULL},
        {":1:2:3:4:5:6:7", NULL},
        {"1:2:3:4:5:6:7:", NULL},
        {"::ffff:1.2.3.4", NULL},
        {"fe80::1%eth0", NULL},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};

        EXPECT(holds("isIP", rows[i].text) == (rows[i].as != NULL));
        if (rows[i].as) {
            struct str text =
                str_printf(&arena, "string(ip('%s')) == '%s'", rows[i].text, rows[i].as);

            expression_all_true(&text.p, 1, "{}");
            EXPECT(holds("ip.isCanonical", rows[i].text) ==
                   str_is(str_from(rows[i].text), rows[i].as));
        }
        arena_done(&arena);
    }
}

TEST(a_network_is_an_address_and_the_length_of_its_prefix)
{
    static const struct {
        const char *text;
        bool good;
    } rows[] = {
        {"10.0.0.0/8", true},   {"10.0.0.1/32", true},        {"0.0.0.0/0", true},
        {"::/0", true},         {"2001:db8::/128", true},     {"10.0.0.0", false},
        {"10.0.0/8", false},    {"10.0.0.0/", false},         {"10.0.0.0/33", false},
        {"::/129", false},      {"10.0.0.0/08", false},       {"10.0.0.0/x", false},
        {"10.0.0.0/-1", false}, {"::ffff:1.2.3.4/96", false},
    };
    static const char *const texts[] = {
        "cidr('10.0.0.0/12').containsIP('10.15.0.1') && "
        "!cidr('10.0.0.0/12').containsIP('10.16.0.1')",
        "cidr('10.0.0.0/8').containsIP(ip('10.1.2.3')) && !cidr('10.0.0.0/8').containsIP('::1')",
        "cidr('0.0.0.0/0').containsIP('1.2.3.4') && cidr('::/0').containsIP('ff::')",
        "!cidr('10.0.0.0/16').containsCIDR('10.0.0.0/8') && "
        "cidr('10.0.0.0/8').containsCIDR('10.0.0.0/8')",
        "!cidr('10.0.0.0/8').containsCIDR(cidr('11.0.0.0/16'))",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && "
        "string(cidr('10.1.2.3/8')) == '10.1.2.3/8'",
        "cidr('10.1.2.3/8').ip() == ip('10.1.2.3') && cidr('10.1.2.3/8').prefixLength() == 8",
        "cidr('10.0.0.0/8') != cidr('10.0.0.0/9') && ip('10.0.0.0') != ip('10.0.0.1')",
        "ip('::') != ip('0.0.0.0') && ip('::1').family() == 6 && ip('1.2.3.4').family() == 4",
    };
    static const struct expression_error errors[] = {
        {"ip('x')", "IP Address \"x\" parse error during conversion from string"},
        {"ip.isCanonical('x')", "IP Address \"x\" parse error during conversion from string"},
        {"cidr('x')", "network address parse error during conversion from string: \"x\""},
        {"cidr('10.0.0.0/8').containsIP('x')",
         "IP Address \"x\" parse error during conversion from string"},
        {"cidr('10.0.0.0/8').containsCIDR('x')",
         "network address parse error during conversion from string: \"x\""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        EXPECT(holds("isCIDR", rows[i].text) == rows[i].good);
    expression_all_true(texts, COUNT_OF(texts), "{}");
    expression_all_fail(errors, COUNT_OF(errors), "{}");
}

/* ---- URLs ---- */

TEST(a_url_is_absolute_or_a_path_and_read_as_go_does)
{
    static const struct {
        const char *text;
        bool good;
    } rows[] = {
        {"https://example.com:80/a/b?c#d", true},
        {"/path", true},
        {"//host/path", true},
        {"*", true},
        {"mailto:someone@example.com", true},
        {"a+b-c.d1:x", true},
        {"https://[::1]/", true},
        {"https://[::1]:80", true},
        {"https://[fe80::1%25eth0]/", true},
        {"https://user:p%40ss@h/", true},
        {"https://a@b@h/", true},
        {"https://h:/", true},
        {"https:///path", true},
        {"https://h/a b", true},
        {"https://h/%41", true},
        {"https://h/?%zz", true},
        {"https://%C3%A9/", true},
        {"https://\u00e9/", true},
        {"", false},
        {"path", false},
        {"../a", false},
        {":80/a", false},
        {"1http://h", false},
        {"a_b:c", false},
        {"https", false},
        {"https://h/%4", false},
        {"https://h/%g1", false},
        {"https://h/%1g", false},
        {"https://h/#%zz", false},
        {"https://h#a", false},
        {"https://h:x/", false},
        {"https://a:b:c/", false},
        {"https://[::1/", false},
        {"https://[::1]x/", false},
        {"https://[::1]:x/", false},
        {"https://h i/", false},
        {"https://h%41/", false},
        {"https://h%/", false},
        {"https://h^/", false},
        {"https://us er@h/", false},
        {"https://us%er@h/", false},
        {"https://user@h:x/", false},
        {"https://h/\\n", false},
        {"https://h/\\x7f", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        EXPECT(holds("isURL", rows[i].text) == rows[i].good);
}

TEST(a_url_has_parts)
{
    static const char *const texts[] = {
        "url('HTTPS://Example.com:80/a').getScheme() == 'https'",
        "url('https://user@Example.com:80/a').getHost() == 'Example.com:80'",
        "url('https://example.com:80/').getHostname() == 'example.com' && "
        "url('https://example.com:80/').getPort() == '80'",
        "url('https://[::1]:80/').getHost() == '[::1]:80' && "
        "url('https://[::1]:80/').getHostname() == '::1'",
        "url('https://[::1]/').getPort() == '' && url('https://[::1]/').getHostname() == '::1'",
        "url('https://a@b@h/').getHost() == 'h' && url('https://h:/').getPort() == ''",
        "url('https://[fe80::1%25eth0]/').getHostname() == 'fe80::1%eth0'",
        "url('https://%C3%A9/').getHost() == '\u00e9' && url('https:///p').getHost() == ''",
        "url('//host:1/path').getHost() == 'host:1' && url('//host/path').getEscapedPath() == "
        "'/path'",
        "url('///path').getHost() == '' && url('///path').getEscapedPath() == '///path'",
        "url('mailto:a@b').getScheme() == 'mailto' && url('mailto:a@b').getEscapedPath() == ''",
        "url('mailto:a@b').getHost() == '' && url('/p').getScheme() == ''",
        "url('https://h/path with spaces/').getEscapedPath() == '/path%20with%20spaces/'",
        "url('https://h/a%20b').getEscapedPath() == '/a%20b' && url('https://h').getEscapedPath() "
        "== ''",
        "url('https://h/a%2Fb c').getEscapedPath() == '/a/b%20c'",
        "url('https://h/\u00e9~(1)').getEscapedPath() == '/%C3%A9~%281%29'",
        "url('https://h/a(1)').getEscapedPath() == '/a(1)' && "
        "url('https://h/a#b').getEscapedPath() == '/a'",
        "url('https://h/?').getQuery() == {} && url('https://h/').getQuery() == {}",
        "url('https://h/?k=v&&k=w&e&s=a+b%21').getQuery() == "
        "{'k': ['v', 'w'], 'e': [''], 's': ['a b!']}",
        "url('https://h/?a=%zz&b=1;2&c=3#d').getQuery() == {'c': ['3']}",
        "url('HTTP://h/a') == url('http://h/a') && url('http://h/a') != url('http://h/b')",
        "url('http://h/a b?c#d') == url('http://h/a%20b?c#d') && "
        "url('http://h/a#b') != url('http://h/a#c')",
        "url('mailto:a') == url('MAILTO:a') && url('mailto:a') != url('mailto:b')",
    };
    static const struct expression_error rows[] = {
        {"url('x')", "URL parse error during conversion from string: \"x\""},
    };

    expression_all_true(texts, COUNT_OF(texts), "{}");
    expression_all_fail(rows, COUNT_OF(rows), "{}");
}
