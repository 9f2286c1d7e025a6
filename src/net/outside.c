#include "net/outside.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "net/address.h"
#include "tool/files.h"

#include <fcntl.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define NFT_BYTES 1024

static const char *nft_program(void)
{
    static const char *const paths[] = {"/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft"};
    for (size_t i = 0; i < COUNT_OF(paths); i++)
        if (access(paths[i], X_OK) == 0)
            return paths[i];
    return NULL;
}

static bool machine_forwards(void)
{
    _cleanup_(buf_done) struct buf text = {0};
    return files_read("/proc/sys/net/ipv4/ip_forward", 8, &text) && text.len && text.p[0] == '1';
}

static bool nft_run(const char *rules)
{
    posix_spawn_file_actions_t actions;
    char program[64], flag[] = "-f", dash[] = "-";
    int pair[2], status = -1;
    pid_t pid;
    if (!nft_program() || pipe2(pair, O_CLOEXEC) < 0)
        return false;
    (void)snprintf(program, sizeof(program), "%s", nft_program());
    char *argv[] = {program, flag, dash, NULL}, *envp[] = {NULL};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pair[0], 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    int r = posix_spawn(&pid, program, &actions, NULL, argv, envp);
    posix_spawn_file_actions_destroy(&actions);
    close(pair[0]);
    /* Far below what a pipe holds. */
    ssize_t n = r == 0 ? write(pair[1], rules, strlen(rules)) : -1;
    close(pair[1]);
    if (r == 0)
        (void)waitpid(pid, &status, 0);
    return n == (ssize_t)strlen(rules) && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

const char *outside_missing(void)
{
    if (!nft_program())
        return "install nftables";
    return machine_forwards() ? NULL : "sysctl net.ipv4.ip_forward=1";
}

bool outside_open(const char *bridge, uint32_t base, int prefix)
{
    char rules[NFT_BYTES], from[ADDRESS_BYTES];
    address_v4_text(base, from);
    (void)snprintf(rules, sizeof(rules),
                   "table ip %s\ndelete table ip %s\ntable ip %s {\n chain out {\n"
                   "  type nat hook postrouting priority 100;\n"
                   "  ip saddr %s/%d oifname != \"%s\" masquerade\n }\n}\n",
                   bridge, bridge, bridge, from, prefix, bridge);
    return machine_forwards() && nft_run(rules);
}

void outside_close(const char *bridge)
{
    char rules[64];
    (void)snprintf(rules, sizeof(rules), "delete table ip %s\n", bridge);
    (void)nft_run(rules);
}
