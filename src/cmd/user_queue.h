#pragma once

#include "base/str.h"

struct err;
struct look;

/* user_queue: where the jobs of people are charged. A person has a TorchrunQueue in her namespace, as large as a node of the
 * machine, and a scheduling queue that several people may have together. */

/* What is there already stays as it is. On stderr: what was made. */
int user_queue_put(struct look *look,
                   struct str person,
                   struct str ns,
                   struct str queue,
                   struct err *err);
/* The scheduling queues that were made for people and that only `ns` had, which is gone; one that has others below it stays. */
int user_queue_drop(struct look *look, struct str ns, struct err *err);
