#include "agent/exec.h"

#include "agent/core.h"
#include "agent/lifecycle.h"
#include "agent/link.h"
#include "agent/pod.h"
#include "agent/prepare.h"
#include "agent/stream.h"
#include "agent/suspend.h"
#include "api/podio.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "shim/shim.h"
#include "tool/timer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <uv.h>

/* exec: a command inside a running container. The agent makes the pipes, the shim gets their other
 * ends and starts the command (a terminal is made inside the container and its master comes back);
 * the bytes never pass through the shim. attach is
 * the same with the container's own input and a copy of its output. */
#define READ_BYTES 32768
#define INPUT_FULL ((size_t)1 << 20) /* unread stdin, from which on the client is to wait */
#define INPUT_ROOM (INPUT_FULL / 2)  /* and from which on no longer */

struct exec;

struct exec_pipe {
    struct exec *exec;
    uv_pipe_t pipe;
    bool open; /* initialised and not yet closed */
    bool reading;
    int channel;
};

struct exec {
    struct podio_stream stream; /* first */
    unsigned long id;
    bool attach;
    bool tty;
    bool started;
    bool exited;
    bool ended;
    bool closed; /* by the reader */
    int exit_code;
    int terminal_fd; /* for the size; -1: none */
    uint16_t columns, rows;
    bool paused;
    size_t input_bytes;
    struct buf early; /* came before there was anything to write it to */
    bool input_wanted;
    bool input_over;
    bool input_full; /* as the reader was told */
    struct err err;
    struct str container;
    struct exec_pipe pipes[3]; /* stdin, stdout, stderr; a terminal uses 1 for both ways */
    struct timer *later;
    int handles_open;
    char read_buffer[READ_BYTES];
};

static void exec_maybe_end(struct exec *exec);

static void exec_handle_closed(void *user)
{
    struct exec *exec = user;
    if (--exec->handles_open)
        return;
    struct agent *agent = exec->stream.agent;
    buf_done(&exec->early);
    mem_free(exec);
    agent->streams_open--;
    agent_maybe_free(agent);
}

static void pipe_closed(uv_handle_t *handle)
{
    struct exec_pipe *pipe = handle->data;
    exec_handle_closed(pipe->exec);
}

static void pipe_close(struct exec_pipe *pipe)
{
    if (!pipe->open)
        return;
    pipe->open = false;
    uv_close((uv_handle_t *)&pipe->pipe, pipe_closed);
}

/* ---- output ---- */

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
    (void)size;
    struct exec_pipe *pipe = handle->data;
    *buf = uv_buf_init(pipe->exec->read_buffer, READ_BYTES);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct exec_pipe *pipe = stream->data;
    struct exec *exec = pipe->exec;
    if (n > 0 && !exec->closed)
        exec->stream.reader.data(exec->stream.reader.user, pipe->channel,
                                 (struct str){buf->base, (size_t)n});
    if (n < 0) { /* a terminal ends with EIO */
        pipe_close(pipe);
        exec_maybe_end(exec);
    }
}

static void pipe_set_reading(struct exec_pipe *pipe, bool reading)
{
    if (!pipe->open || pipe->channel == 0 || pipe->reading == reading)
        return;
    pipe->reading = reading;
    if (reading)
        (void)uv_read_start((uv_stream_t *)&pipe->pipe, on_alloc, on_read);
    else
        (void)uv_read_stop((uv_stream_t *)&pipe->pipe);
}

/* ---- the end ---- */

static bool exec_has_output(const struct exec *exec)
{
    return exec->pipes[1].open || exec->pipes[2].open;
}

/* What lies in the pipe now. The loop may not have come to read it: timers go first. */
static void pipe_drain(struct exec_pipe *pipe)
{
    struct exec *exec = pipe->exec;
    uv_os_fd_t fd = -1;
    int left = 0;

    if (!pipe->open || uv_fileno((uv_handle_t *)&pipe->pipe, &fd) < 0 ||
        ioctl(fd, FIONREAD, &left) < 0)
        return;
    while (left > 0 && !exec->closed) {
        ssize_t n =
            read(fd, exec->read_buffer, left < READ_BYTES ? (size_t)left : (size_t)READ_BYTES);
        if (n <= 0)
            return;
        left -= (int)n;
        exec->stream.reader.data(exec->stream.reader.user, pipe->channel,
                                 (struct str){exec->read_buffer, (size_t)n});
    }
}

/* The command is over when it has exited and all it wrote has been read. A process that it left
 * behind may hold the pipes open: after the exit only what is there now counts. */
