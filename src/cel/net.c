#include "base/arena.h"
#include "base/str.h"
#include "cel/object.h"
#include "cel/run.h"
#include "cel/text.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ip(), cidr() and what they have. */

/* ---- addresses ---- */

static bool parse_ip4(struct str text, unsigned char *out)
{
    for (size_t i = 0; i < 4; i++) {
        struct str part = STR_NONE;
        uint64_t value = 0;

        if (!str_cut(&text, '.', &part) || part.len > 3 || !part.len ||
            (part.len > 1 && part.p[0] == '0') || !str_to_u64(part, &value) || value > 255)
            return false;
        out[i] = (unsigned char)value;
    }
    return text.len == 0 && !text.p;
}

static bool parse_word(struct str text, unsigned *ret)
{
    unsigned value = 0;

    if (!text.len || text.len > 4)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        int digit = text_hex(text.p[i]);

        if (digit < 0)
            return false;
        value = value << 4 | (unsigned)digit;
    }
    *ret = value;
    return true;
}

/* Words between colons; an IPv4 address may be the last of an address. */
static bool parse_words(struct str text, bool last, unsigned char *out, size_t *ret_bytes)
{
    size_t bytes = 0;

    *ret_bytes = 0;
    if (!text.len)
        return true;
    for (;;) {
        size_t len = str_find(text, ':');
        struct str part = str_sub(text, 0, len);
        unsigned word = 0;

        if (last && len == text.len && str_find(part, '.') < part.len) {
            if (bytes + 4 > 16 || !parse_ip4(part, out + bytes))
                return false;
            bytes += 4;
        } else {
            if (bytes + 2 > 16 || !parse_word(part, &word))
                return false;
            out[bytes++] = (unsigned char)(word >> 8);
            out[bytes++] = (unsigned char)word;
        }
        if (len == text.len)
            break;
        text = str_sub(text, len + 1, text.len);
    }
    *ret_bytes = bytes;
    return true;
}

static bool parse_ip6(struct str text, unsigned char out[static 16])
{
    size_t gap = text_find(text, STR("::"), 0);
    unsigned char front[16] = {0};
    unsigned char back[16] = {0};
    size_t front_bytes = 0;
    size_t back_bytes = 0;

    if (gap == SIZE_MAX)
        return parse_words(text, true, out, &front_bytes) && front_bytes == 16;
    if (!parse_words(str_sub(text, 0, gap), false, front, &front_bytes) ||
        !parse_words(str_sub(text, gap + 2, text.len), true, back, &back_bytes) ||
        front_bytes + back_bytes > 14)
        return false;
    memset(out, 0, 16);
    memcpy(out, front, front_bytes);
    memcpy(out + 16 - back_bytes, back, back_bytes);
    return true;
}

