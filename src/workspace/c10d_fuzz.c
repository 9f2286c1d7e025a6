#include "base/buf.h"
#include "base/str.h"
#include "fuzz/fuzz.h"
#include "workspace/c10d.h"

#include <stddef.h>

/* Any bytes from a client: at once or one by one they mean the same, and what is kept stays within
 * its bounds. */
static int c10d_feed(struct c10d *store, struct c10d_conn *conn, struct str input, size_t step)
{
    int r = 0;

    *conn = (struct c10d_conn){.store = store};
    for (size_t i = 0; r == 0 && i < input.len; i += step) {
        r = c10d_input(conn, str_sub(input, i, step));
        if (r == 0)
            c10d_wake(conn);
    }
    FUZZ_HOLDS(store->bytes <= C10D_BYTES_MAX && store->keys.count <= C10D_KEYS_MAX);
    return r;
}

FUZZ(c10d)
{
    struct c10d once = {0};
    struct c10d pieces = {0};
    struct c10d_conn whole;
    struct c10d_conn bytes;
    int r = c10d_feed(&once, &whole, input, input.len ? input.len : 1);

    FUZZ_HOLDS(r == c10d_feed(&pieces, &bytes, input, 1));
    FUZZ_HOLDS(r < 0 || str_eq(buf_str(&whole.out), buf_str(&bytes.out)));
    FUZZ_HOLDS(r < 0 || (once.bytes == pieces.bytes && once.keys.count == pieces.keys.count));
    c10d_conn_done(&whole);
    c10d_conn_done(&bytes);
    c10d_done(&once);
    c10d_done(&pieces);
}
