#include "agent/bridge.h"

#include "agent/internal.h"
#include "base/count.h"
#include "base/json.h"
#include "shim/netlink.h"
#include "shim/record.h"
#include "tool/files.h"
#include "tool/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BASE_FIRST   0x0ac80000u /* 10.200.0.0 */
#define BASE_COUNT   40
#define PREFIX       16
#define SERVICE_HALF 0x8000u
#define RESOLV_BYTES 4096
#define NFT_BYTES    1024
#define DIGITS       8

static void address_text(uint32_t address, char out[static 16])
{
    (void)snprintf(out, 16, "%u.%u.%u.%u", address >> 24, address >> 16 & 255, address >> 8 & 255,
                   address & 255);
}

void bridge_node_address(const struct agent *agent, char out[static 16])
{
    address_text(agent->bridge.on ? agent->bridge.base + 1 : INADDR_LOOPBACK, out);
}

bool bridge_has(const struct pod *pod)
{
    return pod->agent->bridge.on && !json_bool_or(json_at(pod->root, "spec.hostNetwork"), false);
}

/* ---- which addresses ---- */

/* Does an interface of the machine have addresses of base/16? */
static bool is_used(const struct ifaddrs *list, uint32_t base, const char *own)
{
    for (const struct ifaddrs *at = list; at; at = at->ifa_next) {
        if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET || strcmp(at->ifa_name, own) == 0)
            continue;
        struct sockaddr_in address, mask = {0};
        memcpy(&address, at->ifa_addr, sizeof(address));
        if (at->ifa_netmask)
            memcpy(&mask, at->ifa_netmask, sizeof(mask));
        uint32_t both = ntohl(mask.sin_addr.s_addr) & 0xffff0000u;
        if (both && (ntohl(address.sin_addr.s_addr) & both) == (base & both))
            return true;
    }
    return false;
}

/* The range is kept in the data folder: pods outlive muster, and keep their addresses. */
static int choose_base(struct agent *agent, struct err *err)
{
    struct bridge *bridge = &agent->bridge;
    char path[PATH_MAX], text[16];
    struct ifaddrs *list = NULL;
    _cleanup_(buf_done) struct buf kept = {0};
    uint64_t number;
    (void)snprintf(path, sizeof(path), "%s/network", agent->options.data_dir);
    if (getifaddrs(&list) < 0)
        return err_set(err, -errno, "cannot list the machine's addresses");
    if (files_read(path, sizeof(text), &kept) && str_to_u64(str_trim(buf_str(&kept)), &number) &&
        number < 256)
        bridge->base = 0x0a000000u | (uint32_t)number << 16;
    if (!bridge->base || is_used(list, bridge->base, bridge->name)) {
        bridge->base = 0;
        uint64_t start = str_hash(str_from(agent->options.data_dir), 3);
        for (uint32_t i = 0; i < BASE_COUNT && !bridge->base; i++) {
            uint32_t base = BASE_FIRST + (uint32_t)((start + i) % BASE_COUNT) * 0x10000u;
            bridge->base = is_used(list, base, bridge->name) ? 0 : base;
        }
    }
    freeifaddrs(list);
    if (!bridge->base)
        return err_set(err, -EADDRINUSE, "10.200.0.0 to 10.239.0.0 are all in use on this machine");
    (void)snprintf(text, sizeof(text), "%u\n", bridge->base >> 16 & 255);
    return files_write(path, str_from(text), 0644, err);
}

/* ---- the way outside ---- */

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

static bool run_nft(const char *rules)
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

/* A table of our own: nothing of anybody else's rules is touched. */
static bool open_outside(const struct bridge *bridge)
{
    char rules[NFT_BYTES], base[16];
    address_text(bridge->base, base);
    (void)snprintf(rules, sizeof(rules),
                   "table ip %s\ndelete table ip %s\ntable ip %s {\n chain out {\n"
                   "  type nat hook postrouting priority 100;\n"
                   "  ip saddr %s/%d oifname != \"%s\" masquerade\n }\n}\n",
                   bridge->name, bridge->name, bridge->name, base, PREFIX, bridge->name);
    return machine_forwards() && run_nft(rules);
}

static void close_outside(const struct bridge *bridge)
{
    char rules[64];
    (void)snprintf(rules, sizeof(rules), "delete table ip %s\n", bridge->name);
    if (bridge->outside)
        (void)run_nft(rules);
}

void bridge_resolv_conf(struct buf *out)
{
    static const char *const paths[] = {"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"};
    _cleanup_(buf_done) struct buf text = {0};
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        struct str rest, line;
        bool found = false;
        if (!files_read(paths[i], RESOLV_BYTES, &text))
            continue;
        rest = buf_str(&text);
        while (str_cut(&rest, '\n', &line)) {
            bool server = str_starts(line, STR("nameserver"));
            /* One on the host's loopback does not answer in another namespace. */
            if (server && str_starts(str_trim(str_sub(line, 10, line.len)), STR("127.")))
                continue;
            found = found || server;
            buf_add(out, line);
            buf_addc(out, '\n');
        }
        if (found)
            return;
        buf_clear(out);
    }
}

