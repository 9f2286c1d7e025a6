#include "kube/client.h"

#include "base/buf.h"
#include "base/mem.h"
#include "kube/auth.h"
#include "tool/clock.h"
#include "tool/log.h"
#include "tool/timer.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <uv.h>

#define WATCHMAN_MS        1000
#define AWAY_MS            1000  /* a server that failed no longer than that was not away */
#define SETTLE_MS          5000  /* for one that is back to learn who may do what */
#define RETRY_AFTER_MS     1000  /* a 429 that names no moment */
#define RETRY_AFTER_MAX_MS 30000 /* a server's wish is honoured up to this */

enum call_state {
    CALL_WAITING,   /* for the limiter or for a credential */
    CALL_HELD,      /* for client_hold() */
    CALL_UNDER_WAY, /* holds a slot unless it is a stream */
    CALL_FAILED,    /* to be told from the loop */
};

struct client_call {
    struct client_call *next; /* in its class's queue */
    struct client_call *prev;
    struct client *client;
    struct client_request request; /* path and body are owned copies */
    struct transport_exchange *exchange;
    enum call_state state;
    int64_t sent_ms;
    bool slot;
    bool alone; /* on a connection of its own */
    bool again; /* a 401 was answered with a fresh credential once */
};

struct queue {
    struct client_call *first;
    struct client_call *last;
    size_t count;
};

struct client {
    uv_loop_t *loop;
    struct transport *transport;
    struct auth *auth;
    struct limiter limiter;
    struct queue waiting[LIMITER_CLASSES];
    struct queue under_way;
    struct queue held;
    bool holding;
    struct timer *pump_timer;
    struct timer *watchman;
    struct client_call *probe;
    int64_t away_since_ms; /* nothing but failures since; 0: the server answers */
    int64_t back_ms;       /* when it was back after it had been away; 0: it never was */
    int64_t unheard_ms;    /* when an urgent request was sent whose time was over; 0: none since */
    struct client_stats stats;
    bool of_many;
    void (*back)(void *user);
    void *user;
    struct timer *back_timer;
    const struct log *log;
};

static void queue_append(struct queue *queue, struct client_call *call)
{
    call->next = NULL;
    call->prev = queue->last;
    *(queue->last ? &queue->last->next : &queue->first) = call;
    queue->last = call;
    queue->count++;
}

static void queue_remove(struct queue *queue, struct client_call *call)
{
    *(call->prev ? &call->prev->next : &queue->first) = call->next;
    *(call->next ? &call->next->prev : &queue->last) = call->prev;
    call->next = call->prev = NULL;
    queue->count--;
}

static struct queue *queue_of(struct client_call *call)
{
    struct client *client = call->client;

    switch (call->state) {
    case CALL_UNDER_WAY: return &client->under_way;
    case CALL_HELD: return &client->held;
    case CALL_WAITING:
    case CALL_FAILED: break;
    }
    return &client->waiting[call->request.class];
}

static void call_free(struct client_call *call)
{
    queue_remove(queue_of(call), call);
    if (call->slot)
        limiter_give(&call->client->limiter);
    transport_cancel(call->exchange);
    mem_free(call);
}

static void move_call(struct client_call *call, enum call_state state)
{
    queue_remove(queue_of(call), call);
    call->state = state;
    queue_append(queue_of(call), call);
}

static void pump(struct client *client);

static void on_pump(void *user)
{
    pump(user);
}

static void pump_in(struct client *client, int64_t wait_ms)
{
    timer_in(client->pump_timer, wait_ms, on_pump);
}

static void wait_again(struct client_call *call)
{
    queue_remove(&call->client->under_way, call);
    if (call->slot)
        limiter_give(&call->client->limiter);
    call->slot = false;
    call->exchange = NULL;
    call->state = CALL_WAITING;
    queue_append(&call->client->waiting[call->request.class], call);
}

static void on_back(void *user)
{
    struct client *client = user;

    client->back(client->user);
}

/* Whoever reads that the server was away wants to read that it is back. */
static void note_answer(struct client *client, const struct transport_reply *reply)
{
    int64_t now_ms = clock_monotonic_ms();

    if (reply->code || reply->status >= 500) {
        if (!client->away_since_ms)
            client->away_since_ms = now_ms;
        return;
    }
    if (client->away_since_ms && now_ms - client->away_since_ms >= AWAY_MS) {
        client->back_ms = now_ms;
        log_info(client->log, "api.answers", LOG_C("server", auth_server(client->auth)),
                 LOG_I64("after_ms", now_ms - client->away_since_ms));
        if (client->back)
            timer_in(client->back_timer, 0, on_back);
    }
    client->away_since_ms = 0;
}

