#pragma once

#include <stddef.h>

struct buf;

/* pods: the text of a PodList as an API server sends it, generated from a fixed seed: the same
 * bytes on every machine. The pods are workers of training jobs, with environment, volumes,
 * conditions and managed fields; about 5 KB each. */
void pods_write(struct buf *buf, size_t count);
