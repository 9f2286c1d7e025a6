#include "shim/parts.h"
#include "test.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void make_pair(int pair[static 2])
{
    EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
}

TEST(a_child_that_execs_says_nothing)
{
    int pair[2], master = -1;
    char words[256] = "";
    make_pair(pair);
    close(pair[1]);
    EXPECT(report_await(pair[0], &master, words) == 0);
    EXPECT(master == -1 && !*words);
    close(pair[0]);
}

/* The kernel tells the shim that the child left a word unread before it hands out what the child said. */
TEST(what_a_child_says_is_heard_though_it_left_a_word_unread)
{
    struct report report = {-EACCES, "subPath open: Permission denied"};
    int pair[2], master = -1;
    char words[256] = "";
    make_pair(pair);
    EXPECT(send(pair[0], "g", 1, MSG_NOSIGNAL) == 1);
    EXPECT(report_send(pair[1], &report, -1) == 0);
    close(pair[1]);
    EXPECT(report_await(pair[0], &master, words) == -EACCES);
    EXPECT(strcmp(words, report.text) == 0);
    close(pair[0]);
}

/* One that is killed before it heard that it may begin has not exec'd. */
TEST(a_child_that_left_a_word_unread_and_said_nothing_did_not_start)
{
    int pair[2], master = -1;
    char words[256] = "";
    make_pair(pair);
    EXPECT(send(pair[0], "g", 1, MSG_NOSIGNAL) == 1);
    close(pair[1]);
    EXPECT(report_await(pair[0], &master, words) == -ECHILD);
    EXPECT(!*words);
    close(pair[0]);
}
