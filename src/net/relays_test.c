#include "base/count.h"
#include "net/relays.h"
#include "test.h"

#include <stddef.h>

TEST(a_namespace_that_has_most_connections_to_services_gives_way)
{
    static const char *const spaces[] = {"b", "evil", "evil", "c", "evil", "evil"};
    static const char *const even[] = {"a", "b", "a", "b"};

    EXPECT(relays_loser(spaces, COUNT_OF(spaces), "a") == 1);
    EXPECT(relays_loser(spaces, COUNT_OF(spaces), "b") == 1);
    EXPECT(relays_loser(spaces, COUNT_OF(spaces), "evil") == COUNT_OF(spaces));
    EXPECT(relays_loser(even, COUNT_OF(even), "c") == 0);
    EXPECT(relays_loser(even, COUNT_OF(even), "a") == COUNT_OF(even));
    EXPECT(relays_loser(even, 0, "a") == 0);
}
