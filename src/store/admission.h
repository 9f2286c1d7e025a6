#pragma once

struct admit;
struct write;

/* admission: what an object gets from others: a default class, a priority, an address. */
int admission_run(struct write *write, struct admit *admit);
