#include "control/core/hold.h"

#include "api/hold.h"
#include "api/object.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "control/core/action.h"

#include <stddef.h>
#include <stdint.h>

int64_t hold_ms(const struct object *job, struct arena *arena, struct str *ret_note)
{
    struct str text = object_annotation(job, HOLD_ANNOTATION);
    int64_t ms = 0;

    if (!text.len)
        return HOLD_DEFAULT_MS;
    if (time_parse_duration(text, &ms) && ms >= 0) {
        if (ms > HOLD_MAX_MS && ret_note)
            *ret_note = str_printf(arena,
                                   " (annotation " HOLD_ANNOTATION " is \"" STR_FMT
                                   "\"; room is held for %dm at most)",
                                   STR_ARG(text), HOLD_MAX_MS / 60000);
        return ms < HOLD_MAX_MS ? ms : HOLD_MAX_MS;
    }
    if (ret_note)
        *ret_note = str_printf(arena,
                               " (annotation " HOLD_ANNOTATION " is \"" STR_FMT
                               "\", which is no duration, as in 90s; %ds are used)",
                               STR_ARG(text), HOLD_DEFAULT_MS / 1000);
    return HOLD_DEFAULT_MS;
}

void hold_mark(struct arena *arena, struct json *pod, int64_t ms)
{
    json_add_str(arena, json_make_path(arena, pod, "metadata.annotations"), HOLD_ANNOTATION,
                 str_printf(arena, "%lldms", (long long)ms));
}

int64_t hold_told_ms(const struct object *group)
{
    int64_t ms = 0;

    (void)time_parse(object_annotation(group, HOLD_UNTIL_ANNOTATION), &ms);
    return ms;
}

void hold_write(struct actions *actions, const struct object *group, int64_t until_ms)
{
    struct arena *arena = actions->arena;
    struct json *body = json_new_object(arena);
    struct json *notes = json_make_path(arena, body, "metadata.annotations");

    if (until_ms)
        json_add_str(arena, notes, HOLD_UNTIL_ANNOTATION, time_text(arena, until_ms));
    else
        json_set(notes, STR(HOLD_UNTIL_ANNOTATION), json_new_null(arena));
    action_patch(actions, group, body);
}
