#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "cel/cel.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cel-cases: evaluates what stands in lines of JSON and says how each ended. A line has
 *   name, expr, variables: [{name, value}], loose, and either want or error: true
 * where values and want are expressions, too. tests/cel/conformance.py makes them of the public
 * cases; the answers are "passed: NAME" and "failed: NAME WHY". */

#define INPUT_BYTES_MAX ((size_t)32 << 20)
#define ZONE_BYTES_MAX  ((size_t)1 << 20)

static struct str read_input(struct arena *arena)
{
    char *text = arena_raw(arena, INPUT_BYTES_MAX, 1);

    return (struct str){text, fread(text, 1, INPUT_BYTES_MAX, stdin)};
}

struct scope {
    struct cel_variable variables[CEL_VARIABLES_MAX];
    struct cel_value values[CEL_VARIABLES_MAX];
    size_t count;
};

static struct cel_value evaluate(struct arena *arena,
                                 struct str text,
                                 const struct scope *scope,
                                 bool loose)
{
    struct cel_compile compile = {.arena = arena,
                                  .text = text,
                                  .variables = scope->variables,
                                  .variable_count = scope->count,
                                  .loose = loose};
    struct cel_program *program = NULL;
    struct err err = {0};

    if (cel_compile(&compile, &program, &err) < 0)
        return cel_error(str_dup(arena, str_from(err.text)));
    return cel_evaluate(program, arena, scope->values, CEL_COST_MAX).value;
}

static bool is_nan(struct cel_value value)
{
    return value.type == CEL_DOUBLE && __builtin_isnan(value.d);
}

static void run_case(struct arena *arena, const struct json *line)
{
    struct scope *scope = ARENA_NEW(arena, struct scope);
    struct str name = json_str(json_get(line, "name"));
    const struct scope none = {.count = 0};
    bool loose = json_bool_or(json_get(line, "loose"), false);

    JSON_FOREACH(json_get(line, "variables"), variable) {
        size_t i = scope->count++;

        scope->variables[i] =
            (struct cel_variable){.name = str_c(arena, json_str(json_get(variable, "name")))};
        scope->values[i] = evaluate(arena, json_str(json_get(variable, "value")), &none, true);
    }
    struct cel_value value = evaluate(arena, json_str(json_get(line, "expr")), scope, loose);
    if (json_bool_or(json_get(line, "error"), false)) {
        printf(value.type == CEL_ERROR ? "passed: " STR_FMT "\n" : "failed: " STR_FMT " no error\n",
               STR_ARG(name));
        return;
    }
    struct cel_value want = evaluate(arena, json_str(json_get(line, "want")), &none, true);
    if (value.type == CEL_ERROR || want.type == CEL_ERROR)
        printf("failed: " STR_FMT " " STR_FMT "\n", STR_ARG(name),
               STR_ARG(value.type == CEL_ERROR ? value.s : want.s));
    else if (value.type == want.type && (cel_equal(value, want) || (is_nan(value) && is_nan(want))))
        printf("passed: " STR_FMT "\n", STR_ARG(name));
    else
        printf("failed: " STR_FMT " another value, of type " STR_FMT "\n", STR_ARG(name),
               STR_ARG(cel_type_name(value.type)));
}

/* As muster up reads them. */
static bool read_zone(struct arena *arena, struct str name, struct str *ret_bytes)
{
    char path[256];

    (void)snprintf(path, sizeof(path), "/usr/share/zoneinfo/" STR_FMT, STR_ARG(name));
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    char *bytes = arena_raw(arena, ZONE_BYTES_MAX, 1);
    *ret_bytes = (struct str){bytes, fread(bytes, 1, ZONE_BYTES_MAX, file)};
    (void)fclose(file);
    return true;
}

int main(void)
{
    struct arena input = {0};
    struct str rest = read_input(&input);
    struct str line = STR_NONE;

    cel_set_zones(read_zone);
    while (str_cut(&rest, '\n', &line)) {
        struct arena arena = {0};
        struct json *json = NULL;
        struct err err = {0};

        if (line.len && json_parse(&arena, line, &json, &err) == 0)
            run_case(&arena, json);
        else if (line.len)
            (void)fprintf(stderr, "cel-cases: %s\n", err.text);
        arena_done(&arena);
    }
    arena_done(&input);
    return 0;
}
