#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"
#include "workspace/disk.h"
#include "workspace/door.h"
#include "workspace/frame.h"
#include "workspace/hash.h"
#include "workspace/manifest.h"
#include "workspace/outbox.h"
#include "workspace/pull.h"
#include "workspace/scan.h"
#include "workspace/sync.h"
#include "workspace/sync_worker.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* The sync service in a thread of its own, people that speak HTTP to it, and a worker's folder. */

#define ANSWER_S_MAX 20

struct service {
    char folder[64]; /* has the service's, and the worker's */
    char served[80];
    char pulled[80];
    struct door *door;
    pthread_t thread;
    atomic_int port;
    atomic_bool stop;
    int result;
};

static void service_ready(void *user, uint16_t port)
{
    struct service *service = user;

    atomic_store(&service->port, port);
}

static bool service_stop(void *user)
{
    struct service *service = user;

    return atomic_load(&service->stop);
}

static void *service_run(void *user)
{
    struct service *service = user;

    service->result = sync_serve(&(struct sync_options){.folder = service->served,
                                                        .door = service->door,
                                                        .address = "127.0.0.1",
                                                        .ready = service_ready,
                                                        .stop = service_stop,
                                                        .user = service},
                                 NULL);
    if (service->result)
        atomic_store(&service->port, -1);
    return NULL;
}

static void service_open(struct service *service)
{
    *service = (struct service){.folder = "/tmp/muster-sync-XXXXXX"};
    EXPECT(mkdtemp(service->folder));
    (void)snprintf(service->served, sizeof(service->served), "%s/served", service->folder);
    (void)snprintf(service->pulled, sizeof(service->pulled), "%s/pulled", service->folder);
    EXPECT(disk_make_folders(service->served) == 0 && disk_make_folders(service->pulled) == 0);
    service->door =
        door_new(&(struct door_options){.job = "team/job", .secret = "secret", .peer_uid = -1});
    EXPECT(pthread_create(&service->thread, NULL, service_run, service) == 0);
    while (!atomic_load(&service->port))
        (void)poll(NULL, 0, 1);
}

static void service_close(struct service *service)
{
    atomic_store(&service->stop, true);
    EXPECT(pthread_join(service->thread, NULL) == 0 && service->result == 0);
    door_free(service->door);
    (void)disk_remove_path(service->folder);
}

