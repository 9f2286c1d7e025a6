#include "net/dns_message.h"

#include "base/str.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HEADER_BYTES 12
#define LABEL_MAX    63
#define WIRE_MAX     255 /* of a name, in bytes of a message */
#define JUMPS_MAX    32  /* of a compressed name: it has no more labels that are worth one */
#define CLASS_IN     1
#define QUERY_POINTS 0xc00c /* the name in the question */
#define TTL_SECONDS  5      /* as CoreDNS: pods come and go */
#define OPT_BYTES    11     /* behind every answer to who sent one */
#define RECORDS_MAX  512    /* that are looked at in an answer of somebody else */

#define FLAG_ANSWER        0x8000
#define FLAG_AUTHORITATIVE 0x0400
#define FLAG_CUT           0x0200
#define FLAG_WANTED        0x0100 /* recursion */
#define FLAG_AVAILABLE     0x0080
#define OPCODE(flags)      ((flags) >> 11 & 15)

/* ---- reading ---- */

static unsigned u16(struct str message, size_t at)
{
    return (unsigned)(unsigned char)message.p[at] << 8 | (unsigned char)message.p[at + 1];
}

static uint32_t u32(struct str message, size_t at)
{
    return (uint32_t)u16(message, at) << 16 | u16(message, at + 2);
}

static char plain(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    return c == '.' || (unsigned char)c < ' ' ? DNS_ODD : c;
}

/* The name at *at, which goes behind it. Pointers lead backwards only, so there is an end. */
static bool read_name(struct str message, size_t *at, char out[static DNS_NAME_BYTES])
{
    size_t from = *at, limit = message.len, len = 0, wire = 1;
    bool jumped = false;

    for (int jumps = 0; from < limit;) {
        unsigned size = (unsigned char)message.p[from];

        if (size >= 0xc0) {
            if (from + 2 > message.len || ++jumps > JUMPS_MAX)
                return false;
            size_t to = u16(message, from) & 0x3fff;
            if (!jumped)
                *at = from + 2;
            if (to >= from || to < HEADER_BYTES)
                return false;
            jumped = true;
            limit = from; /* what lies behind was read already */
            from = to;
            continue;
        }
        if (!size) {
            if (!jumped)
                *at = from + 1;
            out[len ? len - 1 : 0] = '\0';
            return true;
        }
        wire += size + 1;
        if (size > LABEL_MAX || from + 1 + size > limit || wire > WIRE_MAX)
            return false;
        for (size_t i = 0; i < size; i++)
            out[len++] = plain(message.p[from + 1 + i]);
        out[len++] = '.';
        from += size + 1;
    }
    return false;
}

/* Behind the question: an OPT record says how much may be answered. False: it is malformed. */
static bool read_extra(struct str message, size_t at, struct dns_query *query)
{
    unsigned before = u16(message, 6) + u16(message, 8);
    unsigned extra = u16(message, 10);
    char name[DNS_NAME_BYTES];

    query->size_max = DNS_PLAIN_MAX;
    if (before) /* a question has neither answers nor authorities */
        return false;
    for (unsigned i = 0; i < extra; i++) {
        if (!read_name(message, &at, name) || at + 10 > message.len)
            return false;
        size_t size = u16(message, at + 8);
        if (u16(message, at) == DNS_OPT) {
            size_t wanted = u16(message, at + 2);

            query->edns = true;
            query->size_max = wanted < DNS_PLAIN_MAX ? DNS_PLAIN_MAX
                              : wanted > DNS_UDP_MAX ? DNS_UDP_MAX
                                                     : wanted;
        }
        at += 10;
        if (at + size > message.len)
            return false;
        at += size;
    }
    return true;
}

int dns_read_query(struct str message, struct dns_query *ret, enum dns_code *ret_code)
{
    *ret = (struct dns_query){.size_max = DNS_PLAIN_MAX};
    if (message.len < HEADER_BYTES || message.len > DNS_QUERY_MAX ||
        (u16(message, 2) & FLAG_ANSWER))
        return -EBADMSG;
    ret->id = (uint16_t)u16(message, 0);
    ret->recursion = (u16(message, 2) & FLAG_WANTED) != 0;
    *ret_code = DNS_NOT_IMPLEMENTED;
    if (OPCODE(u16(message, 2)))
        return 0;
    *ret_code = DNS_MALFORMED;
    size_t at = HEADER_BYTES;
    if (u16(message, 4) != 1 || !read_name(message, &at, ret->name) || at + 4 > message.len)
        return 0;
    ret->type = (uint16_t)u16(message, at);
    unsigned class = u16(message, at + 2);
    ret->question_end = at + 4;
    if (!read_extra(message, at + 4, ret))
        return 0;
    *ret_code = class == CLASS_IN ? DNS_FINE : DNS_REFUSED;
    return 0;
}

