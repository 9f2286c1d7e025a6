#include "cmd/muster.h"

#include "plugin/plugin.h"
#include "tool/option.h"

#include <stddef.h>

/* muster: one file a subcommand; this one only lists them. What people do with jobs is the same
 * code as kubectl-torchrun's. */
int main(int argc, char *argv[], char *envp[])
{
    static const struct command *const commands[] = {
        &command_run,
        &command_submit,
        &command_list,
        &command_status,
        &command_logs,
        &command_wait,
        &command_cancel,
        &command_pull,
        &command_sync,
        &command_suspend,
        &command_resume,
        &command_scale,
        &command_restart,
        &command_delete,
        &command_top,
        &command_exec,
        &command_shell,
        &command_checkpoints,
        &command_autopsy,
        &command_stop,
        &command_history,
        &command_report,
        &command_up,
        &command_doctor,
        &command_store,
        &command_backup,
        &command_restore,
        &command_support,
        &command_kubeconfig,
        &command_queues,
        &command_explain,
        &command_gpu,
        &command_image,
        &command_operator,
        &command_checkpoint, /* the agent calls it */
        &command_reserve,
        &command_hollow_nodes,
        &command_simulate,
        &command_replay,
        &command_user,
        &command_open,
        NULL,
    };
    static const struct program muster = {
        .name = "muster",
        .summary = "distributed PyTorch training on Kubernetes, and on one machine without it",
        .commands = commands,
    };

    return program_main(&muster, argc, argv, envp);
}
