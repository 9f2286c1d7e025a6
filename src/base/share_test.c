#include "base/count.h"
#include "base/share.h"
#include "test.h"

#include <stddef.h>
#include <stdint.h>

#define NOW_MS ((int64_t)1000000)

TEST(who_has_most_streams_or_does_not_read_gives_way)
{
    static const struct {
        struct share_item items[6];
        size_t count;
        size_t loser;
        const char *why;
    } rows[] = {
        {{{"a", 0}, {"a", 0}, {"a", 0}, {"a", 0}}, 4, 0, "one namespace has all: its oldest"},
        {{{"a", 0}, {"a", 0}, {"a", 5}, {"a", 9}}, 4, 2, "of several the one stalled for longest"},
        {{{"b", 0}, {"a", 0}, {"a", 0}, {"b", 1}}, 4, 1, "who came to have most first"},
        {{{"b", 0}, {"c", 0}, {"d", 0}, {"e", 0}}, 4, 4, "all have their share, and read"},
        {{{"b", 0}, {"c", NOW_MS - 10}, {"d", 0}, {"e", 0}}, 4, 4, "one that stalls for a moment"},
        {{{"b", 0}, {"c", 70}, {"d", 50}, {"e", 0}}, 4, 2, "the one that stalled for longest"},
        {{{"n", 50}, {"c", 0}, {"d", 0}, {"e", 0}}, 4, 0, "also one of its own"},
        {{{"n", 0}, {"c", 0}, {"c", 0}, {"d", 0}},
         4,
         4,
         "one more than the new one's would even out"},
        {{{"n", 0}, {"c", 0}, {"c", 0}, {"c", 0}}, 4, 1, "two more"},
        {{{"b", 0}, {"evil", 0}, {"evil", 0}, {"c", 0}, {"evil", 0}, {"evil", 0}}, 6, 1, "evil's"},
        {{{"n", 0}, {"n", 0}, {"n", 0}, {"c", 0}, {"n", 0}, {"n", 0}},
         6,
         6,
         "the new one's has most"},
        {{{"", 0}}, 0, 0, "there is none"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        EXPECT(share_loser(rows[i].items, rows[i].count, "n", NOW_MS) == rows[i].loser);
    }
}

TEST(the_namespace_of_which_the_fewest_are_at_work_is_next)
{
    static const struct {
        struct share_turn items[5];
        size_t next;
        const char *why;
    } rows[] = {
        {{{"a", SHARE_WAITS}, {"b", SHARE_WAITS}}, 0, "nobody works: the oldest"},
        {{{"a", SHARE_WORKS}, {"a", SHARE_WAITS}, {"a", SHARE_WAITS}, {"b", SHARE_WAITS}},
         3,
         "one of a works: b, who came last"},
        {{{"a", SHARE_WORKS}, {"b", SHARE_WORKS}, {"b", SHARE_WAITS}, {"a", SHARE_WAITS}},
         2,
         "as many: the oldest"},
        {{{"a", SHARE_WORKS}, {"a", SHARE_WAITS}}, 1, "nobody else waits"},
        {{{"a", SHARE_WORKS}, {"b", SHARE_DONE}}, 5, "nobody waits"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        size_t count = 0;

        while (count < COUNT_OF(rows[i].items) && rows[i].items[count].ns)
            count++;
        EXPECT(share_next(rows[i].items, count) == (rows[i].next < 5 ? rows[i].next : count));
    }
}
