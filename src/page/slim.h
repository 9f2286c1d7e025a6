#pragma once

struct json;

/* slim: what the page needs of an object. A pod is some 5 KiB and a cluster has 10,000; who runs
 * where, with what and how it went is a tenth of it. Takes `object` apart: its tree is the caller's
 * own. */
struct json *slim(struct json *object);
