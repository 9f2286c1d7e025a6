#include "crowd.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "bench.h"
#include "client.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PODS "/api/v1/namespaces/default/pods"

struct connection {
    struct client client;
    size_t pod; /* that its request is about */
    bool busy;
    bool created; /* the pod is; what is under way is its bind */
    bool group;   /* the request is about a group */
};

struct state {
    const struct crowd *crowd;
    struct connection connections[CROWD_CLIENTS];
    size_t next; /* object to be created */
    size_t left; /* answers that are still to come, binds included */
    double began_s;
};

_Noreturn static void die(const char *why)
{
    (void)fprintf(stderr, "bench-place: %s\n", why);
    exit(1);
}

static size_t pods_of(const struct crowd *crowd)
{
    return crowd->gangs * crowd->size;
}

/* Objects of a gang: its group first, where it has one, then its pods. */
static size_t each_of(const struct crowd *crowd)
{
    return crowd->size > 1 && !crowd->bare ? crowd->size + 1 : crowd->size;
}

static void post(const struct crowd *crowd,
                 struct connection *connection,
                 const char *path,
                 struct str body)
{
    _cleanup_(buf_done) struct buf out = {0};

    buf_addf(&out,
             "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
             "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
             path, crowd->token, body.len);
    buf_add(&out, body);
    connection->busy = true;
    client_send(&connection->client, buf_str(&out));
}

static void create_pod(const struct crowd *crowd, struct connection *connection, size_t pod)
{
    _cleanup_(buf_done) struct buf body = {0};

    buf_addf(&body,
             "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p-%zu\","
             "\"labels\":{\"kai.scheduler/queue\":\"default-queue\"},\"annotations\":{",
             pod);
    if (crowd->size > 1)
        buf_addf(&body, "\"pod-group-name\":\"g-%zu\"", pod / crowd->size);
    buf_addf(&body,
             "}},\"spec\":{\"schedulerName\":\"kai-scheduler\",\"containers\":[{"
             "\"name\":\"main\",\"image\":\"x\",\"resources\":{\"limits\":{\"cpu\":\"1\","
             "\"memory\":\"1Gi\"%s}}}]}}",
             crowd->no_gpus ? "" : ",\"nvidia.com/gpu\":\"1\"");
    connection->pod = pod;
    connection->created = connection->group = false;
    crowd->began_s[pod] = bench_now_s();
    post(crowd, connection, PODS, buf_str(&body));
}

static void create_group(const struct crowd *crowd, struct connection *connection, size_t gang)
{
    _cleanup_(buf_done) struct buf body = {0};

    buf_addf(&body,
             "{\"apiVersion\":\"scheduling.run.ai/v2alpha2\",\"kind\":\"PodGroup\",\"metadata\":{"
             "\"name\":\"g-%zu\"},\"spec\":{\"minMember\":%zu,\"queue\":\"default-queue\"}}",
             gang, crowd->size);
    connection->group = true;
    post(crowd, connection, "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups",
         buf_str(&body));
}

static void bind_pod(const struct crowd *crowd, struct connection *connection)
{
    _cleanup_(buf_done) struct buf body = {0};
    char path[128];

    (void)snprintf(path, sizeof(path), PODS "/p-%zu/binding", connection->pod);
    buf_addf(&body,
             "{\"apiVersion\":\"v1\",\"kind\":\"Binding\",\"metadata\":{\"name\":\"p-%zu\"},"
             "\"target\":{\"kind\":\"Node\",\"name\":\"node-%05zu\"}}",
             connection->pod, connection->pod / 8 % crowd->nodes);
    connection->created = true;
    post(crowd, connection, path, buf_str(&body));
}

/* The next object, if there is one and it is due. */
static void create_next(struct state *state, struct connection *connection)
{
    const struct crowd *crowd = state->crowd;
    size_t each = each_of(crowd);
    size_t gang = state->next / each;
    size_t at = state->next % each;
    bool group = each > crowd->size && at == 0;

    if (gang == crowd->gangs ||
        (crowd->rate > 0 && (double)state->next / crowd->rate > bench_now_s() - state->began_s))
        return;
    state->next++;
    if (group)
        create_group(crowd, connection, gang);
    else
        create_pod(crowd, connection, gang * crowd->size + (each > crowd->size ? at - 1 : at));
}

static void on_answer(struct state *state, struct connection *connection)
{
    int status = client_answer(&connection->client, NULL);

    if (status != 201 && status != 200)
        die("a create was refused");
    connection->busy = false;
    state->left--;
    if (state->crowd->bare && !connection->created)
        bind_pod(state->crowd, connection);
    else
        create_next(state, connection);
}

_Noreturn static void crowd_run(const struct crowd *crowd, uint16_t port)
{
    (void)prctl(PR_SET_NAME, "crowd");
    struct state *state = calloc(1, sizeof(*state));
    struct epoll_event events[CROWD_CLIENTS];
    int poll = epoll_create1(EPOLL_CLOEXEC);

    if (!state || poll < 0)
        die("no memory");
    state->crowd = crowd;
    state->left = crowd->gangs * each_of(crowd) + (crowd->bare ? pods_of(crowd) : 0);
    for (size_t i = 0; i < CROWD_CLIENTS; i++) {
        struct connection *connection = &state->connections[i];

        client_open(&connection->client, port, false);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
        if (epoll_ctl(poll, EPOLL_CTL_ADD, connection->client.fd, &event) < 0)
            die("epoll");
    }
    state->began_s = bench_now_s();
    while (state->left) {
        for (size_t i = 0; i < CROWD_CLIENTS; i++)
            if (!state->connections[i].busy)
                create_next(state, &state->connections[i]);
        int count = epoll_wait(poll, events, CROWD_CLIENTS, crowd->rate > 0 ? 1 : -1);
        for (int i = 0; i < count; i++)
            on_answer(state, events[i].data.ptr);
    }
    _exit(0);
}

void crowd_begin(struct crowd *crowd)
{
    int fds[2];
    uint16_t port = 0;

    crowd->began_s = mmap(NULL, pods_of(crowd) * sizeof(double), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (crowd->began_s == MAP_FAILED || pipe(fds) < 0)
        die("no memory");
    (void)fflush(stdout);
    crowd->pid = fork();
    if (crowd->pid < 0)
        die("fork");
    if (crowd->pid > 0) {
        (void)close(fds[0]);
        crowd->go = fds[1];
        return;
    }
    (void)close(fds[1]);
    if (read(fds[0], &port, sizeof(port)) != sizeof(port))
        _exit(1); /* the other side gave up */
    crowd_run(crowd, port);
}

void crowd_go(struct crowd *crowd, uint16_t port)
{
    if (write(crowd->go, &port, sizeof(port)) != sizeof(port))
        die("pipe");
    (void)close(crowd->go);
}

bool crowd_end(struct crowd *crowd)
{
    int status = 0;

    if (waitpid(crowd->pid, &status, WNOHANG) != crowd->pid)
        return false;
    if (status != 0)
        die("the clients failed");
    (void)munmap(crowd->began_s, pods_of(crowd) * sizeof(double));
    return true;
}
