#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "powercuts/play.h"
#include "store/maintain.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <uv.h>

/* The store: objects made, changed and deleted, three writes under way at a time so that some share
 * a transaction; in several lives, because the last one to close a file moves its log into it. */

#define NAMES  4
#define AT_ONE 3
#define LIVES  3

struct ask {
    int name;
    int value; /* 0: deleted */
    bool done;
};

struct place {
    uv_loop_t loop;
    struct store *store;
};

static bool place_open(struct place *place, const char *folder)
{
    char path[4096];
    struct err err = {0};

    (void)uv_loop_init(&place->loop);
    (void)snprintf(path, sizeof(path), "%s/db", folder);
    if (store_open(&(struct store_options){.loop = &place->loop, .path = path, .seed = 1},
                   &place->store, &err) == 0)
        return true;
    say("failed %s", err.text);
    (void)uv_run(&place->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&place->loop);
    return false;
}

static void place_close(struct place *place)
{
    store_close(place->store);
    (void)uv_run(&place->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&place->loop);
}

static void on_done(void *user, const struct api_result *result)
{
    struct ask *ask = user;

    ask->done = true;
    if (result->code == 0)
        say("ack c%d %d", ask->name, ask->value);
}

static void ask_for(struct place *place, struct ask *ask, enum api_verb verb)
{
    char body[1200];
    char name[16];

    (void)snprintf(name, sizeof(name), "c%d", ask->name);
    (void)snprintf(body, sizeof(body),
                   "{\"metadata\":{\"name\":\"%s\"},\"data\":{\"v\":\"%d\",\"w\":\"%0*d\"}}", name,
                   ask->value, 200 + ask->value * 37 % 700, 0);
    say("try %s %d", name, ask->value);
    api_call(store_api(place->store),
             &(struct api_request){.verb = verb,
                                   .kind = &kind_configmap,
                                   .ns = STR("default"),
                                   .name = verb == API_CREATE ? STR("") : str_from(name),
                                   .body = verb == API_DELETE ? STR("") : str_from(body)},
             on_done, ask);
}

void play_store(const char *folder, int count)
{
    struct place place;
    bool there[NAMES] = {false};
    int value = 0;

    for (int life = 0; life < LIVES && place_open(&place, folder); life++) {
        for (int i = 0; i < count / LIVES; i++) {
            struct ask asks[AT_ONE] = {0};

            for (int j = 0; j < AT_ONE; j++) {
                int name = (i + j) % NAMES;
                bool gone = there[name] && value % 5 == 4;

                value++;
                asks[j] = (struct ask){.name = name, .value = gone ? 0 : value};
                ask_for(&place, &asks[j], gone ? API_DELETE : there[name] ? API_PATCH : API_CREATE);
                there[name] = !gone;
            }
            while (!asks[0].done || !asks[1].done || !asks[2].done)
                (void)uv_run(&place.loop, UV_RUN_ONCE);
        }
        place_close(&place);
    }
}

static void on_list(void *user, const struct api_result *result)
{
    struct ask *ask = user;

    ask->done = true;
    for (size_t i = 0; i < result->item_count; i++) {
        struct arena arena = {0};
        const struct json *root = object_json(result->items[i], &arena);

        if (result->items[i]->name.p[0] == 'c' && result->items[i]->name.len == 2)
            say("has " STR_FMT " " STR_FMT, STR_ARG(result->items[i]->name),
                STR_ARG(json_str_at(root, "data.v")));
        arena_done(&arena);
    }
}

static void print_problem(void *user, const char *text)
{
    (void)user;
    say("failed %s", text);
}

void look_store(const char *folder)
{
    struct place place;
    struct ask list = {0};
    struct ask more = {.name = 9, .value = 1};
    struct store_report report = {0};
    struct err err = {0};
    char path[4096];

    if (!place_open(&place, folder))
        return;
    api_call(store_api(place.store),
             &(struct api_request){.verb = API_LIST, .kind = &kind_configmap, .ns = STR("default")},
             on_list, &list);
    while (!list.done)
        (void)uv_run(&place.loop, UV_RUN_ONCE);
    ask_for(&place, &more, API_CREATE);
    while (!more.done)
        (void)uv_run(&place.loop, UV_RUN_ONCE);
    place_close(&place);
    (void)snprintf(path, sizeof(path), "%s/db", folder);
    if (store_check(path, print_problem, NULL, &report, &err) < 0)
        say("failed %s", err.text);
}
