#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "kube/inside.h"
#include "kube/kubeconfig.h"
#include "kube/wire.h"
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#define MUCH        ((size_t)8 << 20) /* more than sockets hold */
#define ECHO_BYTES  ((size_t)32768)
#define SERVER_LIFE 60

TEST(frames_of_a_server_are_read_whole_or_not_at_all)
{
    static const struct {
        const char *why;
        struct str bytes;
        int code;
        size_t data;
    } rows[] = {
        {"nothing yet", {"", 0}, 0, 0},
        {"half a head", {"\x82", 1}, 0, 0},
        {"half of its data", {"\x82\x03\x01z", 4}, 0, 0},
        {"one, and more behind it", {"\x82\x03\x01zy\x82", 6}, 1, 3},
        {"a longer one that has not come", {"\x82\x7e\x01", 3}, 0, 0},
        {"a server does not mask", {"\x82\x83zzzz123", 9}, -EPROTO, 0},
        {"no fragments", {"\x02\x01z", 3}, -EPROTO, 0},
        {"too large", {"\x82\x7f\x00\x00\x01\x00\x00\x00\x00\x00", 10}, -EPROTO, 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct wire_frame frame = {0};

        test_case(rows[i].why);
        EXPECT(wire_frame_next(rows[i].bytes, &frame) == rows[i].code);
        EXPECT(frame.data.len == rows[i].data);
    }
}

TEST(frames_of_a_client_are_masked_and_have_their_length_in_the_shortest_form)
{
    static const unsigned char mask[4] = {1, 2, 3, 4};
    _cleanup_(buf_done) struct buf out = {0};
    char large[70000];

    wire_frame_add(&out, 2, mask, STR("abcde"));
    EXPECT(out.len == 11 && memcmp(out.p,
                                   "\x82\x85\x01\x02\x03\x04"
                                   "``````",
                                   7) == 0);
    EXPECT(out.p[10] == ('e' ^ 1));
    memset(large, 0, sizeof(large));
    buf_clear(&out);
    wire_frame_add(&out, 2, mask, (struct str){large, 200});
    EXPECT(out.len == 208 && memcmp(out.p, "\x82\xfe\x00\xc8", 4) == 0);
    buf_clear(&out);
    wire_frame_add(&out, 2, mask, (struct str){large, sizeof(large)});
    EXPECT(out.len == sizeof(large) + 14 &&
           memcmp(out.p, "\x82\xff\0\0\0\0\0\x01\x11\x70", 10) == 0);
}

TEST(the_last_words_of_a_command_are_its_exit_status)
{
    static const struct {
        const char *text;
        int status;
    } rows[] = {
        {"{\"status\":\"Success\"}", 0},
        {"{\"status\":\"Failure\",\"reason\":\"NonZeroExitCode\",\"details\":{\"causes\":"
         "[{\"reason\":\"ExitCode\",\"message\":\"7\"}]}}",
         7},
        {"{\"status\":\"Failure\",\"message\":\"no such file\"}", -EIO},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct err err = {0};

        EXPECT(inside_status(&arena, str_from(rows[i].text), &err) == rows[i].status);
    }
}

/* ---- against a server of one connection, in a process of its own ---- */

enum served {
    SERVE_NOTHING,
    SERVE_WORD,  /* says a word, and no more */
    SERVE_FLOOD, /* much output before it reads anything, then all input */
};

static void serve_all(int fd, const char *bytes, size_t len)
{
    while (len) {
        ssize_t sent = write(fd, bytes, len);

        if (sent <= 0)
            _exit(1);
        bytes += sent;
        len -= (size_t)sent;
    }
}

static void serve_frame(int fd, char channel, const char *bytes, size_t len)
{
    char head[5] = {(char)0x82, 126, (char)((len + 1) >> 8), (char)(len + 1), channel};

    serve_all(fd, head, sizeof(head));
    serve_all(fd, bytes, len);
}

static void serve(int listener, enum served what, const char *protocol)
{
    static char piece[ECHO_BYTES];
    char answer[200];
    size_t got = 0;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

    (void)alarm(SERVER_LIFE);
    while (!memmem(piece, got, "\r\n\r\n", 4)) {
        ssize_t more = read(fd, piece + got, sizeof(piece) - got);

        if (more <= 0)
            _exit(1);
        got += (size_t)more;
    }
    (void)snprintf(answer, sizeof(answer),
                   "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Protocol: %s\r\n\r\n",
                   protocol);
    serve_all(fd, answer, strlen(answer));
    if (what == SERVE_WORD)
        serve_frame(fd, 1, "word", 4);
    for (size_t sent = 0; what == SERVE_FLOOD && sent < MUCH; sent += sizeof(piece))
        serve_frame(fd, 1, piece, sizeof(piece));
    for (size_t taken = 0; what == SERVE_FLOOD && taken < MUCH; taken += got) {
        ssize_t more = read(fd, piece, sizeof(piece));

        if (more <= 0)
            _exit(1);
        got = (size_t)more;
    }
    if (what == SERVE_FLOOD)
        serve_frame(fd, 3, "{\"status\":\"Success\"}", strlen("{\"status\":\"Success\"}"));
    while (read(fd, piece, sizeof(piece)) > 0)
        ;
    _exit(0);
}

struct heard {
    size_t bytes;
    char words[400];
    bool enough; /* stop after the first */
    volatile sig_atomic_t stop;
    bool interrupts;
};

static bool on_heard(void *user, int fd, struct str bytes)
{
    struct heard *heard = user;

    if (fd == 1)
        heard->bytes += bytes.len;
    else
        (void)snprintf(heard->words, sizeof(heard->words), STR_FMT, STR_ARG(bytes));
    if (heard->interrupts)
        heard->stop = 1;
    return !heard->enough;
}

static int ask(enum served what,
               const char *protocol,
               int input_fd,
               struct heard *heard,
               struct err *err)
{
    static const char *const words[] = {"true"};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char server[64];
    uv_loop_t loop;

    EXPECT(bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0);
    EXPECT(listen(listener, 1) == 0);
    EXPECT(getsockname(listener, (struct sockaddr *)&address, &len) == 0);
    (void)snprintf(server, sizeof(server), "http://127.0.0.1:%d", ntohs(address.sin_port));
    pid_t child = fork();
    if (child == 0)
        serve(listener, what, protocol);
    close(listener);
    EXPECT(uv_loop_init(&loop) == 0);
    int r = inside_run(
        &loop,
        &(struct kube_config){.source = "test", .context = "", .ns = "default", .server = server},
        &(struct inside_request){.ns = "default",
                                 .pod = "p",
                                 .container = "c",
                                 .command = words,
                                 .command_count = COUNT_OF(words),
                                 .input_fd = input_fd,
                                 .output = on_heard,
                                 .user = heard,
                                 .stop = &heard->stop},
        err);
    while (uv_run(&loop, UV_RUN_DEFAULT) != 0)
        ;
    EXPECT(uv_loop_close(&loop) == 0);
    EXPECT(waitpid(child, NULL, 0) == child);
    return r;
}

TEST(a_signal_ends_a_command_that_says_nothing)
{
    struct heard heard = {.interrupts = true};
    struct err err = {0};

    EXPECT(ask(SERVE_WORD, "v5.channel.k8s.io", -1, &heard, &err) == -EINTR);
    EXPECT(heard.bytes == 4);
}

TEST(output_that_is_not_wanted_ends_a_command)
{
    struct heard heard = {.enough = true};
    struct err err = {0};

    EXPECT(ask(SERVE_WORD, "v5.channel.k8s.io", -1, &heard, &err) == -ECANCELED);
}

/* Both would wait for the other to read. */
TEST(much_input_and_much_output_pass_one_another)
{
    struct heard heard = {0};
    struct err err = {0};
    int input = memfd_create("input", MFD_CLOEXEC);

    EXPECT(ftruncate(input, (off_t)MUCH) == 0);
    EXPECT(ask(SERVE_FLOOD, "v5.channel.k8s.io", input, &heard, &err) == 0);
    EXPECT(heard.bytes == MUCH && !heard.words[0]);
    close(input);
}

TEST(an_old_server_cannot_be_told_that_input_has_ended)
{
    struct heard heard = {.interrupts = true};
    struct err err = {0};
    int input = memfd_create("input", MFD_CLOEXEC);

    EXPECT(ask(SERVE_NOTHING, "v4.channel.k8s.io", input, &heard, &err) == -EINTR);
    EXPECT(strstr(heard.words, "install kubectl"));
    close(input);
}