static void count(struct client *client, const struct transport_reply *reply)
{
    note_answer(client, reply);
    client->stats.requests++;
    if (reply->code) {
        client->stats.failures++;
        auth_doubt(client->auth);
    } else if (reply->status >= 100 && reply->status < 600) {
        client->stats.by_status[reply->status / 100]++;
    }
    if (reply->status == 429) {
        int64_t pause = reply->retry_after_ms >= 0 ? reply->retry_after_ms : RETRY_AFTER_MS;

        client->stats.throttled++;
        if (pause > RETRY_AFTER_MAX_MS)
            pause = RETRY_AFTER_MAX_MS;
        if (!client->of_many)
            limiter_pause(&client->limiter, clock_monotonic_ms() + pause);
    }
}

/* Whether the connections that were there before lead nowhere: another one does not. */
static void note_silence(struct client *client,
                         const struct client_call *call,
                         const struct transport_reply *reply)
{
    if (call->request.class != LIMITER_URGENT)
        return;
    if (reply->code) {
        if (reply->code == -ETIMEDOUT && !client->unheard_ms)
            client->unheard_ms = call->sent_ms;
        return;
    }
    if (call->alone && transport_last_heard_ms(client->transport) < client->unheard_ms) {
        client->stats.resets++;
        transport_reset(client->transport, "another one is answered, and nothing was heard of it");
    }
    client->unheard_ms = 0;
}

static void on_data(void *user, struct str bytes)
{
    struct client_call *call = user;

    call->request.data(call->request.user, bytes);
}

static void on_reply(void *user, const struct transport_reply *reply)
{
    struct client_call *call = user;
    struct client *client = call->client;

    count(client, reply);
    note_silence(client, call, reply);
    if (!reply->code && reply->status == 401 && !call->again && auth_expire(client->auth)) {
        call->again = true;
        wait_again(call);
        pump_in(client, 0);
        return;
    }
    call->exchange = NULL; /* the transport frees it when we return */
    struct client_request request = call->request;
    call_free(call);
    request.done(request.user, reply);
    pump_in(client, 0);
}

static void send_call(struct client_call *call, struct str token)
{
    struct client *client = call->client;
    const struct client_request *request = &call->request;
    int64_t timeout_ms = request->timeout_ms;

    if (timeout_ms == 0 && !request->data)
        timeout_ms = CLIENT_REQUEST_MS;
    queue_remove(&client->waiting[request->class], call);
    call->state = CALL_UNDER_WAY;
    queue_append(&client->under_way, call);
    call->slot = !request->data;
    call->sent_ms = clock_monotonic_ms();
    call->alone = request->class == LIMITER_URGENT && client->unheard_ms;
    if (request->data) /* an open stream is not work in progress */
        limiter_give(&client->limiter);
    call->exchange = transport_send(client->transport, &(struct transport_request){
                                                           .method = request->method,
                                                           .path = request->path,
                                                           .content_type = request->content_type,
                                                           .accept = request->accept,
                                                           .body = request->body,
                                                           .bearer = token,
                                                           .header = request->header,
                                                           .timeout_ms = timeout_ms,
                                                           .alone = call->alone,
                                                           .data = request->data ? on_data : NULL,
                                                           .done = on_reply,
                                                           .user = call,
                                                       });
}

static void fail(struct client_call *call, int code, const char *words)
{
    struct client_request request = call->request;
    struct err err = {0};

    call_free(call);
    (void)err_set(&err, code, "%s", words);
    request.done(request.user,
                 &(struct transport_reply){.code = code, .err = &err, .retry_after_ms = -1});
}

/* Send what may be sent, the most important first. */
static void pump(struct client *client)
{
    struct str token;
    struct err err = {0};
    int r = auth_token(client->auth, &token, &err);

    for (size_t class = 0; class < LIMITER_CLASSES; class ++) {
        struct client_call *call;

        while ((call = client->waiting[class].first)) {
            if (call->state == CALL_FAILED) {
                fail(call, -EBUSY, "too many requests wait for the API server");
                continue;
            }
            if (client->holding && call->request.led) {
                move_call(call, CALL_HELD);
                continue;
            }
            if (r == -EAGAIN) /* the credential is being fetched: auth calls us back */
                return;
            if (r < 0) {
                fail(call, r, err.text);
                continue;
            }
            if (!limiter_take(&client->limiter, (enum limiter_class) class, clock_monotonic_ms()))
                break;
            send_call(call, token);
        }
        if (call) { /* the classes below have no more than this one */
            int64_t wait_ms =
                limiter_wait_ms(&client->limiter, (enum limiter_class) class, clock_monotonic_ms());

            if (wait_ms >= 0) /* else the next answer calls us */
                pump_in(client, wait_ms);
            return;
        }
    }
}

struct client_call *client_send(struct client *client, const struct client_request *request)
{
    struct queue *queue = &client->waiting[request->class];
    size_t bound = request->class == LIMITER_EVENT ? CLIENT_EVENTS_MAX : CLIENT_WAITING_MAX;
    struct client_call *call =
        mem_alloc(sizeof(*call) + request->path.len + 1 + request->body.len + 1);
    char *text = (char *)(call + 1);

