#include "api/queue_rules.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/grouping/grouping.h"
#include "control/grouping/longest.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

static const struct json *find(void *user, const char *kind, struct str ns, struct str name)
{
    const struct json *kinds = json_get(user, kind);

    (void)ns;
    return json_get_str(kinds, name);
}

#define AROUND                                                                                  \
    "{\"Queue\":{\"top\":{\"spec\":{\"maxRunTime\":\"8h\"}},\"q\":{\"spec\":{\"parentQueue\":"  \
    "\"top\"}},\"ring\":{\"spec\":{\"parentQueue\":\"ring\",\"maxRunTime\":\"3h\"}}},"          \
    "\"TorchrunQueue\":{\"quick\":{\"spec\":{\"kaiQueue\":\"q\",\"maxRunTime\":\"1h\"}}},"      \
    "\"TorchrunJob\":{\"j\":{\"spec\":{\"jobQueue\":\"quick\"}}},"                              \
    "\"Namespace\":{\"hers\":{\"metadata\":{\"annotations\":{\"torchrun.ai/person\":\"alice\"," \
    "\"torchrun.ai/person-time\":\"2h\"}}}}}"

TEST(a_group_runs_no_longer_than_its_queues_and_its_person_may)
{
    static const struct {
        const char *why;
        const char *kind;
        const char *ns;
        const char *queue;
        const char *own;
        const char *before; /* spec of the group; NULL: it is new */
        const char *time;
        bool endless;
    } rows[] = {
        {"the queue above says it", "Job", "lab", "q", "", NULL, "8h", false},
        {"a shorter one stays", "Job", "lab", "q", "1h", NULL, "1h", false},
        {"a longer one is cut", "Job", "lab", "q", "9h", NULL, "8h", false},
        {"nobody says one", "Job", "lab", "open", "9h", NULL, "9h", false},
        {"a person's", "Job", "hers", "q", "", NULL, "2h", false},
        {"a TorchrunQueue's", "TorchrunJob", "lab", "q", "", NULL, "1h", false},
        {"queues in a circle end", "Job", "lab", "ring", "", NULL, "3h", false},
        {"what serves the job goes on", "Job", "lab", "q", "", NULL, "", true},
        {"a group that had no end gets none", "Job", "lab", "q", "", "{}", "", false},
        {"nor one that comes sooner", "Job", "lab", "q", "", "{\"maxRunTime\":\"12h\"}", "12h",
         false},
        {"but a later one", "Job", "lab", "q", "", "{\"maxRunTime\":\"4h\"}", "8h", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *around = NULL, *before = NULL;
        struct grouping grouping = {.ns = str_from(rows[i].ns),
                                    .owner = {.kind = str_from(rows[i].kind), .name = STR("j")},
                                    .queue = str_from(rows[i].queue),
                                    .max_run = str_from(rows[i].own),
                                    .endless = rows[i].endless};

        test_case(rows[i].why);
        EXPECT(json_parse(&arena, STR(AROUND), &around, NULL) == 0);
        if (rows[i].before)
            EXPECT(json_parse(&arena, str_from(rows[i].before), &before, NULL) == 0);
        grouping_shorten(&(struct queue_around){find, around}, before, &grouping);
        EXPECT(str_is(grouping.max_run, rows[i].time));
    }
}
