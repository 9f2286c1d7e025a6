#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct gpu_page;

/* gpu_copy: has libmuster-gpu.so inside a process move GPU memory, by a page (api/gpu_page.h). What
 * the page says is not trusted: a process that lies about its own memory harms itself alone. Every
 * call may be repeated, by another helper too. */

/* The page of a process; NULL: the library has none there. It is the process's as long as it lives. */
struct gpu_page *gpu_copy_find(pid_t pid);
void gpu_copy_done(struct gpu_page *page);
/* Its memory is in host memory, and its calls to the driver are held. */
bool gpu_copy_is_away(const struct gpu_page *page);
/* What it could still move, and what is moved already, as it says. */
int64_t gpu_copy_held_mib(const struct gpu_page *page);
int64_t gpu_copy_away_mib(const struct gpu_page *page);
/* What is on the card beside what it moved, as it says; -1: it does not know. */
int64_t gpu_copy_left_mib(const struct gpu_page *page);
/* To host memory: 0, and *ret_mib is what is there now, also if that is nothing. Else err has words,
 * and the process runs as before. */
int gpu_copy_out(struct gpu_page *page, pid_t pid, int64_t *ret_mib, struct err *err);
/* Back, and the process goes on. Else err has words, and it is still held. */
int gpu_copy_in(struct gpu_page *page, pid_t pid, struct err *err);
