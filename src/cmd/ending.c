#include "cmd/ending.h"

#include "base/str.h"
#include "tool/turn.h"

#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

#define SIGNALS_MAX 32 /* SIGTERM, SIGINT and all others that are not of real time */

/* What a handler can know is what is here. */
static struct {
    const struct uv_loop_s *loop;
    unsigned after_s;
    struct sigaction before[SIGNALS_MAX];
} ending;

static void say(struct str text)
{
    ssize_t n = write(STDERR_FILENO, text.p, text.len);
    (void)n;
}

/* Only calls that a handler may make. */
static void on_alarm(int number)
{
    const struct turn_piece *piece = turn_now(ending.loop);

    (void)number;
    say(STR("muster: it did not end by itself after the signal, and ends now. "));
    if (piece) {
        say(STR("Its loop was held by "));
        say(piece->who);
        say(STR(": "));
        say(piece->verb);
        say(STR(" "));
        say(piece->what);
    } else {
        say(STR("A thread of it was waited for"));
    }
    say(STR("\n"));
    _exit(EXIT_FAILURE);
}

static void on_signal(int number)
{
    if (ending.before[number].sa_handler)
        ending.before[number].sa_handler(number);
    (void)alarm(ending.after_s);
}

void ending_watch(const struct uv_loop_s *loop, int number, unsigned after_s)
{
    struct sigaction now;

    ending.loop = loop;
    ending.after_s = after_s;
    if (number >= SIGNALS_MAX || sigaction(number, NULL, &now) < 0)
        return;
    ending.before[number] = now;
    now.sa_handler = on_signal;
    (void)sigaction(number, &now, NULL);
    struct sigaction alarm_action = {.sa_handler = on_alarm};
    (void)sigaction(SIGALRM, &alarm_action, NULL);
}
