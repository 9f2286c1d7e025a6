#include "base/buf.h"
#include "base/str.h"
#include "fuzz/fuzz.h"
#include "workspace/etcd.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Requests, one a line: METHOD PATH QUERY FORM. Each is answered or waits, time goes on between
 * them, and what is kept stays within its bounds. */
static struct str next_word(struct str *line)
{
    size_t end = str_find(*line, ' ');
    struct str word = str_sub(*line, 0, end);

    *line = str_sub(*line, end < line->len ? end + 1 : end, line->len);
    return word;
}

static void etcd_ask(struct etcd *etcd, struct str line, int64_t now_ms)
{
    struct etcd_request request = {0};
    struct etcd_reply reply = {0};
    struct etcd_wait wait = {0};

    request.method = next_word(&line);
    request.path = next_word(&line);
    request.query = next_word(&line);
    request.form = line;
    etcd_handle(etcd, &request, now_ms, &reply, &wait);
    FUZZ_HOLDS(reply.status == 0 || (reply.status >= 200 && reply.status < 600));
    FUZZ_HOLDS(reply.status == 0 || reply.body.len > 0);
    if (reply.status == 0) {
        struct etcd_reply later = {0};

        (void)etcd_wait(etcd, &wait, &later);
        buf_done(&later.body);
    }
    buf_done(&reply.body);
    FUZZ_HOLDS(etcd->nodes.count >= 1 && etcd->nodes.count <= ETCD_NODES_MAX);
    FUZZ_HOLDS(etcd->bytes <= ETCD_BYTES_MAX);
    for (size_t i = 1; i < etcd->nodes.count; i++)
        FUZZ_HOLDS(str_cmp(etcd->nodes.items[i - 1]->path, etcd->nodes.items[i]->path) < 0);
}

FUZZ(etcd)
{
    struct etcd etcd;
    int64_t now_ms = 1800000000000;

    etcd_open(&etcd);
    while (input.len) {
        size_t end = str_find(input, '\n');

        etcd_ask(&etcd, str_sub(input, 0, end), now_ms);
        input = str_sub(input, end < input.len ? end + 1 : end, input.len);
        now_ms += 700;
    }
    int64_t next_ms = etcd_expire(&etcd, now_ms);
    FUZZ_HOLDS(next_ms == 0 || next_ms > now_ms);
    etcd_done(&etcd);
}
