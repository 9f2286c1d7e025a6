#include "cmd/scheduling.h"

#include "base/err.h"
#include "base/str.h"
#include "control/core/control.h"
#include "sched/sched.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

const char *const scheduling_placements[] = {"binpack", "spread", "fragmentation", NULL};

static int add_quirk(const char *word, uint64_t *bits, struct err *err)
{
    if (strcmp(word, "all") == 0) {
        *bits = SCHED_QUIRKS_ALL;
        return 0;
    }
    for (size_t i = 0; i < SCHED_QUIRK_COUNT; i++)
        if (strcmp(word, sched_quirk_texts[i].word) == 0) {
            *bits |= UINT64_C(1) << i;
            return 0;
        }
    return err_set(
        err, -EINVAL,
        "--quirk: \"%s\" is not a quirk; docs/differences.md lists them; \"all\" means every one",
        word);
}

int scheduling_config(const struct scheduling_values *values,
                      struct sched_config *ret_sched,
                      struct control_config *ret_control,
                      struct err *err)
{
    struct sched_config sched;

    sched_config_default(&sched);
    sched.queue_label = str_from(values->queue_label_key);
    sched.policy.gpu_strategy = (enum sched_strategy)values->gpu_placement;
    sched.policy.cpu_strategy = (enum sched_strategy)values->cpu_placement;
    sched.policy.stale_grace_ms = values->stale_grace_ms;
    sched.policy.preempt_min_runtime_ms = values->preempt_min_runtime_ms;
    sched.policy.reclaim_min_runtime_ms = values->reclaim_min_runtime_ms;
    for (size_t i = 0; i < values->quirks.count; i++) {
        int r = add_quirk(values->quirks.items[i], &sched.quirks, err);
        if (r < 0)
            return r;
    }
    *ret_sched = sched;
    ret_control->old_groups = (sched.quirks & SCHED_QUIRK(OLD_GROUPS)) != 0;
    ret_control->queue_label_key = str_from(values->queue_label_key);
    ret_control->default_queue = str_from(values->default_queue);
    ret_control->default_parent = str_from(values->default_parent);
    return 0;
}
