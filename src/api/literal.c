#include "api/literal.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"

struct str literal_value(struct arena *arena, struct str text)
{
    _cleanup_(buf_done) struct buf out = {0};

    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] == '$' && i + 1 < text.len && (text.p[i + 1] == '$' || text.p[i + 1] == '('))
            buf_addc(&out, '$');
        buf_addc(&out, text.p[i]);
    }
    return out.len == text.len ? text : str_dup(arena, buf_str(&out));
}
