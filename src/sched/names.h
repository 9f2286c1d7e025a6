#pragma once

#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

struct sched;

/* names: texts that many objects name (queues, labels, shared devices), kept once, with references.
 * A share that ends may leave a name with none behind; names_swept() frees it. */
struct name {
    struct str text;
    uint32_t refs;
};

struct name *name_get(struct sched *sched, struct str text); /* with a reference; NULL for "" */
void name_unref(struct sched *sched, struct name *name);     /* NULL is allowed */
struct str name_text(const struct name *name);
/* Frees what nobody refers to. */
void names_swept(struct sched *sched);

/* Texts of one owner: an owned copy, and its end. */
struct str heap_str(struct str s);
void heap_str_free(struct str s);
/* "ns/name" in `out`. */
#define KEY_BYTES 1024 /* namespace 63, name 253; longer ones cannot exist */
struct str sched_key(char *out, size_t size, struct str ns, struct str name);
