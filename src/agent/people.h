#pragma once

#include "api/people.h"

#include <stdbool.h>

struct agent;
struct buf;
struct err;
struct pod;

/* people: pods of a namespace that is a person's (api/people.h), on this machine. */

/* Whose pod it is; false: the owner's. */
bool people_find(const struct pod *pod, struct person *ret);
/* -ENOTSUP: this machine runs no such pod of hers; -ENETDOWN: not as muster was started, so it waits for
 * another start; -EAGAIN: its namespace is not known yet. */
int people_check(const struct pod *pod, struct err *err);
/* What a container of hers sees of home folders: her own, as records; nothing for the owner's. */
void people_homes(const struct pod *pod, struct buf *records);