/* Sends a request; the answer is read from what it returns. */
static int ask(struct service *service, const char *line, struct str body)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atomic_load(&service->port)),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct timeval limit = {.tv_sec = ANSWER_S_MAX};
    _cleanup_(buf_done) struct buf text = {0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    buf_addf(&text,
             "%s HTTP/1.1\r\nHost: sync\r\nConnection: close\r\n" DOOR_HEADER
             ": secret\r\nContent-Length: %zu\r\n\r\n",
             line, body.len);
    buf_add(&text, body);
    EXPECT(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
    EXPECT(connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
    EXPECT(send(fd, text.p, text.len, MSG_NOSIGNAL) == (ssize_t)text.len);
    return fd;
}

/* The whole answer, head and body; closes. */
static struct str answer(struct arena *arena, int fd)
{
    _cleanup_(buf_done) struct buf text = {0};
    char piece[4096];
    ssize_t got;

    while ((got = recv(fd, piece, sizeof(piece), 0)) > 0)
        buf_add(&text, (struct str){piece, (size_t)got});
    (void)close(fd);
    EXPECT(got == 0);
    return str_dup(arena, buf_str(&text));
}

static bool has(struct str text, const char *part)
{
    return str_contains(text, str_from(part));
}

/* One file, `path`, is all there is. */
static struct str commit(struct service *service,
                         struct arena *arena,
                         const char *path,
                         const char *content,
                         struct hash *ret_revision)
{
    _cleanup_(manifest_unrefp) struct manifest *manifest = manifest_new();
    _cleanup_(buf_done) struct buf frames = {0};
    struct ws_entry entry = {.type = WS_FILE,
                             .path = str_from(path),
                             .mode = 0644,
                             .size = strlen(content),
                             .hash = hash_of(str_from(content))};

    manifest_add(manifest, &entry);
    EXPECT(manifest_finish(manifest, NULL) == 0);
    *ret_revision = manifest->revision;
    frame_add_begin(&frames, &(struct frame_begin){.target = manifest->revision, .full = true});
    frame_add_blob(&frames, &(struct frame_blob){.hash = entry.hash,
                                                 .size = entry.size,
                                                 .mode = entry.mode,
                                                 .bytes = str_from(content)});
    frame_add_entry(&frames, &entry);
    frame_add_empty(&frames, FRAME_COMMIT);
    return answer(arena, ask(service, "POST /v1/commit?by=ada", buf_str(&frames)));
}

/* ---- a worker ---- */

struct worker {
    struct pull pull;
    struct hash at;
    uint64_t stop;
    uint64_t go;
    int troubles;
};

static void worker_committed(void *user, struct hash revision)
{
    ((struct worker *)user)->at = revision;
}

static void worker_stop(void *user, uint64_t restart)
{
    ((struct worker *)user)->stop = restart;
}

static void worker_go(void *user, uint64_t restart)
{
    ((struct worker *)user)->go = restart;
}

static void worker_trouble(void *user, const struct err *err)
{
    (void)err;
    ((struct worker *)user)->troubles++;
}

static int64_t clock_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void worker_open(struct worker *worker, struct service *service)
{
    char url[64];

    *worker = (struct worker){0};
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d", atomic_load(&service->port));
    EXPECT(pull_open(&worker->pull, &(struct pull_source){.url = url, .secret = "secret"},
                     service->pulled, 3,
                     &(struct pull_handler){.committed = worker_committed,
                                            .stop = worker_stop,
                                            .go = worker_go,
                                            .trouble = worker_trouble,
                                            .user = worker},
                     NULL) == 0);
}

static void worker_turn(struct worker *worker)
{
    (void)poll(&(struct pollfd){.fd = pull_fd(&worker->pull), .events = pull_events(&worker->pull)},
               1, 1);
    pull_turn(&worker->pull, clock_ms());
}

static bool worker_comes_to(struct worker *worker, struct hash revision)
{
    for (int64_t until_ms = clock_ms() + ANSWER_S_MAX * 1000;
         !hash_eq(worker->at, revision) && clock_ms() < until_ms;)
        worker_turn(worker);
    return hash_eq(worker->at, revision);
}

static bool number_comes(struct worker *worker, const uint64_t *number, uint64_t wanted)
{
    for (int64_t until_ms = clock_ms() + ANSWER_S_MAX * 1000;
         *number != wanted && clock_ms() < until_ms;)
        worker_turn(worker);
    return *number == wanted;
}

/* Names of files are bytes; JSON is text. */
TEST(what_a_worker_says_of_files_can_be_read_whatever_they_are_called)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf text = {0};
    struct sync_worker worker = {.rank = 3};
    struct json *json = NULL;

    sync_worker_ack(&worker, &(struct sync_ack){.revision = {.low = 1}, .kept = 1},
                    STR("caf\xe9 \"x\n"));
    sync_worker_write(&text, &worker);
    EXPECT(json_parse(&arena, buf_str(&text), &json, NULL) == 0);
    EXPECT(str_is(json_str(json_get(json, "names")), "caf\xef\xbf\xbd \"x\n"));
}

TEST(sync_hands_a_commit_to_its_workers_and_says_when_they_have_it)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct hash first, second;
    struct service service;
    struct worker worker;
    char hex[HASH_HEX_BYTES];

    service_open(&service);
    EXPECT(has(answer(&arena, ask(&service, "GET /v1/state", STR(""))), "\"entries\":0"));
    struct str said = commit(&service, &arena, "train.py", "import torch\n", &first);
    EXPECT(str_starts(said, STR("HTTP/1.1 200 ")) && has(said, hash_hex(first, hex)));
    worker_open(&worker, &service);
    EXPECT(worker_comes_to(&worker, first));
    EXPECT(has(commit(&service, &arena, "train.py", "import jax\n", &second), "\"entries\":1"));
    int waits = ask(
        &service, str_printf(&arena, "GET /v1/wait?revision=%s", hash_hex(second, hex)).p, STR(""));
    EXPECT(worker_comes_to(&worker, second));
    said = answer(&arena, waits);
    EXPECT(
        has(said,
            str_printf(&arena, "\"workers\":[{\"rank\":3,\"revision\":\"%s\",\"kept\":0,", hex).p));
    EXPECT(worker.troubles == 0);
    pull_done(&worker.pull);
    service_close(&service);
}

