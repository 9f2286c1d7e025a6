#include "workspace/door.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/vec.h"
#include "workspace/address.h"
#include "workspace/disk.h"
#include "workspace/resolve.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* A stranger that keeps knocking costs no more than so many questions to the name server. */
#define LOOK_PAUSE_MS 250

struct door {
    char *job;
    char *name; /* of the job, in `job` */
    char *secret;
    int64_t peer_uid;
    pthread_mutex_t lock; /* of everything below */
    pthread_cond_t asked;
    struct address_vec VEC_FIELDS(
        struct address) inside; /* pulling now; once for each connection */
    struct address_vec named;   /* by the Service's name */
    int64_t named_ms;           /* when; 0: never */
    bool wanted;                /* the name is to be looked up */
    bool stopping;
    bool running; /* the thread that does is there */
    pthread_t thread;
};

static char *copy_of(const char *text)
{
    size_t bytes = strlen(text ? text : "") + 1;

    return memcpy(mem_alloc(bytes), text ? text : "", bytes);
}

struct door *door_new(const struct door_options *options)
{
    struct door *door = MEM_NEW(struct door);
    char *slash;

    door->job = copy_of(options->job);
    slash = strchr(door->job, '/');
    door->name = slash ? slash + 1 : door->job;
    door->secret = copy_of(options->secret);
    door->peer_uid = options->peer_uid;
    (void)pthread_mutex_init(&door->lock, NULL);
    (void)pthread_cond_init(&door->asked, NULL);
    return door;
}

void door_free(struct door *door)
{
    if (!door)
        return;
    (void)pthread_mutex_lock(&door->lock);
    door->stopping = true;
    (void)pthread_cond_signal(&door->asked);
    (void)pthread_mutex_unlock(&door->lock);
    if (door->running)
        (void)pthread_join(door->thread, NULL);
    VEC_DONE(&door->inside);
    VEC_DONE(&door->named);
    (void)pthread_cond_destroy(&door->asked);
    (void)pthread_mutex_destroy(&door->lock);
    explicit_bzero(door->secret, strlen(door->secret));
    mem_free(door->secret);
    mem_free(door->job);
    mem_free(door);
}

bool door_has_job(const struct door *door)
{
    return door->job[0] != '\0';
}

/* ---- the secret ---- */

int door_secret(const struct door *door, struct str given, struct err *err)
{
    size_t len = strlen(door->secret);
    unsigned different = given.len != len;

    if (!door_has_job(door))
        return err_set(err, -EACCES,
                       "this store belongs to no job (MUSTER_JOB is not set): it serves only keys, "
                       "below /v2/keys");
    if (len == 0)
        return err_set(err, -EACCES,
                       "the sync pod of job %s has no secret: it serves only the rendezvous; if "
                       "the job has a workspace, the pod is of an older muster: delete pod "
                       "%s-sync-0, and it is made again with a secret",
                       door->job, door->name);
    /* Every byte is looked at, whatever the first ones are. */
    for (size_t i = 0; i < len; i++)
        different |= (unsigned)(door->secret[i] ^ (i < given.len ? given.p[i] : 0));
    if (different)
        return err_set(err, -EACCES,
                       "job %s: %s (header " DOOR_HEADER "): kubectl torchrun sends it for people "
                       "who may get Secrets there; pods of an older muster get it with their next "
                       "generation",
                       door->job,
                       given.len ? "the secret does not match" : "the secret is missing");
    return 0;
}

/* ---- peers on this very network ---- */

