#pragma once

#include "base/buf.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct arena;

/* rewrite: links of pages that pods serve, as they have to be behind the proxy. Pure.
 *
 * A program in a pod knows nothing of /api/v1/namespaces/NS/pods/NAME/proxy: its "/x" would lead a
 * browser to the API server's own root. As Kubernetes' API server does it, the path of the proxy is put
 * before the absolute paths that lead to the same host: in the header Location, and in text/html in
 * those attributes that are links. Everything else is passed on byte by byte.
 *
 * A page comes in pieces and leaves in pieces; what is kept is one tag at most. A tag that is longer
 * than REWRITE_TAG_MAX is passed on as it is. */
#define REWRITE_TAG_MAX ((size_t)64 << 10)

struct rewrite_at {
    struct str prefix; /* ".../proxy", without a slash at its end */
    struct str host;   /* that the client asked for: "localhost:8001" */
    struct str pod;    /* where the pod listens: "10.1.0.2:80" */
};

enum rewrite_state {
    REWRITE_TEXT,
    REWRITE_TAG,     /* behind '<' */
    REWRITE_LONG,    /* a tag that is too long: up to its end */
    REWRITE_COMMENT, /* behind "<!--" */
    REWRITE_RAW,     /* in a script or the like: up to its end tag */
};

/* Zero, but for `at`, is the start. */
struct rewrite {
    struct rewrite_at at;
    enum rewrite_state state;
    struct buf tag; /* what has come of it */
    char quote;     /* that is open in the tag; 0: none */
    char before;    /* the last character of it that is no blank */
    char raw[12];   /* name of the element, in small letters */
};

/* One link. What is not to be changed is returned as it is. */
struct str rewrite_url(struct arena *arena, const struct rewrite_at *at, struct str url);
/* The next piece of a page; `last`: there is no other. What can be told of it is added to `out`. */
void rewrite_html(struct rewrite *rewrite, struct str bytes, bool last, struct buf *out);
void rewrite_done(struct rewrite *rewrite);
/* Whether such a prefix can stand in an attribute, whatever quotes that has. */
bool rewrite_prefix_is_plain(struct str prefix);
