#include "shim/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MESSAGE_BYTES 1024 /* the largest one, a pair, has some 200 */
#define ANSWER_BYTES  16384
#define ALIAS_BYTES   255 /* what the kernel keeps of an alias */
#define ERRNO_MAX     4095

/* One request under construction. */
struct message {
    union {
        struct nlmsghdr header;
        char bytes[MESSAGE_BYTES];
    };
};

int netlink_open(struct netlink *netlink)
{
    *netlink = (struct netlink){.fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)};
    return netlink->fd < 0 ? -errno : 0;
}

void netlink_close(struct netlink *netlink)
{
    if (netlink->fd >= 0)
        close(netlink->fd);
    netlink->fd = -1;
}

static void begin(struct message *message, int type, int flags, const void *body, size_t size)
{
    memset(message, 0, sizeof(*message));
    message->header.nlmsg_type = (uint16_t)type;
    message->header.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags);
    message->header.nlmsg_len = (uint32_t)(NLMSG_HDRLEN + NLMSG_ALIGN(size));
    memcpy(message->bytes + NLMSG_HDRLEN, body, size);
}

/* Returns where the attribute is, for those that hold others. */
static size_t add(struct message *message, int type, const void *data, size_t size)
{
    size_t at = message->header.nlmsg_len;
    struct rtattr attribute = {.rta_len = (uint16_t)RTA_LENGTH(size), .rta_type = (uint16_t)type};
    if (at + RTA_SPACE(size) > sizeof(message->bytes))
        return at; /* cannot be: names are bounded */
    memcpy(message->bytes + at, &attribute, sizeof(attribute));
    if (size)
        memcpy(message->bytes + at + RTA_LENGTH(0), data, size);
    message->header.nlmsg_len += (uint32_t)RTA_SPACE(size);
    return at;
}

static void add_text(struct message *message, int type, const char *text)
{
    (void)add(message, type, text, strlen(text) + 1);
}

static void add_number(struct message *message, int type, uint32_t number)
{
    (void)add(message, type, &number, sizeof(number));
}

static void add_address(struct message *message, int type, uint32_t address)
{
    add_number(message, type, htonl(address));
}

static void end(struct message *message, size_t at)
{
    uint16_t size = (uint16_t)(message->header.nlmsg_len - at);
    memcpy(message->bytes + at, &size, sizeof(size));
}

/* 0 or -errno of an acknowledgement, whatever it says: callers take what is above 0 for an index. */
static int acknowledgement_read(const char *bytes, size_t size)
{
    struct nlmsgerr error;
    if (size < NLMSG_LENGTH(sizeof(error)))
        return -EBADMSG;
    memcpy(&error, bytes + NLMSG_HDRLEN, sizeof(error));
    return error.error > 0 || error.error < -ERRNO_MAX ? -EBADMSG : error.error;
}

/* Send it and take answers until the acknowledgement; `answer`, which is zero before, gets the
 * first message that is not one. */
