#include "base/str.h"
#include "fuzz/fuzz.h"
#include "net/dns_message.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* A message of the domain name system: as a question, and as what others answer. Reading ends and
 * stays inside; what is written of it can be read again and says the same. */

static void check_question(struct str input)
{
    static struct dns_writer writer;
    struct dns_query query;
    enum dns_code code = DNS_FINE;

    if (dns_read_query(input, &query, &code) < 0)
        return;
    FUZZ_HOLDS(strlen(query.name) < DNS_NAME_BYTES && query.question_end <= input.len);
    FUZZ_HOLDS(query.size_max >= DNS_PLAIN_MAX && query.size_max <= DNS_UDP_MAX);
    dns_begin(&writer, &query, input, query.size_max);
    dns_add_a(&writer, str_from(query.name), 0x0a000001);
    for (int i = 0; i < 40; i++)
        dns_add_srv(&writer, STR("a.b"), 80, str_from(query.name));
    dns_add_authority(&writer, STR("cluster.local"));
    struct str answer = dns_end(&writer, code, true);
    FUZZ_HOLDS(answer.len <= query.size_max);
    FUZZ_HOLDS(dns_code_of(answer) == code);
    if (query.question_end)
        FUZZ_HOLDS(dns_is_answer_to(answer, input, query.id));
}

FUZZ(dns)
{
    struct dns_record record;
    size_t count = 0;

    check_question(input);
    for (size_t cursor = 0; dns_next_record(input, &cursor, &record); count++) {
        FUZZ_HOLDS(strlen(record.name) < DNS_NAME_BYTES && strlen(record.target) < DNS_NAME_BYTES);
        FUZZ_HOLDS(record.data.p >= input.p &&
                   record.data.p + record.data.len <= input.p + input.len);
    }
    FUZZ_HOLDS(count <= 512);
}
