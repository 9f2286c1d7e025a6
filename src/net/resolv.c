#include "net/resolv.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "net/dns_zone.h"
#include "tool/files.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <uv.h>

#define RESOLV_BYTES 4096
#define SERVERS_MAX  3 /* libc looks at no more */
#define WORDS_MAX    32
#define SERVER_PORT  53

static const char *const paths[] = {"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"};

/* One on the machine's loopback does not answer in another namespace. */
static bool is_near(struct str server)
{
    return str_starts(server, STR("127.")) || str_is(server, "::1");
}

/* The words of a line that begins with `key`; false: it is another line. */
static bool line_is(struct str line, const char *key, struct str *ret)
{
    struct str name = str_from(key);

    if (!str_starts(line, name) || line.len == name.len ||
        (line.p[name.len] != ' ' && line.p[name.len] != '\t'))
        return false;
    *ret = str_trim(str_sub(line, name.len, line.len));
    return true;
}

static bool has_far_server(struct str text)
{
    struct str line, server;

    while (str_cut(&text, '\n', &line))
        if (line_is(line, "nameserver", &server) && !is_near(server))
            return true;
    return false;
}

void resolv_machine(struct buf *out)
{
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        _cleanup_(buf_done) struct buf text = {0};

        if (!files_read(paths[i], RESOLV_BYTES, &text))
            continue;
        if (i && !has_far_server(buf_str(&text)))
            continue;
        buf_clear(out);
        buf_add(out, buf_str(&text));
        if (has_far_server(buf_str(out)))
            return;
    }
}

size_t resolv_servers(struct sockaddr_storage *out, size_t max)
{
    _cleanup_(buf_done) struct buf text = {0};
    _cleanup_(arena_done) struct arena arena = {0};
    struct str rest, line, server;
    size_t count = 0;

    if (!files_read(paths[0], RESOLV_BYTES, &text))
        return 0;
    rest = buf_str(&text);
    while (count < max && str_cut(&rest, '\n', &line)) {
        if (!line_is(line, "nameserver", &server))
            continue;
        const char *at = str_c(&arena, server);
        out[count] = (struct sockaddr_storage){0};
        if (uv_ip4_addr(at, SERVER_PORT, (struct sockaddr_in *)(void *)&out[count]) == 0 ||
            uv_ip6_addr(at, SERVER_PORT, (struct sockaddr_in6 *)(void *)&out[count]) == 0)
            count++;
    }
    return count;
}

/* ---- of a pod ---- */

struct words {
    struct str items[WORDS_MAX];
    size_t count;
};

static void word_add(struct words *words, struct str word, size_t max)
{
    for (size_t i = 0; i < words->count; i++)
        if (str_eq(words->items[i], word))
            return;
    if (word.len && words->count < max)
        words->items[words->count++] = word;
}

/* An option of that name is replaced. */
static void option_add(struct words *words, struct str option)
{
    struct str name = str_sub(option, 0, str_find(option, ':'));

    for (size_t i = 0; i < words->count; i++)
        if (str_eq(str_sub(words->items[i], 0, str_find(words->items[i], ':')), name)) {
            words->items[i] = option;
            return;
        }
    word_add(words, option, WORDS_MAX);
}

struct resolv {
    struct words servers;
    struct words searches;
    struct words options;
};

static void add_words(struct words *words, struct str line)
{
    for (struct str word; str_cut(&line, ' ', &word);)
        word_add(words, str_trim(word), WORDS_MAX);
}

/* What counts of it besides servers: all of it, or where to search alone. */
static void add_machine(struct resolv *resolv, struct str machine, bool options)
{
    struct str line, value;

    while (str_cut(&machine, '\n', &line)) {
        if (line_is(line, "nameserver", &value) && !is_near(value))
            word_add(&resolv->servers, value, SERVERS_MAX);
        else if (line_is(line, "search", &value) || line_is(line, "domain", &value))
            add_words(&resolv->searches, value);
        else if (options && line_is(line, "options", &value))
            add_words(&resolv->options, value);
    }
}

static void add_config(struct resolv *resolv, struct arena *arena, const struct json *config)
{
    JSON_FOREACH(json_get(config, "nameservers"), server)
        word_add(&resolv->servers, json_str(server), SERVERS_MAX);
    JSON_FOREACH(json_get(config, "searches"), domain)
        word_add(&resolv->searches, json_str(domain), WORDS_MAX);
    JSON_FOREACH(json_get(config, "options"), option) {
        struct str name = json_str(json_get(option, "name"));
        struct str value = json_str(json_get(option, "value"));

        option_add(&resolv->options, str_printf(arena, STR_FMT "%s" STR_FMT, STR_ARG(name),
                                                value.len ? ":" : "", STR_ARG(value)));
    }
}

static void put_line(struct buf *out, const char *key, const struct words *words)
{
    if (!words->count)
        return;
    buf_addf(out, "%s", key);
    for (size_t i = 0; i < words->count; i++)
        buf_addf(out, " " STR_FMT, STR_ARG(words->items[i]));
    buf_addc(out, '\n');
}

bool resolv_is_cluster(const struct json *spec)
{
    struct str policy = json_str(json_get(spec, "dnsPolicy"));
    bool host = json_bool_or(json_get(spec, "hostNetwork"), false);

    return host ? str_is(policy, "ClusterFirstWithHostNet")
                : !policy.len || str_starts(policy, STR("ClusterFirst"));
}

void resolv_conf_write(const struct json *spec,
                       const struct resolv_cluster *cluster,
                       struct str machine,
                       struct buf *out)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct resolv resolv = {0};
    bool ours = cluster->server && *cluster->server && resolv_is_cluster(spec);

    if (ours) {
        word_add(&resolv.servers, str_from(cluster->server), SERVERS_MAX);
        word_add(&resolv.searches,
                 str_printf(&arena, STR_FMT ".svc." DNS_ZONE, STR_ARG(cluster->ns)), WORDS_MAX);
        word_add(&resolv.searches, STR("svc." DNS_ZONE), WORDS_MAX);
        word_add(&resolv.searches, STR(DNS_ZONE), WORDS_MAX);
        word_add(&resolv.options, STR("ndots:5"), WORDS_MAX);
    }
    if (ours) /* the servers that dnsConfig names come before those that only stand in */
        JSON_FOREACH(json_at(spec, "dnsConfig.nameservers"), server)
            word_add(&resolv.servers, json_str(server), SERVERS_MAX);
    if (!str_is(json_str(json_get(spec, "dnsPolicy")), "None"))
        add_machine(&resolv, machine, !ours);
    add_config(&resolv, &arena, json_get(spec, "dnsConfig"));
    for (size_t i = 0; i < resolv.servers.count; i++)
        buf_addf(out, "nameserver " STR_FMT "\n", STR_ARG(resolv.servers.items[i]));
    put_line(out, "search", &resolv.searches);
    put_line(out, "options", &resolv.options);
}
