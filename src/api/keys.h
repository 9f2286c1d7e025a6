#pragma once

struct admit;
struct kinds;

/* keys: labels and annotations that mean something here, on an object and in its templates.
 *
 * A key is free text, so nothing refuses one that is misspelt, stands among labels where it is read as
 * an annotation, says what its reader does not know, or speaks to a program that is not here. Whoever
 * writes such a one is warned. `kinds`: of the embedded server, which knows whether Kueue, Volcano
 * and the like are there; NULL: somebody else does. What was made for another object is let be. */
void keys_warn(struct admit *admit, const struct kinds *kinds);
