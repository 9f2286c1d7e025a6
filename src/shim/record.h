#pragma once

#include "base/buf.h"
#include "base/str.h"

/* record: writing the files a shim reads (shim/shim.h). A NUL inside a value would end it early
 * and start a record that a user chose: it is cut there and the rest dropped. */
static inline void record_add(struct buf *buf, const char *name, struct str value)
{
    const char *nul = value.len ? memchr(value.p, '\0', value.len) : NULL;
    if (nul)
        value.len = (size_t)(nul - value.p);
    buf_add(buf, str_from(name));
    buf_addc(buf, '=');
    buf_add(buf, value);
    buf_addc(buf, '\0');
}

static inline void record_number(struct buf *buf, const char *name, long long number)
{
    buf_addf(buf, "%s=%lld", name, number);
    buf_addc(buf, '\0');
}

struct record_mount {
    const char *type; /* bind, tmpfs */
    struct str source;
    struct str sub; /* path inside the source, made where missing; may be empty */
    struct str target;
    struct str options;
};

static inline void record_mount(struct buf *buf, const struct record_mount *mount)
{
    record_add(buf, "mount.source", mount->source);
    if (mount->sub.len)
        record_add(buf, "mount.sub", mount->sub);
    record_add(buf, "mount.target", mount->target);
    record_add(buf, "mount.options", mount->options);
    record_add(buf, "mount", str_from(mount->type));
}