static void on_later(void *user)
{
    struct exec *exec = user;
    if (exec->ended || exec->closed)
        return;
    if (exec->paused && exec_has_output(exec) && !exec->err.code)
        return; /* the reader will come back for the rest */
    for (int i = 1; i < 3; i++)
        pipe_drain(&exec->pipes[i]);
    if (exec->closed)
        return;
    exec->ended = true;
    for (int i = 0; i < 3; i++)
        pipe_close(&exec->pipes[i]);
    exec->stream.reader.end(exec->stream.reader.user, exec->exit_code,
                            exec->err.code ? &exec->err : NULL);
}

#define DRAIN_MS 200 /* for output of processes the command left behind */

static void exec_maybe_end(struct exec *exec)
{
    if (exec->ended || exec->closed || !(exec->exited || exec->err.code))
        return;
    bool open = exec_has_output(exec);
    if (!exec->err.code && open && (exec->paused || timer_is_set(exec->later)))
        return;
    timer_in(exec->later, open && !exec->err.code ? DRAIN_MS : 0, on_later);
}

static void exec_fail(struct exec *exec, int http_status)
{
    exec->err.http_status = http_status;
    exec_maybe_end(exec);
}

/* ---- stream operations ---- */

struct input {
    uv_write_t write;
    struct exec *exec;
    size_t len;
    char bytes[];
};

static void input_tell_level(struct exec *exec)
{
    size_t bytes = exec->input_bytes + exec->early.len;
    bool full = bytes > (exec->input_full ? INPUT_ROOM : INPUT_FULL);

    if (full == exec->input_full || exec->closed || exec->ended || !exec->stream.reader.full)
        return;
    exec->input_full = full;
    exec->stream.reader.full(exec->stream.reader.user, full);
}

static void on_written(uv_write_t *write, int status)
{
    (void)status;
    struct input *input = write->data;
    struct exec *exec = input->exec;
    exec->input_bytes -= input->len;
    mem_free(input);
    if (exec->input_over && !exec->input_bytes && !exec->tty)
        pipe_close(&exec->pipes[0]);
    input_tell_level(exec);
}

static struct exec_pipe *input_pipe(struct exec *exec)
{
    return &exec->pipes[exec->tty ? 1 : 0];
}

static void input_write(struct exec *exec, struct str bytes)
{
    struct exec_pipe *pipe = input_pipe(exec);
    if (!bytes.len)
        return;
    struct input *input = mem_alloc(sizeof(*input) + bytes.len);
    *input = (struct input){.exec = exec, .len = bytes.len};
    input->write.data = input;
    memcpy(input->bytes, bytes.p, bytes.len);
    exec->input_bytes += bytes.len;
    uv_buf_t buf = uv_buf_init(input->bytes, (unsigned)bytes.len);
    if (uv_write(&input->write, (uv_stream_t *)&pipe->pipe, &buf, 1, on_written) < 0) {
        exec->input_bytes -= bytes.len;
        mem_free(input);
    }
}

/* The pipe or terminal is there: what came early goes first. */
static void input_ready(struct exec *exec)
{
    input_write(exec, buf_str(&exec->early));
    buf_done(&exec->early);
    if (exec->input_over && !exec->input_bytes && !exec->tty)
        pipe_close(input_pipe(exec));
    input_tell_level(exec);
}

static void exec_write(struct podio_stream *stream, struct str bytes)
{
    struct exec *exec = (struct exec *)stream;
    struct exec_pipe *pipe = input_pipe(exec);
    if (!bytes.len)
        exec->input_over = true;
    if (pipe->open && bytes.len)
        input_write(exec, bytes);
    else if (pipe->open && !exec->input_bytes && !exec->tty)
        pipe_close(pipe);
    else if (!pipe->open && exec->input_wanted)
        buf_add(&exec->early, bytes);
    input_tell_level(exec);
}

static void exec_resize(struct podio_stream *stream, uint16_t columns, uint16_t rows)
{
    struct exec *exec = (struct exec *)stream;
    struct winsize size = {.ws_col = columns, .ws_row = rows};
    exec->columns = columns;
    exec->rows = rows;
    if (exec->tty && exec->terminal_fd >= 0)
        (void)ioctl(exec->terminal_fd, TIOCSWINSZ, &size);
}

static void exec_pause(struct podio_stream *stream, bool paused)
{
    struct exec *exec = (struct exec *)stream;
    exec->paused = paused;
    for (int i = 1; i < 3; i++)
        pipe_set_reading(&exec->pipes[i], !paused);
    if (!paused)
        exec_maybe_end(exec);
}

