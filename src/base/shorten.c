#include "base/shorten.h"

#include "base/str.h"

size_t str_shortened_len(struct str s, size_t max)
{
    size_t room = max - (sizeof(SHORTEN_MORE) - 1);
    size_t end = room;

    if (s.len <= max)
        return s.len;
    while (end && ((unsigned char)s.p[end] & 0xC0) == 0x80)
        end--;
    for (size_t word = end; word > room / 2; word--)
        if (s.p[word] == ' ')
            return word;
    return end;
}

struct str str_shorten(struct arena *arena, struct str s, size_t max)
{
    if (s.len <= max)
        return s;
    return str_printf(arena, STR_FMT SHORTEN_MORE,
                      STR_ARG(str_sub(s, 0, str_shortened_len(s, max))));
}
