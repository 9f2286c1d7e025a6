#include "base/str.h"
#include "bench.h"

#include <jansson.h>
#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>

/* In a file of its own: jansson's names are also ours. */
static size_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

void bench_jansson(struct str text, struct json_result *best)
{
    size_t before = heap_bytes();
    double start = bench_now_s();
    json_t *tree = json_loadb(text.p, text.len, 0, NULL);

    if (!tree)
        abort();
    double took = bench_now_s() - start;
    best->first_s = best->first_s > 0 ? best->first_s : took;
    bench_best(&best->read_s, took);
    best->bytes = heap_bytes() - before;
    start = bench_now_s();
    char *out = json_dumps(tree, JSON_COMPACT);
    bench_best(&best->write_s, bench_now_s() - start);
    free(out);
    json_decref(tree);
}
