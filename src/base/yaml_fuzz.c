#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/yaml.h"
#include "fuzz/fuzz.h"

#include <stddef.h>
#include <string.h>

/* Any text: read or refused with a place, in bounded memory; what was read survives being written
 * and read again. Aliases multiply nodes up to YAML_COPIES_MAX, each of them some 100 bytes with
 * its text. */
#define ARENA_BYTES_MAX ((size_t)64 << 20)

FUZZ(yaml)
{
    struct arena arena = {.bytes_max = ARENA_BYTES_MAX};
    struct json_vec documents = {0};
    struct err err = {0};

    if (yaml_parse_all(&arena, input, &documents, &err) < 0)
        FUZZ_HOLDS(strncmp(err.text, "line ", 5) == 0);
    for (size_t i = 0; i < documents.count; i++) {
        _cleanup_(buf_done) struct buf text = {0};
        struct json *again = NULL;

        yaml_write(&text, documents.items[i]);
        FUZZ_HOLDS(yaml_parse(&arena, buf_str(&text), &again, NULL) == 0);
        FUZZ_HOLDS(json_equal(documents.items[i], again));
    }
    arena_done(&arena);
}
