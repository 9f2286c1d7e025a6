#include "net/bridge.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "net/outside.h"
#include "shim/netlink.h"
#include "shim/record.h"
#include "tool/files.h"
#include "tool/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define BASE_FIRST   0x0ac80000u /* 10.200.0.0 */
#define BASE_COUNT   40
#define PREFIX       16
#define SERVICE_HALF 0x8000u

/* Behind the base. */
#define POD_FIRST     0x0002u
#define API           0x8001u
#define SERVICE_FIRST 0x8002u
#define SERVICE_COUNT 0x7ff0u

#define DIGITS 8

struct bridge {
    const char *data_dir;
    char name[16];
    uint32_t index;
    uint32_t base; /* 10.X.0.0 */
    bool outside;  /* pods are masqueraded */
};

void bridge_node_address(const struct bridge *bridge, char out[static ADDRESS_BYTES])
{
    address_v4_text(bridge ? bridge->base + 1 : INADDR_LOOPBACK, out);
}

void bridge_api_address(const struct bridge *bridge, char out[static ADDRESS_BYTES])
{
    address_v4_text(bridge ? bridge->base + API : INADDR_LOOPBACK, out);
}

uint32_t bridge_base(const struct bridge *bridge)
{
    return bridge ? bridge->base : 0;
}

uint32_t bridge_pod_first(const struct bridge *bridge)
{
    return bridge ? bridge->base + POD_FIRST : 0;
}

struct service_network bridge_services(const struct bridge *bridge)
{
    return bridge ? (struct service_network){bridge->base + SERVICE_FIRST, SERVICE_COUNT}
                  : SERVICE_LOOPBACK;
}

/* ---- which addresses ---- */

/* Does an interface of the machine have addresses of base/16? */
static bool base_is_used(const struct ifaddrs *list, uint32_t base, const char *own)
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
static int bridge_choose_base(struct bridge *bridge, struct err *err)
{
    char path[PATH_MAX], text[16];
    struct ifaddrs *list = NULL;
    _cleanup_(buf_done) struct buf kept = {0};
    uint64_t number;
    (void)snprintf(path, sizeof(path), "%s/network", bridge->data_dir);
    if (getifaddrs(&list) < 0)
        return err_set(err, -errno, "cannot list the machine's addresses");
    if (files_read(path, sizeof(text), &kept) && str_to_u64(str_trim(buf_str(&kept)), &number) &&
        number < 256)
        bridge->base = 0x0a000000u | (uint32_t)number << 16;
    if (!bridge->base || base_is_used(list, bridge->base, bridge->name)) {
        bridge->base = 0;
        uint64_t start = str_hash(str_from(bridge->data_dir), 3);
        for (uint32_t i = 0; i < BASE_COUNT && !bridge->base; i++) {
            uint32_t base = BASE_FIRST + (uint32_t)((start + i) % BASE_COUNT) * 0x10000u;
            bridge->base = base_is_used(list, base, bridge->name) ? 0 : base;
        }
    }
    freeifaddrs(list);
    if (!bridge->base)
        return err_set(err, -EADDRINUSE, "10.200.0.0 to 10.239.0.0 are all in use on this machine");
    (void)snprintf(text, sizeof(text), "%u\n", bridge->base >> 16 & 255);
    return files_write(path, str_from(text), 0644, err);
}

/* ---- the bridge ---- */

static int bridge_make(struct bridge *bridge, struct netlink *netlink, struct err *err)
{
    const char *folder = bridge->data_dir;
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

static int bridge_open(struct bridge *bridge, bool permitted, struct err *err)
{
    struct netlink netlink;
    if (!permitted)
        return err_set(err, -EPERM, "it needs root and namespaces; run muster doctor");
    (void)snprintf(bridge->name, sizeof(bridge->name), BRIDGE_PREFIX "%0*llx", DIGITS,
                   (unsigned long long)(str_hash(str_from(bridge->data_dir), 4) & 0xffffffffu));
    int r = bridge_choose_base(bridge, err);
    if (r)
        return r;
    r = netlink_open(&netlink);
    if (r)
        return err_set(err, r, "no netlink socket: %s", strerrordesc_np(-r));
    r = bridge_make(bridge, &netlink, err);
    netlink_close(&netlink);
    return r;
}

const char *bridge_missing(bool permitted)
{
    return permitted ? outside_missing() : "run as root";
}

int bridge_start(const struct bridge_options *options, struct bridge **ret, struct err *err)
{
    struct err why = {0};
    *ret = NULL;
    if (options->wish == BRIDGE_NEVER)
        return 0;
    /* Pods that cannot download their data are worse off than pods that share the host's network.
     */
    const char *missing = options->wish == BRIDGE_AUTO ? bridge_missing(options->permitted) : NULL;
    if (missing && options->permitted) /* who could have had one is told what it lacks */
        log_warn(options->log, "network.host", LOG_C("missing", missing),
                 LOG_C("do", "that; or --pod-network=bridge, if pods need not reach the outside"));
    if (missing)
        return 0;
    struct bridge *bridge = MEM_NEW(struct bridge);
    bridge->data_dir = options->data_dir;
    int r = bridge_open(bridge, options->permitted, &why);
    if (r) {
        mem_free(bridge);
        if (options->wish == BRIDGE_ALWAYS)
            return err_set(err, r, "pod network: %s", why.text);
        log_warn(options->log, "network.host", LOG_ERR(&why));
        return 0;
    }
    bridge->outside = outside_open(bridge->name, bridge->base, PREFIX);
    char node[ADDRESS_BYTES];
    bridge_node_address(bridge, node);
    log_info(options->log, "network.bridge", LOG_C("name", bridge->name), LOG_C("node", node),
             LOG_I64("outside", bridge->outside));
    *ret = bridge;
    return 0;
}

void bridge_stop(struct bridge *bridge, bool in_use)
{
    struct netlink netlink;
    if (!bridge)
        return;
    if (!in_use && bridge->outside)
        outside_close(bridge->name);
    if (!in_use && netlink_open(&netlink) == 0) {
        (void)netlink_remove(&netlink, bridge->name);
        netlink_close(&netlink);
    }
    mem_free(bridge);
}

void bridge_add(const struct bridge *bridge, struct str uid, const char *ip, struct buf *records)
{
    char gateway[ADDRESS_BYTES], name[16];
    bridge_node_address(bridge, gateway);
    /* Fifteen characters are what an interface's name may have. */
    (void)snprintf(name, sizeof(name), BRIDGE_PREFIX "%0*llx", DIGITS + 4,
                   (unsigned long long)(str_hash(uid, bridge->index) & 0xffffffffffffu));
    record_add(records, "ns", STR("net"));
    record_number(records, "net.bridge", bridge->index);
    record_add(records, "net.name", str_from(name));
    record_add(records, "net.address", str_from(ip));
    record_number(records, "net.prefix", PREFIX);
    record_add(records, "net.gateway", str_from(gateway));
}
