#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "test.h"
#include "workspace/address.h"
#include "workspace/disk.h"
#include "workspace/door.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void door_freep(struct door **door)
{
    door_free(*door);
}

static struct door *door_of(const char *job, const char *secret)
{
    return door_new(&(struct door_options){.job = job, .secret = secret, .peer_uid = -1});
}

TEST(door_opens_for_the_secret_alone)
{
    static const struct {
        const char *job;
        const char *secret;
        const char *given;
        int r;
        const char *word;
        const char *why;
    } cases[] = {
        {"ns/j", "abcd", "abcd", 0, "", "the secret"},
        {"ns/j", "abcd", "abce", -EACCES, "does not match", "the last byte counts"},
        {"ns/j", "abcd", "xbcd", -EACCES, "does not match", "and the first"},
        {"ns/j", "abcd", "abc", -EACCES, "does not match", "a beginning is not enough"},
        {"ns/j", "abcd", "abcde", -EACCES, "does not match", "nor is something longer"},
        {"ns/j", "abcd", "", -EACCES, "is missing", "nothing was given"},
        {"ns/j", "", "", -EACCES, "delete pod j-sync-0", "no secret opens for nobody"},
        {"ns/j", NULL, "x", -EACCES, "delete pod j-sync-0", "whatever is given"},
        {NULL, NULL, "", -EACCES, "only keys", "a store without a job"},
        {"", "abcd", "abcd", -EACCES, "only keys", "whatever it knows"},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        _cleanup_(door_freep) struct door *door = door_of(cases[i].job, cases[i].secret);
        struct err err = {0};
        int r = door_secret(door, str_from(cases[i].given), &err);

        EXPECT(r == cases[i].r && strstr(err.text, cases[i].word) != NULL);
    }
}

TEST(door_knows_pods_that_pull_and_pods_that_the_service_names)
{
    _cleanup_(door_freep) struct door *door = door_of("ns/j", "s");
    struct address a;
    struct address b;

    EXPECT(address_parse(STR("10.0.0.1"), &a) && address_parse(STR("fd00::2"), &b));
    struct address both[] = {a, b};
    EXPECT(door_knows(door, a, 1000) == DOOR_WAIT);
    door_enter(door, a);
    door_enter(door, a);
    EXPECT(door_knows(door, a, 1000) == DOOR_OPEN && door_knows(door, b, 1000) == DOOR_WAIT);
    door_leave(door, a);
    EXPECT(door_knows(door, a, 1000) == DOOR_OPEN); /* by its other connection */
    door_leave(door, a);
    EXPECT(door_knows(door, a, 1000) == DOOR_WAIT);
    door_learn(door, both, 2, 1000);
    EXPECT(door_knows(door, a, 1001) == DOOR_OPEN && door_knows(door, b, 1001) == DOOR_OPEN);
    /* Addresses are used again: what was true a while ago says nothing. */
    EXPECT(door_knows(door, b, 1000 + DOOR_FRESH_MS) == DOOR_WAIT);
    door_learn(door, both, 1, 20000);
    EXPECT(door_knows(door, a, 20001) == DOOR_OPEN && door_knows(door, b, 20001) == DOOR_WAIT);
}

/* A connection over the loopback of one version: *ret_client is the caller's end, the result ours;
 * negative: this machine does not have that version. */
static int connection(const char *loopback, int *ret_client)
{
    struct address address;
    struct sockaddr_storage to;
    _cleanup_(disk_closep) int server = address_listen(NULL, 0, 1, NULL);
    socklen_t size;
    int client;

    EXPECT(server >= 0 && address_parse(str_from(loopback), &address));
    size = address_to(address, address_port(server), &to);
    client = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client < 0 || connect(client, (struct sockaddr *)&to, size) < 0) {
        disk_closep(&client);
        return -1;
    }
    *ret_client = client;
    return accept4(server, NULL, NULL, SOCK_CLOEXEC);
}

TEST(door_asks_whose_process_is_at_the_other_end)
{
    static const char *const loopbacks[] = {"127.0.0.1", "::1"};
    _cleanup_(door_freep) struct door *door = door_of("ns/j", "s");
    _cleanup_(door_freep) struct door *anybody = door_of(NULL, NULL);

    for (size_t i = 0; i < COUNT_OF(loopbacks); i++) {
        _cleanup_(disk_closep) int own = -1;
        struct address loopback;
        struct err err = {0};
        int client = -1;

        test_case(loopbacks[i]);
        EXPECT(address_parse(str_from(loopbacks[i]), &loopback));
        own = connection(loopbacks[i], &client);
        EXPECT(own >= 0 || i == 1);
        if (own < 0)
            continue;
        EXPECT(door_peer(door, own, 1, &err) == DOOR_OPEN);
        EXPECT(address_eq(door_address(own), loopback));
        close(client);
        /* A socket that nobody holds would be root's: it is nobody's. */
        EXPECT(door_peer(door, own, 1, &err) == DOOR_SHUT && strstr(err.text, "ns/j") != NULL);
        EXPECT(door_peer(anybody, own, 1, &err) == DOOR_OPEN);
    }
}
