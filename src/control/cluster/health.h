#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* health: nodes that jobs fail on (api/suspect.h), and the self-test that decides about them.
 *
 * Anybody's job can say something against a node, by mistake or in order to have it for himself. So
 * what jobs say keeps new pods away for as long as a self-test takes, which is a pod of ours, and
 * nothing more: whatever runs there goes on. What makes gangs leave is proof: the test failed, or the
 * driver says that a card is not usable.
 *
 * On a cluster the same is done where it is asked for (muster operator --node-health). There the test
 * is a pod for a kubelet, with an image that the administrator names: without one a node stays
 * suspect until somebody takes the taint away, and one whose driver complains has that taint alone. */
#define HEALTH_JOBS 3 /* of the last day, that blame this node and no other */
/* A node that has passed is not suspected again for so long, whatever is said. */
#define HEALTH_COOL_MS ((int64_t)3600 * 1000)
/* Of all nodes at most one in so many is suspected at a time, and at least one may be: what fails on
 * more of them is a network, a store or a program. */
#define HEALTH_SHARE    10
#define HEALTH_AGAIN_MS 15000 /* a card has to be free for the test */
#define HEALTH_LOST_MS  60000 /* a test that ended without an answer is repeated no sooner */
#define HEALTH_TEST_S   900   /* it may take so long; it has a smaller limit of its own */

enum health_test {
    HEALTH_TEST_NONE,
    HEALTH_TEST_RUNS,
    HEALTH_TEST_PASSED,
    HEALTH_TEST_FAILED,
    HEALTH_TEST_LOST, /* it ended without an answer */
};

/* What is known of a node. */
struct health {
    size_t jobs;       /* that blame it and no other node, within the window */
    bool preflight;    /* one of them because it was tested there, and failed */
    bool faulty;       /* the driver has reported an error of a card */
    bool tainted;      /* with SUSPECT_TAINT */
    bool told;         /* SUSPECT_WORDS is there */
    bool failed;       /* it was told that this test has failed */
    bool may;          /* enough others are not suspected */
    bool ready;        /* its agent answers */
    bool busy;         /* of its GPUs none is free, or, if it is faulty, not all are */
    bool untestable;   /* there is no image for a test: somebody has to take the taint away */
    int64_t passed_ms; /* when it passed a test; 0: never */
    enum health_test test;
    int64_t test_ms; /* when that was made */
};

enum health_step {
    HEALTH_LEAVE,
    HEALTH_SUSPECT,  /* taint it */
    HEALTH_ADOPT,    /* somebody tainted it by hand: that is how a test is asked for */
    HEALTH_TEST,     /* start the test */
    HEALTH_AGAIN,    /* remove what is left of one: another follows */
    HEALTH_CLEAR,    /* it passed: nothing is said against it any more */
    HEALTH_KEEP_OUT, /* it failed */
    HEALTH_FORGET,   /* somebody took the taint away: so be it */
};

/* `ret_again`: it is to be looked at again in HEALTH_AGAIN_MS, without a change. */
enum health_step health_judge(const struct health *health, int64_t now_ms, bool *ret_again);
