/* kill_test [ROUNDS]: kill -9 under a write load of 8 clients, ROUNDS times on one file.
 *
 * A child process serves eight clients that create, patch and delete; every answer it gets is told
 * through a pipe at once. After a random time it is killed. Then the file is opened here, and what
 * was acknowledged must be in it: the last acknowledged state of each object or a later one that
 * was under way, revisions that only grow, and a watch from the start of the round that gives every
 * acknowledged change exactly once. */
#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "store/maintain.h"
#include "store/store.h"

#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#define CLIENTS     8
#define OBJECTS     5 /* names that one client uses in turn */
#define ROUNDS      100
#define LIFE_US_MAX 60000
#define LIFE_US_MIN 5000
#define READY       UINT64_MAX

/* One acknowledged write. */
struct told {
    uint64_t revision;
    uint32_t client;
    uint32_t object;
    int64_t value; /* what the object says; -1: it was deleted */
};

static _Noreturn void die(const char *what)
{
    (void)fprintf(stderr, "kill_test: %s\n", what);
    exit(EXIT_FAILURE);
}

/* ---- the child ---- */

struct client {
    struct api *api;
    uint32_t number;
    uint32_t object;
    int64_t value;
    int step; /* 0 create, 1 and 2 patch, 3 delete */
    int pipe;
};

static void client_next(struct client *client);

static void on_done(void *user, const struct api_result *result)
{
    struct client *client = user;
    struct told told = {.client = client->number,
                        .object = client->object,
                        .value = client->step == 3 ? -1 : client->value};

    /* What the last life left under way may be there already, or be gone. */
    if (result->code == 0 && result->object) {
        told.revision = result->object->revision;
        if (write(client->pipe, &told, sizeof(told)) != (ssize_t)sizeof(told))
            _exit(EXIT_FAILURE);
    }
    client->step = (client->step + 1) % 4;
    if (client->step == 0)
        client->object = (client->object + 1) % OBJECTS;
    client_next(client);
}

static void client_next(struct client *client)
{
    char name[32];
    char body[160];
    enum api_verb verb = client->step == 0   ? API_CREATE
                         : client->step == 3 ? API_DELETE
                                             : API_PATCH;

    client->value++;
    (void)snprintf(name, sizeof(name), "c%u-%u", client->number, client->object);
    (void)snprintf(body, sizeof(body),
                   "{\"metadata\":{\"name\":\"%s\"},\"data\":{\"v\":\"%" PRId64 "\"}}", name,
                   client->value);
    api_call(client->api,
             &(struct api_request){.verb = verb,
                                   .kind = &kind_configmap,
                                   .ns = STR("default"),
                                   .name = verb == API_CREATE ? STR("") : str_from(name),
                                   .body = verb == API_DELETE ? STR("") : str_from(body)},
             on_done, client);
}

static _Noreturn void serve(const char *path, int pipe, int64_t value)
{
    uv_loop_t loop;
    struct store *store = NULL;
    struct err err = {0};
    struct client clients[CLIENTS];
    struct told ready = {.revision = READY};

    (void)uv_loop_init(&loop);
    if (store_open(&(struct store_options){.loop = &loop, .path = path}, &store, &err) < 0)
        die(err.text);
    if (write(pipe, &ready, sizeof(ready)) != (ssize_t)sizeof(ready))
        _exit(EXIT_FAILURE);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        clients[i] =
            (struct client){.api = store_api(store), .number = i, .value = value + i, .pipe = pipe};
        client_next(&clients[i]);
    }
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    _exit(EXIT_FAILURE);
}

/* ---- the parent ---- */

struct heard VEC_FIELDS(struct told);

/* One life of the child; what it acknowledged goes to *ret. */
static void live_and_die(const char *path, int64_t value, struct arena *arena, struct heard *ret)
{
    int pipes[2];
    struct told told;

    if (pipe(pipes) < 0)
        die("no pipe");
    pid_t child = fork();
    if (child < 0)
        die("no fork");
    if (child == 0) {
        (void)close(pipes[0]);
        serve(path, pipes[1], value);
    }
    (void)close(pipes[1]);
    if (read(pipes[0], &told, sizeof(told)) != (ssize_t)sizeof(told) || told.revision != READY)
        die("the child did not start");
    struct timespec life = {.tv_nsec = (LIFE_US_MIN + rand() % LIFE_US_MAX) * 1000L};
    (void)nanosleep(&life, NULL);
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    while (read(pipes[0], &told, sizeof(told)) == (ssize_t)sizeof(told))
        VEC_PUSH(arena, ret, told);
    (void)close(pipes[0]);
}

struct seen {
    struct arena *arena;
    struct heard changes; /* as a watch tells them */
    bool listed;
    bool closed;
    uint64_t revision;
    int64_t values[CLIENTS][OBJECTS]; /* -1: not there */
};

