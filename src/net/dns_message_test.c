#include "base/str.h"
#include "net/dns_message.h"
#include "test.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HEAD(flags, questions, extra) "\0\x07" flags "\0" questions "\0\0\0\0\0" extra
#define NAME                          "\3Web\1A\0"
#define OPT(size)                     "\0\0\x29" size "\0\0\0\0\0\0"

static struct dns_writer writer; /* too large for a stack */

TEST(a_question_is_read_or_told_what_is_wrong_with_it)
{
    static const struct {
        struct str message;
        int r;
        enum dns_code code;
        size_t size_max;
        const char *why;
    } rows[] = {
#define ROW(text, ...) {{text, sizeof(text) - 1}, __VA_ARGS__}
        ROW(HEAD("\1\0", "\1", "\0") NAME "\0\1\0\1", 0, DNS_FINE, 512, "the usual"),
        ROW(HEAD("\1\0", "\1", "\1") NAME "\0\1\0\1" OPT("\x10\0"), 0, DNS_FINE, 1232,
            "who takes more gets more, as far as it goes in one piece"),
        ROW(HEAD("\1\0", "\1", "\1") NAME "\0\1\0\1" OPT("\0\1"), 0, DNS_FINE, 512,
            "everybody takes 512"),
        ROW(HEAD("\1\0", "\1", "\1") NAME "\0\1\0\1", 0, DNS_MALFORMED, 512,
            "it says that more comes"),
        ROW(HEAD("\1\0", "\2", "\0") NAME "\0\1\0\1", 0, DNS_MALFORMED, 512, "two questions"),
        ROW(HEAD("\1\0", "\1", "\0") "\3We", 0, DNS_MALFORMED, 512, "a name that is cut off"),
        ROW(HEAD("\1\0", "\1", "\0") "\1a\xc0\x0c\0\1\0\1", 0, DNS_MALFORMED, 512,
            "a name that leads to itself"),
        ROW(HEAD("\1\0", "\1", "\0") "\1a\xc0\x04\0\1\0\1", 0, DNS_MALFORMED, 512,
            "a name that leads into the header, where an answer has other numbers"),
        ROW(HEAD("\1\0", "\1", "\0") "\xc0\x20\0\1\0\1", 0, DNS_MALFORMED, 512,
            "a name that is further on"),
        ROW(HEAD("\1\0", "\1", "\0") NAME "\0\1\0\3", 0, DNS_REFUSED, 512, "another class"),
        ROW(HEAD("\x29\0", "\1", "\0") NAME "\0\1\0\1", 0, DNS_NOT_IMPLEMENTED, 512, "an update"),
        ROW(HEAD("\x81\0", "\1", "\0") NAME "\0\1\0\1", -EBADMSG, DNS_FINE, 512,
            "an answer is not answered"),
        ROW("\0\7\1", -EBADMSG, DNS_FINE, 512, "nobody is there to answer"),
#undef ROW
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dns_query query;
        enum dns_code code = DNS_FINE;

        test_case(rows[i].why);
        EXPECT(dns_read_query(rows[i].message, &query, &code) == rows[i].r);
        EXPECT(code == rows[i].code && query.size_max == rows[i].size_max);
        if (code == DNS_FINE && rows[i].r == 0)
            EXPECT(strcmp(query.name, "web.a") == 0 && query.type == DNS_A && query.id == 7);
    }
}