static void exec_close(struct podio_stream *stream)
{
    struct exec *exec = (struct exec *)stream;
    exec->closed = true;
    if (exec->stream.pod && exec->started && !exec->exited && !exec->attach)
        link_send(&exec->stream.pod->link, NULL, 0, "execsignal %lu %d", exec->id, SIGKILL);
    stream_unlink(stream);
    for (int i = 0; i < 3; i++)
        pipe_close(&exec->pipes[i]);
    if (exec->terminal_fd >= 0)
        close(exec->terminal_fd);
    exec->terminal_fd = -1;
    timer_close(exec->later, exec_handle_closed);
}

static void exec_container_ended(struct podio_stream *stream, const struct run_container *c)
{
    struct exec *exec = (struct exec *)stream;
    if (c && !str_eq(c->name, exec->container))
        return;
    exec->exited = true;
    if (exec->attach)
        exec->exit_code = c ? c->end.code : 0;
    else if (!exec->exit_code)
        exec->exit_code = 137;
    exec_maybe_end(exec);
}

static void exec_give_way(struct podio_stream *stream, const struct err *err)
{
    struct exec *exec = (struct exec *)stream;
    exec->err = *err;
    exec_maybe_end(exec);
}

static void adopt_input(struct exec *exec, int fd)
{
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    struct exec_pipe *pipe = &exec->pipes[0];
    if (own < 0)
        return;
    (void)uv_pipe_init(exec->stream.agent->loop, &pipe->pipe, 0);
    pipe->pipe.data = pipe;
    pipe->open = true;
    exec->handles_open++;
    if (uv_pipe_open(&pipe->pipe, own) < 0)
        close(own);
    else
        input_ready(exec);
}

static int pipe_open(struct exec *exec, int index, int fd, int channel)
{
    struct exec_pipe *pipe = &exec->pipes[index];
    (void)uv_pipe_init(exec->stream.agent->loop, &pipe->pipe, 0);
    pipe->pipe.data = pipe;
    pipe->channel = channel;
    pipe->open = true;
    exec->handles_open++;
    int r = uv_pipe_open(&pipe->pipe, fd);
    if (r < 0)
        close(fd);
    return r;
}

/* The master side of the terminal the command got inside its container. */
static void adopt_terminal(struct exec *exec, int fd)
{
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    exec->terminal_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0 || pipe_open(exec, 1, own, 1) < 0)
        return;
    if (exec->columns)
        exec_resize(&exec->stream, exec->columns, exec->rows);
    pipe_set_reading(&exec->pipes[1], !exec->paused);
    input_ready(exec);
}

static bool exec_message(struct podio_stream *stream, const char *text, int fd)
{
    struct exec *exec = (struct exec *)stream;
    unsigned long id;
    int code, words_at = 0;
    char name[SHIM_NAME_BYTES];
    if (exec->attach && sscanf(text, "attached %255s", name) == 1 &&
        str_is(exec->container, name)) {
        if (fd >= 0 && !exec->closed && !exec->pipes[0].open)
            adopt_input(exec, fd);
        return true;
    }
    if (sscanf(text, "terminal %lu", &id) == 1 && id == exec->id) {
        if (fd >= 0 && !exec->closed && !exec->ended)
            adopt_terminal(exec, fd);
        return true;
    }
    if (sscanf(text, "execexit %lu %d %n", &id, &code, &words_at) < 2 || id != exec->id)
        return false;
    exec->exited = true;
    exec->exit_code = code;
    if (words_at && text[words_at])
        (void)err_set(&exec->err, -ENOEXEC, "%s", text + words_at);
    exec_maybe_end(exec);
    return true;
}

static const struct stream_ops exec_ops = {
    .write = exec_write,
    .resize = exec_resize,
    .pause = exec_pause,
    .close = exec_close,
    .container_ended = exec_container_ended,
    .give_way = exec_give_way,
    .message = exec_message,
};

/* ---- opening ---- */

static int exec_open_pipes(struct exec *exec, bool stdin_open, int ret_fds[static 3])
{
    for (int i = 0; i < 3; i++) {
        int pair[2];
        if (i == 0 && !stdin_open) {
            ret_fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
            continue;
        }
        if (pipe2(pair, O_CLOEXEC) < 0)
            return -errno;
        ret_fds[i] = pair[i == 0 ? 0 : 1];
        int r = pipe_open(exec, i, pair[i == 0 ? 1 : 0], i);
        if (r < 0)
            return r;
    }
    return 0;
}

