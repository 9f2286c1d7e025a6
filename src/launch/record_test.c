#include "api/launch.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "launch/record.h"
#include "test.h"
#include "workspace/disk.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST(record_first_is_the_earliest_failure)
{
    _cleanup_(buf_done) struct buf text = {0};
    _cleanup_(buf_done) struct buf words = {0};
    char folder[] = "/tmp/muster-record-XXXXXX";
    struct record got;

    EXPECT(mkdtemp(folder) != NULL);
    EXPECT(!record_first(folder, &got, &text));
    EXPECT(record_write(folder, &(struct record){.when_ns = 30, .code = 1, .rank = 0}, NULL) == 0);
    EXPECT(record_write(
               folder,
               &(struct record){.when_ns = 20, .signal = 9, .rank = 3, .text = STR("one\ntwo\n")},
               NULL) == 0);
    EXPECT(record_first(folder, &got, &text));
    EXPECT(got.rank == 3 && record_status(&got) == 137);
    record_describe(&words, &got, STR_NONE);
    EXPECT(strstr(words.p, "rank 3 was killed by SIGKILL") && strstr(words.p, "two"));
    EXPECT(!strstr(words.p, "no space"));
    record_describe(&words, &got, STR("/data"));
    EXPECT(strstr(words.p, "Z; no space is left on /data; its last lines:\none\n"));
    record_clear(folder); /* they were stopped for a restart in place */
    EXPECT(!record_first(folder, &got, &text));
    (void)disk_remove_path(folder);
}

/* The peer was quicker to end, and torchrun ended a third. */
TEST(who_lost_a_peer_did_not_begin_it)
{
    static const struct record ends[] = {
        {.when_ns = 10, .signal = 15, .rank = 0, .text = STR("Terminated\n")},
        {.when_ns = 20,
         .code = 1,
         .rank = 1,
         .text = STR("RuntimeError: Connection closed by peer\n")},
        {.when_ns = 30, .code = 1, .rank = 2, .text = STR("ValueError: nan\n")},
        {.when_ns = 40, .code = 1, .rank = 3, .text = STR("ValueError: nan\n")},
    };
    static const int64_t began[] = {0, 1, 2, 2}; /* when so many have told */

    /* In whatever order the folder has them. */
    for (int backwards = 0; backwards <= 1; backwards++) {
        char folder[] = "/tmp/muster-record-XXXXXX";
        _cleanup_(buf_done) struct buf text = {0};
        struct record got;

        EXPECT(mkdtemp(folder) != NULL);
        for (size_t i = 0; i < COUNT_OF(ends); i++) {
            size_t at = backwards ? COUNT_OF(ends) - 1 - i : i;

            EXPECT(record_write(folder, &ends[at], NULL) == 0);
            EXPECT(record_first(folder, &got, &text));
            if (!backwards)
                EXPECT(got.rank == began[i] && str_eq(got.text, ends[began[i]].text));
        }
        EXPECT(got.rank == 2 && str_is(got.text, "ValueError: nan\n"));
        (void)disk_remove_path(folder);
    }
}