TEST(an_answer_that_does_not_fit_says_so_and_has_nothing)
{
    static const char message[] = HEAD("\1\0", "\1", "\0") NAME "\0\1\0\1";
    struct str question = {message, sizeof(message) - 1};
    struct dns_query query;
    struct dns_record record;
    enum dns_code code;

    EXPECT(dns_read_query(question, &query, &code) == 0);
    dns_begin(&writer, &query, question, query.size_max);
    for (int i = 0; i < 30; i++) /* of 16 bytes each, behind 23 */
        dns_add_a(&writer, STR("web.a"), 0x0a000002);
    struct str answer = dns_end(&writer, DNS_FINE, true);
    size_t cursor = 0, count = 0;
    EXPECT(answer.len == 23 + 30 * 16 && !writer.cut && dns_is_answer_to(answer, question, 7));
    while (dns_next_record(answer, &cursor, &record)) {
        EXPECT(strcmp(record.name, "web.a") == 0 && record.type == DNS_A);
        EXPECT(str_eq(record.data, (struct str){"\x0a\0\0\2", 4}));
        count++;
    }
    EXPECT(count == 30);

    dns_begin(&writer, &query, question, query.size_max);
    for (int i = 0; i < 31; i++)
        dns_add_a(&writer, STR("web.a"), 0x0a000002);
    answer = dns_end(&writer, DNS_FINE, true);
    EXPECT(answer.len == 23 && (answer.p[2] & 2)); /* truncated */

    dns_begin(&writer, &query, question, DNS_MESSAGE_MAX);
    for (int i = 0; i < 2000; i++)
        dns_add_a(&writer, STR("web.a"), 0x0a000002);
    EXPECT(dns_end(&writer, DNS_FINE, true).len == 23);
}

TEST(an_answer_is_one_to_what_was_asked_only)
{
    static const char asked[] = HEAD("\1\0", "\1", "\0") "\1a\0\0\1\0\1";
    static const struct {
        struct str message;
        bool is;
        const char *why;
    } rows[] = {
#define ROW(text, ...) {{text, sizeof(text) - 1}, __VA_ARGS__}
        ROW(HEAD("\x81\x80", "\1", "\0") "\1A\0\0\1\0\1", true, "letters are the same"),
        ROW(HEAD("\1\0", "\1", "\0") "\1a\0\0\1\0\1", false, "a question"),
        ROW(HEAD("\x81\x80", "\1", "\0") "\1b\0\0\1\0\1", false, "another name"),
        ROW(HEAD("\x81\x80", "\1", "\0") "\1a\0\0\x1c\0\1", false, "another type"),
        ROW("\1\7\x81\x80\0\1\0\0\0\0\0\0\1a\0\0\1\0\1", false, "another number"),
        ROW("\0\7\x81\x80", false, "too short"),
#undef ROW
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        test_case(rows[i].why);
        EXPECT(dns_is_answer_to(rows[i].message, (struct str){asked, sizeof(asked) - 1}, 7) ==
               rows[i].is);
    }
}

TEST(the_records_of_others_are_read_whole)
{
    /* www.example.com is far.example.com, which is 1.2.3.4. */
    static const char text[] = "\0\7\x81\x80\0\1\0\2\0\0\0\0\3www\7example\3com\0\0\1\0\1"
                               "\xc0\x0c\0\5\0\1\0\0\0\x3c\0\6\3far\xc0\x10"
                               "\xc0\x2d\0\1\0\1\0\0\0\x3c\0\4\1\2\3\4";
    struct dns_record record;
    size_t cursor = 0;

    EXPECT(dns_next_record((struct str){text, sizeof(text) - 1}, &cursor, &record));
    EXPECT(record.type == DNS_CNAME && strcmp(record.name, "www.example.com") == 0);
    EXPECT(strcmp(record.target, "far.example.com") == 0 && record.seconds == 60);
    EXPECT(dns_next_record((struct str){text, sizeof(text) - 1}, &cursor, &record));
    EXPECT(record.type == DNS_A && strcmp(record.name, "far.example.com") == 0);
    EXPECT(!dns_next_record((struct str){text, sizeof(text) - 1}, &cursor, &record));
    cursor = 0;
    EXPECT(dns_next_record((struct str){text, sizeof(text) - 2}, &cursor, &record));
    EXPECT(!dns_next_record((struct str){text, sizeof(text) - 2}, &cursor, &record));
}