static int start_exec(struct exec *exec,
                      struct pod *pod,
                      size_t container,
                      const struct podio_exec_request *request)
{
    int fds[3] = {-1, -1, -1};
    char file[64], path[PATH_MAX];
    (void)snprintf(file, sizeof(file), "exec.%lu", exec->id);
    (void)snprintf(path, sizeof(path), "%s/%s", pod->folder, file);
    int r = prepare_exec(pod, container, request, path, &exec->err);
    if (r)
        return r;
    r = request->tty ? 0 : exec_open_pipes(exec, request->stdin_open, fds);
    if (r < 0)
        (void)err_set(&exec->err, r, "cannot create pipes: %s", strerrordesc_np(-r));
    else
        link_send(&pod->link, fds, request->tty ? 0 : 3, "exec %lu " STR_FMT " %s", exec->id,
                  STR_ARG(exec->container), file);
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    exec->started = r >= 0;
    return r;
}

static int start_attach(struct exec *exec,
                        struct pod *pod,
                        const struct podio_exec_request *request)
{
    int pair[2];
    if (pipe2(pair, O_CLOEXEC) < 0)
        return err_set(&exec->err, -errno, "cannot create a pipe");
    int r = pipe_open(exec, 1, pair[0], 1);
    if (r == 0)
        link_send(&pod->link, &pair[1], 1, "tee " STR_FMT, STR_ARG(exec->container));
    close(pair[1]);
    if (r)
        return err_set(&exec->err, r, "cannot attach: %s", uv_strerror(r));
    exec->tty = false; /* the terminal's input is a descriptor of its own here */
    exec->started = true;
    if (request->stdin_open)
        link_send(&pod->link, NULL, 0, "attach " STR_FMT, STR_ARG(exec->container));
    return 0;
}

static void exec_begin(struct exec *exec, const struct podio_exec_request *request)
{
    struct pod *pod = pod_by_name(exec->stream.agent, request->ns, request->pod);
    size_t index = pod ? pod_choose_container(pod, request->container) : SIZE_MAX;
    if (!pod || index >= pod->run.count) {
        (void)err_set(&exec->err, -ENOENT, "container " STR_FMT " not found in pod " STR_FMT,
                      STR_ARG(request->container), STR_ARG(request->pod));
        exec_fail(exec, 404);
        return;
    }
    stream_link(&exec->stream, pod);
    exec->container = pod->run.containers[index].name;
    if (pod->run.containers[index].state != RUN_RUNNING) {
        (void)err_set(&exec->err, -ESRCH, "container " STR_FMT " of pod " STR_FMT " does not run",
                      STR_ARG(exec->container), STR_ARG(request->pod));
        exec_fail(exec, 500);
        return;
    }
    /* A process that is born in a frozen group never begins, and its pod's shim would wait for it. */
    if (!request->attach && pod->suspend.stage != SUSPEND_STAGE_NONE) {
        (void)err_set(&exec->err, -EBUSY,
                      suspend_want(pod) ? "pod " STR_FMT
                                          " was suspended because its GPUs were unused; it is back "
                                          "in line now: try again when it runs"
                                        : "pod " STR_FMT " is suspended; resume it first",
                      STR_ARG(request->pod));
        exec_fail(exec, 409);
        return;
    }
    int r =
        request->attach ? start_attach(exec, pod, request) : start_exec(exec, pod, index, request);
    if (r < 0)
        exec_fail(exec, 500);
    else
        exec_pause(&exec->stream, false);
}

struct podio_stream *exec_open(struct podio *podio,
                               const struct podio_exec_request *request,
                               const struct podio_reader *reader)
{
    struct agent *agent = (struct agent *)podio;
    struct exec *exec = MEM_NEW(struct exec);
    exec->stream = (struct podio_stream){.ops = &exec_ops, .agent = agent, .reader = *reader};
    exec->id = ++agent->next_exec;
    exec->attach = request->attach;
    exec->tty = request->tty && !request->attach;
    exec->terminal_fd = -1;
    exec->input_wanted = request->stdin_open;
    for (int i = 0; i < 3; i++)
        exec->pipes[i].exec = exec;
    exec->later = timer_new(agent->loop, exec);
    exec->handles_open = 1;
    agent->streams_open++;
    if (stream_enter(&exec->stream, STREAM_EXEC, request->ns, &exec->err))
        exec_begin(exec, request);
    else
        exec_maybe_end(exec);
    return &exec->stream;
}
