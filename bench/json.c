#include "base/json.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "bench.h"
#include "pods.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* JSON: reading and writing a list of 5,000 pods, ours and jansson's, in one run; the best of
 * BENCH_ROUNDS for each. Memory is what the tree takes, beside the text, as a multiple of it. */
#define PODS 5000

static void bench_ours(struct str text, struct json_result *best)
{
    struct arena arena = {0};
    _cleanup_(buf_done) struct buf out = {0};
    struct json *tree = NULL;

    double start = bench_now_s();
    if (json_parse(&arena, text, &tree, NULL) < 0)
        abort();
    double took = bench_now_s() - start;
    best->first_s = best->first_s > 0 ? best->first_s : took;
    bench_best(&best->read_s, took);
    best->bytes = arena.bytes_used;
    start = bench_now_s();
    json_write(&out, tree);
    bench_best(&best->write_s, bench_now_s() - start);
    arena_done(&arena);
}

static void print(const char *name, struct json_result result, double mb)
{
    printf("json %-8s read %7.1f MB/s (first %7.1f)  write %7.1f MB/s  memory %4.2f x text\n", name,
           mb / result.read_s, mb / result.first_s, mb / result.write_s,
           (double)result.bytes / 1e6 / mb);
}

int main(void)
{
    _cleanup_(buf_done) struct buf text = {0};

    pods_write(&text, PODS);
    double mb = (double)text.len / 1e6;
    printf("json: %d pods, %.1f MB\n", PODS, mb);
    struct json_result ours = {0};
    struct json_result theirs = {0};
    for (int i = 0; i < BENCH_ROUNDS; i++) {
        bench_ours(buf_str(&text), &ours);
        bench_jansson(buf_str(&text), &theirs);
    }
    print("ours", ours, mb);
    print("jansson", theirs, mb);
    printf("json ratio    read %7.1f x    (first %7.1f)  write %7.1f x\n",
           theirs.read_s / ours.read_s, theirs.first_s / ours.first_s,
           theirs.write_s / ours.write_s);
    return 0;
}
