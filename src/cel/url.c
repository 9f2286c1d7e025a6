#include "cel/url.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "base/vec.h"
#include "cel/object.h"
#include "cel/run.h"
#include "cel/text.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A text is read twice, as there: first as what a request names, which is absolute and has no
 * fragment, then as a URL that may have one. */

static bool is_letter(char c)
{
    char lower = (char)(c | 0x20);

    return lower >= 'a' && lower <= 'z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A letter, a digit or one of the others. */
static bool is_plain(char c, const char *others)
{
    return is_letter(c) || is_digit(c) || (c && strchr(others, c) != NULL);
}

static bool has_controls(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.p[i] < 0x20 || text.p[i] == 0x7f)
            return true;
    return false;
}

/* Two hexadecimal digits are behind every %. */
static bool escapes_are_right(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.p[i] == '%' &&
            (i + 2 >= text.len || text_hex(text.p[i + 1]) < 0 || text_hex(text.p[i + 2]) < 0))
            return false;
    return true;
}

/* %41 as what it means, and in a query + too. The escapes are right. */
static struct str unescape(struct arena *arena, struct str text, bool query)
{
    char *out = str_c(arena, text);
    size_t len = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.p[i];

        if (c == '%') {
            c = (char)(text_hex(text.p[i + 1]) << 4 | text_hex(text.p[i + 2]));
            i += 2;
        } else if (c == '+' && query) {
            c = ' ';
        }
        out[len++] = c;
    }
    return (struct str){out, len};
}

/* ---- who is asked ---- */

/* ":80", ":" or nothing. */
static bool is_port(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (i == 0 ? text.p[i] != ':' : !is_digit(text.p[i]))
            return false;
    return true;
}

/* What has no sign of its own in ASCII is written as it is; % is for what is not ASCII, and for
 * the % before a zone. */
static bool is_host(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        bool escape = text.p[i] == '%';
        bool ascii = (unsigned char)text.p[i] < 0x80;

        if (escape && text_hex(text.p[i + 1]) < 8 && !str_starts(str_sub(text, i, 3), STR("%25")))
            return false;
        if (!escape && ascii && !is_plain(text.p[i], "!$&'()*+,;=:[]<>\"-_.~"))
            return false;
    }
    return true;
}

static size_t last_of(struct str text, struct str sign)
{
    return text_find_last(text, sign, text.len);
}

static bool parse_host(struct arena *arena, struct str text, struct cel_url *url)
{
    size_t close = last_of(text, STR("]"));
    size_t colon = last_of(text, STR(":"));
    bool bracket = str_starts(text, STR("["));

    if (bracket && (close == SIZE_MAX || !is_port(str_sub(text, close + 1, text.len))))
        return false;
    if (!bracket && colon != SIZE_MAX && !is_port(str_sub(text, colon, text.len)))
        return false;
    if (!escapes_are_right(text) || !is_host(text))
        return false;
    struct str host = unescape(arena, text, false);
    url->host = host;
    colon = last_of(host, STR(":"));
    if (colon != SIZE_MAX && is_port(str_sub(host, colon, host.len))) {
        url->port = str_sub(host, colon + 1, host.len);
        host = str_sub(host, 0, colon);
    }
    url->hostname = bracket ? str_sub(host, 1, host.len - 2) : host;
    return true;
}

static bool parse_authority(struct arena *arena, struct str text, struct cel_url *url)
{
    size_t at = last_of(text, STR("@"));

    if (at == SIZE_MAX)
        return parse_host(arena, text, url);
    struct str user = str_sub(text, 0, at);
    for (size_t i = 0; i < user.len; i++)
        if (!is_plain(user.p[i], "-._:~!$&'()*+,;=%@"))
            return false;
    return escapes_are_right(user) && parse_host(arena, str_sub(text, at + 1, text.len), url);
}

/* ---- the whole ---- */

/* As it is, where it could be written so; else with all escaped that needs it. */
static struct str escaped_path(struct arena *arena, struct str text)
{
    static const char digits[] = "0123456789ABCDEF";
    struct buf out = {.bytes_max = 3 * text.len + 1};
    bool right = true;

