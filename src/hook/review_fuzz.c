#include "api/patch.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "fuzz/fuzz.h"
#include "hook/review.h"

#include <stddef.h>

/* Whatever a webhook answers is taken, or refused with words; its patch fits an object or does not. */
FUZZ(review)
{
    for (int mutating = 0; mutating < 2; mutating++) {
        struct arena arena = {0};
        struct hook hook = {.mutating = mutating != 0, .name = STR("w.a.io")};
        struct review_answer answer = {0};
        struct json *object = NULL, *made = NULL;
        struct err err = {0};

        if (review_read(&arena, &hook, STR("u"), input, &answer, &err) < 0) {
            FUZZ_HOLDS(err.text[0] != '\0');
        } else if (!answer.allowed) {
            FUZZ_HOLDS(answer.code >= 400 && answer.code < 600 && answer.message.len > 0);
        } else if (answer.patch) {
            FUZZ_HOLDS(mutating);
            FUZZ_HOLDS(json_parse(&arena, STR("{\"metadata\":{\"labels\":{\"a\":\"b\"}}}"), &object,
                                  NULL) == 0);
            if (patch_json(&arena, object, answer.patch, &made, &err) < 0)
                FUZZ_HOLDS(err.text[0] != '\0');
        }
        arena_done(&arena);
    }
}
