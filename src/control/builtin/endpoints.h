#pragma once

struct actions;
struct control_input;
struct object;

/* endpoints: the addresses behind Services. What somebody wrote into the Endpoints of a Service
 * without a selector is shown in EndpointSlices too; NULL is fine. */
void endpoints_mirror(const struct control_input *input,
                      const struct object *endpoints,
                      struct actions *actions);
