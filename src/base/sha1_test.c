#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/sha1.h"
#include "base/str.h"
#include "test.h"

#include <stddef.h>
#include <string.h>

TEST(sha1_gives_the_published_values)
{
    static const struct {
        const char *text;
        const char *hash;
    } rows[] = {
        {"", "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
        {"abc", "a9993e364706816aba3e25717850c26c9cd0d89d"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "84983e441c3bd26ebaae4aa1f95129e5e54670f1"},
    };
    _cleanup_(arena_done) struct arena arena = {0};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].text);
        EXPECT(str_is(sha1_text(&arena, str_from(rows[i].text)), rows[i].hash));
    }
}

TEST(sha1_takes_every_length_around_a_block)
{
    /* The hash of the hashes of 0 to 130 letters, as other programs give it. */
    _cleanup_(arena_done) struct arena arena = {0};
    struct str all = STR("");
    char letters[131];

    memset(letters, 'a', sizeof(letters));
    for (size_t i = 0; i <= 130; i++)
        all = str_printf(&arena, STR_FMT STR_FMT, STR_ARG(all),
                         STR_ARG(sha1_text(&arena, (struct str){letters, i})));
    EXPECT(str_is(sha1_text(&arena, all), "e9a26226834c1decc620e4a7df67e181b336a6b8"));
}
