#include "base/str.h"
#include "sched/explain.h"
#include "sched/resource.h"
#include "sched/sched.h"
#include "sched/spec.h"

/* What is named in the API, in metrics and in recordings. */

#define X_WORD(name, word) [SCHED_REASON_##name] = word,
const char *sched_reason_word(enum sched_reason reason)
{
    static const char *const words[SCHED_REASON_COUNT] = {SCHED_REASONS(X_WORD)};
    return words[reason];
}
#undef X_WORD

bool sched_reason_wants_nodes(enum sched_reason reason)
{
    switch (reason) {
    case SCHED_REASON_NO_NODE:
    case SCHED_REASON_TOO_BIG:
    case SCHED_REASON_TOO_LARGE:
    case SCHED_REASON_NO_ROOM:
    case SCHED_REASON_FRAGMENTED:
    case SCHED_REASON_TOPOLOGY:
    case SCHED_REASON_AFFINITY:
    case SCHED_REASON_RESERVED: return true;
    case SCHED_REASON_NONE:
    case SCHED_REASON_NOT_READY:
    case SCHED_REASON_NO_GROUP:
    case SCHED_REASON_NO_QUEUE:
    case SCHED_REASON_NAMESPACE:
    case SCHED_REASON_QUEUE_BROKEN:
    case SCHED_REASON_OVER_LIMIT:
    case SCHED_REASON_OVER_QUOTA:
    case SCHED_REASON_TERMINATING:
    case SCHED_REASON_INVALID:
    case SCHED_REASON_NO_CLAIM:
    case SCHED_REASON_VOLUME:
    case SCHED_REASON_HELD:
    case SCHED_REASON_GATED:
    case SCHED_REASON_IN_LINE:
    case SCHED_REASON_COUNT: break;
    }
    return false;
}

const char *sched_filter_word(enum sched_filter filter)
{
#define X_WORD(name, word, text) [SCHED_FILTER_##name] = word,
    static const char *const words[SCHED_FILTER_COUNT] = {SCHED_FILTERS(X_WORD)};
#undef X_WORD
    return words[filter];
}

const char *sched_strategy_word(enum sched_strategy strategy)
{
    static const char *const words[] = {
#define STRATEGY_WORD(name, word) word,
        SCHED_STRATEGIES(STRATEGY_WORD)
#undef STRATEGY_WORD
    };
    return words[strategy];
}

enum sched_strategy sched_strategy_named(struct str word)
{
    unsigned i = 0;

    while (i < SCHED_STRATEGY_COUNT && !str_is(word, sched_strategy_word((enum sched_strategy)i)))
        i++;
    return (enum sched_strategy)i;
}

const char *sched_action_word(enum sched_action action)
{
#define X_WORD(name, word) [SCHED_ACTION_##name] = word,
    static const char *const words[SCHED_ACTION_COUNT] = {SCHED_ACTIONS(X_WORD)};
#undef X_WORD
    return words[action];
}

const struct sched_quirk_text sched_quirk_texts[SCHED_QUIRK_COUNT] = {
#define X_TEXT(name, word, theirs, ours) {word, theirs, ours},
    SCHED_QUIRKS(X_TEXT)
#undef X_TEXT
};

/* "8 GPUs", "1 GPU", "2.5 GPUs", "4 CPUs", "16 GiB of memory" */
struct str explain_amount(struct arena *arena, int r, int64_t amount)
{
    if (r == SCHED_GPU) {
        if (amount % GPU_MILLI == 0)
            return str_printf(arena, "%lld GPU%s", (long long)(amount / GPU_MILLI),
                              amount == GPU_MILLI ? "" : "s");
        return str_printf(arena, "%lld.%02lld GPUs", (long long)(amount / GPU_MILLI),
                          (long long)(amount % GPU_MILLI / 10));
    }
    if (r == SCHED_CPU) {
        if (amount % 1000 == 0)
            return str_printf(arena, "%lld CPU%s", (long long)(amount / 1000),
                              amount == 1000 ? "" : "s");
        return str_printf(arena, "%lldm CPU", (long long)amount);
    }
    if (amount >= 1 << 30)
        return str_printf(arena, "%lld GiB of memory", (long long)(amount >> 30));
    return str_printf(arena, "%lld MiB of memory", (long long)(amount >> 20));
}
