#pragma once

struct harness;

/* Every rule is checked twice: on a file and on the in-memory twin. */
void rules_each(void (*rules)(struct harness *harness));
