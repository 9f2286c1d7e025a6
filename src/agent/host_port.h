#pragma once

#include <stdbool.h>

struct json;

/* host_port: the ports of the machine that pods want for themselves. Pure. */

/* The port that both of these pod specs want: the same number and protocol, at the same address or at
 * all of them. 0: there is none. */
int host_port_common(const struct json *spec, const struct json *other);

/* Does the pod want any? */
bool host_port_any(const struct json *spec);
