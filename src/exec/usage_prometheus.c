#include "exec/usage_prometheus.h"

#include "api/quantity.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "exec/scheduler_metrics.h"
#include "tool/clock.h"
#include "tool/log.h"

#include <curl/curl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The queries run one behind the other in a thread of the loop's pool: a handful of requests a
 * minute need no client of their own. Nothing is shared with that thread but the question. */

#define RESOLUTION "1m"

static const struct {
    const char *held;  /* by queue_name */
    const char *there; /* one number */
} metrics[SCHED_RESOURCES] = {
    [SCHED_CPU] = {"kai_queue_allocated_cpu_cores",
                   "sum(kube_node_status_capacity{resource=\"cpu\"})"},
    [SCHED_MEMORY] = {"kai_queue_allocated_memory_bytes",
                      "sum(kube_node_status_capacity{resource=\"memory\"})"},
    [SCHED_GPU] = {"kai_queue_allocated_gpus",
                   "sum(kube_node_status_capacity{resource=\"nvidia_com_gpu\"})"},
};

struct known {
    double shares[SCHED_RESOURCES];
    size_t len;
    char name[];
};

/* A question under way. Owned by the thread until it is answered. */
struct question {
    uv_work_t work;
    struct prometheus *prometheus; /* NULL once it is gone */
    char *url;
    char *queries[SCHED_RESOURCES];
    struct buf answers[SCHED_RESOURCES];
    int64_t took_ms[SCHED_RESOURCES];
    size_t answered; /* the first so many were; then came the error */
    char error[CURL_ERROR_SIZE];
};

struct prometheus {
    uv_loop_t *loop;
    const struct log *log;
    struct scheduler_stats *stats;
    char *url;
    struct question *question;
    struct map known;
};

static char *copy(const char *text, size_t len)
{
    char *out = mem_alloc(len + 1);

    memcpy(out, text, len);
    return out;
}

/* Samples weigh half after each half-life: 0.5 ^ ((now - t) / half-life). */
static char *query_of(size_t r, int64_t half_life_ms, int64_t window_ms, int64_t now_ms)
{
    char weight[128] = "";
    char text[1024];
    long long window = (long long)(window_ms / 1000);

    if (half_life_ms > 0)
        (void)snprintf(weight, sizeof(weight), " * 0.5 ^ ((%lld - time()) / %lld)",
                       (long long)(now_ms / 1000), (long long)(half_life_ms / 1000 + 1));
    int len = snprintf(text, sizeof(text),
                       "sum by (queue_name) (sum_over_time((%s%s)[%llds:" RESOLUTION "]))"
                       " / on() group_left sum_over_time((%s%s)[%llds:" RESOLUTION "])",
                       metrics[r].held, weight, window, metrics[r].there, weight, window);
    return copy(text, (size_t)len);
}

/* ---- in the thread ---- */

static size_t on_bytes(char *bytes, size_t size, size_t count, void *user)
{
    struct buf *buf = user;

    buf_add(buf, (struct str){bytes, size * count});
    return buf->overflow ? 0 : size * count;
}

static bool get(CURL *curl, struct question *question, size_t r)
{
    char *escaped = curl_easy_escape(curl, question->queries[r], 0);
    char url[4096];
    long status = 0;

    (void)snprintf(url, sizeof(url), "%s/api/v1/query?query=%s", question->url, escaped);
    curl_free(escaped);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)PROMETHEUS_TIMEOUT_MS);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, question->error);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &question->answers[r]);
    if (curl_easy_perform(curl) != CURLE_OK)
        return false;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200)
        (void)snprintf(question->error, sizeof(question->error), "HTTP status %ld", status);
    return status == 200;
}

static void work(uv_work_t *uv)
{
    struct question *question = uv->data;
    CURL *curl = curl_easy_init();

    for (size_t r = 0; curl && r < SCHED_RESOURCES; r++) {
        int64_t began_ms = clock_monotonic_ms();

        if (!get(curl, question, r))
            break;
        question->took_ms[r] = clock_monotonic_ms() - began_ms;
        question->answered++;
    }
    curl_easy_cleanup(curl);
}

