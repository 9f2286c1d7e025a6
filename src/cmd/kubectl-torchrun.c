#include "plugin/plugin.h"
#include "tool/option.h"

#include <stddef.h>

/* kubectl-torchrun: on PATH, kubectl runs it as `kubectl torchrun`; it works alone as well. */
int main(int argc, char *argv[], char *envp[])
{
    static const struct command *const commands[] = {
        &command_run,         &command_submit,
        &command_list,        &command_status,
        &command_logs,        &command_sync,
        &command_pull,        &command_wait,
        &command_cancel,      &command_history,
        &command_report,      &command_suspend,
        &command_resume,      &command_scale,
        &command_restart,     &command_delete,
        &command_queues,      &command_explain,
        &command_top,         &command_exec,
        &command_checkpoints, &command_shell,
        &command_open_job,    &command_stop,
        &command_autopsy,     NULL,
    };
    static const struct program program = {
        .name = "kubectl torchrun",
        .summary = "save the file, run on N GPUs",
        .commands = commands,
    };

    return program_main(&program, argc, argv, envp);
}
