#pragma once

struct cel_compile;
struct cel_node;
struct err;

/* A call that is said by constants alone shows what is wrong with it before it is asked: conversions,
 * and format(), of which the clauses are known as soon as its text is. */
int constant_check(const struct cel_compile *compile, const struct cel_node *call, struct err *err);