bool dns_is_answer_to(struct str message, struct str question, uint16_t id)
{
    char asked[DNS_NAME_BYTES], said[DNS_NAME_BYTES];
    size_t a = HEADER_BYTES, b = HEADER_BYTES;

    return message.len >= HEADER_BYTES && question.len >= HEADER_BYTES && u16(message, 0) == id &&
           (u16(message, 2) & FLAG_ANSWER) && u16(message, 4) == 1 &&
           read_name(question, &a, asked) && read_name(message, &b, said) &&
           strcmp(asked, said) == 0 && a + 4 <= question.len && b + 4 <= message.len &&
           u32(question, a) == u32(message, b);
}

enum dns_code dns_code_of(struct str message)
{
    return message.len < HEADER_BYTES ? DNS_FAILED : (enum dns_code)(u16(message, 2) & 15);
}

bool dns_next_record(struct str message, size_t *cursor, struct dns_record *ret)
{
    char name[DNS_NAME_BYTES];

    if (message.len < HEADER_BYTES)
        return false;
    /* The number of records read so far is in the upper half. */
    size_t count = *cursor >> 32, at = *cursor & UINT32_MAX;
    if (!at) {
        at = HEADER_BYTES;
        if (u16(message, 4) != 1 || !read_name(message, &at, name) || at + 4 > message.len)
            return false;
        at += 4;
    }
    if (count >= u16(message, 6) || count >= RECORDS_MAX || !read_name(message, &at, ret->name) ||
        at + 10 > message.len)
        return false;
    ret->type = (uint16_t)u16(message, at);
    ret->seconds = u32(message, at + 4);
    ret->data = str_sub(message, at + 10, u16(message, at + 8));
    if (ret->data.len != u16(message, at + 8))
        return false;
    size_t target = at + 10;
    at = target + ret->data.len;
    ret->target[0] = '\0';
    if (ret->type == DNS_CNAME && !read_name(message, &target, ret->target))
        return false;
    *cursor = (count + 1) << 32 | at;
    return true;
}

/* ---- writing ---- */

static void put16(struct dns_writer *writer, unsigned number)
{
    writer->bytes[writer->len++] = (char)(number >> 8);
    writer->bytes[writer->len++] = (char)number;
}

static void put32(struct dns_writer *writer, uint32_t number)
{
    put16(writer, number >> 16);
    put16(writer, number & 0xffff);
}

static void set16(struct dns_writer *writer, size_t at, unsigned number)
{
    writer->bytes[at] = (char)(number >> 8);
    writer->bytes[at + 1] = (char)number;
}

void dns_begin(struct dns_writer *writer,
               const struct dns_query *query,
               struct str message,
               size_t len_max)
{
    *writer = (struct dns_writer){.query = query,
                                  .len = HEADER_BYTES,
                                  .len_max = len_max < DNS_MESSAGE_MAX ? len_max : DNS_MESSAGE_MAX};
    if (query->edns)
        writer->len_max -= OPT_BYTES;
    set16(writer, 0, query->id);
    if (query->question_end > HEADER_BYTES) {
        memcpy(writer->bytes, message.p, query->question_end);
        writer->len = query->question_end;
    }
    memset(writer->bytes + 2, 0, HEADER_BYTES - 2);
}

/* False, and nothing is added: it is no name, or too long. */
static bool put_name(struct dns_writer *writer, struct str name)
{
    struct str rest = name, label;

    if (name.len + 2 > WIRE_MAX)
        return false;
    for (struct str look = name; name.len && str_cut(&look, '.', &label);)
        if (!label.len || label.len > LABEL_MAX)
            return false;
    while (name.len && str_cut(&rest, '.', &label)) {
        writer->bytes[writer->len++] = (char)label.len;
        memcpy(writer->bytes + writer->len, label.p, label.len);
        writer->len += label.len;
    }
    writer->bytes[writer->len++] = 0;
    return true;
}

/* The owner, type, class and time of a record whose data has at most `room` bytes. Returns where its
 * length stands; 0: it does not fit. */
static size_t begin_record(struct dns_writer *writer,
                           struct str name,
                           unsigned type,
                           uint32_t seconds,
                           size_t room)
{
    if (writer->len + WIRE_MAX + 10 + room > DNS_MESSAGE_MAX) {
        writer->cut = true;
        return 0;
    }
    if (str_is(name, writer->query->name))
        put16(writer, QUERY_POINTS);
    else if (!put_name(writer, name))
        return 0;
    put16(writer, type);
    put16(writer, CLASS_IN);
    put32(writer, seconds);
    put16(writer, 0);
    return writer->len - 2;
}