TEST(sync_lets_ranks_go_when_all_have_stopped)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct hash revision;
    struct service service;
    struct worker worker;
    char hex[HASH_HEX_BYTES];

    service_open(&service);
    (void)commit(&service, &arena, "train.py", "1", &revision);
    worker_open(&worker, &service);
    EXPECT(worker_comes_to(&worker, revision));
    const char *began =
        str_printf(&arena, "\"started\":\"%s\"", hash_hex(revision, hex)).p; /* with the first */
    EXPECT(has(commit(&service, &arena, "train.py", "2", &revision), began));
    began = str_printf(&arena, "\"started\":\"%s\"", hash_hex(revision, hex)).p;
    struct str said = answer(&arena, ask(&service, "POST /v1/restart", STR("")));
    EXPECT(has(said, "\"restart\":1") && has(said, began));
    EXPECT(number_comes(&worker, &worker.stop, 1));
    for (int i = 0; i < 3; i++) { /* the service has had its turns, and nobody has stopped */
        (void)answer(&arena, ask(&service, "GET /v1/state", STR("")));
        worker_turn(&worker);
    }
    EXPECT(worker.go == 0);
    pull_stopped(&worker.pull, 1);
    EXPECT(number_comes(&worker, &worker.go, 1));
    EXPECT(worker.troubles == 0);
    pull_done(&worker.pull);
    service_close(&service);
}

TEST(sync_answers_who_waits_for_a_key_when_it_is_set)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct service service;

    service_open(&service);
    int waits = ask(&service, "GET /v2/keys/job/state?wait=true", STR(""));
    EXPECT(has(answer(&arena, ask(&service, "PUT /v2/keys/other", STR("value=no"))), "\"no\""));
    EXPECT(has(answer(&arena, ask(&service, "PUT /v2/keys/job/state", STR("value=yes"))),
               "HTTP/1.1 201 "));
    struct str said = answer(&arena, waits);
    EXPECT(str_starts(said, STR("HTTP/1.1 200 ")) && has(said, "\"yes\""));
    service_close(&service);
}

TEST(sync_refuses_what_is_no_upload)
{
    static const struct {
        const char *line;
        const char *body;
        const char *says;
        const char *why;
    } rows[] = {
        {"GET /v1/nothing", "", "HTTP/1.1 404 ", "no such path"},
        {"POST /v1/commit", "", "HTTP/1.1 400 ", "an upload without a commit"},
        {"POST /v1/commit", "T", "HTTP/1.1 400 ", "one that ends in the middle of a frame"},
        {"POST /v1/missing", "C\0\0\0\0", "HTTP/1.1 400 ", "what is no question"},
        {"POST /v1/blobs", "C\0\0\0\0", "HTTP/1.1 400 ", "what is no content"},
        {"POST /v1/pull", "C\0\0\0\0", "HTTP/1.1 400 ", "what is no entry"},
    };
    _cleanup_(arena_done) struct arena arena = {0};
    struct service service;

    service_open(&service);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        struct str body = {rows[i].body, rows[i].body[0] == 'C' ? 5 : strlen(rows[i].body)};
        EXPECT(
            str_starts(answer(&arena, ask(&service, rows[i].line, body)), str_from(rows[i].says)));
    }
    service_close(&service);
}

/* ---- against a model ----
 *
 * A person edits, deletes and moves files here; a job writes and removes files in the folders of two
 * workers; now and then what it wrote comes home, a folder is sent, and a worker or the service dies.
 * The model says for each file what must be there. Beyond it one rule holds: what a job's write put
 * on disk is there after a sync, unless the person has edited that file here since the last one. */
