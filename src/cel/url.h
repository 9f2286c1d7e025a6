#pragma once

#include "base/str.h"

#include <stdbool.h>

/* url: url() and what it has, read as Go's net/url does, which Kubernetes uses. */

/* An absolute URL, or a path that begins with a slash. */
bool url_is(struct str text);
