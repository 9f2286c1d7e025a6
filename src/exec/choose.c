#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "exec/runner.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

/* Which controllers run: what --controllers says, as a list of those that do not. */

static const struct controller *find(struct str name)
{
    for (size_t i = 0; controllers[i]; i++)
        if (str_is(name, controllers[i]->name))
            return controllers[i];
    return NULL;
}

/* Whether the list has `name` among those that it takes out, or among those that it takes in. */
static bool names(struct str list, struct str name, bool out)
{
    struct str word;

    while (str_cut(&list, ',', &word)) {
        bool minus = word.len && word.p[0] == '-';

        if (minus == out && str_eq(str_sub(word, minus, word.len), name))
            return true;
    }
    return false;
}

int runner_choose(struct arena *arena,
                  struct str list,
                  struct runner_names *ret_without,
                  struct err *err)
{
    struct str rest = list;
    struct str word;
    bool only = false; /* a name without a minus: the others stay off */

    while (list.len && str_cut(&rest, ',', &word)) {
        bool minus = word.len && word.p[0] == '-';
        struct str name = str_sub(word, minus, word.len);

        if (str_is(word, "*"))
            continue;
        if (!find(name))
            return err_set(err, -EINVAL,
                           "--controllers: there is no controller \"" STR_FMT
                           "\"; docs/kinds/README.md lists them",
                           STR_ARG(name));
        only = only || !minus;
    }
    only = only && !names(list, STR("*"), false);
    for (size_t i = 0; list.len && controllers[i]; i++) {
        struct str name = str_from(controllers[i]->name);

        if (names(list, name, true) || (only && !names(list, name, false)))
            VEC_PUSH(arena, ret_without, controllers[i]->name);
    }
    return 0;
}