    for (size_t i = 0; i < text.len; i++)
        right &= is_plain(text.p[i], "-_.~$&+,/:;=@!'()*[]%");
    if (right)
        return text;
    struct str plain = unescape(arena, text, false);
    for (size_t i = 0; i < plain.len; i++) {
        unsigned char byte = (unsigned char)plain.p[i];

        if (is_plain(plain.p[i], "-_.~$&+,/:;=@")) {
            buf_addc(&out, plain.p[i]);
            continue;
        }
        buf_addc(&out, '%');
        buf_addc(&out, digits[byte >> 4]);
        buf_addc(&out, digits[byte & 15]);
    }
    struct str path = str_dup(arena, buf_str(&out));
    buf_done(&out);
    return path;
}

static struct str lower(struct arena *arena, struct str text)
{
    char *out = str_c(arena, text);

    for (size_t i = 0; i < text.len; i++)
        out[i] = is_letter(out[i]) ? (char)(out[i] | 0x20) : out[i];
    return (struct str){out, text.len};
}

/* The length of "https" in "https://..."; 0: it has no scheme. */
static size_t scheme_len(struct str text)
{
    size_t len = 0;

    while (len < text.len && (len ? is_plain(text.p[len], "+-.") : is_letter(text.p[len])))
        len++;
    return len < text.len && text.p[len] == ':' ? len : 0;
}

static bool parse_once(struct arena *arena, struct str text, bool request, struct cel_url *ret)
{
    size_t scheme = scheme_len(text);
    struct str rest = scheme ? str_sub(text, scheme + 1, text.len) : text;
    size_t mark = str_find(rest, '?');
    struct str before = STR(""); /* the path */

    *ret = (struct cel_url){.scheme = lower(arena, str_sub(text, 0, scheme)),
                            .host = STR(""),
                            .hostname = STR(""),
                            .port = STR(""),
                            .path = STR(""),
                            .query = str_sub(rest, mark + 1, rest.len)};
    struct str query = str_sub(rest, mark, rest.len);
    rest = str_sub(rest, 0, mark);
    bool rooted = str_starts(rest, STR("/"));
    if (!rooted && !scheme && !str_is(text, "*"))
        return false;
    if (!rooted && scheme) { /* mailto:someone has neither a host nor a path */
        before = rest;
        rest = STR("");
    }
    bool named = scheme || (!request && !str_starts(rest, STR("///")));
    if (named && str_starts(rest, STR("//"))) {
        before = str_sub(rest, 0, 2 + str_find(str_sub(rest, 2, rest.len), '/'));
        if (!parse_authority(arena, str_sub(before, 2, before.len), ret))
            return false;
        rest = str_sub(rest, before.len, rest.len);
    }
    if (!escapes_are_right(rest))
        return false;
    ret->path = escaped_path(arena, rest);
    ret->text = str_printf(arena, STR_FMT "%s" STR_FMT STR_FMT STR_FMT, STR_ARG(ret->scheme),
                           scheme ? ":" : "", STR_ARG(before), STR_ARG(ret->path), STR_ARG(query));
    return true;
}

static bool parse_url(struct arena *arena, struct str text, struct cel_url *ret)
{
    size_t mark = str_find(text, '#');
    struct str fragment = str_sub(text, mark, text.len);

    if (has_controls(text) || !escapes_are_right(fragment) || !parse_once(arena, text, true, ret) ||
        !parse_once(arena, str_sub(text, 0, mark), false, ret))
        return false;
    ret->text = str_printf(arena, STR_FMT STR_FMT, STR_ARG(ret->text), STR_ARG(fragment));
    return true;
}

bool url_is(struct str text)
{
    struct arena arena = {0};
    struct cel_url url = {0};
    bool good = parse_url(&arena, text, &url);

    arena_done(&arena);
    return good;
}

/* ---- functions ---- */

/* Of the text: its parts, and a path of which each byte may become three, twice. */
#define URL_BYTES_A_BYTE 16

