#include "cmd/whatif.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/tls.h"
#include "server/server.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
#include <uv.h>

#define RUNS_MAX         8     /* the page has half as many under way; some are ending */
#define LIMIT_MS         20000 /* 10,000 pods are decided in less than one */
#define OUTPUT_BYTES_MAX ((size_t)8 << 20)
#define WORDS_BYTES_MAX  ((size_t)4 << 10)
#define ARGUMENTS_MAX    16
#define KUBECONFIG_FD    3

struct whatif_run;

struct whatif {
    uv_loop_t *loop;
    struct buf url;
    struct buf ca;
    struct whatif_run *runs[RUNS_MAX];
};

struct whatif_run {
    struct whatif *whatif; /* NULL: it was freed */
    size_t slot;
    struct server_whatif question;
    uv_process_t process;
    uv_timer_t timer;
    uv_pipe_t pipes[3]; /* as its file descriptors */
    uv_write_t write;
    struct buf input;
    struct buf output[2]; /* what it found, and its words */
    unsigned open;        /* pipes it writes to, and the process itself */
    unsigned handles;
    int64_t status;
    bool late;
};

static void run_released(uv_handle_t *handle)
{
    struct whatif_run *run = handle->data;

    if (--run->handles)
        return;
    if (run->whatif)
        run->whatif->runs[run->slot] = NULL;
    buf_done(&run->input);
    buf_done(&run->output[0]);
    buf_done(&run->output[1]);
    mem_free(run);
}

static void run_close(struct whatif_run *run)
{
    uv_handle_t *const handles[] = {(uv_handle_t *)&run->process, (uv_handle_t *)&run->timer,
                                    (uv_handle_t *)&run->pipes[0], (uv_handle_t *)&run->pipes[1],
                                    (uv_handle_t *)&run->pipes[2]};

    for (size_t i = 0; i < COUNT_OF(handles); i++)
        if (!uv_is_closing(handles[i]))
            uv_close(handles[i], run_released);
}

static void run_answer(struct whatif_run *run)
{
    struct str words = str_trim(buf_str(&run->output[1]));
    struct str prefix = STR("muster simulate: ");

    if (str_starts(words, prefix))
        words = str_sub(words, prefix.len, words.len);
    if (run->late)
        words = STR("it took too long and was stopped; try a smaller manifest");
    else if (run->output[0].overflow)
        words = STR("its result is too large to show");
    else if (run->status && !words.len)
        words = STR("muster simulate ended without a word");
    run->question.done(run->question.done_user,
                       run->status || run->late || run->output[0].overflow ? words : STR_NONE,
                       buf_str(&run->output[0]));
}

static void run_step(struct whatif_run *run)
{
    if (--run->open)
        return;
    run_answer(run);
    run_close(run);
}

static void on_exit(uv_process_t *process, int64_t status, int signal_number)
{
    struct whatif_run *run = process->data;

    run->status = signal_number ? 128 + signal_number : status;
    run_step(run);
}

static void on_late(uv_timer_t *timer)
{
    struct whatif_run *run = timer->data;

    run->late = true;
    (void)uv_process_kill(&run->process, SIGKILL);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    static char bytes[65536]; /* read in the loop's thread only, and copied at once */

    (void)handle;
    (void)suggested;
    *ret = uv_buf_init(bytes, sizeof(bytes));
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *bytes)
{
    struct whatif_run *run = stream->data;

    if (count > 0)
        buf_add(&run->output[stream == (uv_stream_t *)&run->pipes[2]],
                (struct str){bytes->base, (size_t)count});
    if (count < 0) {
        (void)uv_read_stop(stream);
        run_step(run);
    }
}

static void on_written(uv_write_t *write, int status)
{
    struct whatif_run *run = write->data;

    (void)status;
    if (!uv_is_closing((uv_handle_t *)&run->pipes[0]))
        uv_close((uv_handle_t *)&run->pipes[0], run_released);
}

