#include "api/quantity.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "fuzz/fuzz.h"

#include <stdint.h>

/* A quantity that was read is written so that it is read as the same amount, and its readers round
 * up. */
FUZZ(quantity)
{
    struct arena arena = {0};
    struct quantity quantity = {0};
    struct quantity again = {0};
    struct err err = {0};
    int64_t milli = 0;
    int64_t whole = 0;

    if (quantity_parse(input, &quantity, &err) == 0) {
        struct str text = quantity_text(&arena, quantity);

        FUZZ_HOLDS(quantity_parse(text, &again, NULL) == 0);
        FUZZ_HOLDS(quantity_cmp(quantity, again) == 0);
        /* What no binary suffix fits is written without one, and read again as decimal. */
        if (quantity.format == again.format)
            FUZZ_HOLDS(str_eq(text, quantity_text(&arena, again)));
    } else {
        FUZZ_HOLDS(err.text[0] != '\0');
    }
    if (quantity_milli(input, &milli, NULL) == 0 && quantity_whole(input, &whole, NULL) == 0) {
        __int128 thousandths = (__int128)whole * 1000;

        FUZZ_HOLDS(whole >= 0 ? thousandths >= milli && thousandths - milli < 1000
                              : thousandths <= milli && milli - thousandths < 1000);
    }
    arena_done(&arena);
}
