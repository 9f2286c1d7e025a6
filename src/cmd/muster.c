#include "cmd/muster.h"

#include "tool/option.h"

#include <stddef.h>

/* muster: one file a subcommand; this one only lists them. */
int main(int argc, char *argv[], char *envp[])
{
    static const struct command *const commands[] = {
        &command_up,         &command_doctor,       &command_store,
        &command_kubeconfig, &command_queues,       &command_explain_wait,
        &command_gpu,        &command_image,        &command_operator,
        &command_reserve,    &command_hollow_nodes, &command_simulate,
        &command_replay,     &command_user,         NULL,
    };
    static const struct program muster = {
        .name = "muster",
        .summary = "distributed PyTorch training on Kubernetes, and on one machine without it",
        .commands = commands,
    };

    return program_main(&muster, argc, argv, envp);
}
