#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "test.h"
#include "tool/log.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

TEST(log_lines_are_logfmt_with_quotes_only_where_needed)
{
    static const struct {
        const char *value;
        const char *line;
        const char *why;
    } rows[] = {
        {"default/a", "pod=default/a\n", "bare"},
        {"", "pod=\"\"\n", "empty needs quotes"},
        {"a b", "pod=\"a b\"\n", "blank"},
        {"a=b", "pod=\"a=b\"\n", "equals sign"},
        {"a\"b", "pod=\"a\\\"b\"\n", "quote"},
        {"a\nb", "pod=\"a\\nb\"\n", "a value never breaks the line"},
        {"\033[31m", "pod=\"\\u001b[31m\"\n", "escapes do not reach the terminal"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(buf_done) struct buf buf = {0};
        const struct log_field fields[] = {LOG_C("pod", rows[i].value), {NULL, {NULL, 0}, 0}};

        test_case(rows[i].why);
        log_format(&buf, false, &(struct log_line){1000, LEVEL_INFO, "pod.started", fields, 0});
        EXPECT(str_ends(buf_str(&buf), str_from(rows[i].line)));
    }
}

TEST(log_line_starts_with_time_level_and_event)
{
    _cleanup_(buf_done) struct buf buf = {0};
    const struct log_field fields[] = {LOG_I64("pid", -7), {NULL, {NULL, 0}, 0}};

    log_format(&buf, false, &(struct log_line){1794708184567, LEVEL_WARN, "pod.lost", fields, 0});
    EXPECT(
        str_is(buf_str(&buf), "time=2026-11-15T02:03:04.567Z level=warn event=pod.lost pid=-7\n"));
}

TEST(log_lines_are_json_where_that_is_wanted)
{
    _cleanup_(buf_done) struct buf buf = {0};
    const struct log_field fields[] = {LOG_I64("pid", -7),
                                       LOG_C("error", "a \"b\"\nc \xff"),
                                       LOG_STR("pod", STR_NONE),
                                       {NULL, {NULL, 0}, 0}};

    log_format(&buf, true, &(struct log_line){1794708184567, LEVEL_WARN, "pod.lost", fields, 3});
    EXPECT(str_is(
        buf_str(&buf),
        "{\"time\":\"2026-11-15T02:03:04.567Z\",\"level\":\"warn\",\"event\":\"pod.lost\","
        "\"pid\":-7,\"error\":\"a \\\"b\\\"\\nc \xef\xbf\xbd\",\"pod\":\"\",\"repeated\":3}\n"));
}

TEST(log_drops_what_is_below_its_level)
{
    int ends[2];
    char text[512] = {0};

    EXPECT(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    struct log log = {.fd = ends[1], .level = LEVEL_WARN};
    log_info(&log, "quiet.event");
    log_error(&log, "loud.event", LOG_I64("n", 1));
    log_error(NULL, "nobody.listens");
    ssize_t n = read(ends[0], text, sizeof(text) - 1);
    EXPECT(n > 0 && strstr(text, "event=loud.event n=1\n"));
    EXPECT(!strstr(text, "quiet"));
    (void)close(ends[0]);
    (void)close(ends[1]);
}

TEST(log_levels_have_names)
{
    enum log_level level = LEVEL_ERROR;

    EXPECT(log_level_parse(STR("debug"), &level) && level == LEVEL_DEBUG);
    EXPECT(!log_level_parse(STR("loud"), &level) && level == LEVEL_DEBUG);
}

TEST(log_counts_the_same_trouble_instead_of_writing_it_again)
{
    struct log_repeats repeats = {0};
    int64_t dropped = -1;

    EXPECT(log_repeats_pass(&repeats, 7, 1000, &dropped) && dropped == 0);
    EXPECT(!log_repeats_pass(&repeats, 7, 1001, &dropped));
    EXPECT(!log_repeats_pass(&repeats, 7, 1000 + LOG_REPEAT_MS - 1, &dropped));
    EXPECT(log_repeats_pass(&repeats, 8, 1002, &dropped) && dropped == 0); /* another one */
    EXPECT(log_repeats_pass(&repeats, 7, 1000 + LOG_REPEAT_MS, &dropped) && dropped == 2);
    EXPECT(log_repeats_pass(&repeats, 7, 1000 + LOG_REPEAT_MS * 2, &dropped) && dropped == 0);
}

TEST(log_takes_lines_with_one_error_for_one_trouble_unless_everything_is_wanted)
{
    struct err err = {.text = "no answer"};
    struct err other = {.text = "another"};
    struct log_repeats repeats = {0};
    int ends[2];
    char text[2048] = {0};

    EXPECT(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    struct log log = {.fd = ends[1], .level = LEVEL_INFO, .repeats = &repeats};
    log_warn(&log, "watch.failed", LOG_C("resource", "pods"), LOG_ERR(&err));
    log_warn(&log, "watch.failed", LOG_C("resource", "nodes"), LOG_ERR(&err));
    log_warn(&log, "watch.failed", LOG_C("resource", "queues"), LOG_ERR(&other));
    log_info(&log, "pod.started", LOG_STR("pod", STR_NONE));
    log_info(&log, "pod.started", LOG_STR("pod", STR_NONE));
    log.level = LEVEL_DEBUG;
    log_warn(&log, "watch.failed", LOG_C("resource", "secrets"), LOG_ERR(&err));
    EXPECT(read(ends[0], text, sizeof(text) - 1) > 0);
    EXPECT(strstr(text, "resource=pods") && strstr(text, "resource=queues"));
    EXPECT(!strstr(text, "resource=nodes") && strstr(text, "resource=secrets"));
    const char *first = strstr(text, "pod.started pod=\"\"\n");
    EXPECT(first && strstr(first + 1, "pod.started"));
    (void)close(ends[0]);
    (void)close(ends[1]);
}
