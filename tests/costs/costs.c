#include "api/api.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "count.h"
#include "exec/runner.h"
#include "exec/scheduler.h"
#include "hook/hook.h"
#include "server/server.h"
#include "shapes.h"
#include "sim/hollow.h"
#include "sim/hollow_body.h"
#include "store/store.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

/* costs [--all] [--bytes N] [--part K/N] [--time] [WORD...]: what an object costs by its size.
 *
 * Of every shape (shapes.h; WORD: those whose name has it) an object of N bytes and one of twice as many is written, updated, patched,
 * applied, listed and watched over HTTP and deleted, with the server, all controllers and the scheduler of `muster up` on one loop;
 * pods that have nothing to do with it change meanwhile. Each object has the world as it was before, in a process of its own. Costs
 * are counted in basic blocks, so they are the same wherever this runs. Three rules:
 *
 *   growth     what it costs at twice the size is at most GROWTH times as much, of every step; where the larger object costs
 *              less as a whole, a limit stands between the two and their steps are not compared
 *   turn       no turn of the loop is longer than TURN_BLOCKS
 *   bystander  a change of other pods costs at most BYSTANDER times as much when the object is twice as large
 *
 * --part 1/2 plays every second shape, --all prints the counts of each, --time counts nanoseconds instead of blocks, in a build
 * where blocks are not traced (run.py --calibrate). */
#define BYTES        32768 /* and twice that */
#define GROWTH       2.5
#define BYSTANDER    1.5
#define TURN_BLOCKS  ((uint64_t)50000000)
#define SMALL_BLOCKS 100000 /* a step below this is no burden to anybody */
#define ENOUGH       8      /* turns as long as that: it is not run to its end */
#define LOOK_MS      50
#define PODS         4     /* that have nothing to do with it */
#define ACT_MS       2000  /* for so long the controllers and the scheduler go on by themselves */
#define SETTLE_MS    20000 /* what follows from it by itself has happened */
#define ROUNDS_MAX   100000
#define ANSWER_BYTES 1024 /* of which the beginning is looked at */
#define READ_BYTES   ((size_t)1 << 20)
#define TOKEN        "0123456789abcdef0123456789abcdef"
#define NOW_MS       1790000000000
#define BATCH        32 /* texts that are tried one after another in one process: each leaves nothing */
#define NAME_BYTES   512
#define JSON_TYPE    "application/json"

enum step {
    WATCH,
    CREATE,
    ACT,
    UPDATE,
    MERGE,
    APPLY,
    LIST,
    TABLE,
    PROTOBUF,
    OTHERS,
    DELETE,
    STEPS
};
static const char *const step_names[STEPS] = {"watch",    "create",    "act",   "update",
                                              "merge",    "apply",     "list",  "table",
                                              "protobuf", "bystander", "delete"};

struct result {
    uint64_t blocks[STEPS];
    uint64_t turn; /* the longest */
    enum step turn_step;
    enum step step; /* that it is in */
    bool begun;
    bool ended;
    bool enough; /* a turn was so long that it was not waited for */
    int status;  /* of the create */
    int worst;   /* of the others: the first that was refused */
    enum step worst_step;
    char text[ANSWER_BYTES];
};

struct world {
    uv_loop_t loop;
    int64_t now_ms;
    struct store *store;
    struct hooks *hooks;
    struct server *server;
    struct runner *runner;
    struct scheduler *scheduler;
    int watch; /* a connection; below 0: none */
    struct result *result;
};

static struct world world = {.now_ms = NOW_MS, .watch = -1};
static char reading[READ_BYTES];
static bool timed; /* nanoseconds are counted: nothing is judged */

_Noreturn static void die(const char *why)
{
    (void)fprintf(stderr, "costs: %s\n", why);
    exit(1);
}

/* ---- turns ---- */

static void enough(void)
{
    struct result *result = world.result;

    result->turn = ENOUGH * TURN_BLOCKS;
    result->blocks[result->step] += result->turn;
    result->turn_step = result->step;
    result->enough = true;
    _exit(0);
}