#define MODEL_WORKERS 2
#define MODEL_STEPS   25
#define MODEL_KILL    600 /* steps into and out of the kernel: more than a commit takes */
#define MODEL_QUICK   12  /* sequences; MUSTER_MODEL_SEQUENCES says another number */

static const char *const model_paths[] = {"a", "b", "d/a", "d/b", "d/e/c", "f/a"};
#define MODEL_PATHS COUNT_OF(model_paths)

enum touch {
    TOUCH_NOT,
    TOUCH_PULLED,
    TOUCH_DELETED,
    TOUCH_EDITED
};

struct model_worker {
    struct worker worker;
    char folder[96];
    bool alive;
    int disk[MODEL_PATHS];    /* what is there: a number a content, 0: nothing */
    int shipped[MODEL_PATHS]; /* what the worker was sent */
    bool by_job[MODEL_PATHS]; /* the job put it there */
    size_t kept;
    bool takes; /* the revision that is being sent is new to it */
};

struct model {
    struct service service;
    uint64_t random;
    int next; /* content */
    char folder[96];
    int local[MODEL_PATHS];
    enum touch touched[MODEL_PATHS];
    struct model_worker workers[MODEL_WORKERS];
};

static size_t model_draw(struct model *model, size_t below)
{
    model->random = model->random * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(model->random >> 33) % below;
}

static void model_write(const char *folder, size_t path, int content)
{
    char name[200];
    char text[16];

    (void)snprintf(name, sizeof(name), "%s/%s", folder, model_paths[path]);
    (void)unlink(name);
    if (!content)
        return;
    *strrchr(name, '/') = '\0';
    EXPECT(disk_make_folders(name) == 0);
    (void)snprintf(name, sizeof(name), "%s/%s", folder, model_paths[path]);
    (void)snprintf(text, sizeof(text), "%d", content);
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    EXPECT(fd >= 0 && disk_write(fd, str_from(text)) == 0);
    close(fd);
}

static int model_read(const char *folder, size_t path)
{
    char name[200];
    char text[16] = "";

    (void)snprintf(name, sizeof(name), "%s/%s", folder, model_paths[path]);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    EXPECT(read(fd, text, sizeof(text) - 1) > 0);
    close(fd);
    return (int)strtol(text, NULL, 10);
}

static void model_start_worker(struct model *model, struct model_worker *worker)
{
    char url[64];

    worker->worker = (struct worker){0};
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d", atomic_load(&model->service.port));
    EXPECT(pull_open(&worker->worker.pull, &(struct pull_source){.url = url, .secret = "secret"},
                     worker->folder, (uint64_t)(worker - model->workers),
                     &(struct pull_handler){.committed = worker_committed,
                                            .stop = worker_stop,
                                            .go = worker_go,
                                            .trouble = worker_trouble,
                                            .user = &worker->worker},
                     NULL) == 0);
    worker->worker.at = worker->worker.pull.tree.current->revision;
    worker->alive = true;
}

/* As the plugin sends a folder: everything, in one commit. */
static struct hash model_send(struct model *model, struct arena *arena)
{
    _cleanup_(manifest_unrefp) struct manifest *manifest = manifest_new();
    _cleanup_(buf_done) struct buf frames = {0};
    struct outbox outbox;

    EXPECT(scan_folder(model->folder, &(struct scan_options){0}, manifest, NULL) == 0);
    EXPECT(outbox_open(&outbox, model->folder, manifest, NULL) == 0);
    EXPECT(outbox_next(&outbox, &frames, 1 << 20, NULL) == 0);
    outbox_done(&outbox);
    EXPECT(manifest_finish(manifest, NULL) == 0);
    frame_add_begin(&frames, &(struct frame_begin){.target = manifest->revision, .full = true});
    for (size_t i = 0; i < manifest->entries.count; i++)
        frame_add_entry(&frames, &manifest->entries.items[i]);
    frame_add_empty(&frames, FRAME_COMMIT);
    EXPECT(str_starts(answer(arena, ask(&model->service, "POST /v1/commit", buf_str(&frames))),
                      STR("HTTP/1.1 200 ")));
    return manifest->revision;
}

