#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "exec/notify.h"
#include "test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

TEST(what_is_not_public_is_known)
{
    static const struct {
        const char *text;
        bool open;
    } rows[] = {
        {"8.8.8.8", true},
        {"1.1.1.1", true},
        {"172.32.0.1", true},
        {"100.128.0.1", true},
        {"192.0.1.1", true},
        {"127.0.0.1", false},
        {"127.9.9.9", false},
        {"10.96.0.1", false},
        {"172.16.0.1", false},
        {"172.31.255.255", false},
        {"192.168.1.1", false},
        {"169.254.169.254", false},
        {"100.64.0.1", false},
        {"0.0.0.0", false},
        {"224.0.0.1", false},
        {"255.255.255.255", false},
        {"198.18.0.1", false},
        {"2606:4700::1111", true},
        {"2a00:1450:4001::1", true},
        {"::1", false},
        {"::", false},
        {"fe80::1", false},
        {"fd00::1", false},
        {"fc00::1", false},
        {"ff02::1", false},
        {"::ffff:127.0.0.1", false},
        {"::ffff:8.8.8.8", true},
        {"64:ff9b::7f00:1", false},
        {"64:ff9b::808:808", true},
        {"2002:7f00:1::", false},
        {"2001:db8::1", false},
        {"2001::1", false},
        {"::7f00:1", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct sockaddr_storage address = {0};
        struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&address;
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)&address;

        test_case(rows[i].text);
        if (inet_pton(AF_INET, rows[i].text, &v4->sin_addr) == 1)
            address.ss_family = AF_INET;
        else if (inet_pton(AF_INET6, rows[i].text, &v6->sin6_addr) == 1)
            address.ss_family = AF_INET6;
        EXPECT(address.ss_family);
        EXPECT(notify_is_public((const struct sockaddr *)&address) == rows[i].open);
    }
}

struct heard {
    int calls;
    int code;
    char words[240];
};

static void on_heard(void *user, int code, const struct err *err)
{
    struct heard *heard = user;

    heard->calls++;
    heard->code = code;
    if (err)
        (void)snprintf(heard->words, sizeof(heard->words), "%s", err->text);
}

/* A server on this machine that answers the first request so, or never (NULL). */
struct answerer {
    int fd;
    const char *answer;
    char request[2048];
    char url[64];
};

static void answerer_open(struct answerer *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);

    server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(bind(server->fd, (const struct sockaddr *)&address, sizeof(address)) == 0);
    EXPECT(listen(server->fd, 4) == 0);
    EXPECT(getsockname(server->fd, (struct sockaddr *)&address, &len) == 0);
    (void)snprintf(server->url, sizeof(server->url), "http://127.0.0.1:%d/hook",
                   ntohs(address.sin_port));
}

static void answerer_run(void *user)
{
    struct answerer *server = user;
    int fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC);
    size_t len = 0;
    ssize_t got;

    while (len < sizeof(server->request) - 1 && !strstr(server->request, "}") &&
           (got = read(fd, server->request + len, sizeof(server->request) - 1 - len)) > 0)
        len += (size_t)got;
    (void)!write(fd, server->answer, strlen(server->answer));
    (void)close(fd);
}

static struct heard notify_try(const char *url, bool anywhere)
{
    struct heard heard = {0};
    uv_loop_t loop;

    EXPECT(uv_loop_init(&loop) == 0);
    struct notifier *notifier = notifier_new(&loop, anywhere);
    const struct executor_post *post = notifier_post(notifier);
    EXPECT(post->send(post->user, STR("n"), str_from(url), STR("{\"a\":1}"), on_heard, &heard) ==
           0);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    notifier_free(notifier);
    EXPECT(uv_loop_close(&loop) == 0);
    return heard;
}

TEST(news_are_posted_and_the_answer_counts)
{
    static const struct {
        const char *answer;
        const char *words;
    } rows[] = {
        {"HTTP/1.1 204 No Content\r\n\r\n", ""},
        {"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "the answer was HTTP status 404"},
        {"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
         "the answer was HTTP status 302"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct answerer server = {.answer = rows[i].answer};
        uv_thread_t thread;

        test_case(rows[i].words);
        answerer_open(&server);
        EXPECT(uv_thread_create(&thread, answerer_run, &server) == 0);
        struct heard heard = notify_try(server.url, true);
        (void)uv_thread_join(&thread);
        EXPECT(heard.calls == 1 && strcmp(heard.words, rows[i].words) == 0);
        EXPECT(strncmp(server.request, "POST /hook HTTP/1.1\r\n", 21) == 0);
        EXPECT(strstr(server.request, "\r\n\r\n{\"a\":1}") != NULL);
        (void)close(server.fd);
    }
}

TEST(news_do_not_go_to_this_machine_or_its_network_unless_that_is_allowed)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]", "0x7f.1",
                                        "169.254.169.254"};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char url[100];

        test_case(names[i]);
        (void)snprintf(url, sizeof(url), "http://%s:9/", names[i]);
        struct heard heard = notify_try(url, false);
        EXPECT(heard.calls == 1 && heard.code < 0);
        EXPECT(strstr(heard.words, "not a public one") || strstr(heard.words, "resolve"));
    }
    struct heard heard = notify_try("file:///etc/passwd", true);
    EXPECT(heard.code < 0);
}

TEST(news_that_are_under_way_at_the_end_are_called_off)
{
    struct answerer server = {.answer = ""};
    struct heard heard = {0};
    uv_loop_t loop;

    answerer_open(&server); /* takes connections, and says nothing */
    EXPECT(uv_loop_init(&loop) == 0);
    struct notifier *notifier = notifier_new(&loop, true);
    const struct executor_post *post = notifier_post(notifier);
    for (int i = 0; i < NOTIFY_UNDER_WAY_MAX; i++) {
        struct str ns = {"abcdefgh" + i, 1};
        struct str url = str_from(server.url);

        EXPECT(post->send(post->user, ns, url, STR("{}"), on_heard, &heard) == 0);
        EXPECT(post->send(post->user, ns, url, STR("{}"), on_heard, &heard) < 0); /* one of each */
    }
    EXPECT(post->send(post->user, STR("z"), str_from(server.url), STR("{}"), on_heard, &heard) < 0);
    notifier_free(notifier);
    EXPECT(heard.calls == NOTIFY_UNDER_WAY_MAX && heard.code < 0);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    EXPECT(uv_loop_close(&loop) == 0);
    (void)close(server.fd);
}
