#include "page/turns.h"

#include "base/buf.h"
#include "base/str.h"

int turns_take(struct turns *turns, struct str who)
{
    int found = TURNS_ALL;

    for (int i = 0; i < TURNS_MAX; i++) {
        if (!turns->items[i].taken)
            found = i;
        else if (str_eq(buf_str(&turns->items[i].who), who))
            return TURNS_OWN;
    }
    if (found < 0)
        return found;
    turns->items[found].taken = true;
    buf_clear(&turns->items[found].who);
    buf_add(&turns->items[found].who, who);
    return found;
}

void turns_give(struct turns *turns, int number)
{
    turns->items[number].taken = false;
}

void turns_done(struct turns *turns)
{
    for (int i = 0; i < TURNS_MAX; i++)
        buf_done(&turns->items[i].who);
}
