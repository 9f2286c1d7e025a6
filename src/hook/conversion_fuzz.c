#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "fuzz/fuzz.h"
#include "hook/conversion.h"

/* Whatever a conversion webhook answers is refused with words, or is the object that was asked
 * about. */
FUZZ(conversion)
{
    struct arena arena = {0};
    struct object *object = NULL;
    struct json *made = NULL;
    struct err err = {0};

    FUZZ_HOLDS(
        object_new(&kind_queue,
                   STR("{\"apiVersion\":\"scheduling.run.ai/v1\",\"kind\":\"Queue\","
                       "\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"labels\":{\"x\":\"y\"}}}"),
                   &object, NULL) == 0);
    const struct object *objects[] = {object};
    if (conversion_read(&arena, &(struct conversion){STR("u"), &kind_queue, objects, 1}, input,
                        &made, &err) < 0) {
        FUZZ_HOLDS(err.text[0] != '\0');
    } else {
        FUZZ_HOLDS(str_is(json_str_at(made, "metadata.name"), "a"));
        FUZZ_HOLDS(str_is(json_str_at(made, "metadata.uid"), "u"));
        FUZZ_HOLDS(str_is(json_str_at(made, "kind"), "Queue"));
    }
    object_unref(object);
    arena_done(&arena);
}
