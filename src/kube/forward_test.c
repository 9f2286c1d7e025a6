#include "base/err.h"
#include "base/str.h"
#include "kube/forward.h"
#include "kube/kubeconfig.h"
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#define SERVER_LIFE 60
#define NUMBER      "\x80\x3e" /* 16000, the lower byte first */
#define YES                                         \
    "HTTP/1.1 101 Switching Protocols\r\n"          \
    "Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n" \
    "\r\n"                                          \
    "\x82\x03\x00" NUMBER "\x82\x03\x01" NUMBER

static int forward_listen(int *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    EXPECT(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    EXPECT(listen(fd, 4) == 0);
    EXPECT(getsockname(fd, (struct sockaddr *)&address, &len) == 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static void forward_write(int fd, const char *bytes, size_t len)
{
    if (write(fd, bytes, len) != (ssize_t)len)
        _exit(1);
}

static int forward_accept_head(int listener)
{
    char piece[4096] = "";
    size_t got = 0;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

    while (!memmem(piece, got, "\r\n\r\n", 4)) {
        ssize_t more = read(fd, piece + got, sizeof(piece) - got);

        if (more <= 0)
            _exit(1);
        got += (size_t)more;
    }
    return fd;
}

static void forward_refuse(int listener)
{
    static const char no[] = "HTTP/1.1 404 Not Found\r\nContent-Length: 33\r\n\r\n"
                             "{\"message\":\"pods \\\"p\\\" not found\"}";

    forward_write(forward_accept_head(listener), no, sizeof(no) - 1);
    _exit(0);
}

static void forward_put_off(int listener)
{
    static const char busy[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 31\r\n\r\n"
                               "{\"message\":\"the node is busy\"}\n";
    int fd = forward_accept_head(listener);

    forward_write(fd, busy, sizeof(busy) - 1);
    close(fd);
}

enum forward_served {
    SERVE_REFUSAL,
    SERVE_NO_LISTENER,
    SERVE_ANSWER, /* four bytes are sent back in the other order; the next connection is refused */
    SERVE_BUSY,   /* the same after an answer that passes */
};

static void forward_serve(int listener, enum forward_served what)
{
    static const char yes[] = YES;
    static const char none[] = YES "\x82\x05\x01none";
    char piece[4096];

    (void)alarm(SERVER_LIFE);
    if (what == SERVE_REFUSAL)
        forward_refuse(listener);
    if (what == SERVE_BUSY)
        forward_put_off(listener);
    int fd = forward_accept_head(listener);
    if (what == SERVE_NO_LISTENER) {
        forward_write(fd, none, sizeof(none) - 1); /* at once: it is not waited for long */
    } else {
        forward_write(fd, yes, sizeof(yes) - 1);
        size_t got = 0; /* a head of two bytes, the mask, the channel and four bytes */

        while (got < 11) {
            ssize_t more = read(fd, piece + got, 11 - got);

            if (more <= 0)
                _exit(1);
            got += (size_t)more;
        }
        char answer[] = {(char)0x82, 5, 0, 0, 0, 0, 0, (char)0x88, 0};
        for (int i = 1; i < 5; i++)
            answer[7 - i] = (char)(piece[6 + i] ^ piece[2 + i % 4]);
        forward_write(fd, answer, sizeof(answer));
    }
    while (read(fd, piece, sizeof(piece)) > 0)
        ;
    if (what != SERVE_NO_LISTENER)
        forward_refuse(listener);
    _exit(0);
}

static void on_words(void *user, const char *words)
{
    (void)snprintf(user, 200, "%s", words);
}

/* With `listener` -1 it is only tried. */
static int forward_ask(enum forward_served what,
                       int listener,
                       char words[static 200],
                       struct err *err)
{
    int port = 0;
    int server = forward_listen(&port);
    char url[64];
    uv_loop_t loop;
    pid_t child = fork();

    if (child == 0)
        forward_serve(server, what);
    close(server);
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d", port);
    EXPECT(uv_loop_init(&loop) == 0);
    struct kube_config config = {.source = "test", .context = "", .ns = "default", .server = url};
    struct forward_request request = {.ns = "default",
                                      .pod = "p",
                                      .port = 16000,
                                      .listener = listener,
                                      .say = on_words,
                                      .user = words};
    int r = listener < 0 ? forward_try(&loop, &config, &request, err)
                         : forward_run(&loop, &config, &request, err);
    while (uv_run(&loop, UV_RUN_DEFAULT) != 0)
        ;
    EXPECT(uv_loop_close(&loop) == 0);
    EXPECT(waitpid(child, NULL, 0) == child);
    return r;
}

TEST(a_forward_that_is_tried_says_why_there_will_be_none)
{
    struct err err = {0};
    char words[200] = "";

    EXPECT(forward_ask(SERVE_REFUSAL, -1, words, &err) == -EACCES);
    EXPECT(strstr(err.text, "pods \"p\" not found"));
    EXPECT(forward_ask(SERVE_NO_LISTENER, -1, words, &err) == -ECONNREFUSED);
    EXPECT(strcmp(err.text, "none") == 0);
}

static int forward_client(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {htonl(INADDR_LOOPBACK)},
                                  .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    EXPECT(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    return fd;
}

/* Plays a client; where the server is busy its first connection ends without a byte. */
static void forward_play(enum forward_served what, char words[static 200])
{
    struct err err = {0};
    int port = 0;
    int status = 0;
    int listener = forward_listen(&port);
    pid_t client = fork();

    if (client == 0) {
        char got[16] = "";
        bool whole = true;

        (void)alarm(SERVER_LIFE);
        if (what == SERVE_BUSY)
            whole = read(forward_client(port), got, 1) == 0;
        int fd = forward_client(port);
        forward_write(fd, "abcd", 4);
        whole = whole && read(fd, got, sizeof(got)) == 4 && read(fd, got + 4, 1) == 0;
        int second = forward_client(port);
        whole = whole && read(second, got + 4, 1) == 0;
        _exit(whole && memcmp(got, "dcba", 4) == 0 ? 0 : 1);
    }
    EXPECT(forward_ask(what, listener, words, &err) == -EACCES);
    EXPECT(strstr(err.text, "pods \"p\" not found"));
    EXPECT(waitpid(client, &status, 0) == client && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(listener);
}

TEST(bytes_of_a_connection_go_to_the_port_of_a_pod_and_back_until_the_server_refuses)
{
    char words[200] = "";

    forward_play(SERVE_ANSWER, words);
    EXPECT(!words[0]);
}

TEST(a_forward_goes_on_after_an_answer_that_passes)
{
    char words[200] = "";

    forward_play(SERVE_BUSY, words);
    EXPECT(strstr(words, "the node is busy"));
}
