#include "control/grouping/longest.h"

#include "api/kind.h"
#include "api/queue_rules.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "control/grouping/grouping.h"

#include <stddef.h>
#include <stdint.h>

static int64_t time_of(struct str text)
{
    int64_t ms = 0;

    return text.len && time_parse_duration(text, &ms) && ms > 0 ? ms : 0;
}

void grouping_shorten(const struct queue_around *around,
                      const struct json *before,
                      struct grouping *grouping)
{
    struct str has = json_str(json_get(before, "maxRunTime"));
    struct longest longest = {0};

    if (grouping->endless || (before && !has.len))
        return;
    if (str_is(grouping->owner.kind, kind_torchrunjob.name)) {
        const struct json *job =
            around->find(around->user, kind_torchrunjob.name, grouping->ns, grouping->owner.name);

        longest_of_torchrun(&longest, around, grouping->ns, queue_of_torchrun_job(job));
    }
    longest_of_queue(&longest, around, grouping->queue);
    longest_of_person(&longest, around, grouping->ns);
    if (longest.ms && longest.ms < time_of(has))
        longest = (struct longest){.ms = time_of(has), .text = has};
    if (longest.ms && (!grouping->max_run.len || longest.ms < time_of(grouping->max_run)))
        grouping->max_run = longest.text;
}
