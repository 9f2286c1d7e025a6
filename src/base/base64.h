#pragma once

#include "base/str.h"

#include <stdbool.h>

struct arena;

/* base64: RFC 4648 with the ordinary alphabet and padding, as Secrets and kubeconfig files carry
 * it. Decoding skips line breaks and accepts missing padding; false and *ret untouched for anything
 * else that is not of the alphabet. */
bool base64_decode(struct arena *arena, struct str text, struct str *ret);
struct str base64_encode(struct arena *arena, struct str bytes);

/* The alphabet for URLs and tokens, without padding; decoding takes nothing else. */
bool base64url_decode(struct arena *arena, struct str text, struct str *ret);
struct str base64url_encode(struct arena *arena, struct str bytes);
