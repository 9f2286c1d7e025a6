#pragma once

#include <linux/filter.h>
#include <stddef.h>

/* filter: what a container may ask of the kernel, as a program of seccomp. Libc only, pure.
 *
 * The kernel runs the program for every system call there is when it is installed, to know those that
 * are always allowed: a list that is walked from its first line to its last would cost each container some
 * 0.1 ms. So the numbers are searched for, by halves. */
#define FILTER_MAX 192

/* Returns how many instructions there are in `out`. */
size_t filter_make(struct sock_filter out[static FILTER_MAX]);
