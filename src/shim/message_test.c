#include "base/count.h"
#include "shim/message.h"
#include "test.h"

#include <stddef.h>
#include <string.h>

TEST(shim_orders_are_read_and_odd_ones_left_alone)
{
    static const struct {
        const char *text;
        bool ok;
        struct shim_order order;
        const char *why;
    } rows[] = {
        {"start main 3", true, {.verb = SHIM_START, .name = "main", .instance = 3}, "start"},
        {"signal a 0 15", true, {.verb = SHIM_SIGNAL, .name = "a", .signal = 15}, "signal"},
        {"exec 7 a x.9", true, {.verb = SHIM_EXEC, .id = 7, .name = "a", .file = "x.9"}, "exec"},
        {"execsignal 7 9", true, {.verb = SHIM_EXECSIGNAL, .id = 7, .signal = 9}, "to an exec"},
        {"attach a", true, {.verb = SHIM_ATTACH, .name = "a"}, "attach"},
        {"tee a", true, {.verb = SHIM_TEE, .name = "a"}, "tee"},
        {"dial 8080", false, {0}, "an older agent's"},
        {"state", true, {.verb = SHIM_STATE}, "state"},
        {"stop", true, {.verb = SHIM_STOP}, "stop"},
        {"stop forget", true, {.verb = SHIM_STOP, .forget = true}, "stop, whatever is unwritten"},
        {"start a 1 later", true, {.verb = SHIM_START, .name = "a", .instance = 1}, "more words"},
        {"start a", false, {0}, "no instance"},
        {"start ../x 1", false, {0}, "a name that is a path"},
        {"start .. 1", false, {0}, "the folder above"},
        {"exec 1 a ../../etc/passwd", false, {0}, "a file that is a path"},
        {"dance", false, {0}, "a verb of a newer agent"},
        {"", false, {0}, "nothing"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct shim_order order = {0};
        test_case(rows[i].why);
        EXPECT(shim_order_parse(rows[i].text, &order) == rows[i].ok);
        EXPECT(order.verb == rows[i].order.verb && order.instance == rows[i].order.instance);
        EXPECT(strcmp(order.name, rows[i].order.name) == 0);
        EXPECT(strcmp(order.file, rows[i].order.file) == 0);
        EXPECT(order.id == rows[i].order.id && order.signal == rows[i].order.signal);
        EXPECT(order.forget == rows[i].order.forget);
    }
}

TEST(shim_events_tell_started_from_exited)
{
    struct shim_event event = {0};
    EXPECT(shim_event_parse("started main 2 1234 1700000000123", &event));
    EXPECT(strcmp(event.name, "main") == 0 && event.instance == 2 && !event.exited);
    EXPECT(event.pid == 1234 && event.started_ms == 1700000000123);
    EXPECT(shim_event_parse("running a 0 1 2", &event) && !event.exited);
    EXPECT(shim_event_parse("exited a 4", &event) && event.exited && event.instance == 4);
    EXPECT(!event.end);
    EXPECT(shim_event_parse("ended a 4 7 0 5 6 -\nwords", &event) && !event.exited);
    EXPECT(event.instance == 4 && strcmp(event.end, "7 0 5 6 -\nwords") == 0);
    EXPECT(shim_event_parse("ended a 4", &event) && strcmp(event.end, "") == 0);
    EXPECT(!shim_event_parse("started a 0", &event));
    EXPECT(!shim_event_parse("hello 2", &event));
    EXPECT(!shim_event_parse("dialed 80 0", &event));
}

TEST(shim_exit_files_say_when_a_container_finished_and_why)
{
    struct shim_exit end = {0};
    EXPECT(shim_exit_parse("137 9 1000 2345 o\n", &end));
    EXPECT(end.code == 137 && end.signal == 9 && end.started_ms == 1000 && end.ended_ms == 2345);
    EXPECT(end.oom && !end.never_started && strcmp(end.words, "") == 0);
    EXPECT(shim_exit_parse("128 0 5 5 s\nexec x: No such file\n", &end));
    EXPECT(end.never_started && !end.oom && strcmp(end.words, "exec x: No such file\n") == 0);
    EXPECT(shim_exit_parse("0 0 5 6 -", &end) && !end.oom && !end.never_started);
    EXPECT(shim_exit_parse("137 0 5 6 l\nnobody saw it\n", &end) && end.lost && !end.oom);
    EXPECT(!shim_exit_parse("0 0 5", &end));
    EXPECT(!shim_exit_parse("", &end));
}
