#pragma once

#include "base/str.h"

#include <stdbool.h>

struct arena;
struct err;
struct json;
struct kind;

/* kept: what is kept of the pods and nodes of a cluster.
 *
 * A cluster has tens of thousands of pods, and most of what stands in one is between its owner and
 * its kubelet: commands, environments, mounts, probes, images. Nobody here reads it, much of it is
 * nobody's business, and it is most of the bytes. So informers keep the fields that have the word
 * `kept` in src/api/types and nothing else, whether they arrive as JSON or as protobuf. Whoever
 * reads a further field of a cached pod or node gives it the word; tests of controllers go through
 * it, so a field that is missing there is missing in the test. What is written back must name its
 * fields: patches, never whole objects. */

/* False: objects of this kind are kept whole. */
bool kept_is(const struct kind *kind);
/* The same from either form. apiVersion and kind are set. Strings point into what was given. */
void kept_trim(const struct kind *kind, struct json *tree);
int kept_decode(struct arena *arena,
                const struct kind *kind,
                struct str message,
                struct json **ret,
                struct err *err);
