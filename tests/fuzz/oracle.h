#pragma once

#include "base/str.h"

struct buf;

/* oracle: what jansson makes of a text, for comparing. */
enum oracle {
    ORACLE_ABSENT,  /* built without jansson */
    ORACLE_REFUSED, /* not JSON */
    ORACLE_LIMITED, /* JSON that jansson cannot hold: large numbers, NUL, lone surrogates, depth */
    ORACLE_READ,
};

/* Writes the tree in a form that both sides can produce: compact, whole numbers that fit 64 bits as
 * such, others by oracle_real(). */
enum oracle oracle_json(struct str text, struct buf *ret_canonical);
/* A number with fraction or exponent, written so that equal doubles are equal texts. */
void oracle_real(struct buf *buf, double value);
