#include "base/arena.h"
#include "base/base64.h"
#include "base/count.h"
#include "test.h"

TEST(base64_encodes_and_decodes_the_vectors_of_rfc_4648)
{
    static const struct {
        const char *plain;
        const char *text;
    } rows[] = {{"", ""},
                {"f", "Zg=="},
                {"fo", "Zm8="},
                {"foo", "Zm9v"},
                {"foob", "Zm9vYg=="},
                {"fooba", "Zm9vYmE="},
                {"foobar", "Zm9vYmFy"}};
    struct arena arena = {0};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct str plain = STR_NONE;

        test_case(rows[i].text);
        EXPECT(str_is(base64_encode(&arena, str_from(rows[i].plain)), rows[i].text));
        EXPECT(base64_decode(&arena, str_from(rows[i].text), &plain));
        EXPECT(str_is(plain, rows[i].plain));
    }
    arena_done(&arena);
}

TEST(base64_keeps_every_byte_value)
{
    struct arena arena = {0};
    char bytes[256];
    struct str back = STR_NONE;

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)i;
    EXPECT(base64_decode(&arena, base64_encode(&arena, (struct str){bytes, 256}), &back));
    EXPECT(str_eq(back, (struct str){bytes, 256}));
    arena_done(&arena);
}

TEST(base64_refuses_what_is_not_of_the_alphabet)
{
    static const struct {
        const char *text;
        const char *why;
    } rows[] = {{"Zg=a", "digits behind padding"},
                {"Z", "six bits are no byte"},
                {"Zm 9v", "a blank"},
                {"Zm-v", "the alphabet of URLs"}};
    struct arena arena = {0};
    struct str out = STR("untouched");

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        EXPECT(!base64_decode(&arena, str_from(rows[i].text), &out));
        EXPECT(str_is(out, "untouched"));
    }
    arena_done(&arena);
}

TEST(base64url_has_its_own_last_digits_and_no_padding)
{
    struct arena arena = {0};
    struct str bytes = STR("\xfb\xff\xfe\x01");
    struct str back = STR_NONE;

    EXPECT(str_is(base64_encode(&arena, bytes), "+//+AQ=="));
    EXPECT(str_is(base64url_encode(&arena, bytes), "-__-AQ"));
    EXPECT(base64url_decode(&arena, STR("-__-AQ"), &back) && str_eq(back, bytes));
    EXPECT(!base64url_decode(&arena, STR("-__-AQ=="), &back));
    EXPECT(!base64url_decode(&arena, STR("+//+"), &back));
    EXPECT(!base64url_decode(&arena, STR("Zm\n9v"), &back));
    arena_done(&arena);
}