static bool is_local(struct address address)
{
    struct sockaddr_storage at;
    socklen_t size = address_to(address, 0, &at);
    _cleanup_(disk_closep) int fd = socket(at.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    return fd < 0 || bind(fd, (struct sockaddr *)&at, size) == 0;
}

/* Both ends of a connection. */
struct ends {
    struct address peer;
    struct address own;
    uint16_t peer_port;
    uint16_t own_port;
};

/* As the kernel's question has them: version 4 in the first word. */
static void diag_address(struct address address, uint32_t out[static 4])
{
    memcpy(out, &address.ip, sizeof(address.ip));
    if (!address_is_v4(address))
        return;
    out[0] = out[3];
    out[1] = out[2] = out[3] = 0;
}

/* The user whose process holds the socket at `peer` that is connected to `own`. */
static int holder_of(const struct ends *ends, uint32_t *ret)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 body;
    } request = {
        .head = {.nlmsg_len = sizeof(request),
                 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                 .nlmsg_flags = NLM_F_REQUEST},
        .body = {.sdiag_family = address_is_v4(ends->peer) ? AF_INET : AF_INET6,
                 .sdiag_protocol = IPPROTO_TCP,
                 .idiag_states = UINT32_MAX,
                 .id = {.idiag_sport = htons(ends->peer_port),
                        .idiag_dport = htons(ends->own_port),
                        .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
    };
    union {
        struct nlmsghdr head;
        char bytes[4096];
    } answer;
    _cleanup_(disk_closep) int fd =
        socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    const struct inet_diag_msg *found = NLMSG_DATA(&answer.head);
    ssize_t got;

    diag_address(ends->peer, request.body.id.idiag_src);
    diag_address(ends->own, request.body.id.idiag_dst);
    if (fd < 0 || send(fd, &request, sizeof(request), 0) != (ssize_t)sizeof(request))
        return -errno;
    got = recv(fd, &answer, sizeof(answer), 0);
    if (got < (ssize_t)NLMSG_LENGTH(sizeof(*found)) ||
        answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return -ENOENT;
    /* Without an inode it is held by nobody, and the user would be root. */
    if (found->idiag_inode == 0 || found->id.idiag_sport != htons(ends->peer_port) ||
        found->id.idiag_dport != htons(ends->own_port))
        return -ENOENT;
    *ret = found->idiag_uid;
    return 0;
}

static bool ends_of(int fd, struct ends *ret)
{
    struct sockaddr_storage peer = {0};
    struct sockaddr_storage own = {0};
    socklen_t peer_size = sizeof(peer);
    socklen_t own_size = sizeof(own);

    if (getpeername(fd, (struct sockaddr *)&peer, &peer_size) < 0 ||
        getsockname(fd, (struct sockaddr *)&own, &own_size) < 0)
        return false;
    *ret = (struct ends){.peer = address_of(&peer),
                         .own = address_of(&own),
                         .peer_port = address_port_of(&peer),
                         .own_port = address_port_of(&own)};
    return true;
}

static enum door_answer local_peer(const struct door *door,
                                   const struct ends *ends,
                                   struct err *err)
{
    uint32_t uid = 0;
    int r = holder_of(ends, &uid);

    if (r == 0 && (uid == geteuid() || uid == 0 || (int64_t)uid == door->peer_uid))
        return DOOR_OPEN;
    if (r == 0)
        err_set(err, -EACCES,
                "the rendezvous of job %s is for its own pods; this is a process of user %u on "
                "their network",
                door->job, uid);
    else
        err_set(err, -EACCES,
                "the rendezvous of job %s is for its own pods; the kernel does not say whose "
                "process this is: %s",
                door->job, strerrordesc_np(-r));
    return DOOR_SHUT;
}

/* ---- pods elsewhere ---- */

static bool has(const struct address_vec *list, struct address address)
{
    for (size_t i = 0; i < list->count; i++)
        if (address_eq(list->items[i], address))
            return true;
    return false;
}

void door_learn(struct door *door, const struct address *addresses, size_t count, int64_t now_ms)
{
    (void)pthread_mutex_lock(&door->lock);
    door->named.count = 0;
    for (size_t i = 0; i < count; i++)
        VEC_PUSH(NULL, &door->named, addresses[i]);
    door->named_ms = now_ms;
    (void)pthread_mutex_unlock(&door->lock);
}

enum door_answer door_knows(struct door *door, struct address address, int64_t now_ms)
{
    enum door_answer answer = DOOR_WAIT;

    (void)pthread_mutex_lock(&door->lock);
    if (has(&door->inside, address) ||
        (door->named_ms && now_ms - door->named_ms < DOOR_FRESH_MS && has(&door->named, address)))
        answer = DOOR_OPEN;
    (void)pthread_mutex_unlock(&door->lock);
    return answer;
}

static int64_t clock_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A name server may take its time: nobody but those who wait for it should. */
static void *look_up(void *user)
{
    struct door *door = user;
    struct address *found = mem_alloc(DOOR_ADDRESSES_MAX * sizeof(*found));

    (void)pthread_mutex_lock(&door->lock);
    while (!door->stopping) {
        if (!door->wanted) {
            (void)pthread_cond_wait(&door->asked, &door->lock);
            continue;
        }
        door->wanted = false;
        (void)pthread_mutex_unlock(&door->lock);
        size_t count = resolve_all(str_from(door->name), found, DOOR_ADDRESSES_MAX);
        door_learn(door, found, count, clock_ms());
        (void)poll(NULL, 0, LOOK_PAUSE_MS);
        (void)pthread_mutex_lock(&door->lock);
    }
    (void)pthread_mutex_unlock(&door->lock);
    mem_free(found);
    return NULL;
}

static void ask_name(struct door *door)
{
    (void)pthread_mutex_lock(&door->lock);
    door->wanted = true;
    if (!door->running)
        door->running = pthread_create(&door->thread, NULL, look_up, door) == 0;
    (void)pthread_cond_signal(&door->asked);
    (void)pthread_mutex_unlock(&door->lock);
}

enum door_answer door_peer(struct door *door, int fd, int64_t now_ms, struct err *err)
{
    struct ends ends;

    if (!door_has_job(door))
        return DOOR_OPEN;
    if (!ends_of(fd, &ends)) {
        err_set(err, -EACCES, "the connection is gone");
        return DOOR_SHUT;
    }
    if (is_local(ends.peer))
        return local_peer(door, &ends, err);
    if (door_knows(door, ends.peer, now_ms) == DOOR_OPEN)
        return DOOR_OPEN;
    ask_name(door);
    return DOOR_WAIT;
}

void door_unknown(const struct door *door, int fd, struct err *err)
{
    char text[INET6_ADDRSTRLEN];

    err_set(err, -EACCES,
            "the rendezvous of job %s is for its own pods; the name of Service %s does not lead to "
            "%s (see: kubectl get endpoints %s)",
            door->job, door->name, address_text(door_address(fd), text), door->name);
}

struct address door_address(int fd)
{
    struct ends ends;

    return ends_of(fd, &ends) ? ends.peer : (struct address){0};
}

void door_enter(struct door *door, struct address address)
{
    (void)pthread_mutex_lock(&door->lock);
    VEC_PUSH(NULL, &door->inside, address);
    (void)pthread_mutex_unlock(&door->lock);
}

void door_leave(struct door *door, struct address address)
{
    (void)pthread_mutex_lock(&door->lock);
    for (size_t i = 0; i < door->inside.count; i++) {
        if (!address_eq(door->inside.items[i], address))
            continue;
        VEC_REMOVE_SWAP(&door->inside, i);
        break;
    }
    (void)pthread_mutex_unlock(&door->lock);
}
