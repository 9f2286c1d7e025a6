#pragma once

#include "base/str.h"

#include <stdbool.h>

struct arena;
struct cel_program;
struct err;
struct json;

/* device: expressions that select devices (DeviceClass, ResourceClaim). They see one variable:
 *
 *     device.driver                             text
 *     device.attributes["DOMAIN"].NAME          a number, yes or no, text, or a version
 *     device.capacity["DOMAIN"].NAME            a quantity
 *     device.allowMultipleAllocations           yes or no
 *
 * A name without a domain is of the driver's. A domain that the device has nothing of is empty; a
 * name that it does not have is an error, and so is every answer but yes or no. */
#define CEL_DEVICE_TEXT_MAX 10240

/* The text lives as long as the program. -EINVAL: what is wrong with it. */
int cel_device_compile(struct arena *arena,
                       struct str text,
                       struct cel_program **ret,
                       struct err *err);
/* It may cost more than an evaluation may, by estimate. */
bool cel_device_is_too_complex(struct arena *arena, const struct cel_program *program);
/* `device`: as a ResourceSlice has it. -EINVAL: the expression has no answer for it. */
int cel_device_matches(const struct cel_program *program,
                       struct str driver,
                       const struct json *device,
                       bool *ret,
                       struct err *err);
