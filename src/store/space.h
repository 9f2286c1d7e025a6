#pragma once

#include "base/map.h"

#include <stddef.h>

struct json;
struct object;
struct store;
struct write;

/* space: how many bytes the objects of each namespace have, of the staged state, and how many they may
 * have: all of them are in memory, and whoever may write in one namespace must not fill that of all.
 *
 * Added up when a namespace is asked for the first time and kept current by every write that is
 * staged. A pod has some 6 KB and its events as many: 20,000 pods fit. The owner of the machine gives
 * a namespace another number by an annotation of the Namespace, an amount such as 1Gi. */
#define SPACE_BYTES_MAX  ((size_t)256 << 20)
#define SPACE_ANNOTATION "muster.dev/bytes-max"

struct spaces {
    struct map names; /* namespace to struct space */
};

/* What etcd takes of one object, and so what users' tools are used to. */
#define SPACE_OBJECT_BYTES_MAX ((size_t)3 << 19)

/* Objects, lists, texts and numbers in one object: each is looked at a dozen times while everybody else
 * waits. Of a custom resource there may be more, as a PodGroup has up to 10,240 subgroups; a definition of
 * resources of a megabyte has some 60,000, and whoever writes those may do anything. */
#define SPACE_VALUES_MAX        32768
#define SPACE_VALUES_CUSTOM_MAX 50000
#define SPACE_VALUES_CRD_MAX    75000

/* 0, or the refusal in the reply: one object, or what becomes one, has too many values. What this program
 * itself writes is let in, and managedFields do not count. */
int space_check_values(struct write *write, const struct json *root);
/* So many bytes its text has at least: what has to be escaped takes more. */
size_t space_least(const struct json *value);
/* 0, or the refusal in the reply: one object is too large. */
int space_check_size(struct write *write, size_t bytes);
/* Before an object of so many bytes is staged in place of write->old: 0, or the refusal in the reply.
 * What shrinks is let in, and what this program itself writes about objects that are there. */
int space_check(struct write *write, size_t bytes);
/* `now` stands in the place of `before`; either may be NULL. */
void space_follow(struct store *store, const struct object *before, const struct object *now);
/* What was staged did not happen. */
void space_forget(struct store *store);