static struct cel_value fn_url(struct cel_run *run, const struct cel_value *args, size_t count)
{
    (void)count;
    if (args[0].type != CEL_STRING)
        return run_no_overload();
    if (!run_charge_text(run, args[0].s.len) || !run_room(run, args[0].s.len * URL_BYTES_A_BYTE))
        return run->stopped;
    struct cel_url *url = ARENA_NEW(run->arena, struct cel_url);
    if (!parse_url(run->arena, args[0].s, url))
        return cel_error(
            str_printf(run->arena, "URL parse error during conversion from string: \"" STR_FMT "\"",
                       STR_ARG(str_sub(args[0].s, 0, 100))));
    return (struct cel_value){.type = CEL_URL, .url = url};
}

static struct cel_value fn_is_url(struct cel_run *run, const struct cel_value *args, size_t count)
{
    (void)count;
    if (args[0].type != CEL_STRING)
        return run_no_overload();
    return run_charge_text(run, args[0].s.len) ? cel_bool(url_is(args[0].s)) : run->stopped;
}

#define URL_FUNCTION(id, part)                                                                  \
    static struct cel_value id(struct cel_run *run, const struct cel_value *args, size_t count) \
    {                                                                                           \
        (void)run;                                                                              \
        (void)count;                                                                            \
        return args[0].type == CEL_URL ? cel_string(args[0].url->part) : run_no_overload();     \
    }
URL_FUNCTION(fn_scheme, scheme)
URL_FUNCTION(fn_host, host)
URL_FUNCTION(fn_hostname, hostname)
URL_FUNCTION(fn_port, port)
URL_FUNCTION(fn_path, path)

struct parameter {
    struct str name;
    VEC(struct cel_value) values;
};

struct parameters VEC_FIELDS(struct parameter);

static struct parameter *parameter_of(struct cel_run *run,
                                      struct parameters *parameters,
                                      struct str name)
{
    for (size_t i = 0; i < parameters->count; i++)
        if (str_eq(parameters->items[i].name, name))
            return &parameters->items[i];
    VEC_PUSH(run->arena, parameters, (struct parameter){.name = name});
    return &parameters->items[parameters->count - 1];
}

/* What cannot be read is left out: escapes that are not right, and ; that was once a separator. */
static struct cel_value fn_query(struct cel_run *run, const struct cel_value *args, size_t count)
{
    struct parameters parameters = {0};
    struct str part = STR_NONE;

    (void)count;
    if (args[0].type != CEL_URL)
        return run_no_overload();
    struct str rest = args[0].url->query;
    if (!run_charge_text(run, rest.len * 10) || !run_room(run, rest.len * 100))
        return run->stopped;
    while (str_cut(&rest, '&', &part)) {
        size_t equals = str_find(part, '=');

        if (!part.len || str_find(part, ';') < part.len || !escapes_are_right(part))
            continue;
        if (!run_charge(run, 1 + parameters.count / 10))
            return run->stopped;
        struct parameter *found =
            parameter_of(run, &parameters, unescape(run->arena, str_sub(part, 0, equals), true));
        VEC_PUSH(run->arena, &found->values,
                 cel_string(unescape(run->arena, str_sub(part, equals + 1, part.len), true)));
    }
    struct cel_entry *entries = ARENA_ARRAY(run->arena, struct cel_entry, parameters.count);
    for (size_t i = 0; i < parameters.count; i++)
        entries[i] = (struct cel_entry){cel_string(parameters.items[i].name),
                                        cel_new_list(run->arena, parameters.items[i].values.items,
                                                     parameters.items[i].values.count)};
    return cel_new_map(run->arena, entries, parameters.count);
}

const struct cel_function cel_functions_url[] = {
    {"url", false, 1, 1, CEL_URL, fn_url, "s>U"},
    {"isURL", false, 1, 1, CEL_BOOL, fn_is_url, "s>b"},
    {"getScheme", true, 1, 1, CEL_STRING, fn_scheme, "U>s"},
    {"getHost", true, 1, 1, CEL_STRING, fn_host, "U>s"},
    {"getHostname", true, 1, 1, CEL_STRING, fn_hostname, "U>s"},
    {"getPort", true, 1, 1, CEL_STRING, fn_port, "U>s"},
    {"getEscapedPath", true, 1, 1, CEL_STRING, fn_path, "U>s"},
    {"getQuery", true, 1, 1, CEL_MAP, fn_query, "U>{s[s]}"},
    {0},
};
