#pragma once

#include "base/str.h"

struct arena;

/* A value of an environment variable that has to arrive as it is. Kubernetes reads `$(NAME)` in it as
 * a reference and `$$` as one dollar; where the text has these, dollars are doubled. */
struct str literal_value(struct arena *arena, struct str text);