/* IPv4 addresses in IPv6 (::ffff:1.2.3.4) and zones are refused, as in Kubernetes. */
static bool parse_ip(struct str text, struct cel_ip *ret)
{
    static const unsigned char mapped[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

    *ret = (struct cel_ip){.six = str_find(text, ':') < text.len};
    if (!ret->six)
        return parse_ip4(text, ret->bytes);
    return parse_ip6(text, ret->bytes) && memcmp(ret->bytes, mapped, sizeof(mapped)) != 0;
}

static bool parse_cidr(struct str text, struct cel_ip *ret)
{
    size_t slash = str_find(text, '/');
    struct str bits = str_sub(text, slash + 1, text.len);
    uint64_t prefix = 0;

    if (slash == text.len || !parse_ip(str_sub(text, 0, slash), ret) || !bits.len ||
        (bits.len > 1 && bits.p[0] == '0') || !str_to_u64(bits, &prefix) ||
        prefix > (ret->six ? 128 : 32))
        return false;
    ret->prefix = (unsigned char)prefix;
    return true;
}

static struct cel_value new_ip(struct cel_run *run, enum cel_type type, const struct cel_ip *ip)
{
    struct cel_ip *copy = ARENA_NEW(run->arena, struct cel_ip);

    *copy = *ip;
    return (struct cel_value){.type = type, .ip = copy};
}

static struct cel_value fn_ip(struct cel_run *run, const struct cel_value *args, size_t count)
{
    struct cel_ip ip = {0};

    (void)count;
    if (args[0].type != CEL_STRING)
        return run_no_overload();
    if (!run_charge_text(run, args[0].s.len))
        return run->stopped;
    return parse_ip(args[0].s, &ip) ? new_ip(run, CEL_IP, &ip)
                                    : cel_error(str_printf(run->arena,
                                                           "IP Address \"" STR_FMT
                                                           "\" parse error during conversion from "
                                                           "string",
                                                           STR_ARG(str_sub(args[0].s, 0, 100))));
}

static struct cel_value fn_cidr(struct cel_run *run, const struct cel_value *args, size_t count)
{
    struct cel_ip ip = {0};

    (void)count;
    if (args[0].type != CEL_STRING)
        return run_no_overload();
    if (!run_charge_text(run, args[0].s.len))
        return run->stopped;
    return parse_cidr(args[0].s, &ip)
               ? new_ip(run, CEL_CIDR, &ip)
               : cel_error(str_printf(run->arena,
                                      "network address parse error during conversion from "
                                      "string: \"" STR_FMT "\"",
                                      STR_ARG(str_sub(args[0].s, 0, 100))));
}

static struct cel_value fn_is_ip(struct cel_run *run, const struct cel_value *args, size_t count)
{
    struct cel_ip ip = {0};

    (void)count;
    if (args[0].type != CEL_STRING)
        return run_no_overload();
    return run_charge_text(run, args[0].s.len) ? cel_bool(parse_ip(args[0].s, &ip)) : run->stopped;
}

static struct cel_value fn_is_cidr(struct cel_run *run, const struct cel_value *args, size_t count)
{
    struct cel_ip ip = {0};

    (void)count;
    if (args[0].type != CEL_STRING)
        return run_no_overload();
    return run_charge_text(run, args[0].s.len) ? cel_bool(parse_cidr(args[0].s, &ip))
                                               : run->stopped;
}

static struct cel_value fn_is_canonical(struct cel_run *run,
                                        const struct cel_value *args,
                                        size_t count)
{
    struct cel_value ip = fn_ip(run, args, count);

    return ip.type == CEL_ERROR ? ip : cel_bool(str_eq(object_text(run->arena, ip), args[0].s));
}

static struct cel_value fn_family(struct cel_run *run, const struct cel_value *args, size_t count)
{
    (void)run;
    (void)count;
    return args[0].type == CEL_IP ? cel_int(args[0].ip->six ? 6 : 4) : run_no_overload();
}

/* ---- what an address is ---- */

enum trait {
    TRAIT_UNSPECIFIED,
    TRAIT_LOOPBACK,
    TRAIT_LINK_MULTICAST,
    TRAIT_LINK_UNICAST,
    TRAIT_GLOBAL,
};

static bool is_zero(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i])
            return false;
    return true;
}

static bool has_trait(const struct cel_ip *ip, enum trait trait)
{
    const unsigned char *b = ip->bytes;
    static const unsigned char broadcast[] = {255, 255, 255, 255};

    switch (trait) {
    case TRAIT_UNSPECIFIED: return is_zero(b, 16);
    case TRAIT_LOOPBACK: return ip->six ? is_zero(b, 15) && b[15] == 1 : b[0] == 127;
    case TRAIT_LINK_MULTICAST:
        return ip->six ? b[0] == 0xff && (b[1] & 0xf) == 2 : b[0] == 224 && !b[1] && !b[2];
    case TRAIT_LINK_UNICAST:
        return ip->six ? b[0] == 0xfe && (b[1] & 0xc0) == 0x80 : b[0] == 169 && b[1] == 254;
    case TRAIT_GLOBAL: break;
    }
    bool multicast = ip->six ? b[0] == 0xff : (b[0] & 0xf0) == 0xe0;
    return !multicast && !has_trait(ip, TRAIT_UNSPECIFIED) && !has_trait(ip, TRAIT_LOOPBACK) &&
           !has_trait(ip, TRAIT_LINK_UNICAST) && (ip->six || memcmp(b, broadcast, 4) != 0);
}

#define TRAIT_FUNCTION(id, trait)                                                               \
    static struct cel_value id(struct cel_run *run, const struct cel_value *args, size_t count) \
    {                                                                                           \
        (void)run;                                                                              \
        (void)count;                                                                            \
        return args[0].type == CEL_IP ? cel_bool(has_trait(args[0].ip, trait))                  \
                                      : run_no_overload();                                      \
    }
TRAIT_FUNCTION(fn_unspecified, TRAIT_UNSPECIFIED)
TRAIT_FUNCTION(fn_loopback, TRAIT_LOOPBACK)
TRAIT_FUNCTION(fn_link_multicast, TRAIT_LINK_MULTICAST)
TRAIT_FUNCTION(fn_link_unicast, TRAIT_LINK_UNICAST)
TRAIT_FUNCTION(fn_global, TRAIT_GLOBAL)

