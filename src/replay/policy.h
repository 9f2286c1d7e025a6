#pragma once

#include "base/str.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stddef.h>

/* policy: the schedulers that are compared. Each is the core with other settings. */
enum line_order {
    LINE_SUBMITTED, /* first come, first served */
    LINE_EXPECTED,  /* submission and expected run time */
    LINE_ATTAINED,  /* whose queue has had least so far */
};

struct replay_policy {
    const char *name;
    const char *about;
    enum sched_strategy strategy;
    double (*score)(const struct sched_candidate *candidate); /* SCHED_SCORED */
    enum line_order order;
    bool mimic;     /* with every difference from KAI switched off */
    bool one_queue; /* queues are not told apart */
    bool strict;    /* nobody overtakes */
    bool taught;    /* knows the workload before it comes, as published */
};

extern const struct replay_policy replay_policies[];
extern const size_t replay_policy_count;
/* NULL: there is none of that name. */
const struct replay_policy *replay_policy_named(struct str name);
