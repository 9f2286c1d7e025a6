#pragma once

struct json;
struct write;

/* keep: what a write cannot change, whoever brings it. */

/* `root`, or another tree, with everything of `old` that a write of this part of it leaves alone. */
struct json *keep_old(struct write *write, struct json *root, const struct json *old);
/* A node tells its status when it registers; everybody else starts without one. */
void keep_no_status(const struct write *write, struct json *root);
/* Of an object that webhooks changed, in its place; `old` may be NULL. They change no more than who
 * writes it may: Kubernetes, too, prepares an object after it has asked them. */
void keep_reviewed(struct write *write, struct json *object, const struct json *old);
