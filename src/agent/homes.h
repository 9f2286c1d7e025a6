#pragma once

#include "base/str.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;

/* homes: what people keep for themselves in their home folders: keys, tokens, kubeconfigs. A pod
 * that runs as root could read it, whatever its mode. */

#define HOMES_SEEN_MAX 64

/* Which of the names were in a home, as long as it has not changed: adding one changes its ctime, which
 * nobody can set. Only what is on the file system of / is kept: others may not tell of a change. */
struct homes {
    dev_t dev;       /* of / */
    uint64_t looked; /* how many homes were looked through */
    size_t count;
    struct home_seen {
        ino_t ino;
        int64_t changed_ns;
        uint32_t names; /* a bit each */
    } seen[HOMES_SEEN_MAX];
};

/* Records "mask=" for every home that the text of /etc/passwd names. Of the home of `uid`, whose pod
 * it is, only kubeconfigs: whatever else is there is hers to use. What is not there is left out. */
void homes_masks(struct homes *homes,
                 struct str passwd,
                 int64_t uid,
                 int64_t now_ms,
                 struct buf *records);
/* Records "shut=" for every home of a person (from uid 1000 on) that is not `uid`'s. */
void homes_shut(struct str passwd, int64_t uid, struct buf *records);
