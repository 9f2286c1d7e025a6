#pragma once

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>

/* ignore: which files are left out, by git's rules for .gitignore.
 *
 * Rules are added folder by folder, outermost first; the last one that matches a path decides. A
 * pattern without an inner slash matches a name at any depth below its folder, one with a slash is
 * anchored there; `*` and `?` stop at slashes; `**` between slashes, or at an end, stands for any
 * folders, and elsewhere is a `*`; a trailing slash means folders only; a leading `!` takes back.
 * What is in an ignored folder cannot be taken back, as in git, because it is never looked at.
 *
 * tests/ignore.py holds all of it against `git check-ignore`. */
struct ignore_rule {
    struct str base;    /* the folder the rule came from, "" for the top, without trailing slash */
    struct str file;    /* that it stands in: ".gitignore" */
    struct str line;    /* as it stands there */
    struct str pattern; /* without its marks */
    size_t literal;     /* of the pattern, how much has no wildcard */
    bool negated;
    bool folders_only;
    bool anchored;
};

struct ignore {
    struct ignore_vec VEC_FIELDS(struct ignore_rule) rules;
};

#define IGNORE_RULES_MAX 10000

/* The lines of an ignore file found in folder `base`. Strings are copied. False: there are more
 * rules than IGNORE_RULES_MAX, and those behind do not count. */
bool ignore_add(struct ignore *ignore,
                struct arena *arena,
                struct str base,
                struct str file,
                struct str text);
/* Rules behind `count` are forgotten: the scan leaves a folder. */
void ignore_cut(struct ignore *ignore, size_t count);
/* The rule that decides about a path: it is left out, unless the rule is negated. NULL: none. */
const struct ignore_rule *ignore_find(const struct ignore *ignore, struct str path, bool is_folder);
bool ignore_matches(const struct ignore *ignore, struct str path, bool is_folder);