TEST(a_data_loader_without_shared_memory_is_told_from_other_ends)
{
    static const struct {
        struct record record;
        bool said;
    } rows[] = {
        {{.code = 1,
          .text =
              STR("RuntimeError: DataLoader worker (pid 9) is killed by signal: Bus error. It is "
                  "possible that dataloader's workers are out of shared memory.\n")},
         true},
        {{.code = 1,
          .text =
              STR("RuntimeError: unable to write to file </torch_71_2860156463_0>: No space left "
                  "on device (28)\n")},
         true},
        {{.signal = SIGBUS}, true},
        {{.code = 1, .text = STR("OSError: [Errno 28] No space left on device\n")}, false},
        {{.signal = SIGSEGV}, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(buf_done) struct buf words = {0};

        record_describe(&words, &rows[i].record, STR_NONE);
        EXPECT(str_contains(buf_str(&words), STR("/dev/shm is too small")) == rows[i].said);
        EXPECT(str_contains(buf_str(&words), STR("shmSizePerGPU")) == rows[i].said);
    }
}

TEST(tail_keeps_the_last_lines)
{
    struct tail tail = {.len = 0};
    char line[32];

    for (int i = 0; i < 1000; i++) {
        int n = snprintf(line, sizeof(line), "line %d\n", i);

        tail_add(&tail, (struct str){line, (size_t)n});
    }
    struct str last = tail_lines(&tail);
    size_t lines = 0;
    for (size_t i = 0; i < last.len; i++)
        lines += last.p[i] == '\n';
    EXPECT(lines == RECORD_LINES_MAX);
    EXPECT(str_ends(last, STR("line 999\n")) && str_starts(last, STR("line 980\n")));
}

TEST(where_an_error_was_thrown_does_not_drive_out_what_it_was)
{
    for (size_t piece = 1; piece < 5000; piece = piece * 3 + 1) {
        _cleanup_(buf_done) struct buf log = {0};
        struct tail tail = {.len = 0};

        buf_add(&log, STR("  what():  file write failed\n"));
        for (int i = 0; i < 40; i++)
            buf_addf(&log, "frame #%d: <unknown function> + 0x65b4ed (0x7efef257f4ed in /lib/%d)\n",
                     i, i);
        buf_add(&log, STR("frame #17: loss 0.5\nframe #18: of a film, which has no"));
        for (struct str rest = buf_str(&log); rest.len; rest = str_sub(rest, piece, rest.len))
            tail_add(&tail, str_sub(rest, 0, piece));
        struct str last = tail_lines(&tail);
        EXPECT(str_starts(last, STR("  what():  file write failed\nframe #0: ")));
        EXPECT(str_contains(last, STR("frame #2: ")) && !str_contains(last, STR("in /lib/39")));
        EXPECT(str_ends(last, STR("\nframe #17: loss 0.5\nframe #18: of a film, which has no")));
    }
}

TEST(what_would_happen_again_is_said_to_be_final)
{
    static const struct {
        const char *why;
        int code;
        bool final;
        const char *text;
    } rows[] = {
        {"no such script", 2, true,
         "python: can't open file '/app/nope.py': [Errno 2] No such file or directory\n"},
        {"the same words from a program that ran", 1, false,
         "python: can't open file '/app/nope.py': [Errno 2] No such file or directory\n"},
        {"data that is missing may come", 1, false,
         "FileNotFoundError: [Errno 2] No such file or directory: 'data'\n"},
        {"the script is none", 1, true,
         "  File \"/app/train.py\", line 3\n    def f(\n         ^\nSyntaxError: '(' was never "
         "closed\n"},
        {"nor is a module of it", 1, true,
         "Traceback (most recent call last):\n  File \"/app/train.py\", line 1, in <module>\n"
         "    import model\n  File \"/app/model.py\", line 2\n    x = = 1\n        ^\n"
         "IndentationError: unexpected indent\n"},
        {"what a program read at run time", 1, false,
         "Traceback (most recent call last):\n  File \"/app/train.py\", line 9, in <module>\n"
         "    main()\n  File \"/app/train.py\", line 5, in main\n    eval(text)\n"
         "  File \"<string>\", line 1\nSyntaxError: invalid syntax\n"},
        {"an error as any other", 1, false, "ValueError: loss is nan\n"},
        {"nothing said", 1, false, ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(buf_done) struct buf words = {0};
        _cleanup_(buf_done) struct buf why = {0};
        struct record record = {.code = rows[i].code, .text = str_from(rows[i].text)};

        test_case(rows[i].why);
        EXPECT(record_final(&record, &why) == rows[i].final);
        EXPECT(i != 0 || str_is(buf_str(&why), "the script /app/nope.py does not exist"));
        record_describe(&words, &record, STR_NONE);
        EXPECT(str_contains(buf_str(&words), STR("000Z" LAUNCH_FINAL)) == rows[i].final);
    }
}

TEST(a_torchrun_that_was_killed_is_said_to_be_and_not_to_have_lost_a_peer)
{
    static const struct {
        int status;
        const char *words;
    } rows[] = {
        {137, "torchrun was killed by SIGKILL before any of its ranks failed\n"},
        {139, "torchrun was killed by SIGSEGV before any of its ranks failed\n"},
        {1, "torchrun ended with exit code 1 before any rank failed\n"},
        {255, "torchrun ended with exit code 255 before any rank failed\n"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(buf_done) struct buf words = {0};

        record_describe_none(&words, rows[i].status);
        EXPECT(str_is(buf_str(&words), rows[i].words));
    }
}
