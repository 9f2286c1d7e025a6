#include "cel/constant.h"

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "cel/ast.h"
#include "cel/cel.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define COST_MAX 1000000 /* as of an evaluation */

static bool is_constant(const struct cel_node *node)
{
    for (size_t i = 0; node->op == CEL_OP_LIST && i < node->count; i++)
        if (node->args[i]->op != CEL_OP_CONST)
            return false;
    return node->op == CEL_OP_CONST || node->op == CEL_OP_LIST;
}

/* Each clause is one, and something stands for it; NULL: so it is. */
static const char *format_fault(struct arena *arena, struct str format, size_t count)
{
    size_t index = 0;

    for (size_t at = str_find(format, '%'); at < format.len;
         at += str_find(str_sub(format, at, SIZE_MAX), '%')) {
        if (str_starts(str_sub(format, at, 2), STR("%%"))) {
            at += 2;
            continue;
        }
        at++;
        while (at < format.len && strchr(".0123456789", format.p[at]))
            at++;
        if (index >= count)
            return str_c(arena, str_printf(arena, "index %zu out of range", index));
        if (at >= format.len || !strchr("sdfebxXo", format.p[at]))
            return "could not parse formatting clause: unrecognized formatting clause";
        index++;
    }
    return NULL;
}

static bool has_optional(const struct cel_node *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->args[i]->op == CEL_OP_IF && list->args[i]->count == 1)
            return true;
    return false;
}

int constant_check(const struct cel_compile *compile, const struct cel_node *call, struct err *err)
{
    static const char *const conversions[] = {"bool", "bytes", "double", "int", "string", "uint"};
    const struct cel_node *last = call->count ? call->args[call->count - 1] : NULL;
    const char *fault = NULL;
    bool known = false;

    for (size_t i = 0; i < COUNT_OF(conversions); i++)
        known |= !call->member && call->count == 1 && str_is(call->name, conversions[i]);
    if (call->member && str_is(call->name, "format") && last->op == CEL_OP_LIST &&
        call->args[0]->op == CEL_OP_CONST && !has_optional(last)) {
        fault = format_fault(compile->arena, call->args[0]->constant.s, last->count);
        known = true;
    }
    if (!fault && known && is_constant(last)) {
        const struct cel_program program = {.root = call, .fixed_zones = true};
        _cleanup_(arena_done) struct arena arena = {0};
        struct cel_value value = cel_evaluate(&program, &arena, NULL, COST_MAX).value;

        if (value.type == CEL_ERROR)
            fault = str_c(compile->arena, value.s);
    }
    return fault ? cel_wrong(err, compile->text, call->at, fault, STR_NONE) : 0;
}
