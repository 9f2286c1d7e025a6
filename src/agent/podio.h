#pragma once

#include "api/podio.h"

/* podio: the agent's side of api/podio.h, as one table. */
extern const struct podio_ops streams_ops;
