#pragma once

struct err;
struct store;

/* turn: what the store does once in every round of the loop, and the writer thread. */
void turn_run(struct store *store);
/* From now on writes are refused with these words; -ENOSPC: until there is room. */
void turn_read_only(struct store *store, int code, const struct err *err);
int turn_start(struct store *store, struct err *err);
void turn_stop(struct store *store);
