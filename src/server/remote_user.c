#include "server/remote_user.h"

#include "base/buf.h"
#include "base/count.h"
#include "base/str.h"
#include "http1/parse.h"
#include "server/request.h"

#include <stdbool.h>
#include <stddef.h>

bool remote_user_is_said_by(struct str header)
{
    static const char *const starts[] = {"X-Remote-", "Impersonate-"};

    for (size_t i = 0; i < COUNT_OF(starts); i++) {
        struct str start = str_from(starts[i]);

        if (http_equal_nocase(str_sub(header, 0, start.len), start))
            return true;
    }
    return http_equal_nocase(header, STR("Authorization"));
}

/* A line break in a name would begin a header of its own. */
static bool is_sayable(struct str value)
{
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.p[i];

        if (c < 0x20 || c == 0x7f)
            return false;
    }
    return true;
}

static bool add(struct buf *out, const char *name, struct str value)
{
    buf_addf(out, "%s: " STR_FMT "\r\n", name, STR_ARG(value));
    return is_sayable(value);
}

/* What no header's name may have is percent-encoded, and so is the percent sign. */
static void add_key(struct buf *out, struct str key)
{
    static const struct str plain = STR("!#$&'*+-.^_`|~");

    for (size_t i = 0; i < key.len; i++) {
        char c = key.p[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (letter || str_find(plain, c) < plain.len)
            buf_addc(out, c);
        else
            buf_addf(out, "%%%02X", (unsigned)(unsigned char)c);
    }
}

bool remote_user_write(struct buf *out, const struct user *user)
{
    bool good = add(out, "X-Remote-User", user->name);

    if (user->uid.len)
        good = add(out, "X-Remote-Uid", user->uid) && good;
    for (size_t i = 0; i < user->group_count; i++)
        good = add(out, "X-Remote-Group", user->groups[i]) && good;
    for (size_t i = 0; i < user->extra_count; i++) {
        buf_add(out, STR("X-Remote-Extra-"));
        add_key(out, user->extras[i].key);
        good = add(out, "", user->extras[i].value) && good;
    }
    return good;
}