/* ---- the bridge ---- */

static int make_bridge(struct agent *agent, struct netlink *netlink, struct err *err)
{
    struct bridge *bridge = &agent->bridge;
    const char *folder = agent->options.data_dir;
    char alias[256];
    int r = netlink_add_bridge(netlink, bridge->name, folder);
    if (r && r != -EEXIST)
        return err_set(err, r, "cannot create the bridge %s: %s", bridge->name,
                       strerrordesc_np(-r));
    int index = netlink_find(netlink, bridge->name, alias, sizeof(alias));
    if (index < 0)
        return err_set(err, index, "the bridge %s is gone", bridge->name);
    if (strncmp(alias, folder, strlen(alias)) != 0)
        return err_set(err, -EEXIST, "the bridge %s belongs to %s", bridge->name, alias);
    bridge->index = (uint32_t)index;
    r = netlink_add_address(netlink, bridge->index, bridge->base + 1, PREFIX);
    if (r == 0)
        r = netlink_add_local_route(netlink, bridge->index, bridge->base + SERVICE_HALF,
                                    PREFIX + 1);
    return r ? err_set(err, r, "cannot give the bridge %s its addresses: %s", bridge->name,
                       strerrordesc_np(-r))
             : 0;
}

static int start(struct agent *agent, struct err *err)
{
    struct bridge *bridge = &agent->bridge;
    struct netlink netlink;
    if (!agent->machine.root || !agent->machine.mount_ns)
        return err_set(err, -EPERM, "it needs root and namespaces; run muster doctor");
    (void)snprintf(
        bridge->name, sizeof(bridge->name), BRIDGE_PREFIX "%0*llx", DIGITS,
        (unsigned long long)(str_hash(str_from(agent->options.data_dir), 4) & 0xffffffffu));
    int r = choose_base(agent, err);
    if (r)
        return r;
    r = netlink_open(&netlink);
    if (r)
        return err_set(err, r, "no netlink socket: %s", strerrordesc_np(-r));
    r = make_bridge(agent, &netlink, err);
    netlink_close(&netlink);
    return r;
}

const char *bridge_missing(const struct machine *machine)
{
    if (!machine->root || !machine->mount_ns)
        return "run as root";
    if (!nft_program())
        return "install nftables";
    return machine_forwards() ? NULL : "sysctl net.ipv4.ip_forward=1";
}

int bridge_start(struct agent *agent, struct err *err)
{
    struct bridge *bridge = &agent->bridge;
    struct err why = {0};
    int wish = agent->options.network;
    if (wish == AGENT_NETWORK_HOST)
        return 0;
    /* Pods that cannot download their data are worse off than pods that share the host's network.
     */
    if (wish == AGENT_NETWORK_AUTO && bridge_missing(&agent->machine))
        return 0;
    int r = start(agent, &why);
    if (r) {
        if (wish == AGENT_NETWORK_BRIDGE)
            return err_set(err, r, "pod network: %s", why.text);
        log_warn(agent->log, "network.host", LOG_ERR(&why));
        return 0;
    }
    bridge->on = true;
    bridge->outside = open_outside(bridge);
    char node[16];
    bridge_node_address(agent, node);
    log_info(agent->log, "network.bridge", LOG_C("name", bridge->name), LOG_C("node", node),
             LOG_I64("outside", bridge->outside));
    return 0;
}

void bridge_stop(struct agent *agent)
{
    struct bridge *bridge = &agent->bridge;
    struct netlink netlink;
    if (!bridge->on)
        return;
    MAP_FOREACH(&agent->pods, entry) {
        const struct pod *pod = entry->value;
        if (pod->link.open)
            return; /* it goes on, and needs both */
    }
    close_outside(bridge);
    if (netlink_open(&netlink) == 0) {
        (void)netlink_remove(&netlink, bridge->name);
        netlink_close(&netlink);
    }
    bridge->on = false;
}

void bridge_add(const struct pod *pod, struct buf *records)
{
    const struct bridge *bridge = &pod->agent->bridge;
    char gateway[16], name[16];
    if (!bridge_has(pod))
        return;
    bridge_node_address(pod->agent, gateway);
    /* Fifteen characters are what an interface's name may have. */
    (void)snprintf(name, sizeof(name), BRIDGE_PREFIX "%0*llx", DIGITS + 4,
                   (unsigned long long)(str_hash(pod->uid, bridge->index) & 0xffffffffffffu));
    record_add(records, "ns", STR("net"));
    record_number(records, "net.bridge", bridge->index);
    record_add(records, "net.name", str_from(name));
    record_add(records, "net.address", str_from(pod->ip));
    record_number(records, "net.prefix", PREFIX);
    record_add(records, "net.gateway", str_from(gateway));
}
