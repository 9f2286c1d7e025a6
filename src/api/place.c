#include "api/place.h"

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct place place_parse(struct str text)
{
    struct place place = {0};
    struct str word;
    bool parted = str_cut(&text, ' ', &word);

    if (!parted || !str_to_i64(word, &place.round) || place.round < 0 ||
        place.round > PLACE_ROUNDS_MAX)
        return (struct place){0};
    place.go = str_is(text, "go");
    place.set = place.go || str_is(text, "stop");
    return place.set ? place : (struct place){0};
}

struct str place_text(struct arena *arena, int64_t round, bool go)
{
    return str_printf(arena, "%lld %s", (long long)round, go ? "go" : "stop");
}
