#pragma once

#include "base/str.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct buf;
struct err;
struct replay_policy;

/* recording: what a scheduler saw and decided, a line of JSON each, so that it can be repeated.
 *
 *     {"muster":1,"settings":{...}}          the first line; settings: sched/policy.h
 *     {"put":OBJECT}                         an object came or changed
 *     {"drop":{apiVersion, kind, metadata}}  it went
 *     {"pod":{...}}  {"podGone":[NS,NAME]}   a pod that was counted or forgotten without an object
 *     {"bindFailed":[NS,NAME]}  {"evictFailed":[NS,NAME]}  {"bindUndone":[NS,NAME,UID]}
 *     {"written":[NS,GROUP,FAILED,NOW]}      writes for a group came back
 *     {"share":[NODE,FAILED,NOW]}            a node gave a device for sharing, or failed to
 *     {"policy":[POOL,{...}]}                how a pool is run; null: like the default pool
 *     {"names":[SCHEDULER,QUEUELABEL,POOLLABEL]}
 *     {"usage":[QUEUE,CPU,MEMORY,GPU]}       as the bits of doubles, in hex
 *     {"forget":POOL}                        of which no usage is known any more
 *     {"cycle":NOW,"plan":HASH,"binds":N,"evicts":N}
 *
 * NOW is milliseconds since 1970. The hash is of everything in the plan but the words. */
#define RECORDING_VERSION 1

void recording_begin(struct buf *out, struct arena *arena, const struct sched *sched);
void recording_add(struct buf *out, struct arena *arena, const struct sched_input *input);
/* Whether a text begins like a recording. */
bool recording_is(struct str text);

/* Repeats a recording, line by line; with another policy beside it, which sees the same and is set
 * right after each cycle: so each of its differences is one decision and not what followed. */
struct player;
struct player_options {
    const struct replay_policy *other; /* NULL: none */
    /* A decision that the other policy takes otherwise, as a sentence. */
    void (*differs)(void *user, int64_t now_ms, struct str words);
    void *user;
};
struct player_result {
    size_t events; /* lines that are no cycles */
    size_t cycles;
    size_t binds;
    size_t evicts;
    size_t wrong;       /* cycles whose plan was not the recorded one */
    size_t wrong_line;  /* the first of them; 0: none */
    uint64_t hash;      /* of all plans */
    size_t differences; /* decisions that the other policy takes otherwise */
};
struct player *player_new(const struct player_options *options);
void player_free(struct player *player);
/* -EINVAL with the line's number and what is wrong with it. */
int player_line(struct player *player, struct str line, struct err *err);
void player_result(const struct player *player, struct player_result *ret);
