#include "server/rewrite.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* ---- one link ---- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

static size_t find_any(struct str text, const char *set)
{
    size_t i = 0;

    while (i < text.len && !strchr(set, text.p[i]))
        i++;
    return i;
}

/* "http:" is 5; 0: it has no scheme. */
static size_t scheme_length(struct str url)
{
    size_t i = 0;

    if (!url.len || !is_letter(url.p[0]))
        return 0;
    while (i < url.len && (is_letter(url.p[i]) || (url.p[i] >= '0' && url.p[i] <= '9') ||
                           url.p[i] == '+' || url.p[i] == '-' || url.p[i] == '.'))
        i++;
    return i < url.len && url.p[i] == ':' ? i + 1 : 0;
}

struct str rewrite_url(struct arena *arena, const struct rewrite_at *at, struct str url)
{
    size_t path = scheme_length(url);
    bool same_host = false;

    if (path && !str_starts(str_sub(url, path, url.len), STR("//")))
        return url; /* mailto:, javascript: */
    if (str_starts(str_sub(url, path, url.len), STR("//"))) {
        struct str rest = str_sub(url, path + 2, url.len);
        struct str host = str_sub(rest, 0, find_any(rest, "/?#"));

        same_host = str_eq(host, at->host);
        if (!host.len || (!same_host && !str_eq(host, at->pod)))
            return url;
        path += 2 + host.len;
    }
    struct str rest = str_sub(url, path, url.len);
    if (!str_starts(rest, STR("/")))
        return url;
    return str_printf(arena, STR_FMT STR_FMT STR_FMT,
                      STR_ARG(same_host ? str_sub(url, 0, path) : STR("")),
                      STR_ARG(str_starts(rest, at->prefix) ? STR("") : at->prefix), STR_ARG(rest));
}

bool rewrite_prefix_is_plain(struct str prefix)
{
    for (size_t i = 0; i < prefix.len; i++)
        if (!is_letter(prefix.p[i]) && !(prefix.p[i] >= '0' && prefix.p[i] <= '9') &&
            !strchr("/:._-~%", prefix.p[i]))
            return false;
    return true;
}

/* ---- one tag ---- */

/* Which attributes of which elements are links, in HTML 4 and 5. */
static const struct {
    const char *element;
    const char *attribute;
} links[] = {
    {"a", "href"},          {"applet", "codebase"},   {"area", "href"},
    {"audio", "src"},       {"base", "href"},         {"blockquote", "cite"},
    {"body", "background"}, {"button", "formaction"}, {"command", "icon"},
    {"del", "cite"},        {"embed", "src"},         {"form", "action"},
    {"frame", "longdesc"},  {"frame", "src"},         {"head", "profile"},
    {"html", "manifest"},   {"iframe", "longdesc"},   {"iframe", "src"},
    {"img", "longdesc"},    {"img", "src"},           {"img", "usemap"},
    {"input", "src"},       {"input", "usemap"},      {"input", "formaction"},
    {"ins", "cite"},        {"link", "href"},         {"object", "classid"},
    {"object", "codebase"}, {"object", "data"},       {"object", "usemap"},
    {"q", "cite"},          {"script", "src"},        {"source", "src"},
    {"video", "poster"},    {"video", "src"},
};

/* Elements whose content is text, whatever it looks like. */
static const char *const raw_elements[] = {"script", "style",  "textarea", "title",
                                           "xmp",    "iframe", "noembed",  "noframes"};

static char small(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_word(struct str text, const char *word)
{
    if (text.len != strlen(word))
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (small(text.p[i]) != word[i])
            return false;
    return true;
}

static bool is_link(struct str element, struct str attribute)
{
    for (size_t i = 0; i < COUNT_OF(links); i++)
        if (is_word(element, links[i].element) && is_word(attribute, links[i].attribute))
            return true;
    return false;
}

static size_t skip_blanks(struct str text, size_t at)
{
    while (at < text.len && is_blank(text.p[at]))
        at++;
    return at;
}

struct span {
    size_t begin;
    size_t end;
};

/* The attribute at `at`, and where the next one may begin. */
static size_t next_attribute(struct str tag, size_t at, struct span *ret_name, struct span *ret)
{
    size_t begin = at;

    while (at < tag.len && !is_blank(tag.p[at]) && !strchr("/>=", tag.p[at]))
        at++;
    if (at == begin && at < tag.len) /* a stray '=' or '/' */
        at++;
    *ret_name = (struct span){begin, at};
    *ret = (struct span){0, 0};
    size_t equals = skip_blanks(tag, at);
    if (equals >= tag.len || tag.p[equals] != '=')
        return at;
    at = skip_blanks(tag, equals + 1);
    if (at < tag.len && (tag.p[at] == '"' || tag.p[at] == '\'')) {
        struct str rest = str_sub(tag, at + 1, tag.len);
        size_t len = str_find(rest, tag.p[at]);

        *ret = (struct span){at + 1, at + 1 + len};
        return at + 2 + len;
    }
    begin = at;
    while (at < tag.len && !is_blank(tag.p[at]) && tag.p[at] != '>')
        at++;
    *ret = (struct span){begin, at};
    return at;
}

static struct str name_of(struct str tag)
{
    return str_sub(tag, 1, find_any(str_sub(tag, 1, tag.len), " \t\n\r\f/>"));
}

/* A whole start tag, "<a href=...>". */
static void put_tag(const struct rewrite *rewrite, struct str tag, struct buf *out)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str element = name_of(tag);
    size_t done = 0;

    for (size_t at = 1 + element.len; at < tag.len;) {
        struct span name;
        struct span value;

        if (is_blank(tag.p[at]) || strchr("/>", tag.p[at])) {
            at++;
            continue;
        }
        at = next_attribute(tag, at, &name, &value);
        if (value.end <= value.begin ||
            !is_link(element, str_sub(tag, name.begin, name.end - name.begin)))
            continue;
        buf_add(out, str_sub(tag, done, value.begin - done));
        buf_add(out, rewrite_url(&arena, &rewrite->at,
                                 str_sub(tag, value.begin, value.end - value.begin)));
        done = value.end;
    }
    buf_add(out, str_sub(tag, done, tag.len));
}

