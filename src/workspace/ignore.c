#include "workspace/ignore.h"

/* Does one character match a [...] class? On return *p is behind the class; a class that never ends
 * matches nothing. */
static bool class_matches(struct str pattern, size_t *p, char c)
{
    size_t i = *p + 1;
    bool negated = i < pattern.len && (pattern.p[i] == '!' || pattern.p[i] == '^');
    bool found = false;

    i += negated;
    for (bool first = true; i < pattern.len && (first || pattern.p[i] != ']'); first = false) {
        char low = pattern.p[i];
        char high = low;

        if (low == '\\' && i + 1 < pattern.len)
            low = high = pattern.p[++i];
        if (i + 2 < pattern.len && pattern.p[i + 1] == '-' && pattern.p[i + 2] != ']') {
            high = pattern.p[i + 2];
            i += 2;
        }
        found |= (unsigned char)c >= (unsigned char)low && (unsigned char)c <= (unsigned char)high;
        i++;
    }
    if (i >= pattern.len)
        return false;
    *p = i + 1;
    return found != negated;
}

/* One pattern character (not a star) against one text character. */
static bool one_matches(struct str pattern, size_t *p, char c)
{
    char want = pattern.p[*p];

    if (want == '[')
        return c != '/' && class_matches(pattern, p, c);
    if (want == '?') {
        (*p)++;
        return c != '/';
    }
    if (want == '\\' && *p + 1 < pattern.len)
        want = pattern.p[++*p];
    (*p)++;
    return want == c;
}

/* Iterative, with one resume point a kind of star: linear in practice and bounded by |p| x |t|. */
static bool glob(struct str pattern, struct str text)
{
    size_t p = 0;
    size_t t = 0;
    size_t star_p = 0;
    size_t star_t = 0;
    size_t deep_p = 0;
    size_t deep_t = 0;
    bool star = false;
    bool deep = false;

    while (t < text.len || p < pattern.len) {
        bool two = p + 1 < pattern.len && pattern.p[p] == '*' && pattern.p[p + 1] == '*';

        if (two) {
            p += 2;
            /* "**" followed by a slash also matches no folder at all. */
            if (p < pattern.len && pattern.p[p] == '/' && (t == 0 || text.p[t - 1] == '/'))
                p++;
            deep = true;
            deep_p = p;
            deep_t = t;
            star = false;
            continue;
        }
        if (p < pattern.len && pattern.p[p] == '*') {
            star = true;
            star_p = ++p;
            star_t = t;
            continue;
        }
        if (p < pattern.len && t < text.len && one_matches(pattern, &p, text.p[t])) {
            t++;
            continue;
        }
        if (star && star_t < text.len && text.p[star_t] != '/') {
            p = star_p;
            t = ++star_t;
        } else if (deep && deep_t < text.len) {
            p = deep_p;
            t = ++deep_t;
            star = false;
        } else {
            return false;
        }
    }
    return true;
}

void ignore_add(struct ignore *ignore, struct arena *arena, struct str base, struct str text)
{
    struct str line;

    base = str_dup(arena, base);
    while (str_cut(&text, '\n', &line) && ignore->rules.count < IGNORE_RULES_MAX) {
        struct ignore_rule rule = {.base = base};

        if (line.len && line.p[line.len - 1] == '\r')
            line.len--;
        while (line.len && line.p[line.len - 1] == ' ' &&
               !(line.len > 1 && line.p[line.len - 2] == '\\'))
            line.len--;
        if (line.len == 0 || line.p[0] == '#')
            continue;
        if (line.p[0] == '!') {
            rule.negated = true;
            line = str_sub(line, 1, line.len);
        }
        if (line.len && line.p[line.len - 1] == '/') {
            rule.folders_only = true;
            line.len--;
        }
        rule.anchored = str_find(line, '/') < line.len;
        if (line.len && line.p[0] == '/')
            line = str_sub(line, 1, line.len);
        if (line.len == 0)
            continue;
        rule.pattern = str_dup(arena, line);
        VEC_PUSH(NULL, &ignore->rules, rule);
    }
}

void ignore_cut(struct ignore *ignore, size_t count)
{
    if (count == 0)
        VEC_DONE(&ignore->rules);
    else
        ignore->rules.count = count;
}

static bool rule_matches(const struct ignore_rule *rule, struct str path, bool is_folder)
{
    struct str below = path;

    if (rule->folders_only && !is_folder)
        return false;
    if (rule->base.len) {
        if (!str_starts(path, rule->base) || path.len <= rule->base.len ||
            path.p[rule->base.len] != '/')
            return false;
        below = str_sub(path, rule->base.len + 1, path.len);
    }
    if (!rule->anchored) {
        size_t cut = below.len;

        while (cut > 0 && below.p[cut - 1] != '/')
            cut--;
        below = str_sub(below, cut, below.len);
    }
    return glob(rule->pattern, below);
}

bool ignore_matches(const struct ignore *ignore, struct str path, bool is_folder)
{
    for (size_t i = ignore->rules.count; i-- > 0;)
        if (rule_matches(&ignore->rules.items[i], path, is_folder))
            return !ignore->rules.items[i].negated;
    return false;
}