/* Of processor time, so that others on the machine count little. */
static uint64_t spent(void)
{
    struct timespec now = {0};

    if (!timed)
        return count_now();
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t turn_began = UINT64_MAX; /* no turn is on */

/* Every LOOK_MS of processor time: a turn that does not end is not waited for. */
static void look(int number)
{
    (void)number;
    if (turn_began != UINT64_MAX && count_now() - turn_began > ENOUGH * TURN_BLOCKS)
        enough();
}

static void look_from_now_on(void)
{
    struct sigaction how = {.sa_handler = look, .sa_flags = SA_RESTART};
    struct itimerval when = {.it_interval.tv_usec = LOOK_MS * 1000,
                             .it_value.tv_usec = LOOK_MS * 1000};

    if (!timed && (sigaction(SIGPROF, &how, NULL) < 0 || setitimer(ITIMER_PROF, &when, NULL) < 0))
        die("no timer");
}

static void turn_begin(void)
{
    turn_began = spent();
}

static void turn_end(void)
{
    struct result *result = world.result;
    uint64_t blocks = spent() - turn_began;

    turn_began = UINT64_MAX;
    if (!result)
        return;
    if (!timed && blocks > ENOUGH * TURN_BLOCKS)
        enough();
    result->blocks[result->step] += blocks;
    if (blocks > result->turn) {
        result->turn = blocks;
        result->turn_step = result->step;
    }
}

static void drain(int fd)
{
    while (fd >= 0 && recv(fd, reading, sizeof(reading), MSG_DONTWAIT) > 0)
        ;
}

static void turn_loop(void)
{
    turn_begin();
    (void)uv_run(&world.loop, UV_RUN_NOWAIT);
    turn_end();
    drain(world.watch);
}

/* Until nothing is left to do at this moment; returns when there is more. */
static int64_t turn_all(void)
{
    int64_t next = 0;

    for (int quiet = 0, i = 0; quiet < 3 && i < ROUNDS_MAX; i++) {
        turn_begin();
        int64_t a = runner_turn(world.runner);
        turn_end();
        turn_begin();
        int64_t b = scheduler_turn(world.scheduler);
        turn_end();
        bool busy = !store_is_idle(world.store);
        for (int k = 0; k < ROUNDS_MAX && !store_is_idle(world.store); k++)
            turn_loop();
        next = a < b ? a : b;
        quiet = busy || next <= world.now_ms ? 0 : quiet + 1;
    }
    return next;
}

static void act(int64_t ms)
{
    int64_t until_ms = world.now_ms + ms;

    for (;;) {
        int64_t next = turn_all();

        turn_loop();
        if (next > until_ms)
            break;
        world.now_ms = next > world.now_ms ? next : world.now_ms + 1;
    }
    world.now_ms = until_ms;
}

/* ---- requests ---- */

static int dial(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(server_port(world.server)),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
        die("cannot connect");
    return fd;
}

struct ask {
    const char *method;
    const char *type;
    const char *accept;
    struct str path;
    struct str body;
};

/* Sends it and turns the loop; with `ret` until the answer is whole, else once it is sent. Returns the
 * connection, which is still open in the latter case. */
static int ask(const struct ask *ask, char *ret, size_t ret_bytes)
{
    _cleanup_(buf_done) struct buf out = {0};
    int fd = dial();
    size_t sent = 0;
    size_t got = 0;

    buf_addf(&out,
             "%s " STR_FMT
             " HTTP/1.1\r\nHost: localhost\r\nConnection: %s\r\nAuthorization: Bearer " TOKEN
             "\r\nAccept: %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n",
             ask->method, STR_ARG(ask->path), ret ? "close" : "keep-alive",
             ask->accept ? ask->accept : JSON_TYPE, ask->type ? ask->type : JSON_TYPE,
             ask->body.len);
    buf_add(&out, ask->body);
    for (int i = 0; i < ROUNDS_MAX; i++) {
        ssize_t came = sent < out.len
                           ? send(fd, out.p + sent, out.len - sent, MSG_DONTWAIT | MSG_NOSIGNAL)
                           : 0;

        sent += came > 0 ? (size_t)came : 0;
        turn_loop();
        if (!ret && sent == out.len && i > 4)
            return fd;
        while (ret && (came = recv(fd, reading, sizeof(reading), MSG_DONTWAIT)) > 0) {
            size_t room = ret_bytes - 1 - got;
            size_t part = (size_t)came < room ? (size_t)came : room;

            memcpy(ret + got, reading, part);
            got += part;
        }
        if (ret && (came == 0 || (came < 0 && errno != EAGAIN))) {
            ret[got] = '\0';
            (void)close(fd);
            return -1;
        }
        if (sent == out.len)
            (void)turn_all();
    }
    die("no answer");
}

/* Returns the status. */
static int request(const struct ask *what, char *ret, size_t ret_bytes)
{
    int status = 0;

    (void)ask(what, ret, ret_bytes);
    (void)sscanf(ret, "HTTP/1.1 %d", &status);
    return status;
}

static struct str url(struct arena *arena,
                      const struct kind *kind,
                      const char *name,
                      const char *rest)
{
    char version[KIND_API_VERSION_BYTES];

    return str_printf(arena, "/%s/" STR_FMT "%s/%s%s%s%s", kind->group[0] ? "apis" : "api",
                      STR_ARG(kind_api_version(kind, version)),
                      kind->namespaced ? "/namespaces/default" : "", kind->plural,
                      name[0] ? "/" : "", name, rest);
}

/* ---- the world before ---- */

static int64_t world_now(void *user)
{
    (void)user;
    return world.now_ms;
}

static int same_again(struct buf *out, size_t bytes, struct err *err)
{
    (void)err;
    for (size_t i = 0; i < 2 * bytes; i++)
        buf_addc(out, '0');
    return 0;
}

static void must(const struct ask *what)
{
    char answer[ANSWER_BYTES];
    int status = request(what, answer, sizeof(answer));

    if (status != 200 && status != 201)
        die(answer);
}

static void populate(struct arena *arena)
{
    struct hollow_options shape = {.gpus = 8, .cpus = 128, .memory_gib = 1024, .pods = 256};

    for (size_t i = 0; i < 2; i++)
        must(&(struct ask){
            .method = "POST",
            .path = url(arena, &kind_node, "", ""),
            .body = json_text(
                arena, hollow_node(arena, &shape, str_printf(arena, "node-%zu", i), i, NOW_MS))});
    for (size_t i = 0; i < PODS; i++)
        must(&(struct ask){.method = "POST",
                           .path = url(arena, &kind_pod, "", ""),
                           .body = str_printf(arena,
                                              "{\"apiVersion\":\"v1\",\"kind\":\"Pod\","
                                              "\"metadata\":{\"name\":\"by-%zu\",\"labels\":{"
                                              "\"by\":\"stander\"}},\"spec\":{\"containers\":[{"
                                              "\"name\":\"c\",\"image\":\"i\"}]}}",
                                              i)});
    act(ACT_MS);
}

static void world_open(struct arena *arena)
{
    struct err err = {0};

    if (uv_loop_init(&world.loop) < 0 ||
        store_open(&(struct store_options){.loop = &world.loop, .seed = 1, .now_ms = world_now},
                   &world.store, &err) < 0)
        die(err.text);
    world.hooks = hooks_new(&world.loop, store_api(world.store), NULL);
    struct api *api = hooks_api(world.hooks);
    if (server_start(&world.loop, api,
                     &(struct server_options){.address = "127.0.0.1",
                                              .token = STR(TOKEN),
                                              .token_key = STR("a key that signs tokens, 32 b")},
                     &world.server, &err) < 0 ||
        runner_start(NULL, api,
                     &(struct runner_options){
                         .embedded = true, .seed = 1, .now = world_now, .draw = same_again},
                     &world.runner, &err) < 0 ||
        scheduler_start(NULL, api, &(struct scheduler_options){.seed = 1, .now = world_now},
                        &world.scheduler, &err) < 0)
        die(err.text);
    store_set_admit_pod(world.store, runner_admit_pod, world.runner);
    store_set_made_pod(world.store, runner_made_pod, world.runner);
    for (int i = 0; i < 20; i++)
        turn_loop();
    act(ACT_MS);
    populate(arena);
}

/* ---- an object ---- */

static void step_to(enum step step)
{
    world.result->step = step;
}

/* The answer of one step; the first that is refused is kept. */
static int tell(const struct ask *what)
{
    struct result *result = world.result;
    char answer[ANSWER_BYTES];
    int status = request(what, answer, sizeof(answer));

    if (status >= 300 && !result->worst) {
        const char *text = strstr(answer, "\"message\":");

        result->worst = status;
        result->worst_step = result->step;
        (void)snprintf(result->text, sizeof(result->text), "%.200s", text ? text + 10 : answer);
    }
    (void)turn_all();
    return status;
}

static void others(struct arena *arena)
{
    for (size_t i = 0; i < PODS; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "by-%zu", i);
        (void)tell(&(struct ask){.method = "PATCH",
                                 .type = "application/merge-patch+json",
                                 .path = url(arena, &kind_pod, name, "/status"),
                                 .body = STR("{\"status\":{\"message\":\"changed\"}}")});
    }
}

