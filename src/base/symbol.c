#include "base/symbol.h"

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdint.h>

uint32_t symbol_find(const struct symbols *symbols, struct str name)
{
    const void *number = map_get(&symbols->numbers, name);

    return (uint32_t)(uintptr_t)number;
}

uint32_t symbol_add(struct symbols *symbols, struct str name)
{
    uint32_t symbol = symbol_find(symbols, name);

    if (symbol != SYMBOL_NONE || symbols->names.count >= SYMBOLS_MAX)
        return symbol;
    struct str copy = str_dup(&symbols->texts, name);
    VEC_PUSH(NULL, &symbols->names, copy);
    symbol = (uint32_t)symbols->names.count;
    (void)map_set(&symbols->numbers, copy,
                  (void *)(uintptr_t)symbol); // NOLINT(performance-no-int-to-ptr)
    return symbol;
}

struct str symbol_name(const struct symbols *symbols, uint32_t symbol)
{
    return symbol != SYMBOL_NONE && symbol <= symbols->names.count
               ? symbols->names.items[symbol - 1]
               : STR_NONE;
}

void symbols_done(struct symbols *symbols)
{
    map_done(&symbols->numbers);
    VEC_DONE(&symbols->names);
    arena_done(&symbols->texts);
}
