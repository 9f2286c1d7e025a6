#include "sim/shrink.h"

#include "base/arena.h"
#include "base/vec.h"

#include <ctype.h>
#include <string.h>

struct events VEC_FIELDS(struct sim_event);

struct shrinker {
    struct arena *arena;
    struct sim_options options; /* as given, with the fewest steps that fail */
    char kind[SIM_TEXT_BYTES];  /* of failure */
    struct events best;
    struct events now; /* of the run that is under way */
    struct sim_result result;
    size_t runs;
    uint64_t steps;
};

/* The sentence without the words that name something: a digit is in each of these. */
static void failure_kind(const char *text, char out[static SIM_TEXT_BYTES])
{
    size_t used = 0;

    for (const char *p = text; *p;) {
        size_t len = strcspn(p, " ");
        bool named = false;

        for (size_t i = 0; i < len; i++)
            named = named || isdigit((unsigned char)p[i]);
        if (!named && used + len + 1 < SIM_TEXT_BYTES) {
            memcpy(out + used, p, len);
            used += len;
            out[used++] = ' ';
        }
        p += len + (p[len] == ' ');
    }
    out[used] = '\0';
}

static void on_happened(void *user, struct sim_event event)
{
    struct shrinker *shrinker = user;

    VEC_PUSH(shrinker->arena, &shrinker->now, event);
}

/* Not NULL even when nothing is left: that would be everything. */
static void events_keep(struct sim_options *options, const struct events *events)
{
    static const struct sim_event none = {0};

    options->only = events->count ? events->items : &none;
    options->only_count = events->count;
}

/* What came up in the run is all that it needs: events that never came go by themselves. */
static bool run_fails(struct shrinker *shrinker, const struct sim_options *options)
{
    char kind[SIM_TEXT_BYTES];
    struct sim_result result;

    shrinker->now = (struct events){0};
    shrinker->runs++;
    sim_run(options, &result);
    shrinker->steps += result.steps;
    failure_kind(result.text, kind);
    if (!result.failed || (shrinker->kind[0] && strcmp(kind, shrinker->kind)))
        return false;
    shrinker->result = result;
    shrinker->best = shrinker->now;
    shrinker->options = *options;
    return true;
}

static bool shrink_is_over(const struct shrinker *shrinker)
{
    return shrinker->runs >= SHRINK_RUNS || shrinker->steps >= SHRINK_STEPS;
}

static bool shrink_try(struct shrinker *shrinker, const struct events *events, uint64_t steps)
{
    struct sim_options options = shrinker->options;
    uint64_t first = options.order;

    events_keep(&options, events);
    options.steps = steps;
    for (uint64_t i = 0; i < SHRINK_ORDERS && !shrink_is_over(shrinker); i++) {
        options.order = (first + i) % SHRINK_ORDERS;
        if (run_fails(shrinker, &options))
            return true;
    }
    return false;
}

static void shrink_steps(struct shrinker *shrinker)
{
    uint64_t steps = shrinker->options.steps ? shrinker->options.steps : SIM_STEPS;

    if (shrinker->result.steps < steps) /* nothing came after the failure */
        steps = shrinker->result.steps;
    for (uint64_t less = steps / 2; less; less /= 2) {
        struct events same = shrinker->best;

        if (!shrink_try(shrinker, &same, less))
            return;
    }
}

/* Everything but one class. */
static void shrink_classes(struct shrinker *shrinker)
{
    for (int class = SIM_EVENT_CLASSES - 1; class > SIM_EVENT_PEOPLE; class --) {
        struct events fewer = {0};

        for (size_t i = 0; i < shrinker->best.count; i++)
            if (shrinker->best.items[i].class != (enum sim_event_class) class)
                VEC_PUSH(shrinker->arena, &fewer, shrinker->best.items[i]);
        if (fewer.count < shrinker->best.count)
            (void)shrink_try(shrinker, &fewer, shrinker->options.steps);
    }
}

/* Everything but `size` events from `at` on. */
static bool shrink_part(struct shrinker *shrinker, size_t at, size_t size)
{
    struct events fewer = {0};

    for (size_t i = 0; i < shrinker->best.count; i++)
        if (i < at || i >= at + size)
            VEC_PUSH(shrinker->arena, &fewer, shrinker->best.items[i]);
    return shrink_try(shrinker, &fewer, shrinker->options.steps);
}

static void shrink_events(struct shrinker *shrinker)
{
    for (size_t size = (shrinker->best.count + 1) / 2; size; size /= 2) {
        size_t before;

        do { /* from the end: what came last is what most others did not depend on */
            before = shrinker->best.count;
            for (size_t at = before; at > 0 && !shrink_is_over(shrinker);) {
                at = at > size ? at - size : 0;
                (void)shrink_part(shrinker, at, size);
                if (at > shrinker->best.count)
                    at = shrinker->best.count;
            }
        } while (size == 1 && shrinker->best.count < before && !shrink_is_over(shrinker));
    }
}

bool sim_shrink(const struct sim_options *failing, struct arena *arena, struct shrunk *ret)
{
    struct shrinker shrinker = {.arena = arena};
    struct sim_options first = *failing;

    first.trace = NULL;
    first.tell = NULL;
    first.happened = on_happened;
    first.user = &shrinker;
    if (!run_fails(&shrinker, &first))
        return false;
    failure_kind(shrinker.result.text, shrinker.kind);
    ret->before = shrinker.best.count;
    shrink_steps(&shrinker);
    shrink_classes(&shrinker);
    shrink_events(&shrinker);
    shrink_steps(&shrinker);
    ret->options = *failing;
    events_keep(&ret->options, &shrinker.best);
    ret->options.order = shrinker.options.order;
    ret->options.steps = shrinker.options.steps;
    ret->runs = shrinker.runs;
    ret->result = shrinker.result;
    return true;
}