/* What may be done to a list or a map besides: a text is what it is. */
static void play_more(struct arena *arena,
                      const struct shape *shape,
                      struct str body,
                      const char *name)
{
    const struct kind *kind = shape->kind;
    const char *sub = shape->status ? "/status" : "";
    struct str all = url(arena, kind, "", "");

    step_to(MERGE);
    (void)tell(&(struct ask){.method = "PATCH",
                             .path = url(arena, kind, name, sub),
                             .type = kind->custom ? "application/merge-patch+json"
                                                  : "application/strategic-merge-patch+json",
                             .body = body});
    step_to(APPLY);
    (void)tell(&(struct ask){
        .method = "PATCH",
        .path = url(arena, kind, name,
                    str_c(arena, str_printf(arena, "%s?fieldManager=m&force=true", sub))),
        .type = "application/apply-patch+yaml",
        .body = body});
    step_to(TABLE);
    (void)tell(&(struct ask){
        .method = "GET", .path = all, .accept = "application/json;as=Table;v=v1;g=meta.k8s.io"});
    step_to(PROTOBUF);
    if (!kind->custom)
        (void)tell(&(struct ask){
            .method = "GET", .path = all, .accept = "application/vnd.kubernetes.protobuf"});
    step_to(ACT);
    act(SETTLE_MS);
    step_to(OTHERS);
    others(arena);
}

