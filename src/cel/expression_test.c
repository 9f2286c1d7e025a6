#include "cel/expression_test.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "cel/cel.h"
#include "cel/value.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct cel_result expression_value(struct arena *arena,
                                   const char *text,
                                   const char *self,
                                   uint64_t cost_max)
{
    static const struct cel_variable variables[] = {{.name = "self"}};
    struct cel_compile compile = {.arena = arena,
                                  .text = str_from(text),
                                  .variables = variables,
                                  .variable_count = 1,
                                  .loose = true};
    struct cel_program *program = NULL;
    struct json *json = NULL;
    struct err err = {0};

    EXPECT(json_parse(arena, str_from(self), &json, NULL) == 0);
    if (cel_compile(&compile, &program, &err) < 0)
        return (struct cel_result){.value = cel_error(str_dup(arena, str_from(err.text)))};
    struct cel_value value = cel_from_json(arena, json, NULL);
    return cel_evaluate(program, arena, &value, cost_max);
}

void expression_all_true(const char *const *texts, size_t count, const char *self)
{
    for (size_t i = 0; i < count; i++) {
        struct arena arena = {0};
        struct cel_result result = expression_value(&arena, texts[i], self, CEL_COST_MAX);

        test_case(texts[i]);
        if (result.value.type == CEL_ERROR)
            (void)fprintf(stderr, "%s: " STR_FMT "\n", texts[i], STR_ARG(result.value.s));
        EXPECT(cel_is_true(result.value));
        arena_done(&arena);
    }
}

void expression_all_fail(const struct expression_error *rows, size_t count, const char *self)
{
    for (size_t i = 0; i < count; i++) {
        struct arena arena = {0};
        struct cel_result result = expression_value(&arena, rows[i].text, self, CEL_COST_MAX);
        bool failed = result.value.type == CEL_ERROR;

        test_case(rows[i].text);
        EXPECT(failed);
        EXPECT(!result.out_of_cost);
        EXPECT(failed && str_is(result.value.s, rows[i].words));
        if (failed && !str_is(result.value.s, rows[i].words))
            (void)fprintf(stderr, "%s: " STR_FMT "\n", rows[i].text, STR_ARG(result.value.s));
        arena_done(&arena);
    }
}
