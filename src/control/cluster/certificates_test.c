#include "base/count.h"
#include "control/cluster/certificates.h"
#include "test.h"

#include <stddef.h>
#include <stdint.h>

TEST(certificates_are_made_anew_in_time_and_never_before_they_are_known)
{
    static const struct {
        const char *why;
        struct certificates_facts facts;
        enum certificates_todo todo;
        int64_t at_ms; /* of a wait */
    } rows[] = {
        {"nothing is there", {.now_ms = 100000}, CERTIFICATES_MAKE, 0},
        {"an authority nobody knows",
         {100000, {100000, 400000}, {0}, false, false},
         CERTIFICATES_TELL,
         0},
        {"the first certificate does not wait",
         {100000, {100000, 400000}, {0}, false, true},
         CERTIFICATES_SIGN,
         0},
        {"all is well",
         {100000, {100000, 4000000}, {100000, 190000}, true, true},
         CERTIFICATES_WAIT,
         160000},
        {"somebody changed a configuration",
         {100000, {100000, 4000000}, {100000, 190000}, true, false},
         CERTIFICATES_TELL,
         0},
        {"two thirds are over",
         {160000, {100000, 4000000}, {100000, 190000}, true, true},
         CERTIFICATES_SIGN,
         0},
        {"the authority's too",
         {3000000, {100000, 4000000}, {2900000, 3200000}, true, true},
         CERTIFICATES_MAKE,
         0},
        {"a new authority settles first",
         {105000, {100000, 4000000}, {90000, 190000}, false, true},
         CERTIFICATES_WAIT,
         110000},
        {"and then signs",
         {110000, {100000, 4000000}, {90000, 190000}, false, true},
         CERTIFICATES_SIGN,
         0},
        {"a certificate that is over cannot wait",
         {105000, {100000, 4000000}, {9000, 104000}, false, true},
         CERTIFICATES_SIGN,
         0},
        {"the authority's end comes first",
         {100000, {100000, 130000}, {100000, 190000}, true, true},
         CERTIFICATES_WAIT,
         120000},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t at_ms = 0;

        test_case(rows[i].why);
        EXPECT(certificates_decide(&rows[i].facts, &at_ms) == rows[i].todo);
        EXPECT(at_ms == (rows[i].at_ms ? rows[i].at_ms : rows[i].facts.now_ms));
    }
}
