#pragma once

#include "base/str.h"

struct admit;
struct json;
struct write;

/* quota: ResourceQuotas and LimitRanges of a namespace. */

/* Amounts that the LimitRanges of the namespace give to a new pod. */
void quota_fill(struct write *write, struct json *pod);
/* Why LimitRanges or ResourceQuotas of the namespace do not let the object in; empty: they do. */
struct str quota_refusal(struct write *write, const struct admit *admit);
