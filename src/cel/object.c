#include "cel/object.h"

#include "api/quantity.h"
#include "base/arena.h"
#include "base/str.h"
#include "cel/moment.h"
#include "cel/number.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static bool is_number(struct str text, uint64_t *ret)
{
    return str_to_u64(text, ret);
}

/* Parts between dots: numbers before words, more parts after fewer. */
static int compare_before(struct str a, struct str b)
{
    if (!a.len || !b.len) /* a release comes after what is before it */
        return (a.len ? -1 : 0) - (b.len ? -1 : 0);
    for (;;) {
        struct str x = STR_NONE;
        struct str y = STR_NONE;
        bool more_a = str_cut(&a, '.', &x);
        bool more_b = str_cut(&b, '.', &y);
        uint64_t m = 0;
        uint64_t n = 0;

        if (!more_a || !more_b)
            return (more_a ? 1 : 0) - (more_b ? 1 : 0);
        bool number_x = is_number(x, &m);
        bool number_y = is_number(y, &n);
        if (number_x != number_y)
            return number_x ? -1 : 1;
        int r = number_x ? (m < n ? -1 : m > n) : str_cmp(x, y);
        if (r)
            return r;
    }
}

int object_semver_compare(const struct cel_semver *a, const struct cel_semver *b)
{
    if (a->major != b->major)
        return a->major < b->major ? -1 : 1;
    if (a->minor != b->minor)
        return a->minor < b->minor ? -1 : 1;
    if (a->patch != b->patch)
        return a->patch < b->patch ? -1 : 1;
    return compare_before(a->before, b->before);
}

bool object_equal(struct cel_value a, struct cel_value b)
{
    if (a.type == CEL_URL)
        return str_eq(a.url->text, b.url->text);
    if (a.type == CEL_QUANTITY)
        return quantity_cmp(a.quantity->amount, b.quantity->amount) == 0;
    if (a.type == CEL_SEMVER)
        return object_semver_compare(a.semver, b.semver) == 0;
    return a.ip->six == b.ip->six && a.ip->prefix == b.ip->prefix &&
           memcmp(a.ip->bytes, b.ip->bytes, sizeof(a.ip->bytes)) == 0;
}

/* RFC 5952: the longest run of zeros, of two at least, is "::". */
static struct str ip6_text(struct arena *arena, const unsigned char *bytes)
{
    unsigned words[8];
    size_t best = 8;
    size_t best_len = 1;
    struct str text = STR("");

    for (size_t i = 0; i < 8; i++)
        words[i] = (unsigned)bytes[2 * i] << 8 | bytes[2 * i + 1];
    for (size_t i = 0; i < 8; i++) {
        size_t len = 0;

        while (i + len < 8 && !words[i + len])
            len++;
        if (len > best_len) {
            best = i;
            best_len = len;
        }
    }
    for (size_t i = 0; i < 8; i++) {
        if (i == best) {
            text = str_printf(arena, STR_FMT "::", STR_ARG(text));
            i += best_len - 1;
            continue;
        }
        text = str_printf(arena, STR_FMT "%s%x", STR_ARG(text),
                          text.len && text.p[text.len - 1] != ':' ? ":" : "", words[i]);
    }
    return text;
}

static struct str ip_text(struct arena *arena, struct cel_value value)
{
    const struct cel_ip *ip = value.ip;
    struct str text = ip->six ? ip6_text(arena, ip->bytes)
                              : str_printf(arena, "%u.%u.%u.%u", ip->bytes[0], ip->bytes[1],
                                           ip->bytes[2], ip->bytes[3]);

    return value.type == CEL_CIDR
               ? str_printf(arena, STR_FMT "/%u", STR_ARG(text), (unsigned)ip->prefix)
               : text;
}

struct str object_text(struct arena *arena, struct cel_value value)
{
    const struct cel_semver *semver = value.semver;

    switch (value.type) {
    case CEL_BOOL: return value.truth ? STR("true") : STR("false");
    case CEL_INT: return str_printf(arena, "%lld", (long long)value.i);
    case CEL_UINT: return str_printf(arena, "%llu", (unsigned long long)value.u);
    case CEL_DOUBLE: return number_text(arena, value.d);
    case CEL_STRING:
    case CEL_BYTES:
    case CEL_TYPE: return value.s;
    case CEL_TIMESTAMP: return moment_text(arena, value);
    case CEL_DURATION: return moment_duration_text(arena, value);
    case CEL_NULL: return STR("null");
    case CEL_URL: return value.url->text;
    case CEL_IP:
    case CEL_CIDR: return ip_text(arena, value);
    case CEL_QUANTITY: return quantity_text(arena, value.quantity->amount);
    case CEL_SEMVER:
        return str_printf(arena, "%llu.%llu.%llu%s" STR_FMT, (unsigned long long)semver->major,
                          (unsigned long long)semver->minor, (unsigned long long)semver->patch,
                          semver->before.len ? "-" : "", STR_ARG(semver->before));
    case CEL_DYN:
    case CEL_ERROR:
    case CEL_LIST:
    case CEL_MAP:
    case CEL_OPTIONAL:
    case CEL_FORMAT: break;
    }
    return STR("");
}
