#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "plugin/ship.h"
#include "test.h"

TEST(a_home_folder_is_known_and_what_has_it_inside)
{
    static const struct {
        const char *why;
        const char *folder;
        const char *home;
        enum ship_place place;
    } cases[] = {
        {"a project", "/home/me/project", "/home/me", SHIP_PLAIN},
        {"the home itself", "/home/me", "/home/me", SHIP_HOME},
        {"a neighbour", "/home/m", "/home/me", SHIP_PLAIN},
        {"all homes", "/home", "/home/me", SHIP_ROOT},
        {"everything", "/", "/home/me", SHIP_ROOT},
        {"everything, of nobody", "/", NULL, SHIP_ROOT},
        {"a folder of nobody", "/srv", NULL, SHIP_PLAIN},
        {"root's home is no project", "/root", "/root", SHIP_HOME},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        test_case(cases[i].why);
        EXPECT(ship_place_of(cases[i].folder, cases[i].home) == cases[i].place);
    }
}

TEST(what_was_left_out_is_a_line_with_a_few_names)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct ship_left left = {
        .file = STR(".gitignore"), .names = STR("a.log (*.log), data/ (/data/)"), .count = 2};

    EXPECT(
        str_is(ship_words(&arena, &left), "left out by .gitignore: a.log (*.log), data/ (/data/)"));
    left.count = 10;
    EXPECT(str_is(ship_words(&arena, &left),
                  "left out by .gitignore: a.log (*.log), data/ (/data/) and 7 more"));
    left = (struct ship_left){.names = STR(".ssh/ (your keys)"), .count = 1};
    EXPECT(str_is(ship_words(&arena, &left), "left out: .ssh/ (your keys)"));
}