static int talk(struct netlink *netlink, struct message *message, char *answer, size_t size)
{
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    bool taken = !answer;
    message->header.nlmsg_seq = ++netlink->sequence;
    if (sendto(netlink->fd, message, message->header.nlmsg_len, 0, (struct sockaddr *)&kernel,
               sizeof(kernel)) < 0)
        return -errno;
    for (;;) {
        char bytes[ANSWER_BYTES];
        ssize_t n = recv(netlink->fd, bytes, sizeof(bytes), 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EBADMSG;
        struct nlmsghdr header;
        for (size_t at = 0; at + sizeof(header) <= (size_t)n; at += NLMSG_ALIGN(header.nlmsg_len)) {
            memcpy(&header, bytes + at, sizeof(header));
            if (header.nlmsg_len < sizeof(header) || at + header.nlmsg_len > (size_t)n)
                return -EBADMSG;
            if (header.nlmsg_seq != netlink->sequence)
                continue;
            if (header.nlmsg_type == NLMSG_ERROR)
                return acknowledgement_read(bytes + at, header.nlmsg_len);
            if (!taken && header.nlmsg_len <= size) {
                memcpy(answer, bytes + at, header.nlmsg_len);
                taken = true;
            }
        }
    }
}

int netlink_add_bridge(struct netlink *netlink, const char *name, const char *alias)
{
    struct message message;
    struct ifinfomsg link = {.ifi_flags = IFF_UP, .ifi_change = IFF_UP};
    begin(&message, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &link, sizeof(link));
    add_text(&message, IFLA_IFNAME, name);
    /* Without one of its own it takes the lowest of its ports', which come and go, and everybody's
     * idea of where the gateway is would be wrong for a while. Made from the name: 02 is local. */
    unsigned char mac[6] = {0x02};
    for (size_t i = 0; name[i]; i++)
        mac[1 + i % 5] = (unsigned char)(mac[1 + i % 5] * 31 + name[i]);
    (void)add(&message, IFLA_ADDRESS, mac, sizeof(mac));
    size_t info = add(&message, IFLA_LINKINFO | NLA_F_NESTED, NULL, 0);
    add_text(&message, IFLA_INFO_KIND, "bridge");
    end(&message, info);
    int r = talk(netlink, &message, NULL, 0);
    if (r)
        return r;
    /* The kernel takes an alias only for an interface that exists. */
    begin(&message, RTM_SETLINK, 0, &link, sizeof(link));
    add_text(&message, IFLA_IFNAME, name);
    (void)add(&message, IFLA_IFALIAS, alias, strnlen(alias, ALIAS_BYTES));
    return talk(netlink, &message, NULL, 0);
}

int netlink_remove(struct netlink *netlink, const char *name)
{
    struct message message;
    struct ifinfomsg link = {0};
    begin(&message, RTM_DELLINK, 0, &link, sizeof(link));
    add_text(&message, IFLA_IFNAME, name);
    int r = talk(netlink, &message, NULL, 0);
    return r == -ENODEV ? 0 : r;
}

int netlink_find(struct netlink *netlink, const char *name, char *alias, size_t alias_size)
{
    struct message message;
    struct ifinfomsg link = {0};
    char answer[ANSWER_BYTES] = {0};
    begin(&message, RTM_GETLINK, 0, &link, sizeof(link));
    add_text(&message, IFLA_IFNAME, name);
    int r = talk(netlink, &message, answer, sizeof(answer));
    if (r)
        return r;
    struct nlmsghdr header;
    struct rtattr attribute;
    memcpy(&header, answer, sizeof(header));
    memcpy(&link, answer + NLMSG_HDRLEN, sizeof(link));
    if (header.nlmsg_type != RTM_NEWLINK || link.ifi_index <= 0)
        return -EBADMSG;
    (void)snprintf(alias, alias_size, "%s", "");
    for (size_t at = NLMSG_LENGTH(NLMSG_ALIGN(sizeof(link)));
         at + sizeof(attribute) <= header.nlmsg_len; at += RTA_ALIGN(attribute.rta_len)) {
        memcpy(&attribute, answer + at, sizeof(attribute));
        if (attribute.rta_len < sizeof(attribute) || at + attribute.rta_len > header.nlmsg_len)
            break;
        if (attribute.rta_type == IFLA_IFALIAS)
            (void)snprintf(alias, alias_size, "%.*s", (int)RTA_PAYLOAD(&attribute),
                           answer + at + RTA_LENGTH(0));
    }
    return link.ifi_index;
}

int netlink_add_pair(struct netlink *netlink, const struct netlink_pair *pair)
{
    struct message message;
    struct ifinfomsg link = {.ifi_flags = IFF_UP, .ifi_change = IFF_UP}, peer = {0};
    begin(&message, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &link, sizeof(link));
    add_text(&message, IFLA_IFNAME, pair->name);
    add_number(&message, IFLA_MASTER, pair->master);
    size_t info = add(&message, IFLA_LINKINFO | NLA_F_NESTED, NULL, 0);
    add_text(&message, IFLA_INFO_KIND, "veth");
    size_t data = add(&message, IFLA_INFO_DATA | NLA_F_NESTED, NULL, 0);
    size_t other = add(&message, VETH_INFO_PEER | NLA_F_NESTED, &peer, sizeof(peer));
    add_text(&message, IFLA_IFNAME, "eth0");
    add_number(&message, IFLA_NET_NS_FD, (uint32_t)pair->netns_fd);
    end(&message, other);
    end(&message, data);
    end(&message, info);
    return talk(netlink, &message, NULL, 0);
}

int netlink_set_up(struct netlink *netlink, uint32_t index)
{
    struct message message;
    struct ifinfomsg link = {.ifi_index = (int)index, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
    begin(&message, RTM_NEWLINK, 0, &link, sizeof(link));
    return talk(netlink, &message, NULL, 0);
}

int netlink_add_address(struct netlink *netlink, uint32_t index, uint32_t address, unsigned prefix)
{
    struct message message;
    struct ifaddrmsg body = {
        .ifa_family = AF_INET, .ifa_prefixlen = (uint8_t)prefix, .ifa_index = index};
    begin(&message, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, &body, sizeof(body));
    add_address(&message, IFA_LOCAL, address);
    add_address(&message, IFA_ADDRESS, address);
    return talk(netlink, &message, NULL, 0);
}

int netlink_add_default_route(struct netlink *netlink, uint32_t gateway)
{
    struct message message;
    struct rtmsg body = {.rtm_family = AF_INET,
                         .rtm_table = RT_TABLE_MAIN,
                         .rtm_protocol = RTPROT_STATIC,
                         .rtm_scope = RT_SCOPE_UNIVERSE,
                         .rtm_type = RTN_UNICAST};
    begin(&message, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, &body, sizeof(body));
    add_address(&message, RTA_GATEWAY, gateway);
    return talk(netlink, &message, NULL, 0);
}

int netlink_add_local_route(struct netlink *netlink,
                            uint32_t index,
                            uint32_t address,
                            unsigned prefix)
{
    struct message message;
    struct rtmsg body = {.rtm_family = AF_INET,
                         .rtm_dst_len = (uint8_t)prefix,
                         .rtm_table = RT_TABLE_LOCAL,
                         .rtm_protocol = RTPROT_STATIC,
                         .rtm_scope = RT_SCOPE_HOST,
                         .rtm_type = RTN_LOCAL};
    begin(&message, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, &body, sizeof(body));
    add_address(&message, RTA_DST, address);
    add_number(&message, RTA_OIF, index);
    return talk(netlink, &message, NULL, 0);
}
