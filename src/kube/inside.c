#include "kube/inside.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "kube/kubeconfig.h"
#include "kube/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <uv.h>

#define SIZE_EVERY_MS 500  /* a terminal is asked for its size */
#define LOOK_EVERY_MS 1000 /* for a signal that came just before a wait */
#define PIECE_BYTES   16384
#define OUT_BYTES_MAX ((size_t)256 << 10) /* beyond, input waits until the server took some */

enum {
    CHANNEL_IN,
    CHANNEL_OUT,
    CHANNEL_ERR,
    CHANNEL_STATUS,
    CHANNEL_SIZE,
    CHANNEL_CLOSE = 255
};
struct inside {
    const struct inside_request *request;
    struct wire wire;
    struct winsize size;
    struct err *err;
    bool input_open;
    bool unwanted; /* output() wants no more */
    int status;
    bool status_known;
};

int inside_status(struct arena *arena, struct str text, struct err *err)
{
    struct json *status = NULL;
    int64_t code = 0;

    if (json_parse(arena, text, &status, NULL) < 0)
        return text.len ? err_set(err, -EIO, STR_FMT, STR_ARG(str_sub(text, 0, 200))) : 0;
    if (str_is(json_str(json_get(status, "status")), "Success"))
        return 0;
    JSON_FOREACH(json_at(status, "details.causes"), cause)
        if (str_is(json_str(json_get(cause, "reason")), "ExitCode") &&
            str_to_i64(json_str(json_get(cause, "message")), &code) && code > 0 && code < 256)
            return (int)code;
    return err_set(err, -EIO, STR_FMT, STR_ARG(json_str(json_get(status, "message"))));
}

static void query_add(struct buf *out, const char *key, const char *value)
{
    buf_addf(out, "&%s=", key);
    buf_add_percent(out, str_from(value));
}

static struct str inside_path(struct buf *out, const struct inside_request *request)
{
    buf_addf(out, "/api/v1/namespaces/%s/pods/%s/exec?stdout=true", request->ns, request->pod);
    buf_add(out, request->tty ? STR("&tty=true") : STR("&stderr=true"));
    if (request->input_fd >= 0)
        buf_add(out, STR("&stdin=true"));
    query_add(out, "container", request->container);
    for (size_t i = 0; i < request->command_count; i++)
        query_add(out, "command", request->command[i]);
    return buf_str(out);
}

/* ---- while it runs ---- */

static bool inside_is_stopped(const struct inside *inside)
{
    return inside->request->stop && *inside->request->stop;
}

static void on_message(void *user, struct str data)
{
    struct inside *inside = user;
    const struct inside_request *request = inside->request;
    unsigned channel = data.len ? (unsigned char)data.p[0] : CHANNEL_CLOSE;
    struct str rest = str_sub(data, data.len ? 1 : 0, data.len);

    if (channel == CHANNEL_OUT || channel == CHANNEL_ERR) {
        if (rest.len)
            inside->unwanted |= !request->output(request->user, (int)channel, rest);
    } else if (channel == CHANNEL_STATUS && rest.len) {
        inside->status = inside_status(&inside->wire.arena, rest, inside->err);
        inside->status_known = true;
    }
}

static void inside_read_input(struct inside *inside)
{
    char piece[PIECE_BYTES];
    ssize_t got = read(inside->request->input_fd, piece, sizeof(piece));

    if (got > 0) {
        wire_send_channel(&inside->wire, CHANNEL_IN, (struct str){piece, (size_t)got});
    } else if (got == 0 || errno != EINTR) {
        inside->input_open = false;
        if (inside->wire.five)
            wire_send_channel(&inside->wire, CHANNEL_CLOSE, (struct str){"\0", 1});
        else /* what does not wait for it works all the same */
            (void)inside->request->output(
                inside->request->user, 2,
                STR("This API server cannot be told that standard input has ended. If the command "
                    "waits for that, install kubectl, which can tell it.\n"));
    }
}

static void inside_tell_size(struct inside *inside)
{
    struct winsize size = {0};

    if (!inside->request->tty || ioctl(inside->request->input_fd, TIOCGWINSZ, &size) < 0 ||
        (size.ws_col == inside->size.ws_col && size.ws_row == inside->size.ws_row))
        return;
    inside->size = size;
    wire_send_channel(
        &inside->wire, CHANNEL_SIZE,
        str_printf(&inside->wire.arena, "{\"Width\":%u,\"Height\":%u}", size.ws_col, size.ws_row));
}

static int inside_turn(struct inside *inside, struct err *err)
{
    struct wire *wire = &inside->wire;
    int r = wire_take(wire, on_message, inside, err);

    if (r < 0 || wire->closed)
        return r;
    if (inside->unwanted)
        return err_set(err, -ECANCELED, "what the command says is not wanted any more");
    if (inside_is_stopped(inside))
        return err_set(err, -EINTR, "interrupted");
    inside_tell_size(inside);
    wire_ping(wire);
    r = wire_push(wire, err);
    if (r < 0 || wire_receive(wire))
        return r;
    bool reads = inside->input_open && wire->out.len + wire->going.len < OUT_BYTES_MAX;
    struct pollfd wait[2] = {{.fd = wire->socket, .events = wire_events(wire)},
                             {.fd = reads ? inside->request->input_fd : -1, .events = POLLIN}};
    if (poll(wait, 2, inside->request->tty ? SIZE_EVERY_MS : LOOK_EVERY_MS) > 0 && wait[1].revents)
        inside_read_input(inside);
    return 0;
}

int inside_run(struct uv_loop_s *loop,
               const struct kube_config *config,
               const struct inside_request *request,
               struct err *err)
{
    struct inside inside = {.request = request, .input_open = request->input_fd >= 0, .err = err};
    _cleanup_(buf_done) struct buf path = {0};
    struct wire_door door;
    int r = wire_door_open(&door, loop, config, err);

    if (r < 0)
        return r;
    r = wire_open(&inside.wire, &door,
                  &(struct wire_request){.path = inside_path(&path, request),
                                         .protocols = "v5.channel.k8s.io, v4.channel.k8s.io",
                                         .patient = request->input_fd >= 0 && !request->tty,
                                         .stop = request->stop},
                  err);
    while (r == 0 && !inside.wire.closed && !inside.status_known)
        r = inside_turn(&inside, err);
    if (r == 0 && !inside.status_known)
        r = err_set(err, -EPIPE, "the connection was lost before the command ended");
    else if (r == 0)
        r = inside.status;
    wire_close(&inside.wire);
    wire_door_close(&door);
    return r;
}
