#pragma once

struct admit;

/* selectors: the expressions of DeviceClasses, ResourceClaims and their templates are read when the
 * object is written; one that cannot be read is a cause, as everything else that is wrong. */
void selectors_check(struct admit *admit);
