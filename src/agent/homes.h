#pragma once

#include "base/str.h"

#include <stdint.h>

struct buf;

/* homes: what people keep for themselves in their home folders: keys, tokens, kubeconfigs. A pod
 * that runs as root could read it, whatever its mode. */

/* Records "mask=" for every home that the text of /etc/passwd names. Of the home of `uid`, whose pod
 * it is, only kubeconfigs: whatever else is there is hers to use. What is not there is left out. */
void homes_masks(struct str passwd, int64_t uid, struct buf *records);
/* Records "shut=" for every home of a person (from uid 1000 on) that is not `uid`'s. */
void homes_shut(struct str passwd, int64_t uid, struct buf *records);