/* ---- on the loop ---- */

static struct known *known_of(struct prometheus *prometheus, struct str queue)
{
    struct known *known = map_get(&prometheus->known, queue);

    if (known)
        return known;
    known = mem_alloc(sizeof(*known) + queue.len);
    known->len = queue.len;
    memcpy(known->name, queue.p, queue.len);
    map_set(&prometheus->known, (struct str){known->name, known->len}, known);
    return known;
}

static void take(struct prometheus *prometheus, size_t r, struct str text)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *root = NULL;

    if (json_parse(&arena, text, &root, NULL) < 0)
        return;
    JSON_FOREACH(json_at(root, "data.result"), row) {
        struct str queue = json_str_at(row, "metric.queue_name");
        struct quantity share;

        if (queue.len && quantity_parse(json_str_at(row, "value.1"), &share, NULL) == 0)
            known_of(prometheus, queue)->shares[r] = (double)share.nano / 1e9;
    }
}

static void question_free(struct question *question)
{
    for (size_t r = 0; r < SCHED_RESOURCES; r++) {
        mem_free(question->queries[r]);
        buf_done(&question->answers[r]);
    }
    mem_free(question->url);
    mem_free(question);
}

static void on_answer(uv_work_t *uv, int status)
{
    struct question *question = uv->data;
    struct prometheus *prometheus = question->prometheus;

    if (prometheus) {
        prometheus->question = NULL;
        for (size_t r = 0; status == 0 && r < question->answered; r++) {
            take(prometheus, r, buf_str(&question->answers[r]));
            latency_add(&prometheus->stats->usage, 1, question->took_ms[r]);
        }
        prometheus->stats->usage_failures += status == 0 && question->answered < SCHED_RESOURCES;
        if (question->error[0])
            log_warn(prometheus->log, "usage.prometheus", LOG_C("url", prometheus->url),
                     LOG_C("error", question->error));
    }
    question_free(question);
}

void prometheus_ask(struct prometheus *prometheus,
                    int64_t half_life_ms,
                    int64_t window_ms,
                    int64_t now_ms)
{
    if (prometheus->question)
        return;
    struct question *question = MEM_NEW(struct question);
    question->prometheus = prometheus;
    question->work.data = question;
    question->url = copy(prometheus->url, strlen(prometheus->url));
    for (size_t r = 0; r < SCHED_RESOURCES; r++) {
        question->queries[r] = query_of(r, half_life_ms, window_ms, now_ms);
        question->answers[r].bytes_max = PROMETHEUS_BYTES_MAX;
    }
    prometheus->question = question;
    if (uv_queue_work(prometheus->loop, &question->work, work, on_answer) < 0) {
        prometheus->question = NULL;
        question_free(question);
    }
}

bool prometheus_usage(const struct prometheus *prometheus,
                      struct str queue,
                      double ret[static SCHED_RESOURCES])
{
    const struct known *known = map_get(&prometheus->known, queue);

    if (!known)
        return false;
    memcpy(ret, known->shares, sizeof(known->shares));
    return true;
}

struct prometheus *prometheus_new(const struct prometheus_options *options)
{
    struct prometheus *prometheus = MEM_NEW(struct prometheus);
    struct str url = options->url;

    while (url.len && url.p[url.len - 1] == '/')
        url.len--;
    prometheus->loop = options->loop;
    prometheus->log = options->log;
    prometheus->stats = options->stats;
    prometheus->url = copy(url.p, url.len);
    return prometheus;
}

void prometheus_free(struct prometheus *prometheus)
{
    if (!prometheus)
        return;
    if (prometheus->question) {
        prometheus->question->prometheus = NULL;
        (void)uv_cancel((uv_req_t *)&prometheus->question->work);
    }
    MAP_FOREACH(&prometheus->known, entry)
        mem_free(entry->value);
    map_done(&prometheus->known);
    mem_free(prometheus->url);
    mem_free(prometheus);
}
