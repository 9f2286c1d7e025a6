#pragma once

#include <stdbool.h>
#include <stddef.h>

/* shell: starting other programs the way a person at a prompt would. */

/* Signals that are handed on to the training instead of ending us. */
extern const int launch_signals[];
extern const size_t launch_signal_count;

/* Become a shell that runs `script` (bash where there is one). Returns only by _exit(127). */
void shell_exec(const char *script) __attribute__((noreturn));
/* The same with $0 and one argument set. */
void shell_exec_with(const char *script, const char *zero) __attribute__((noreturn));

/* First file of that name in PATH that can be executed; false when there is none. */
bool shell_which(const char *name, char *out, size_t out_bytes);
/* What argv prints, first line, newline cut; false unless it exits 0. The program's own complaints
 * are dropped. */
bool shell_capture(const char *const *argv, char *out, size_t out_bytes);
