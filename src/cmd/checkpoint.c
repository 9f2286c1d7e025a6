#include "agent/checkpoint.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "cmd/muster.h"
#include "tool/files.h"
#include "tool/option.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/types.h>
#include <unistd.h>

/* muster checkpoint-gpu out|in FILE WORD...: the agent's helper, see agent/checkpoint.h. A word is
 * a process id, or the UUID of a card. FILE gets one line, "ok out|in PROCESSES MIB COPIED NOTE" or
 * "failed WORDS".
 *
 * A muster that was killed leaves its helper at work, and the next one starts another. Both at once
 * would take back what the other does: the second waits for the first, and what that one has done is
 * not done again. */

#define WORDS_MAX   8192
#define REPORT_MAX  512
#define LOCK_SUFFIX ".lock"

static void checkpoint_wait(struct arena *arena, const char *file)
{
    int fd = open(str_printf(arena, "%s" LOCK_SUFFIX, file).p, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    while (fd >= 0 && flock(fd, LOCK_EX) < 0 && errno == EINTR)
        ;
}

static bool checkpoint_done(const char *file, const char *direction)
{
    _cleanup_(buf_done) struct buf text = {0};
    char done[16] = "";

    if (!files_read(file, REPORT_MAX, &text))
        return false;
    buf_addc(&text, '\0');
    return sscanf(text.p, "ok %15s", done) == 1 && strcmp(done, direction) == 0;
}

static const struct option checkpoint_options[] = {{0}};

static int checkpoint_run(struct invocation *invocation)
{
    struct arena *arena = invocation->arena;
    const char **cards = ARENA_ARRAY(arena, const char *, invocation->arg_count);
    pid_t *pids = ARENA_ARRAY(arena, pid_t, invocation->arg_count);
    struct checkpoint_order order = {
        .out = strcmp(invocation->args[0], "out") == 0, .cards = cards, .pids = pids};
    struct checkpoint_report report;
    struct err err = {0};

    for (size_t i = 2; i < invocation->arg_count; i++) {
        int64_t pid = 0;

        if (str_to_i64(str_from(invocation->args[i]), &pid))
            pids[order.pid_count++] = (pid_t)pid;
        else if (order.card_count < CHECKPOINT_CARDS_MAX)
            cards[order.card_count++] = invocation->args[i];
    }
    (void)alarm(CHECKPOINT_LIMIT_S); /* the driver may never answer */
    checkpoint_wait(arena, invocation->args[1]);
    if (checkpoint_done(invocation->args[1], invocation->args[0]))
        return EXIT_SUCCESS;
    int r = checkpoint_do(&order, &report, &err);
    struct str words = r ? str_printf(arena, "failed %s\n", err.text)
                         : str_printf(arena, "ok %s %lld %lld %lld %s\n", invocation->args[0],
                                      (long long)report.processes, (long long)report.moved_mib,
                                      (long long)report.copied_mib, report.note);
    if (files_write(invocation->args[1], words, 0600, &err) < 0) {
        (void)fprintf(stderr, "muster " CHECKPOINT_COMMAND ": %s\n", err.text);
        return EXIT_FAILURE;
    }
    return r ? EXIT_FAILURE : EXIT_SUCCESS;
}

const struct command command_checkpoint = {
    .name = CHECKPOINT_COMMAND,
    .summary = "move what processes have on GPUs to host memory, or back",
    .usage = "out|in FILE PID|UUID...",
    .options = checkpoint_options,
    .values_size = 1,
    .args_min = 2,
    .args_max = WORDS_MAX,
    .run = checkpoint_run,
    .hidden = true,
};