static void play(struct arena *arena, const struct shape *shape, size_t bytes)
{
    const struct kind *kind = shape->kind;
    struct str body = shape_body(arena, shape, bytes);
    struct json *base = shape_base(arena, kind);
    const char *name = str_c(arena, json_str_at(base, "metadata.name"));
    const char *sub = shape->status ? "/status" : "";
    struct str all = url(arena, kind, "", "");

    step_to(WATCH);
    world.watch =
        ask(&(struct ask){.method = "GET", .path = url(arena, kind, "", "?watch=true")}, NULL, 0);
    step_to(CREATE);
    world.result->status = tell(&(struct ask){
        .method = "POST", .path = all, .body = shape->status ? json_text(arena, base) : body});
    if (world.result->status >= 300) { /* nothing is there: only whether saying so is cheap */
        world.result->ended = true;
        return;
    }
    step_to(ACT);
    act(ACT_MS);
    step_to(UPDATE);
    (void)tell(&(struct ask){.method = "PUT", .path = url(arena, kind, name, sub), .body = body});
    act(ACT_MS);
    step_to(LIST);
    (void)tell(&(struct ask){.method = "GET", .path = all});
    if (shape->form != SHAPE_TEXT)
        play_more(arena, shape, body, name);
    step_to(DELETE);
    (void)tell(&(struct ask){
        .method = "DELETE",
        .path = url(arena, kind, name, shape->form == SHAPE_TEXT ? "?gracePeriodSeconds=0" : "")});
    act(ACT_MS);
    world.result->ended = true;
}

/* Whether the object is gone, and nobody watches any more: the next one is made in the same world. */
static bool is_left(struct arena *arena, const struct shape *shape)
{
    const struct json *base = shape_base(arena, shape->kind);
    const char *name = str_c(arena, json_str_at(base, "metadata.name"));
    char answer[ANSWER_BYTES];

    world.result = NULL;
    (void)close(world.watch);
    world.watch = -1;
    return request(&(struct ask){.method = "GET", .path = url(arena, shape->kind, name, "")},
                   answer, sizeof(answer)) == 404;
}

