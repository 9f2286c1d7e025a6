#pragma once

#include "base/str.h"

struct scene;

/* What a TorchrunQueue and a TorchrunJob say -> what stands in the pods, claims and status. */
struct row {
    const char *why;
    const char *queue; /* members of spec */
    const char *job;
    struct {
        const char *what;
        const char *is;
    } facts[5];
};

#define TWO_PODS "'numNodes':2"

/* What `what` of a row means: WHICH PATH. */
struct str row_look_up(struct scene *scene, const char *what);
/* Plays the row, and fails for each fact that is another. */
void row_check(struct scene *scene, const struct row *row);