/* ---- a page in pieces ---- */

static void flush(struct rewrite *rewrite, struct buf *out)
{
    buf_add(out, buf_str(&rewrite->tag));
    buf_clear(&rewrite->tag);
}

static void end_tag(struct rewrite *rewrite, struct buf *out)
{
    struct str tag = buf_str(&rewrite->tag);
    struct str name = name_of(tag);

    rewrite->state = REWRITE_TEXT;
    if (tag.len > 1 && is_letter(tag.p[1])) {
        put_tag(rewrite, tag, out);
        for (size_t i = 0; i < COUNT_OF(raw_elements); i++)
            if (is_word(name, raw_elements[i])) {
                rewrite->state = REWRITE_RAW;
                memcpy(rewrite->raw, raw_elements[i], strlen(raw_elements[i]) + 1);
            }
        buf_clear(&rewrite->tag);
        return;
    }
    flush(rewrite, out);
}

static void in_tag(struct rewrite *rewrite, char c, struct buf *out)
{
    struct buf *tag = &rewrite->tag;

    buf_addc(tag, c);
    if (tag->len == 2 && !is_letter(c) && !strchr("/!?", c)) { /* "a < b" */
        rewrite->state = REWRITE_TEXT;
        if (c != '<') {
            flush(rewrite, out);
            return;
        }
        buf_addc(out, '<');
        buf_clear(tag);
        buf_addc(tag, '<');
        rewrite->state = REWRITE_TAG;
        return;
    }
    if (str_is(buf_str(tag), "<!--")) {
        flush(rewrite, out);
        rewrite->state = REWRITE_COMMENT;
        rewrite->raw[0] = 2; /* "<!-->" is one that is empty */
        return;
    }
    if (rewrite->quote) {
        if (c == rewrite->quote)
            rewrite->quote = 0;
    } else if ((c == '"' || c == '\'') && rewrite->before == '=' && is_letter(tag->p[1])) {
        rewrite->quote = c;
    } else if (c == '>') {
        end_tag(rewrite, out);
        return;
    }
    if (!is_blank(c))
        rewrite->before = c;
    if (tag->len >= REWRITE_TAG_MAX) {
        flush(rewrite, out);
        rewrite->state = REWRITE_LONG;
    }
}

static void in_raw(struct rewrite *rewrite, char c, struct buf *out)
{
    struct buf *tag = &rewrite->tag;
    size_t len = strlen(rewrite->raw);

    if (c == '<')
        flush(rewrite, out);
    if (c == '<' || tag->len)
        buf_addc(tag, c);
    else
        buf_addc(out, c);
    if (tag->len <= 1)
        return;
    size_t at = tag->len - 1;
    bool fits = at == 1        ? c == '/'
                : at < len + 2 ? small(c) == rewrite->raw[at - 2]
                               : is_blank(c) || c == '/' || c == '>';
    if (!fits) {
        flush(rewrite, out);
    } else if (at == len + 2) {
        rewrite->state = c == '>' ? REWRITE_TEXT : REWRITE_LONG; /* nothing of it is a link */
        flush(rewrite, out);
    }
}

/* What was kept of "--" is in rewrite->raw: how many of them in a row. */
static void in_comment(struct rewrite *rewrite, char c, struct buf *out)
{
    buf_addc(out, c);
    if (c == '>' && rewrite->raw[0] >= 2)
        rewrite->state = REWRITE_TEXT;
    rewrite->raw[0] = (char)(c != '-' ? 0 : rewrite->raw[0] < 2 ? rewrite->raw[0] + 1 : 2);
}

static void in_text(struct rewrite *rewrite, char c, struct buf *out)
{
    if (c != '<') {
        buf_addc(out, c);
        return;
    }
    rewrite->state = REWRITE_TAG;
    rewrite->quote = 0;
    rewrite->before = 0;
    rewrite->raw[0] = 0;
    buf_addc(&rewrite->tag, c);
}

void rewrite_html(struct rewrite *rewrite, struct str bytes, bool last, struct buf *out)
{
    for (size_t i = 0; i < bytes.len; i++) {
        char c = bytes.p[i];

        switch (rewrite->state) {
        case REWRITE_TEXT: in_text(rewrite, c, out); break;
        case REWRITE_TAG: in_tag(rewrite, c, out); break;
        case REWRITE_LONG:
            buf_addc(out, c);
            if (c == '>')
                rewrite->state = REWRITE_TEXT;
            break;
        case REWRITE_COMMENT: in_comment(rewrite, c, out); break;
        case REWRITE_RAW: in_raw(rewrite, c, out); break;
        }
    }
    if (last)
        flush(rewrite, out);
}

void rewrite_done(struct rewrite *rewrite)
{
    buf_done(&rewrite->tag);
}
