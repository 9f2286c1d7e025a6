#include "cel/cel.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "cel/ast.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int cel_compile(const struct cel_compile *compile, struct cel_program **ret, struct err *err)
{
    struct cel_program *program = ARENA_NEW(compile->arena, struct cel_program);
    struct cel_node *root = NULL;
    int r = cel_parse(compile->arena, compile->text, &root, err);

    if (r < 0)
        return r;
    *program = (struct cel_program){.root = root,
                                    .text = compile->text,
                                    .variables = compile->variables,
                                    .variable_count = compile->variable_count,
                                    .fixed_zones = compile->fixed_zones};
    r = cel_check(
        &(struct cel_check){.compile = compile, .root = root, .program = program, .err = err});
    if (r == 0)
        *ret = program;
    return r;
}

bool cel_uses(const struct cel_program *program, const char *variable)
{
    for (size_t i = 0; i < program->variable_count; i++)
        if (str_is(str_from(variable), program->variables[i].name))
            return program->used >> i & 1;
    return false;
}

bool cel_is_name(struct str text)
{
    struct arena arena = {0};
    struct cel_node *root = NULL;
    bool is = cel_parse(&arena, text, &root, NULL) == 0 && root->op == CEL_OP_IDENT &&
              str_eq(root->name, text);

    arena_done(&arena);
    return is;
}
