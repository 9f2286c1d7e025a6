#include "api/crd_builtin.h"

#include "api/kind.h"

#include <stddef.h>
#include <string.h>

const struct kind_column *crd_builtin_columns(const struct kind *kind, size_t *ret_count)
{
    for (size_t i = 0; i < crd_builtin_column_set_count; i++) {
        const struct crd_builtin_columns *set = &crd_builtin_column_sets[i];

        if (strcmp(set->plural, kind->plural) == 0 && strcmp(set->group, kind->group) == 0 &&
            strcmp(set->version, kind->version) == 0) {
            *ret_count = set->count;
            return set->columns;
        }
    }
    *ret_count = 0;
    return NULL;
}
