#include "shim/message.h"

#include <stdio.h>
#include <string.h>

/* shim_message: words to structs. scanf's widths are SHIM_NAME_BYTES less one. */

/* Names become parts of paths. */
static bool is_plain(const char *name)
{
    return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

bool shim_order_parse(const char *text, struct shim_order *ret)
{
    struct shim_order order = {0};
    char verb[16];
    if (sscanf(text, "%15s", verb) != 1)
        return false;
    if (sscanf(text, "start %255s %u", order.name, &order.instance) == 2)
        order.verb = SHIM_START;
    else if (sscanf(text, "signal %255s %u %d", order.name, &order.instance, &order.signal) == 3)
        order.verb = SHIM_SIGNAL;
    else if (sscanf(text, "exec %lu %255s %255s", &order.id, order.name, order.file) == 3)
        order.verb = SHIM_EXEC;
    else if (sscanf(text, "execsignal %lu %d", &order.id, &order.signal) == 2)
        order.verb = SHIM_EXECSIGNAL;
    else if (sscanf(text, "attach %255s", order.name) == 1)
        order.verb = SHIM_ATTACH;
    else if (sscanf(text, "tee %255s", order.name) == 1)
        order.verb = SHIM_TEE;
    else if (strcmp(verb, "state") == 0)
        order.verb = SHIM_STATE;
    else if (strcmp(verb, "stop") == 0) {
        order.verb = SHIM_STOP;
        order.forget = strcmp(text, "stop forget") == 0;
    } else
        return false;
    if ((order.name[0] && !is_plain(order.name)) || (order.file[0] && !is_plain(order.file)))
        return false;
    *ret = order;
    return true;
}

bool shim_event_parse(const char *text, struct shim_event *ret)
{
    struct shim_event event = {0};
    char verb[16];
    int end_at = 0;
    if (sscanf(text, "%15s %255s %u %n", verb, event.name, &event.instance, &end_at) != 3)
        return false;
    if (strcmp(verb, "exited") == 0)
        event.exited = true;
    else if (strcmp(verb, "ended") == 0)
        event.end = text + (end_at ? (size_t)end_at : strlen(text));
    else if ((strcmp(verb, "started") != 0 && strcmp(verb, "running") != 0) ||
             sscanf(text, "%*s %*s %*u %d %lld", &event.pid, &event.started_ms) != 2)
        return false;
    *ret = event;
    return true;
}

bool shim_exit_parse(const char *text, struct shim_exit *ret)
{
    struct shim_exit end = {0};
    char flags[16] = "";
    if (sscanf(text, "%d %d %lld %lld %15s", &end.code, &end.signal, &end.started_ms, &end.ended_ms,
               flags) < 4)
        return false;
    end.oom = strchr(flags, 'o') != NULL;
    end.never_started = strchr(flags, 's') != NULL;
    end.lost = strchr(flags, 'l') != NULL;
    const char *line = strchr(text, '\n');
    end.words = line ? line + 1 : text + strlen(text);
    *ret = end;
    return true;
}
