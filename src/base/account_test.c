#include "base/account.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/str.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

TEST(names_of_serviceaccounts_are_split_in_one_way)
{
    static const struct {
        const char *user;
        const char *ns; /* NULL: it is none */
        const char *name;
        const char *share;
    } rows[] = {
        {"system:serviceaccount:a:b", "a", "b", "system:serviceaccount:a"},
        {"system:serviceaccount:a:b:c", "a", "b:c", "system:serviceaccount:a"},
        {"system:serviceaccount:a:", NULL, NULL, "system:serviceaccount:a:"},
        {"system:serviceaccount::b", NULL, NULL, "system:serviceaccount::b"},
        {"system:serviceaccount:a", NULL, NULL, "system:serviceaccount:a"},
        {"system:serviceaccount:", NULL, NULL, "system:serviceaccount:"},
        {"system:serviceaccounts:a:b", NULL, NULL, "system:serviceaccounts:a:b"},
        {"system:serviceaccount:muster-people:jo", "muster-people", "jo",
         "system:serviceaccount:muster-people:jo"},
        {"jo", NULL, NULL, "jo"},
        {"", NULL, NULL, ""},
    };
    struct arena arena = {0};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct str ns = STR(""), name = STR("");

        test_case(rows[i].user);
        bool is = account_split(str_from(rows[i].user), &ns, &name);
        EXPECT(is == (rows[i].ns != NULL));
        EXPECT(!is || (str_is(ns, rows[i].ns) && str_is(name, rows[i].name)));
        EXPECT(!is || str_is(account_user(&arena, ns, name), rows[i].user));
        EXPECT(str_is(account_share(str_from(rows[i].user)), rows[i].share));
    }
    arena_done(&arena);
}
