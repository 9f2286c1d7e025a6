#pragma once

struct buf;
struct err;
struct json;
struct pod;

/* security: who a container runs as and what it may do, from the securityContexts, as records. */
int security_add(struct pod *pod,
                 const struct json *container,
                 struct buf *records,
                 struct err *err);
