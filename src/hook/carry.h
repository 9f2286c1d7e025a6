#pragma once

struct api_request;
struct api_user;
struct arena;
struct json;

/* carry: what a write that waits takes along. */

/* `to` becomes `from`, but for what the server gives an object: that is not the webhooks' to change.
 */
void carry_object(struct arena *arena, struct json *to, const struct json *from);

/* A request that lives as long as the arena; its user is kept in `user`. Its guard is not copied. */
void carry_request(struct arena *arena,
                   const struct api_request *from,
                   struct api_request *to,
                   struct api_user *user);
