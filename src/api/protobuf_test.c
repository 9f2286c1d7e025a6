#include "api/protobuf.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

static struct str from_hex(struct arena *arena, const char *hex)
{
    char *out = ARENA_ARRAY(arena, char, strlen(hex) + 1);
    size_t len = 0;
    int high = -1;

    for (; *hex; hex++) {
        const char *digits = "0123456789abcdef";
        const char *at = strchr(digits, *hex);

        if (!at)
            continue;
        if (high < 0) {
            high = (int)(at - digits);
        } else {
            out[len++] = (char)(high * 16 + (int)(at - digits));
            high = -1;
        }
    }
    return (struct str){out, len};
}

/* What kubectl sent for `create configmap cm2 --from-literal=a=b`. */
#define CONFIGMAP                                                                                  \
    "6b387300 0a0f 0a027631 1209436f6e6669674d6170 121d 0a13 0a03636d32 1200 1a00 2200 2a00 3200 " \
    "3800 4200 1206 0a0161 120162 1a00 2200"

TEST(protobuf_configmap_of_kubectl_is_read)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *root = NULL;

    EXPECT(protobuf_to_json(&arena, from_hex(&arena, CONFIGMAP), &root, NULL) == 0);
    EXPECT(str_is(json_text(&arena, root),
                  "{\"metadata\":{\"name\":\"cm2\"},\"data\":{\"a\":\"b\"},"
                  "\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"}"));
}

TEST(protobuf_secret_bytes_become_base64)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *root = NULL;
    /* Secret s with data k = 00 ff 10 41 */
    struct str body = from_hex(&arena, "6b387300 0a0c 0a027631 1206536563726574 1210 0a03 0a0173 "
                                       "1209 0a016b 120400ff1041");

    EXPECT(protobuf_to_json(&arena, body, &root, NULL) == 0);
    EXPECT(str_is(json_str(json_at(root, "data.k")), "AP8QQQ=="));
}

TEST(protobuf_broken_anywhere_is_refused_not_read_beyond)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str whole = from_hex(&arena, CONFIGMAP);

    for (size_t len = 0; len < whole.len; len++) {
        struct json *root = NULL;
        struct err err = {0};
        /* A copy of exactly that length, so that a sanitizer sees a read past it. */
        struct str part = str_dup(&arena, str_sub(whole, 0, len));

        if (protobuf_to_json(&arena, part, &root, &err) == 0)
            EXPECT(root != NULL);
        else
            EXPECT(err.text[0] != 0);
    }
}

TEST(protobuf_of_an_unknown_kind_says_so)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *root = NULL;
    struct err err = {0};

    EXPECT(protobuf_to_json(&arena, from_hex(&arena, "6b387300 0a09 0a027631 1203466f6f"), &root,
                            &err) == -EPROTONOSUPPORT);
}