    call->client = client;
    call->request = *request;
    call->request.path = (struct str){text, request->path.len};
    if (request->path.len > 0)
        memcpy(text, request->path.p, request->path.len);
    text += request->path.len + 1;
    call->request.body = (struct str){text, request->body.len};
    if (request->body.len > 0)
        memcpy(text, request->body.p, request->body.len);
    call->state = queue->count < bound ? CALL_WAITING : CALL_FAILED;
    queue_append(queue, call);
    pump_in(client, 0);
    return call;
}

void client_cancel(struct client_call *call)
{
    if (call)
        call_free(call);
}

void client_pause(struct client_call *call, bool paused)
{
    if (call->exchange)
        transport_pause(call->exchange, paused);
}

static struct client_call *first_led(const struct client *client)
{
    struct client_call *call = client->under_way.first;

    while (call && !call->request.led)
        call = call->next;
    return call;
}

void client_hold(struct client *client, bool held)
{
    struct client_call *call;

    client->holding = held;
    while (held && (call = first_led(client)))
        fail(call, -ECONNRESET, "who leads is not clear: the answer is not waited for");
    while (!held && client->held.first)
        move_call(client->held.first, CALL_WAITING);
    pump_in(client, 0);
}

/* ---- the watchman ---- */

static void on_probe(void *user, const struct transport_reply *reply)
{
    struct client *client = user;

    client->probe = NULL;
    if (!reply->code)
        return;
    client->stats.resets++;
    log_warn(client->log, "api.silent", LOG_ERR(reply->err));
    transport_reset(client->transport, "nothing was heard from the server");
}

static void on_watchman(void *user)
{
    struct client *client = user;
    int64_t silent_ms = clock_monotonic_ms() - transport_last_heard_ms(client->transport);

    if (client->probe || client->under_way.count == 0 || silent_ms < CLIENT_SILENCE_MS)
        return;
    client->probe = client_send(client, &(struct client_request){
                                            .class = LIMITER_URGENT,
                                            .method = "GET",
                                            .path = STR("/version"),
                                            .timeout_ms = CLIENT_PROBE_MS,
                                            .done = on_probe,
                                            .user = client,
                                        });
}

/* ---- open and close ---- */

static void on_credential(void *user)
{
    struct client *client = user;

    transport_set_tls(client->transport, auth_tls(client->auth));
    pump_in(client, 0);
}

int client_new(const struct client_options *options, struct client **ret, struct err *err)
{
    struct client *client = MEM_NEW(struct client);
    int r;

    client->loop = options->loop;
    client->log = options->log;
    client->of_many = options->of_many;
    limiter_init(&client->limiter, options->per_second, options->burst, options->under_way_max,
                 clock_monotonic_ms());
    r = auth_new(options->loop, options->config, on_credential, client, &client->auth, err);
    if (r < 0) {
        mem_free(client);
        return r;
    }
    r = transport_new(&(struct transport_options){.loop = options->loop,
                                                  .server = auth_server(client->auth),
                                                  .proxy = auth_proxy(client->auth),
                                                  .user_agent = options->user_agent},
                      &client->transport, err);
    if (r < 0) {
        auth_free(client->auth);
        mem_free(client);
        return r;
    }
    transport_set_tls(client->transport, auth_tls(client->auth));
    client->pump_timer = timer_new(client->loop, client);
    client->back = options->back;
    client->user = options->user;
    client->back_timer = timer_new(client->loop, client);
    client->watchman = timer_new(client->loop, client);
    timer_every(client->watchman, WATCHMAN_MS, WATCHMAN_MS, on_watchman);
    *ret = client;
    return 0;
}

void client_free(struct client *client)
{
    if (!client)
        return;
    for (size_t class = 0; class < LIMITER_CLASSES; class ++)
        while (client->waiting[class].first)
            call_free(client->waiting[class].first);
    while (client->held.first)
        call_free(client->held.first);
    while (client->under_way.first)
        call_free(client->under_way.first);
    transport_free(client->transport);
    auth_free(client->auth);
    timer_free(client->pump_timer);
    timer_free(client->back_timer);
    timer_free(client->watchman);
    mem_free(client);
}

void client_stats(const struct client *client, struct client_stats *ret)
{
    *ret = client->stats;
    for (size_t class = 0; class < LIMITER_CLASSES; class ++)
        ret->waiting += client->waiting[class].count;
    ret->waiting += client->held.count;
    ret->under_way = client->limiter.under_way;
}

static size_t queue_writes(const struct queue *queue)
{
    size_t count = 0;

    for (const struct client_call *call = queue->first; call; call = call->next)
        count += call->request.class != LIMITER_URGENT && call->request.class != LIMITER_EVENT &&
                 strcmp(call->request.method, "GET") != 0;
    return count;
}

size_t client_writes(const struct client *client)
{
    size_t count = queue_writes(&client->under_way) + queue_writes(&client->held);

    for (size_t class = 0; class < LIMITER_CLASSES; class ++)
        count += queue_writes(&client->waiting[class]);
    return count;
}

bool client_is_settling(const struct client *client)
{
    return client->back_ms && clock_monotonic_ms() - client->back_ms < SETTLE_MS;
}
