#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "plugin/results.h"
#include "test.h"

#include <stddef.h>

#define POD(name, ranks)                                                                   \
    "{\"metadata\":{\"name\":\"" name "\",\"namespace\":\"n\"},\"spec\":{\"containers\":[" \
    "{\"name\":\"trainer\",\"env\":[{\"name\":\"MUSTER_NPROC\",\"value\":\"" ranks "\"}]}]}}"

TEST(the_pod_of_a_rank_is_found_where_pods_are_uneven)
{
    static const char *const texts[] = {POD("a-worker-0", "4"), POD("a-worker-1", "2"),
                                        POD("a-worker-3", "2")};
    static const struct {
        const char *why;
        int64_t rank;
        size_t pod;
    } rows[] = {
        {"the first of the first", 0, 0},  {"the last of the first", 3, 0},
        {"the first of the second", 4, 1}, {"the last of the second", 5, 1},
        {"of a pod that is gone", 6, 3},   {"behind one that is gone: nobody knows", 8, 3},
    };
    _cleanup_(arena_done) struct arena arena = {0};
    const struct object *pods[COUNT_OF(texts)];

    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct object *object = NULL;

        EXPECT(object_new(&kind_pod, str_from(texts[i]), &object, NULL) == 0);
        arena_defer(&arena, object_release, object);
        pods[i] = object;
    }
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        EXPECT(results_pod_of_rank(&arena, pods, COUNT_OF(pods), "a", rows[i].rank) == rows[i].pod);
    }
}
