#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dns_query;

/* dns_message: questions and answers of the domain name system (RFC 1035, RFC 6891), in bytes. Pure;
 * whatever the bytes are, reading them ends and stays inside of them.
 *
 * Names are text without a dot at their end, in small letters, as they are compared. A label may
 * have any bytes; a dot or a control character inside of one becomes DNS_ODD, which no name of ours
 * has. */
#define DNS_NAME_BYTES  256  /* of the longest as text, and its NUL */
#define DNS_QUERY_MAX   512  /* of a question: nobody's is larger */
#define DNS_PLAIN_MAX   512  /* of an answer by UDP to who does not say what he takes */
#define DNS_UDP_MAX     1232 /* and to who takes more: passes every network in one piece */
#define DNS_MESSAGE_MAX ((size_t)16 << 10) /* of our own by TCP: a thousand addresses */
#define DNS_ODD         '\x01'

enum dns_type {
    DNS_A = 1,
    DNS_CNAME = 5,
    DNS_SOA = 6,
    DNS_PTR = 12,
    DNS_AAAA = 28,
    DNS_SRV = 33,
    DNS_OPT = 41,
    DNS_ANY = 255,
};

enum dns_code {
    DNS_FINE = 0,
    DNS_MALFORMED = 1,
    DNS_FAILED = 2,
    DNS_NO_SUCH_NAME = 3,
    DNS_NOT_IMPLEMENTED = 4,
    DNS_REFUSED = 5,
};

struct dns_query {
    uint16_t id;
    bool recursion; /* is asked for */
    char name[DNS_NAME_BYTES];
    uint16_t type;
    size_t question_end; /* where the question ends in its message; 0: it could not be read */
    bool edns;
    size_t size_max; /* of an answer by UDP */
};

/* A question. -EBADMSG: there is nobody to answer (too short, or an answer itself). Else *ret_code is
 * DNS_FINE, or what to answer at once. */
int dns_read_query(struct str message, struct dns_query *ret, enum dns_code *ret_code);
/* Whether `message` answers what was asked with `question` (a message, too) under `id`. */
bool dns_is_answer_to(struct str message, struct str question, uint16_t id);

/* One record of an answer, in turn. */
struct dns_record {
    char name[DNS_NAME_BYTES];
    uint16_t type;
    uint32_t seconds;
    struct str data;             /* in the message */
    char target[DNS_NAME_BYTES]; /* of a CNAME */
};
/* The records of the section of answers; start with *cursor = 0. False: there is no other. */
bool dns_next_record(struct str message, size_t *cursor, struct dns_record *ret);
enum dns_code dns_code_of(struct str message);

/* ---- writing ---- */

struct dns_writer {
    char bytes[DNS_MESSAGE_MAX];
    size_t len;
    size_t len_max;
    const struct dns_query *query;
    unsigned answers;
    unsigned authorities;
    bool cut; /* something did not fit */
};

/* An answer to `query`, which came as `message`, of at most len_max bytes. */
void dns_begin(struct dns_writer *writer,
               const struct dns_query *query,
               struct str message,
               size_t len_max);
/* `name` is the owner; records that do not fit set `cut`. */
void dns_add_a(struct dns_writer *writer, struct str name, uint32_t address);
void dns_add_name(struct dns_writer *writer,
                  struct str name,
                  enum dns_type type,
                  struct str target);
void dns_add_srv(struct dns_writer *writer, struct str name, uint16_t port, struct str target);
/* As it was read elsewhere. */
void dns_add_record(struct dns_writer *writer, const struct dns_record *record);
/* Who has the last word on `zone`, and for how long it is worth knowing that there is nothing. */
void dns_add_authority(struct dns_writer *writer, struct str zone);
/* Sets the header; the message is writer->bytes. An answer that was cut says so and has no records:
 * who asked comes again by TCP. */
struct str dns_end(struct dns_writer *writer, enum dns_code code, bool authoritative);