/* What the model says a sync does to one file of a worker. */
static void model_judge(const struct model *model, struct model_worker *worker, size_t path)
{
    int after = model->local[path];
    int before = worker->shipped[path];
    int *disk = &worker->disk[path];
    bool rule = worker->by_job[path] && *disk && model->touched[path] != TOUCH_EDITED;
    int was = *disk;

    worker->shipped[path] = after;
    if (after == before || *disk == after)
        return;
    if (!*disk || (*disk == before && (after || !worker->by_job[path]))) {
        *disk = after;
        worker->by_job[path] = false;
    } else {
        worker->kept++;
    }
    EXPECT(!rule || *disk == was);
}

/* Whether the service says that every worker has it; who took it just now also says how many files
 * of the job's stayed. */
static bool model_has_arrived(struct model *model, struct str state, struct hash revision)
{
    _cleanup_(arena_done) struct arena arena = {0};
    char hex[HASH_HEX_BYTES];

    for (size_t i = 0; i < MODEL_WORKERS; i++) {
        const struct model_worker *worker = &model->workers[i];
        const char *words =
            str_printf(&arena, "{\"rank\":%zu,\"revision\":\"%s\"", i, hash_hex(revision, hex)).p;

        if (!has(state, words))
            return false;
        EXPECT(!worker->takes ||
               has(state, str_printf(&arena, "%s,\"kept\":%zu,", words, worker->kept).p));
    }
    return true;
}

static void model_die(struct model_worker *worker)
{
    if (worker->alive)
        pull_done(&worker->worker.pull);
    worker->alive = worker->takes = false;
}

static void model_begin_sync(struct model *model, struct model_worker *worker, struct hash revision)
{
    worker->kept = 0;
    for (size_t path = 0; path < MODEL_PATHS; path++)
        model_judge(model, worker, path);
    if (!worker->alive)
        model_start_worker(model, worker);
    worker->takes = !hash_eq(worker->worker.pull.tree.current->revision, revision);
}

/* A worker in a process of its own, until it has the revision. */
struct model_killed {
    struct model *model;
    struct model_worker *worker;
    struct hash revision;
};

static void model_take(void *user)
{
    struct model_killed *killed = user;
    int64_t until_ms = clock_ms() + ANSWER_S_MAX * 1000;

    model_start_worker(killed->model, killed->worker);
    while (!hash_eq(killed->worker->worker.at, killed->revision) && clock_ms() < until_ms)
        worker_turn(&killed->worker->worker);
}

static void model_sync(struct model *model)
{
    _cleanup_(arena_done) struct arena arena = {0};
    int64_t until_ms = clock_ms() + ANSWER_S_MAX * 1000;
    struct hash revision = model_send(model, &arena);
    size_t dies_at = model_draw(model, 12); /* a worker, in the middle of it */
    struct model_worker *dies = &model->workers[model_draw(model, MODEL_WORKERS)];

    for (size_t i = 0; i < MODEL_WORKERS; i++)
        model_begin_sync(model, &model->workers[i], revision);
    memset(model->touched, 0, sizeof(model->touched));
    for (size_t turn = 0; !model_has_arrived(
             model, answer(&arena, ask(&model->service, "GET /v1/state", STR(""))), revision);
         turn++) {
        for (size_t i = 0; i < MODEL_WORKERS; i++)
            worker_turn(&model->workers[i].worker);
        if (turn == dies_at) {
            struct model_killed killed = {model, dies, revision};

            model_die(dies);
            EXPECT(test_killed(model_take, &killed, (unsigned)model_draw(model, MODEL_KILL)) >= 0);
            model_start_worker(model, dies);
        }
        EXPECT(clock_ms() < until_ms);
        if (clock_ms() >= until_ms)
            return;
    }
    /* It is said that they have it: so they have. */
    for (size_t i = 0; i < MODEL_WORKERS; i++)
        for (size_t path = 0; path < MODEL_PATHS; path++)
            EXPECT(model_read(model->workers[i].folder, path) == model->workers[i].disk[path]);
}