/* The first `count` of these shapes, one after another, as long as each leaves the world as it was. */
_Noreturn static void play_all(const struct shape *const *shapes,
                               size_t count_of,
                               size_t bytes,
                               struct result *results)
{
    if (uv_loop_fork(&world.loop) < 0)
        die("the loop does not fork");
    look_from_now_on();
    for (size_t i = 0; i < count_of; i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        world.result = &results[i];
        results[i].begun = true;
        play(&arena, shapes[i], bytes);
        if (!is_left(&arena, shapes[i]))
            break;
    }
    _exit(0);
}

/* In a process of its own: the next ones have the world as it was. Returns how many were played. */
static size_t measure_some(const struct shape *const *shapes,
                           size_t count_of,
                           size_t bytes,
                           struct result *ret)
{
    static struct result *shared;
    int status = 0;
    size_t played = 0;

    if (!shared)
        shared = mmap(NULL, BATCH * sizeof(*shared), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        die("no memory");
    memset(shared, 0, BATCH * sizeof(*shared));
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid < 0)
        die("cannot fork");
    if (pid == 0)
        play_all(shapes, count_of, bytes, shared);
    if (waitpid(pid, &status, 0) != pid)
        die("nobody to wait for");
    while (played < count_of && shared[played].begun)
        ret[played] = shared[played], played++;
    if (!played)
        die("it did not begin");
    struct result *last = &ret[played - 1];
    if (status)
        (void)snprintf(last->text, sizeof(last->text), "it ended with %d in step %s", status,
                       step_names[last->step]);
    last->ended = last->ended && !status;
    return played;
}

static void measure(const struct shape *const *shapes,
                    size_t count_of,
                    size_t bytes,
                    struct result *ret)
{
    for (size_t done = 0; done < count_of;)
        done += measure_some(shapes + done, count_of - done, bytes, ret + done);
}

/* ---- the rules ---- */

/* The most of something, and of which shape. */
struct most {
    double value;
    char name[NAME_BYTES];
};

struct totals {
    size_t shapes;
    size_t refused; /* the object is not taken: that was measured */
    size_t failed;
    struct most growth[STEPS];
    struct most turn;
};

static double factor(uint64_t a, uint64_t b)
{
    return (double)b / (double)(a > SMALL_BLOCKS ? a : SMALL_BLOCKS);
}

static void keep_most(struct most *most, double value, const char *name)
{
    if (value <= most->value)
        return;
    most->value = value;
    (void)snprintf(most->name, sizeof(most->name), "%s", name);
}

static uint64_t sum_of(const struct result *result)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < STEPS; i++)
        sum += result->blocks[i];
    return sum;
}

static bool judge(const char *name,
                  const struct result *a,
                  const struct result *b,
                  struct totals *totals)
{
    bool well = true;

    /* Where the larger one costs less, a limit stands between the two: they did different things. */
    for (size_t i = 0; i < STEPS && sum_of(b) >= sum_of(a); i++) {
        double by = factor(a->blocks[i], b->blocks[i]);
        double most = i == OTHERS ? BYSTANDER : GROWTH;

        if (b->enough || a->enough)
            continue;
        keep_most(&totals->growth[i], by, name);
        if (by <= most)
            continue;
        well = false;
        (void)printf("%s: %s: %.2f times: %.2f and %.2f million blocks\n", name, step_names[i], by,
                     (double)a->blocks[i] / 1e6, (double)b->blocks[i] / 1e6);
    }
    const struct result *longest = a->enough ? a : b;
    keep_most(&totals->turn, (double)longest->turn, name);
    if (longest->turn > TURN_BLOCKS) {
        well = false;
        (void)printf("%s: a turn in %s: %.1f million blocks%s%s\n", name,
                     step_names[longest->turn_step], (double)longest->turn / 1e6,
                     longest->enough ? " and more" : "", a->enough ? ", at half the size" : "");
    }
    if ((!a->ended && !a->enough) || (!b->ended && !b->enough)) {
        well = false;
        (void)printf("%s: it did not come to its end: %s %s\n", name, a->text, b->text);
    }
    return well;
}

static bool is_wanted(const char *name, char *const *from, int words)
{
    bool any = !words;

    for (int i = 0; i < words; i++)
        any |= strstr(name, from[i]) != NULL;
    return any;
}

