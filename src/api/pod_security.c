#include "api/pod_security.h"

#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WINDOWS_KNOWN_SINCE 25

static const char *const level_names[] = {"privileged", "baseline", "restricted"};

bool pod_security_parse(struct str level, struct str version, struct pod_security *ret)
{
    struct pod_security policy = {.minor = POD_SECURITY_LATEST};
    struct str prefix = STR("v1.");
    uint64_t minor = 0;

    for (int i = POD_SECURITY_PRIVILEGED; i <= POD_SECURITY_RESTRICTED; i++)
        if (str_is(level, level_names[i])) {
            policy.level = (enum pod_security_level)i;
            level = STR("");
        }
    if (level.len)
        return false;
    if (version.len && !str_is(version, "latest")) {
        if (!str_starts(version, prefix) ||
            !str_to_u64(str_sub(version, prefix.len, version.len), &minor) ||
            minor >= POD_SECURITY_LATEST)
            return false;
        policy.minor = (int)minor;
    }
    *ret = policy;
    return true;
}

struct str pod_security_text(struct arena *arena, const struct pod_security *policy)
{
    return policy->minor == POD_SECURITY_LATEST
               ? str_printf(arena, "%s:latest", level_names[policy->level])
               : str_printf(arena, "%s:v1.%d", level_names[policy->level], policy->minor);
}

static bool control_applies(const struct pod_security_control *control,
                            const struct pod_security *policy)
{
    return control->level <= policy->level && control->since <= policy->minor;
}

/* A stricter control says it already. */
static bool control_is_included(const struct pod_security_control *control,
                                const struct pod_security *policy)
{
    for (const struct pod_security_control *other = pod_security_controls; other->id; other++)
        if (other->overrides && str_is(str_from(other->overrides), control->id) &&
            control_applies(other, policy))
            return true;
    return false;
}

struct str pod_security_violations(struct arena *arena,
                                   const struct pod_security *policy,
                                   const struct json *spec,
                                   const struct json *annotations)
{
    struct pod_security_look look = {arena, spec, annotations, policy->minor};
    bool windows =
        str_is(json_str_at(spec, "os.name"), "windows") && policy->minor >= WINDOWS_KNOWN_SINCE;
    struct str text = STR("");

    for (const struct pod_security_control *control = pod_security_controls; control->id;
         control++) {
        if (!control_applies(control, policy) || control_is_included(control, policy) ||
            (windows && control->not_on_windows))
            continue;
        struct str detail = control->check(&look);

        if (detail.len)
            text = str_printf(arena, STR_FMT "%s%s (" STR_FMT ")", STR_ARG(text),
                              text.len ? ", " : "", control->reason, STR_ARG(detail));
    }
    return text;
}
