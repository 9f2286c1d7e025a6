#pragma once

#include <stdbool.h>

struct err;
struct replay_policy;

/* The part of `muster replay` for recordings. */
bool replay_is_recording(const char *path);
/* Plays it again and tells what came of it; `other` may be NULL. -EPROTO: a plan is another one. */
int replay_recording(const char *path, const struct replay_policy *other, struct err *err);
