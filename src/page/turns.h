#pragma once

#include "base/buf.h"
#include "base/str.h"

#include <stdbool.h>

/* turns: who works out a "what if" at the moment. One each, so that a user who asks again and again
 * leaves room for others, and only so many in all: each is a core's work. Pure. */
#define TURNS_MAX 4

struct turn {
    bool taken;
    struct buf who;
};
struct turns {
    struct turn items[TURNS_MAX];
};

enum turns_refusal {
    TURNS_OWN = -1, /* this user has one */
    TURNS_ALL = -2, /* all are taken */
};

/* The number of a turn for turns_give(), or an enum turns_refusal. */
int turns_take(struct turns *turns, struct str who);
void turns_give(struct turns *turns, int number);
void turns_done(struct turns *turns);