static void tell_shape(const char *name, const struct result *a, const struct result *b)
{
    (void)printf("%s: %d", name, b->status);
    for (size_t k = 0; k < STEPS; k++)
        (void)printf(" %s %.2f/%.2f", step_names[k], (double)a->blocks[k] / 1e6,
                     (double)b->blocks[k] / 1e6);
    (void)printf(" turn %.2f %s %s\n", (double)b->turn / 1e6, step_names[b->turn_step],
                 b->worst ? b->text : "");
}

struct options {
    size_t bytes;
    size_t part; /* from 0 */
    size_t parts;
    bool all;
    int words_at;
};

/* These shapes at both sizes. */
static void play_batch(const struct shape *const *shapes,
                       size_t count_of,
                       const struct options *options,
                       struct totals *totals)
{
    static struct result a[BATCH], b[BATCH];

    measure(shapes, count_of, options->bytes, a);
    measure(shapes, count_of, 2 * options->bytes, b);
    for (size_t i = 0; i < count_of; i++) {
        char name[NAME_BYTES];

        shape_name(shapes[i], name, sizeof(name));
        bool well = timed || judge(name, &a[i], &b[i], totals);
        totals->shapes++;
        totals->refused += b[i].status >= 300;
        totals->failed += !well;
        if (!well)
            (void)printf("failed: %s\n", name);
        if (options->all)
            tell_shape(name, &a[i], &b[i]);
    }
}

/* Texts of one kind together, anything else by itself; every parts-th batch is this process's. */
static void play_shapes(const struct shapes *shapes,
                        const struct options *options,
                        char *const *words,
                        int word_count,
                        struct totals *totals)
{
    const struct shape *batch[BATCH];
    size_t count_of = 0;
    size_t number = 0;

    for (size_t i = 0; i <= shapes->list.count; i++) {
        const struct shape *shape = i < shapes->list.count ? &shapes->list.items[i] : NULL;
        char name[NAME_BYTES];

        if (shape) {
            shape_name(shape, name, sizeof(name));
            if (!is_wanted(name, words, word_count))
                continue;
        }
        bool joins = shape && count_of && count_of < BATCH && shape->form == SHAPE_TEXT &&
                     batch[0]->form == SHAPE_TEXT && batch[0]->kind == shape->kind;
        if (count_of && !joins) {
            if (number++ % options->parts == options->part)
                play_batch(batch, count_of, options, totals);
            count_of = 0;
        }
        batch[count_of++] = shape;
    }
}

static struct options read_options(int argc, char **argv)
{
    struct options ret = {.bytes = BYTES, .parts = 1, .words_at = 1};
    int *at = &ret.words_at;

    for (; *at < argc && argv[*at][0] == '-'; ++*at)
        if (!strcmp(argv[*at], "--all"))
            ret.all = true;
        else if (!strcmp(argv[*at], "--time"))
            timed = true;
        else if (!strcmp(argv[*at], "--bytes") && *at + 1 < argc)
            ret.bytes = strtoul(argv[++*at], NULL, 10);
        else if (strcmp(argv[*at], "--part") || *at + 1 == argc ||
                 sscanf(argv[++*at], "%zu/%zu", &ret.part, &ret.parts) != 2 ||
                 ret.part-- - 1 >= ret.parts)
            die("usage: costs [--all] [--bytes N] [--part K/N] [--time] [WORD...]");
    return ret;
}

int main(int argc, char **argv)
{
    struct arena arena = {0};
    static struct totals totals;
    const struct options options = read_options(argc, argv);

    world_open(&arena);
    struct shapes shapes = {.arena = &arena, .kinds = store_api(world.store)->kinds};
    shapes_make(&shapes);
    play_shapes(&shapes, &options, argv + options.words_at, argc - options.words_at, &totals);
    (void)printf("%zu shapes at %zu and %zu bytes, %zu of them refused\n", totals.shapes,
                 options.bytes, 2 * options.bytes, totals.refused);
    for (size_t i = 0; !timed && i < STEPS; i++)
        (void)printf("most: %s %.2f %s\n", step_names[i], totals.growth[i].value,
                     totals.growth[i].name);
    if (!timed)
        (void)printf("most: turn %.2f %s\n", totals.turn.value / 1e6, totals.turn.name);
    (void)printf("%zu passed, %zu failed\n", totals.shapes - totals.failed, totals.failed);
    return totals.failed ? 1 : 0;
}
