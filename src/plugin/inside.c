#include "plugin/inside.h"

#include "base/err.h"
#include "kube/inside.h"
#include "plugin/plugin.h"
#include "tool/term.h"

#include <termios.h>
#include <unistd.h>

/* What the command says goes to our own outputs. */
static bool inside_print(void *user, int fd, struct str bytes)
{
    struct session *session = user;

    term_write(fd == 1 ? &session->out : &session->err, bytes);
    return true;
}

int inside_become(struct session *session, const struct inside_command *command, struct err *err)
{
    struct termios before;
    bool raw = command->tty && tcgetattr(STDIN_FILENO, &before) == 0;
    struct inside_request request = {
        .ns = session->config.ns,
        .pod = command->pod,
        .container = command->container,
        .command = command->words,
        .command_count = command->count,
        .input_fd = command->input ? STDIN_FILENO : -1,
        .tty = raw,
        .output = inside_print,
        .user = session,
        .stop = command->stop,
    };

    if (raw) {
        struct termios now = before;

        cfmakeraw(&now);
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &now);
    }
    int r = inside_run(&session->loop, &session->config, &request, err);
    if (raw)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
    return r;
}
