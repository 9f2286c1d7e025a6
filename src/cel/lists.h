#pragma once

#include "cel/value.h"

#include <stdbool.h>

struct cel_run;

/* Where args[1] is in the list args[0]; -1: nowhere. strings.c has the same of texts. */
struct cel_value lists_index(struct cel_run *run, const struct cel_value *args, bool last);
