#include "net/resolv.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "tool/files.h"

#include <stdbool.h>
#include <stddef.h>

#define RESOLV_BYTES 4096

/* The host's, without the name servers that cannot be reached from another namespace. */
static void resolv_conf(struct buf *out)
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

void resolv_conf_of(const struct json *spec, struct buf *out)
{
    const struct json *config = json_get(spec, "dnsConfig");
    if (!str_is(json_str(json_get(spec, "dnsPolicy")), "None"))
        resolv_conf(out);
    JSON_FOREACH(json_get(config, "nameservers"), server)
        buf_addf(out, "nameserver " STR_FMT "\n", STR_ARG(json_str(server)));
    if (json_count(json_get(config, "searches"))) {
        buf_add(out, STR("search"));
        JSON_FOREACH(json_get(config, "searches"), domain)
            buf_addf(out, " " STR_FMT, STR_ARG(json_str(domain)));
        buf_addc(out, '\n');
    }
    if (!json_count(json_get(config, "options")))
        return;
    buf_add(out, STR("options"));
    JSON_FOREACH(json_get(config, "options"), option) {
        struct str value = json_str(json_get(option, "value"));
        buf_addf(out, " " STR_FMT "%s" STR_FMT, STR_ARG(json_str(json_get(option, "name"))),
                 value.len ? ":" : "", STR_ARG(value));
    }
    buf_addc(out, '\n');
}
