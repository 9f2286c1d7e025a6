#pragma once

struct arena;
struct json;

/* list: lists of what people write (containers, variables, volumes), to which something is added. */

/* The list `key` of an object; made where there is none. */
struct json *list_at(struct arena *arena, struct json *object, const char *key);
