#include "store/store.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

/* torture-store PATH write N: make N objects one by one; says "ack NAME" for each that was
 * acknowledged, "no NAME: reason" for the others. torture-store PATH read: says "has NAME" for each
 * that is there. A store that does not open is one line and exit status 3. */
#define EXIT_NOT_OPENED 3

struct wait {
    bool done;
    int code;
    char text[240];
};

static void on_done(void *user, const struct api_result *result)
{
    struct wait *wait = user;

    wait->done = true;
    wait->code = result->code;
    (void)snprintf(wait->text, sizeof(wait->text), "%s", result->err ? result->err->text : "");
    for (size_t i = 0; i < result->item_count; i++)
        printf("has " STR_FMT "\n", STR_ARG(result->items[i]->name));
}

static void call(uv_loop_t *loop,
                 struct api *api,
                 const struct api_request *request,
                 struct wait *wait)
{
    *wait = (struct wait){0};
    api_call(api, request, on_done, wait);
    while (!wait->done)
        (void)uv_run(loop, UV_RUN_ONCE);
}

static void write_objects(uv_loop_t *loop, struct api *api, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        char body[256];
        struct wait wait;

        (void)snprintf(body, sizeof(body),
                       "{\"metadata\":{\"name\":\"c%lld\"},\"data\":{\"k\":\"v\"}}", (long long)i);
        call(loop, api,
             &(struct api_request){.verb = API_CREATE,
                                   .kind = &kind_configmap,
                                   .ns = STR("default"),
                                   .body = str_from(body)},
             &wait);
        if (wait.code == 0)
            printf("ack c%lld\n", (long long)i);
        else
            printf("no c%lld: %s\n", (long long)i, wait.text);
        (void)fflush(stdout);
    }
}

/* Until the system gives no more, which must end the process with a message. */
static _Noreturn void take_memory(void)
{
    struct arena arena = {0};

    for (;;)
        (void)arena_raw(&arena, (size_t)1 << 20, 1);
}

int main(int argc, char *argv[])
{
    uv_loop_t loop;
    struct store *store = NULL;
    struct err err = {0};
    int64_t count = 0;
    struct wait wait;

    if (argc < 3 || uv_loop_init(&loop) != 0)
        return EXIT_FAILURE;
    if (strcmp(argv[2], "memory") == 0)
        take_memory();
    if (argc > 3)
        (void)str_to_i64(str_from(argv[3]), &count);
    if (store_open(&(struct store_options){.loop = &loop, .path = argv[1], .seed = 1}, &store,
                   &err) < 0) {
        (void)fprintf(stderr, "torture-store: %s\n", err.text);
        return EXIT_NOT_OPENED;
    }
    if (strcmp(argv[2], "write") == 0)
        write_objects(&loop, store_api(store), count);
    else
        call(&loop, store_api(store),
             &(struct api_request){.verb = API_LIST, .kind = &kind_configmap, .ns = STR("default")},
             &wait);
    store_close(store);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&loop);
    return EXIT_SUCCESS;
}
