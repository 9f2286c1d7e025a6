#pragma once

#include "base/cleanup.h"

#include <stdbool.h>

/* The first invariant that does not hold, as a sentence. Shared by the parts of check.h. */
#define CHECK_TEXT_MAX 600

struct check_report {
    bool failed;
    char text[CHECK_TEXT_MAX];
};

void check_fail(struct check_report *report, const char *fmt, ...) _printf_(2, 3);