/* With the viewer's token, for nobody else to read: a file without a name. */
static int kubeconfig_make(const struct whatif *whatif, struct str token)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf ca = {0};
    int fd = memfd_create("kubeconfig", MFD_CLOEXEC);

    tls_base64(&ca, buf_str(&whatif->ca));
    struct json *name = json_new_str(&arena, token);
    struct str text = str_printf(
        &arena,
        "{\"apiVersion\":\"v1\",\"kind\":\"Config\",\"current-context\":\"page\",\"contexts\":[{"
        "\"name\":\"page\",\"context\":{\"cluster\":\"page\",\"user\":\"page\"}}],\"clusters\":[{"
        "\"name\":\"page\",\"cluster\":{\"server\":\"" STR_FMT
        "\",\"certificate-authority-data\":\"" STR_FMT "\"}}],\"users\":[{\"name\":\"page\","
        "\"user\":{\"token\":" STR_FMT "}}]}\n",
        STR_ARG(buf_str(&whatif->url)), STR_ARG(buf_str(&ca)), STR_ARG(json_text(&arena, name)));
    if (fd >= 0 && (write(fd, text.p, text.len) != (ssize_t)text.len)) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static int run_spawn(struct whatif_run *run, struct arena *arena, int kubeconfig)
{
    const char *arguments[ARGUMENTS_MAX] = {"muster", "simulate",     "--live",    "-o",
                                            "json",   "--kubeconfig", "/dev/fd/3", NULL};
    size_t count = 7;
    uv_stdio_container_t stdio[KUBECONFIG_FD + 1];

    if (run->question.drain.len) {
        arguments[count++] = "--drain";
        arguments[count++] = str_c(arena, run->question.drain);
    }
    if (run->question.quota.len) {
        arguments[count++] = "--quota";
        arguments[count++] = str_c(arena, run->question.quota);
    }
    if (run->question.manifest.len)
        arguments[count++] = "-";
    for (int i = 0; i < 3; i++) {
        stdio[i].flags = UV_CREATE_PIPE | (i ? UV_WRITABLE_PIPE : UV_READABLE_PIPE);
        stdio[i].data.stream = (uv_stream_t *)&run->pipes[i];
    }
    stdio[KUBECONFIG_FD].flags = UV_INHERIT_FD;
    stdio[KUBECONFIG_FD].data.fd = kubeconfig;
    char *environment[] = {NULL};
    return uv_spawn(run->whatif->loop, &run->process,
                    &(uv_process_options_t){.exit_cb = on_exit,
                                            .file = "/proc/self/exe",
                                            .args = (char **)(uintptr_t)arguments,
                                            .env = environment,
                                            .stdio_count = KUBECONFIG_FD + 1,
                                            .stdio = stdio});
}

static struct whatif_run *run_new(struct whatif *whatif, size_t slot)
{
    struct whatif_run *run = MEM_NEW(struct whatif_run);

    run->whatif = whatif;
    run->slot = slot;
    run->output[0].bytes_max = OUTPUT_BYTES_MAX;
    run->output[1].bytes_max = WORDS_BYTES_MAX;
    run->open = 3;
    run->handles = 5;
    for (size_t i = 0; i < 3; i++) {
        (void)uv_pipe_init(whatif->loop, &run->pipes[i], 0);
        run->pipes[i].data = run;
    }
    (void)uv_timer_init(whatif->loop, &run->timer);
    run->timer.data = run->process.data = run->write.data = run;
    return run;
}

void whatif_ask(void *user, const struct server_whatif *question)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct whatif *whatif = user;
    size_t slot = 0;

    while (slot < RUNS_MAX && whatif->runs[slot])
        slot++;
    int kubeconfig = slot < RUNS_MAX ? kubeconfig_make(whatif, question->token) : -1;
    if (kubeconfig < 0) {
        question->done(question->done_user,
                       STR("others are asking too; try again in a few seconds"), STR(""));
        return;
    }
    struct whatif_run *run = whatif->runs[slot] = run_new(whatif, slot);
    run->question = *question;
    buf_add(&run->input, question->manifest);
    int r = run_spawn(run, &arena, kubeconfig);
    (void)close(kubeconfig);
    run->question.manifest = run->question.token = run->question.drain = run->question.quota =
        STR_NONE; /* they are the caller's */
    if (r < 0) {
        run->status = 1;
        run_answer(run);
        run_close(run);
        return;
    }
    uv_buf_t bytes = uv_buf_init(run->input.p, (unsigned)run->input.len);
    (void)uv_timer_start(&run->timer, on_late, LIMIT_MS, 0);
    (void)uv_read_start((uv_stream_t *)&run->pipes[1], on_alloc, on_read);
    (void)uv_read_start((uv_stream_t *)&run->pipes[2], on_alloc, on_read);
    (void)uv_write(&run->write, (uv_stream_t *)&run->pipes[0], &bytes, 1, on_written);
}

struct whatif *whatif_new(struct uv_loop_s *loop, struct str url, struct str ca)
{
    struct whatif *whatif = MEM_NEW(struct whatif);

    whatif->loop = loop;
    buf_add(&whatif->url, url);
    buf_add(&whatif->ca, ca);
    return whatif;
}

void whatif_free(struct whatif *whatif)
{
    if (!whatif)
        return;
    for (size_t i = 0; i < RUNS_MAX; i++) {
        struct whatif_run *run = whatif->runs[i];

        if (!run)
            continue;
        (void)uv_process_kill(&run->process, SIGKILL);
        run->question.done(run->question.done_user, STR("muster is stopping"), STR(""));
        run_close(run);
        run->whatif = NULL;
    }
    buf_done(&whatif->url);
    buf_done(&whatif->ca);
    mem_free(whatif);
}
