#pragma once

struct admit;
struct write;

/* submitter: whom a job is charged to is who made it, whatever the request says: a user name, of people
 * the one of `muster user`. What we make of a job is charged as that is. */
void submitter_admit(struct write *write, struct admit *admit);
