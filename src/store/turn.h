#pragma once

struct err;
struct store;

/* turn: what the store does once in every round of the loop, and the writer thread. */
void turn_run(struct store *store);
int turn_start(struct store *store, struct err *err);
void turn_stop(struct store *store);