/* "c3-1" with its value; false for objects of others. */
static bool read_object(const struct object *object, struct told *ret)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *root = object_json(object, &arena);
    unsigned client = 0;
    unsigned number = 0;

    if (sscanf(str_c(&arena, object->name), "c%u-%u", &client, &number) != 2 || client >= CLIENTS ||
        number >= OBJECTS || !str_to_i64(json_str_at(root, "data.v"), &ret->value))
        return false;
    ret->client = client;
    ret->object = number;
    return true;
}

static void on_change(void *user, const struct api_change *change)
{
    struct seen *seen = user;
    struct told told = {.revision = change->revision};

    if (change->event == API_CLOSED)
        seen->closed = true;
    if (!change->object || !read_object(change->object, &told))
        return;
    if (change->event == API_DELETED)
        told.value = -1;
    if (seen->changes.count &&
        change->revision <= seen->changes.items[seen->changes.count - 1].revision)
        die("a change was told twice or out of order");
    VEC_PUSH(seen->arena, &seen->changes, told);
}

static void on_list(void *user, const struct api_result *result)
{
    struct seen *seen = user;

    seen->listed = true;
    seen->revision = result->revision;
    for (size_t i = 0; i < result->item_count; i++) {
        struct told told;

        if (read_object(result->items[i], &told))
            seen->values[told.client][told.object] = told.value;
    }
}

static void print_problem(void *user, const char *text)
{
    (void)user;
    (void)fprintf(stderr, "%s\n", text);
}

static void look(const char *path, uint64_t from, struct seen *seen)
{
    uv_loop_t loop;
    struct store *store = NULL;
    struct err err = {0};
    struct store_report report = {0};

    (void)uv_loop_init(&loop);
    memset(seen->values, 0xff, sizeof(seen->values));
    if (store_open(&(struct store_options){.loop = &loop, .path = path}, &store, &err) < 0)
        die(err.text);
    struct api_watch *watch =
        api_watch(store_api(store),
                  &(struct api_watch_request){.kind = &kind_configmap, .from_revision = from},
                  on_change, seen);
    api_call(store_api(store), &(struct api_request){.verb = API_LIST, .kind = &kind_configmap},
             on_list, seen);
    for (int i = 0; i < 100 || !seen->listed; i++)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    api_watch_stop(store_api(store), watch);
    store_close(store);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&loop);
    if (seen->closed)
        die("the watch could not resume");
    if (store_check(path, print_problem, NULL, &report, &err) < 0)
        die(err.text);
    if (report.problems)
        die("the check found problems");
}

static const struct told *change_at(const struct seen *seen, uint64_t revision)
{
    for (size_t i = 0; i < seen->changes.count; i++)
        if (seen->changes.items[i].revision == revision)
            return &seen->changes.items[i];
    return NULL;
}

/* Every acknowledged write is among the changes as it was told, and the objects are what the
 * changes made of them. */
static void verify(const struct heard *heard, const struct seen *seen)
{
    for (size_t i = 0; i < heard->count; i++) {
        const struct told *told = &heard->items[i];
        const struct told *change = change_at(seen, told->revision);

        if (!change)
            die("an acknowledged write is not among the changes");
        if (change->client != told->client || change->object != told->object ||
            change->value != told->value)
            die("a change is not what was acknowledged");
        if (told->revision > seen->revision)
            die("the store's revision went back");
    }
    for (size_t i = 0; i < seen->changes.count; i++) {
        const struct told *change = &seen->changes.items[i];
        bool last = true;

        for (size_t j = i + 1; j < seen->changes.count && last; j++)
            last = seen->changes.items[j].client != change->client ||
                   seen->changes.items[j].object != change->object;
        if (last && seen->values[change->client][change->object] != change->value)
            die("an object is not what its last change made of it");
    }
}

int main(int argc, char *argv[])
{
    char folder[] = "/tmp/muster-kill-XXXXXX";
    char path[64];
    char command[64];
    int rounds = argc > 1 ? (int)strtoul(argv[1], NULL, 10) : ROUNDS;
    unsigned seed = (unsigned)time(NULL);
    uint64_t revision = 0;
    size_t acknowledged = 0;

    if (!mkdtemp(folder))
        die("no folder");
    (void)printf("seed %u\n", seed);
    srand(seed);
    (void)snprintf(path, sizeof(path), "%s/db", folder);
    for (int i = 0; i < rounds; i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct heard heard = {0};
        struct seen seen = {.arena = &arena};

        live_and_die(path, (int64_t)(i + 1) * 1000000, &arena, &heard);
        /* Killed before the first commit of all: there is nothing yet to resume from. */
        if (!revision && !heard.count)
            continue;
        look(path, revision ? revision : 1, &seen);
        verify(&heard, &seen);
        if (seen.revision < revision)
            die("revisions went back");
        revision = seen.revision;
        acknowledged += heard.count;
    }
    (void)printf("%d kills, %zu acknowledged writes, revision %" PRIu64 "\n", rounds, acknowledged,
                 revision);
    (void)snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command) == 0 && acknowledged > (size_t)rounds ? EXIT_SUCCESS : EXIT_FAILURE;
}