/* ---- networks ---- */

/* The first `prefix` bits are the same. */
static bool same_network(const struct cel_ip *a, const struct cel_ip *b, unsigned prefix)
{
    unsigned bytes = prefix / 8;
    unsigned rest = prefix % 8;

    if (a->six != b->six || memcmp(a->bytes, b->bytes, bytes) != 0)
        return false;
    return !rest || (a->bytes[bytes] ^ b->bytes[bytes]) >> (8 - rest) == 0;
}

static struct cel_value contains(struct cel_run *run, const struct cel_value *args, bool network)
{
    struct cel_ip other = {0};

    if (args[0].type != CEL_CIDR)
        return run_no_overload();
    if (args[1].type == CEL_STRING) {
        struct cel_value parsed = network ? fn_cidr(run, args + 1, 1) : fn_ip(run, args + 1, 1);

        if (parsed.type == CEL_ERROR)
            return parsed;
        other = *parsed.ip;
    } else if (args[1].type == (network ? CEL_CIDR : CEL_IP)) {
        other = *args[1].ip;
    } else {
        return run_no_overload();
    }
    return cel_bool((!network || other.prefix >= args[0].ip->prefix) &&
                    same_network(args[0].ip, &other, args[0].ip->prefix));
}

static struct cel_value fn_contains_ip(struct cel_run *run,
                                       const struct cel_value *args,
                                       size_t count)
{
    (void)count;
    return contains(run, args, false);
}

static struct cel_value fn_contains_cidr(struct cel_run *run,
                                         const struct cel_value *args,
                                         size_t count)
{
    (void)count;
    return contains(run, args, true);
}

static struct cel_value fn_cidr_ip(struct cel_run *run, const struct cel_value *args, size_t count)
{
    (void)count;
    if (args[0].type != CEL_CIDR)
        return run_no_overload();
    struct cel_ip ip = *args[0].ip;
    ip.prefix = 0;
    return new_ip(run, CEL_IP, &ip);
}

static struct cel_value fn_masked(struct cel_run *run, const struct cel_value *args, size_t count)
{
    (void)count;
    if (args[0].type != CEL_CIDR)
        return run_no_overload();
    struct cel_ip ip = *args[0].ip;
    for (unsigned bit = ip.prefix; bit < 128; bit++)
        ip.bytes[bit / 8] &= (unsigned char)~(0x80U >> (bit % 8));
    return new_ip(run, CEL_CIDR, &ip);
}

static struct cel_value fn_prefix_length(struct cel_run *run,
                                         const struct cel_value *args,
                                         size_t count)
{
    (void)run;
    (void)count;
    return args[0].type == CEL_CIDR ? cel_int(args[0].ip->prefix) : run_no_overload();
}

const struct cel_function cel_functions_net[] = {
    {"ip", false, 1, 1, CEL_IP, fn_ip, "s>I"},
    {"isIP", false, 1, 1, CEL_BOOL, fn_is_ip, "s>b"},
    {"ip.isCanonical", false, 1, 1, CEL_BOOL, fn_is_canonical, "s>b"},
    {"family", true, 1, 1, CEL_INT, fn_family, "I>i"},
    {"isUnspecified", true, 1, 1, CEL_BOOL, fn_unspecified, "I>b"},
    {"isLoopback", true, 1, 1, CEL_BOOL, fn_loopback, "I>b"},
    {"isLinkLocalMulticast", true, 1, 1, CEL_BOOL, fn_link_multicast, "I>b"},
    {"isLinkLocalUnicast", true, 1, 1, CEL_BOOL, fn_link_unicast, "I>b"},
    {"isGlobalUnicast", true, 1, 1, CEL_BOOL, fn_global, "I>b"},
    {"cidr", false, 1, 1, CEL_CIDR, fn_cidr, "s>C"},
    {"isCIDR", false, 1, 1, CEL_BOOL, fn_is_cidr, "s>b"},
    {"containsIP", true, 2, 2, CEL_BOOL, fn_contains_ip, "Cs>b CI>b"},
    {"containsCIDR", true, 2, 2, CEL_BOOL, fn_contains_cidr, "Cs>b CC>b"},
    {"ip", true, 1, 1, CEL_IP, fn_cidr_ip, "C>I"},
    {"masked", true, 1, 1, CEL_CIDR, fn_masked, "C>C"},
    {"prefixLength", true, 1, 1, CEL_INT, fn_prefix_length, "C>i"},
    {0},
};