/* Takes it back where it does not fit. */
static bool end_record(struct dns_writer *writer, size_t begin, size_t length_at)
{
    if (length_at && writer->len <= writer->len_max) {
        set16(writer, length_at, (unsigned)(writer->len - length_at - 2));
        return true;
    }
    writer->cut = writer->cut || length_at;
    writer->len = begin;
    return false;
}

void dns_add_a(struct dns_writer *writer, struct str name, uint32_t address)
{
    size_t begin = writer->len;
    size_t length_at = begin_record(writer, name, DNS_A, TTL_SECONDS, 4);

    if (length_at)
        put32(writer, address);
    writer->answers += end_record(writer, begin, length_at);
}

void dns_add_name(struct dns_writer *writer, struct str name, enum dns_type type, struct str target)
{
    size_t begin = writer->len;
    size_t length_at = begin_record(writer, name, type, TTL_SECONDS, WIRE_MAX);

    if (length_at && !put_name(writer, target)) {
        writer->len = begin;
        return;
    }
    writer->answers += end_record(writer, begin, length_at);
}

void dns_add_srv(struct dns_writer *writer, struct str name, uint16_t port, struct str target)
{
    size_t begin = writer->len;
    size_t length_at = begin_record(writer, name, DNS_SRV, TTL_SECONDS, 6 + WIRE_MAX);

    if (length_at) {
        put16(writer, 0);   /* priority */
        put16(writer, 100); /* weight */
        put16(writer, port);
        if (!put_name(writer, target)) {
            writer->len = begin;
            return;
        }
    }
    writer->answers += end_record(writer, begin, length_at);
}

void dns_add_record(struct dns_writer *writer, const struct dns_record *record)
{
    size_t begin = writer->len;

    if (record->type == DNS_CNAME) {
        dns_add_name(writer, str_from(record->name), DNS_CNAME, str_from(record->target));
        return;
    }
    size_t length_at = begin_record(writer, str_from(record->name), record->type, record->seconds,
                                    record->data.len);
    if (length_at) {
        memcpy(writer->bytes + writer->len, record->data.p, record->data.len);
        writer->len += record->data.len;
    }
    writer->answers += end_record(writer, begin, length_at);
}

void dns_add_authority(struct dns_writer *writer, struct str zone)
{
    size_t begin = writer->len;
    size_t length_at = begin_record(writer, zone, DNS_SOA, TTL_SECONDS, 2 * (WIRE_MAX + 16) + 20);
    static const char *const names[] = {"ns.dns.", "hostmaster."};

    for (size_t i = 0; length_at && i < 2; i++) {
        char text[DNS_NAME_BYTES];
        size_t len = strlen(names[i]);

        if (len + zone.len >= sizeof(text))
            return;
        memcpy(text, names[i], len);
        memcpy(text + len, zone.p, zone.len);
        (void)put_name(writer, (struct str){text, len + zone.len});
    }
    if (length_at) {
        put32(writer, 1);    /* serial: nobody copies this zone */
        put32(writer, 7200); /* refresh, retry, expire */
        put32(writer, 1800);
        put32(writer, 86400);
        put32(writer, TTL_SECONDS);
    }
    bool cut = writer->cut;
    writer->authorities += end_record(writer, begin, length_at);
    writer->cut = cut; /* nobody comes again for it */
}

struct str dns_end(struct dns_writer *writer, enum dns_code code, bool authoritative)
{
    const struct dns_query *query = writer->query;

    if (writer->cut) {
        writer->len = query->question_end ? query->question_end : HEADER_BYTES;
        writer->answers = writer->authorities = 0;
    }
    set16(writer, 2,
          (unsigned)code | FLAG_ANSWER | FLAG_AVAILABLE | (authoritative ? FLAG_AUTHORITATIVE : 0) |
              (writer->cut ? FLAG_CUT : 0) | (query->recursion ? FLAG_WANTED : 0));
    set16(writer, 4, query->question_end ? 1 : 0);
    set16(writer, 6, writer->answers);
    set16(writer, 8, writer->authorities);
    if (query->edns && writer->len + OPT_BYTES <= DNS_MESSAGE_MAX) {
        writer->bytes[writer->len++] = 0; /* the root */
        put16(writer, DNS_OPT);
        put16(writer, DNS_UDP_MAX);
        put32(writer, 0);
        put16(writer, 0);
        set16(writer, 10, 1);
    }
    return (struct str){writer->bytes, writer->len};
}
