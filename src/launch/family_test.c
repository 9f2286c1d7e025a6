#include "launch/family.h"
#include "test.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* A process with a child that waits until it is killed, and does not wait for it. */
static pid_t family_start(pid_t *ret_child)
{
    int ends[2];
    pid_t child = 0;

    EXPECT(pipe(ends) == 0);
    pid_t parent = fork();
    if (parent == 0) {
        child = fork();
        if (child != 0 && write(ends[1], &child, sizeof(child)) != sizeof(child))
            _exit(1);
        for (;;)
            (void)pause();
    }
    EXPECT(read(ends[0], &child, sizeof(child)) == sizeof(child));
    close(ends[0]);
    close(ends[1]);
    *ret_child = child;
    return parent;
}

static void on_signal(int number)
{
    (void)number;
    _exit(7);
}

/* A training with a handler, and a data loader that has inherited it. */
TEST(a_signal_is_handed_on_to_who_has_a_handler_and_not_to_what_that_started)
{
    int ends[2];
    pid_t loader = 0;
    int status = 0;

    EXPECT(!family_hand_on(SIGUSR1));
    EXPECT(pipe(ends) == 0);
    pid_t training = fork();
    if (training == 0) {
        (void)signal(SIGUSR1, on_signal);
        loader = fork();
        if (loader != 0 && write(ends[1], &loader, sizeof(loader)) != sizeof(loader))
            _exit(1);
        for (;;)
            (void)pause();
    }
    EXPECT(read(ends[0], &loader, sizeof(loader)) == sizeof(loader));
    EXPECT(!family_hand_on(SIGUSR2)); /* nobody would survive it */
    EXPECT(family_hand_on(SIGUSR1));
    EXPECT(waitpid(training, &status, 0) == training && WEXITSTATUS(status) == 7);
    EXPECT(kill(loader, 0) == 0);
    EXPECT(kill(loader, SIGKILL) == 0);
    close(ends[0]);
    close(ends[1]);
}

TEST(a_child_that_has_ended_and_was_not_waited_for_is_no_child)
{
    pid_t child;
    pid_t parent = family_start(&child);

    EXPECT(family_has_child(parent));
    EXPECT(kill(child, SIGKILL) == 0);
    while (family_has_child(parent)) /* it ends when the system gets to it */
        ;
    EXPECT(kill(child, 0) == 0); /* and is still there */
    EXPECT(kill(parent, SIGKILL) == 0 && waitpid(parent, NULL, 0) == parent);
}
