#include "workspace/ignore.h"

#include "base/count.h"

#include <ctype.h>

/* [:alpha:] and its like; -1: there is no such name. */
static int named_class(struct str name, char c)
{
    static const struct {
        const char *name;
        int (*is)(int);
    } classes[] = {
        {"alnum", isalnum}, {"alpha", isalpha}, {"blank", isblank}, {"cntrl", iscntrl},
        {"digit", isdigit}, {"graph", isgraph}, {"lower", islower}, {"print", isprint},
        {"punct", ispunct}, {"space", isspace}, {"upper", isupper}, {"xdigit", isxdigit},
    };

    for (size_t i = 0; i < COUNT_OF(classes); i++)
        if (str_is(name, classes[i].name))
            return (unsigned char)c < 128 && classes[i].is((unsigned char)c);
    return -1;
}

/* One member of a [...] class: a letter, a range, a named class. On return *i is behind it; false:
 * the class is malformed. `low` is the letter before, 0 where a range cannot begin with it. */
static bool member_matches(struct str pattern, size_t *i, char *low, char c, bool *found)
{
    char at = pattern.p[*i];
    bool range = at == '-' && *low && *i + 1 < pattern.len && pattern.p[*i + 1] != ']';

    if (range)
        at = pattern.p[++*i];
    if (at == '[' && !range && *i + 1 < pattern.len && pattern.p[*i + 1] == ':') {
        struct str rest = str_sub(pattern, *i + 2, pattern.len);
        size_t end = str_find(rest, ']');

        if (end == rest.len)
            return false;
        if (end > 0 && rest.p[end - 1] == ':') {
            int is = named_class(str_sub(rest, 0, end - 1), c);

            *found |= is > 0;
            *i += 2 + end + 1;
            *low = 0;
            return is >= 0;
        }
    }
    if (at == '\\') {
        if (++*i >= pattern.len)
            return false;
        at = pattern.p[*i];
    }
    if (range)
        *found |= (unsigned char)c >= (unsigned char)*low && (unsigned char)c <= (unsigned char)at;
    else
        *found |= c == at;
    *low = range ? 0 : at;
    ++*i;
    return true;
}

/* Does one character match a [...] class? On return *p is behind the class; a class that never ends
 * matches nothing. */
static bool class_matches(struct str pattern, size_t *p, char c)
{
    size_t i = *p + 1;
    bool negated = i < pattern.len && (pattern.p[i] == '!' || pattern.p[i] == '^');
    bool found = false;
    char low = 0;

    i += negated;
    do {
        if (i >= pattern.len || !member_matches(pattern, &i, &low, c, &found))
            return false;
    } while (i >= pattern.len || pattern.p[i] != ']');
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
    if (want == '\\' && ++*p == pattern.len)
        return false;
    want = pattern.p[(*p)++];
    return want == c;
}

/* Stars at pattern[*p]: true when they cross folders. On return *p is behind them. */
static bool stars_are_deep(struct str pattern, size_t *p)
{
    size_t first = *p;
    struct str rest;

    while (*p < pattern.len && pattern.p[*p] == '*')
        (*p)++;
    rest = str_sub(pattern, *p, pattern.len);
    return *p - first > 1 && (first == 0 || pattern.p[first - 1] == '/') &&
           (rest.len == 0 || rest.p[0] == '/' || str_starts(rest, STR("\\/")));
}

/* Iterative, with one resume point a kind of star: what stands before the last star that crosses
 * folders has matched as early as it can, so nothing else need be tried. At most |p| x |t| x |t|. */
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
        if (p < pattern.len && pattern.p[p] == '*') {
            if (stars_are_deep(pattern, &p)) {
                if (p == pattern.len)
                    return true;
                deep = true;
                deep_p = p; /* at the slash, which stands for one of the text's */
                deep_t = t;
                star = false;
                p += pattern.p[p] == '/'; /* no folder at all */
            } else {
                star = true;
                star_p = p;
                star_t = t;
            }
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
            t = deep_t++;
            star = false;
        } else {
            return false;
        }
    }
    return true;
}

/* Blanks at the end do not count, unless a backslash stands before them. */
static struct str without_blanks(struct str line)
{
    size_t end = 0;

    for (size_t i = 0; i < line.len; i++) {
        if (line.p[i] == ' ')
            continue;
        if (line.p[i] == '\\' && i + 1 == line.len)
            return line;
        i += line.p[i] == '\\';
        end = i + 1;
    }
    return str_sub(line, 0, end);
}

/* False: the line has no rule. */
static bool rule_read(struct arena *arena, struct str line, struct ignore_rule *rule)
{
    if (line.len == 0 || line.p[0] == '#')
        return false;
    if (line.p[line.len - 1] == '\r')
        line.len--;
    line = without_blanks(str_sub(line, 0, str_find(line, '\0')));
    rule->line = line = str_dup(arena, line);
    if (line.len && line.p[0] == '!') {
        rule->negated = true;
        line = str_sub(line, 1, line.len);
    }
    if (line.len && line.p[line.len - 1] == '/') {
        rule->folders_only = true;
        line.len--;
    }
    rule->anchored = str_find(line, '/') < line.len;
    if (line.len && line.p[0] == '/')
        line = str_sub(line, 1, line.len);
    rule->pattern = line;
    while (rule->anchored && rule->literal < line.len &&
           str_find(STR("*?[\\"), line.p[rule->literal]) == 4)
        rule->literal++;
    return line.len > 0;
}

bool ignore_add(struct ignore *ignore,
                struct arena *arena,
                struct str base,
                struct str file,
                struct str text)
{
    struct str line;

    base = str_dup(arena, base);
    file = str_dup(arena, file);
    if (str_starts(text, STR("\xef\xbb\xbf")))
        text = str_sub(text, 3, text.len);
    while (str_cut(&text, '\n', &line)) {
        struct ignore_rule rule = {.base = base, .file = file};

        if (!rule_read(arena, line, &rule))
            continue;
        if (ignore->rules.count == IGNORE_RULES_MAX)
            return false;
        VEC_PUSH(NULL, &ignore->rules, rule);
    }
    return true;
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
    struct str literal = str_sub(rule->pattern, 0, rule->literal);
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
        return glob(rule->pattern, str_sub(below, cut, below.len));
    }
    /* As git does, letter by letter before the first wildcard: so "x**" may cross folders. */
    return str_starts(below, literal) &&
           glob(str_sub(rule->pattern, literal.len, rule->pattern.len),
                str_sub(below, literal.len, below.len));
}

const struct ignore_rule *ignore_find(const struct ignore *ignore, struct str path, bool is_folder)
{
    for (size_t i = ignore->rules.count; i-- > 0;)
        if (rule_matches(&ignore->rules.items[i], path, is_folder))
            return &ignore->rules.items[i];
    return NULL;
}

bool ignore_matches(const struct ignore *ignore, struct str path, bool is_folder)
{
    const struct ignore_rule *rule = ignore_find(ignore, path, is_folder);

    return rule && !rule->negated;
}
