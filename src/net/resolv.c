#include "net/resolv.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "tool/files.h"

#include <stdbool.h>
#include <stddef.h>

#define RESOLV_BYTES 4096

void resolv_conf(struct buf *out)
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
