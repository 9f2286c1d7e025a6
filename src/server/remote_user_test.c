#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "server/remote_user.h"
#include "server/request.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

TEST(another_api_server_is_told_who_asks)
{
    _cleanup_(buf_done) struct buf out = {0};
    struct user user = {.name = STR("ann"),
                        .uid = STR("u-1"),
                        .groups = {STR("a"), STR("system:authenticated")},
                        .group_count = 2,
                        .extras = {{STR("example.com/a%b"), STR("x y")}},
                        .extra_count = 1};

    EXPECT(remote_user_write(&out, &user));
    EXPECT(str_is(buf_str(&out), "X-Remote-User: ann\r\nX-Remote-Uid: u-1\r\nX-Remote-Group: a\r\n"
                                 "X-Remote-Group: system:authenticated\r\n"
                                 "X-Remote-Extra-example.com%2Fa%25b: x y\r\n"));
}

TEST(a_name_that_would_be_a_header_of_its_own_is_not_told)
{
    static const struct user rows[] = {
        {.name = STR("a\r\nX-Remote-Group: system:masters")},
        {.name = STR("a"), .uid = STR("u\n")},
        {.name = STR("a"), .groups = {STR("fine"), STR("b\nc")}, .group_count = 2},
        {.name = STR("a"), .extras = {{STR("k"), STR("\r")}}, .extra_count = 1},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(buf_done) struct buf out = {0};

        EXPECT(!remote_user_write(&out, &rows[i]));
    }
}

TEST(nobody_tells_another_api_server_who_he_is)
{
    static const struct {
        const char *name;
        bool said;
    } rows[] = {
        {"X-Remote-User", true},    {"x-remote-extra-scopes", true},
        {"X-REMOTE-GROUP", true},   {"Impersonate-User", true},
        {"Authorization", true},    {"impersonate-extra-a", true},
        {"X-Remote", false},        {"Accept", false},
        {"X-Authorization", false}, {"Content-Type", false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].name);
        EXPECT(remote_user_is_said_by(str_from(rows[i].name)) == rows[i].said);
    }
}
