#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "launch/record.h"
#include "test.h"
#include "workspace/disk.h"

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
    record_describe(&words, &got);
    EXPECT(strstr(words.p, "rank 3 was killed by SIGKILL") && strstr(words.p, "two"));
    (void)disk_remove_path(folder);
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
