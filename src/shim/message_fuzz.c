#include "base/mem.h"
#include "fuzz/fuzz.h"
#include "shim/message.h"
#include "shim/parts.h"

#include <stdlib.h>
#include <string.h>

/* Both sides of the shim's protocol: messages, exit files, and the records of pod and spec files.
 * The same bytes are tried as each. */

static void try_messages(const char *text)
{
    struct shim_order order;
    struct shim_event event;
    struct shim_exit end;
    if (shim_order_parse(text, &order)) {
        FUZZ_HOLDS(strlen(order.name) < SHIM_NAME_BYTES && !strchr(order.name, '/'));
        FUZZ_HOLDS(strlen(order.file) < SHIM_NAME_BYTES && !strchr(order.file, '/'));
    }
    if (shim_event_parse(text, &event))
        FUZZ_HOLDS(event.name[0] && strlen(event.name) < SHIM_NAME_BYTES);
    if (shim_exit_parse(text, &end))
        FUZZ_HOLDS(end.words >= text && end.words <= text + strlen(text) + 1);
}

static void try_records(char *bytes, size_t len)
{
    struct records records = {.p = bytes, .len = len};
    struct record record;
    size_t count = 0;
    /* As records_open() leaves them. */
    bytes[len - 1] = '\0';
    FUZZ_HOLDS(records_cut(&records) == 0);
    for (size_t next = 0; records_next(&records, &next, &record); count++) {
        FUZZ_HOLDS(record.name >= bytes && record.value <= bytes + len);
        FUZZ_HOLDS(record.name[record.name_len] == '=');
    }
    FUZZ_HOLDS(count <= len);
    (void)records_get(&records, "root");
    (void)records_has(&records, "ns", "pid");
    FUZZ_HOLDS(records_number(&records, "uid", 7) >= 0);
    free(records.items);
}

FUZZ(shim)
{
    char *bytes = mem_alloc(input.len + 1);
    if (input.len)
        memcpy(bytes, input.p, input.len);
    bytes[input.len] = '\0';
    try_messages(bytes);
    if (input.len)
        try_records(bytes, input.len);
    mem_free(bytes);
}
