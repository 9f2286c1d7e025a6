#include "plugin/watch.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "plugin/plugin.h"

#include <errno.h>

#define WATCH_PAUSE_MS 500

int watch_table(struct session *session, watch_draw *draw, void *user, struct err *err)
{
    uint64_t shown = UINT64_MAX;

    for (;;) {
        _cleanup_(buf_done) struct buf text = {0};
        uint64_t seen = 0;
        int r = draw(session, user, &text, &seen, err);

        if (r < 0)
            return r;
        if (seen != shown && text.len) {
            buf_addc(&text, '\n');
            term_page(&session->out, buf_str(&text));
        }
        shown = seen;
        arena_done(&session->arena);
        session_pause(session, WATCH_PAUSE_MS);
    }
}

int watch_or_once(struct session *session,
                  const struct watch_options *options,
                  watch_draw *draw,
                  void *user,
                  struct err *err)
{
    _cleanup_(buf_done) struct buf text = {0};
    uint64_t seen = 0;

    if (options->watch && !options->table)
        return err_set(err, -EINVAL, "--watch prints tables; leave --output out");
    if (options->watch)
        return watch_table(session, draw, user, err);
    int r = draw(session, user, &text, &seen, err);
    if (r == 0 && !text.len && options->nothing)
        session_say(session, "%s", options->nothing);
    else if (r == 0 && options->table)
        term_page(&session->out, buf_str(&text));
    else if (r == 0)
        term_write(&session->out, buf_str(&text));
    return r;
}