static void model_person(struct model *model, size_t what, size_t path)
{
    size_t to = model_draw(model, MODEL_PATHS);

    if (what == 0 || !model->local[path]) { /* edits */
        model->local[path] = ++model->next;
    } else if (what == 1) {
        model->local[path] = 0;
        model->touched[path] = model->touched[path] == TOUCH_EDITED ? TOUCH_EDITED : TOUCH_DELETED;
        model_write(model->folder, path, 0);
        return;
    } else if (to != path) { /* moves */
        model->local[to] = model->local[path];
        model->local[path] = 0;
        model->touched[to] = TOUCH_EDITED;
        model_write(model->folder, to, model->local[to]);
    }
    model->touched[path] = TOUCH_EDITED;
    model_write(model->folder, path, model->local[path]);
}

/* What the first pod wrote comes home, as `pull --home` brings it. */
static void model_pull(struct model *model)
{
    const struct model_worker *worker = &model->workers[0];

    for (size_t path = 0; path < MODEL_PATHS; path++) {
        if (!worker->disk[path] || worker->disk[path] == worker->shipped[path] ||
            model->touched[path] == TOUCH_EDITED)
            continue;
        model->local[path] = worker->disk[path];
        model->touched[path] = TOUCH_PULLED;
        model_write(model->folder, path, model->local[path]);
    }
}

static void model_job(struct model *model, struct model_worker *worker, bool removes, size_t path)
{
    worker->disk[path] = removes ? 0 : ++model->next;
    worker->by_job[path] = !removes;
    model_write(worker->folder, path, worker->disk[path]);
}

static void model_kill(struct model *model, bool service)
{
    size_t one = model_draw(model, MODEL_WORKERS);

    for (size_t i = 0; i < MODEL_WORKERS; i++)
        if (service || i == one)
            model_die(&model->workers[i]);
    if (!service)
        return;
    atomic_store(&model->service.stop, true);
    EXPECT(pthread_join(model->service.thread, NULL) == 0 && model->service.result == 0);
    atomic_store(&model->service.stop, false);
    atomic_store(&model->service.port, 0);
    EXPECT(pthread_create(&model->service.thread, NULL, service_run, &model->service) == 0);
    while (!atomic_load(&model->service.port))
        (void)poll(NULL, 0, 1);
}

static void model_run(uint64_t seed)
{
    struct model model = {.random = seed};

    service_open(&model.service);
    (void)snprintf(model.folder, sizeof(model.folder), "%s/home", model.service.folder);
    EXPECT(disk_make_folders(model.folder) == 0);
    for (size_t i = 0; i < MODEL_WORKERS; i++) {
        (void)snprintf(model.workers[i].folder, sizeof(model.workers[i].folder), "%s/worker%zu",
                       model.service.folder, i);
        EXPECT(disk_make_folders(model.workers[i].folder) == 0);
    }
    model_person(&model, 0, 0);
    model_sync(&model);
    for (size_t step = 0; step < MODEL_STEPS; step++) {
        size_t path = model_draw(&model, MODEL_PATHS);
        size_t what = model_draw(&model, 12);
        struct model_worker *worker = &model.workers[model_draw(&model, MODEL_WORKERS)];

        if (what < 4)
            model_person(&model, what, path);
        else if (what < 7)
            model_job(&model, worker, what == 4, path);
        else if (what < 9)
            model_pull(&model);
        else if (what < 11)
            model_sync(&model);
        else
            model_kill(&model, model_draw(&model, 4) == 0);
    }
    model_sync(&model);
    for (size_t i = 0; i < MODEL_WORKERS; i++)
        pull_done(&model.workers[i].worker.pull);
    service_close(&model.service);
}

TEST(sync_does_what_the_model_says_whatever_both_sides_do)
{
    const char *text = getenv("MUSTER_MODEL_SEQUENCES");
    uint64_t sequences = MODEL_QUICK;
    char words[32];

    const char *begin = getenv("MUSTER_MODEL_SEED");
    uint64_t first = 1;

    if (text)
        EXPECT(str_to_u64(str_from(text), &sequences));
    if (begin)
        EXPECT(str_to_u64(str_from(begin), &first));
    for (uint64_t seed = first; seed < first + sequences; seed++) {
        (void)snprintf(words, sizeof(words), "seed %llu", (unsigned long long)seed);
        test_case(words);
        model_run(seed);
    }
}
