#pragma once

#include "api/account.h"
#include "api/ranks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct json;

/* account_run: what the time of a job is spent on while its ranks run, from what is told of them
 * (api/ranks.h). Pure.
 *
 * A run is the life of rank 0's process. Up to its first step it is starting. Its position is the number
 * of steps behind it: those it began with, and those it has made. It begins where its optimizers say
 * that they had been; else, if it loaded a file that is younger than the job, at the last checkpoint
 * that was written whole; else where the first run began. Until it is as far as the run before it
 * was, it recomputes. Time spent in saving is the most that any of its ranks says. A run that hangs
 * does so since its last step, until its next one.
 *
 * Reports are as old as the last change, or a minute; what lies between two of them is taken to have
 * been even. Of ranks that nobody tells of, all time is training. */
#define ACCOUNT_NOT_YET INT64_MAX

/* X(member, what it is): the whole state, as JSON has it */
#define ACCOUNT_RUN_MEMBERS(X)                                                  \
    X(running, "the job is in this state")                                      \
    X(from_ms, "since then")                                                    \
    X(hung_ms, "it hangs since then; 0: no")                                    \
    X(woke_ms, "its first step after that; 0: none yet")                        \
    X(told, "reports are of this run")                                          \
    X(began_ms, "of rank 0's process")                                          \
    X(pid, "of it")                                                             \
    X(runs, "so many there have been")                                          \
    X(before_ms, "the last step of the run before it")                          \
    X(first_ms, "its first step; 0: none yet")                                  \
    X(last_ms, "its last one")                                                  \
    X(steps, "that it has made")                                                \
    X(base, "where it began")                                                   \
    X(origin, "where the first run began")                                      \
    X(top, "the furthest that any run before it came")                          \
    X(mark, "where the last checkpoint is, and one; 0: none")                   \
    X(caught_ms, "it came as far as `top`; 0: it began there; ACCOUNT_NOT_YET") \
    X(saving_ms, "spent in saving")                                             \
    X(saving_before_ms, "of that, before from_ms")

struct account_run {
#define ACCOUNT_RUN_MEMBER(member, what) int64_t member;
    ACCOUNT_RUN_MEMBERS(ACCOUNT_RUN_MEMBER)
#undef ACCOUNT_RUN_MEMBER
};

/* What is told of the ranks of one of its pods. True: it says something new. */
bool account_hear(struct account_run *run,
                  const struct rank_report *reports,
                  size_t count,
                  int64_t created_ms); /* of the job */
/* What it ran has succeeded, and goes on with other work, if any: of that nothing is done again. */
void account_done(struct account *account, struct account_run *run, int64_t now_ms);
/* Brings the account up to date: what the job's status says is so now, and while its ranks run, what
 * they were heard to do. True: it is another one than before. */
bool account_take(struct account *account,
                  struct account_run *run,
                  const struct account_seen *seen,
                  int64_t gpus,
                  int64_t now_ms);

struct json *account_run_json(struct arena *arena, const struct account_run *run);
/* What makes no sense, or is not there, is 0. */
void account_run_read(const struct json *json, struct account_run *ret);
