#include "exec/notify.h"

#include "base/count.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

struct notify_request;

struct notifier {
    struct executor_post post;
    uv_loop_t *loop;
    bool anywhere;
    size_t under_way;
    struct notify_request *first;
};

/* Owned by its thread until that has ended. */
struct notify_request {
    uv_work_t work;
    struct notifier *notifier; /* NULL once it is gone */
    struct notify_request *next;
    bool anywhere;
    atomic_bool stop;
    bool refused; /* an address that it may not reach; it may have reached another one */
    long status;
    char error[CURL_ERROR_SIZE];
    executor_posted_fn *done;
    void *done_user;
    char *ns;
    char *url;
    char *body;
    size_t body_len;
};

/* ---- which addresses ---- */

struct notify_net {
    uint32_t address;
    unsigned bits;
};

/* What is not the public internet: this network, private, shared (carriers), this host, link-local,
 * protocol assignments, documentation, 6to4 relays, benchmarks, multicast, reserved. */
static const struct notify_net closed_nets[] = {
    {0x00000000, 8},  {0x0a000000, 8},  {0x64400000, 10}, {0x7f000000, 8},  {0xa9fe0000, 16},
    {0xac100000, 12}, {0xc0000000, 24}, {0xc0000200, 24}, {0xc0586300, 24}, {0xc0a80000, 16},
    {0xc6120000, 15}, {0xc6336400, 24}, {0xcb007100, 24}, {0xe0000000, 4},  {0xf0000000, 4},
};

static bool v4_is_public(uint32_t address)
{
    for (size_t i = 0; i < COUNT_OF(closed_nets); i++)
        if ((address ^ closed_nets[i].address) >> (32 - closed_nets[i].bits) == 0)
            return false;
    return true;
}

static uint32_t v4_at(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static bool v6_is_public(const unsigned char *b)
{
    static const unsigned char nat64[12] = {0x00, 0x64, 0xff, 0x9b};
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};

    if (memcmp(b, mapped, sizeof(mapped)) == 0 || memcmp(b, nat64, sizeof(nat64)) == 0)
        return v4_is_public(v4_at(b + 12));
    if (b[0] == 0x20 && b[1] == 0x02) /* 6to4 */
        return v4_is_public(v4_at(b + 2));
    /* 2000::/3 is what is given out; of it Teredo, the documentation's, and assignments are not. */
    if (b[0] >> 5 != 1 || (b[0] == 0x20 && b[1] == 0x01 && b[2] < 0x02))
        return false;
    return !(b[0] == 0x20 && b[1] == 0x01 && b[2] == 0x0d && b[3] == 0xb8);
}

bool notify_is_public(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        struct sockaddr_in in;

        memcpy(&in, address, sizeof(in));
        return v4_is_public(ntohl(in.sin_addr.s_addr));
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 in;

        memcpy(&in, address, sizeof(in));
        return v6_is_public(in.sin6_addr.s6_addr);
    }
    return false;
}

/* ---- in the thread ---- */

static curl_socket_t notify_on_socket(void *user,
                                      curlsocktype purpose,
                                      struct curl_sockaddr *address)
{
    struct notify_request *request = user;

    (void)purpose;
    if (!request->anywhere && !notify_is_public(&address->addr)) {
        request->refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static size_t notify_on_bytes(char *bytes, size_t size, size_t count, void *user)
{
    (void)bytes;
    (void)user;
    return size * count;
}

static int notify_on_progress(void *user,
                              curl_off_t down_all,
                              curl_off_t down,
                              curl_off_t up_all,
                              curl_off_t up)
{
    const struct notify_request *request = user;

    (void)down_all;
    (void)up_all;
    (void)up;
    return atomic_load(&request->stop) || down > (curl_off_t)1 << 20;
}

static void notify_work(uv_work_t *work)
{
    struct notify_request *request = work->data;
    CURL *curl = curl_easy_init();
    struct curl_slist *headers = NULL;

    if (!curl)
        return;
    headers = curl_slist_append(headers, "Content-Type: application/json");
    headers = curl_slist_append(headers, "User-Agent: muster");
    headers = curl_slist_append(headers, "Expect:");
    curl_easy_setopt(curl, CURLOPT_URL, request->url);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)NOTIFY_TIMEOUT_MS);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)request->body_len);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, request->error);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, notify_on_bytes);
    curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, notify_on_socket);
    curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, request);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, notify_on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, request);
    if (curl_easy_perform(curl) == CURLE_OK)
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &request->status);
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
}

/* ---- on the loop ---- */

static void notify_request_free(struct notify_request *request)
{
    mem_free(request->ns);
    mem_free(request->url);
    mem_free(request->body);
    mem_free(request);
}

static void notify_unlink(struct notify_request *request)
{
    struct notify_request **at = &request->notifier->first;

    while (*at != request)
        at = &(*at)->next;
    *at = request->next;
    request->notifier->under_way--;
}

static void notify_on_end(uv_work_t *work, int status)
{
    struct notify_request *request = work->data;
    struct err err = {0};
    int r = 0;

    if (request->notifier) {
        notify_unlink(request);
        /* -EINVAL: what the runner tells the controller as a refusal, in words. */
        if (request->refused && !request->status)
            r = err_set(&err, -EINVAL,
                        "its address is not a public one, and --notify-to any is not set");
        else if (status < 0 || !request->status)
            r = err_set(&err, -EINVAL, "%s",
                        request->error[0] ? request->error : "the request could not be made");
        else if (request->status < 200 || request->status > 299)
            r = err_set(&err, -EINVAL, "the answer was HTTP status %ld", request->status);
        request->done(request->done_user, r, r ? &err : NULL);
    }
    notify_request_free(request);
}

static char *notify_copy(struct str text)
{
    char *out = mem_alloc(text.len + 1);

    memcpy(out, text.p, text.len);
    return out;
}

/* Addresses that answer slowly hold up their own namespace, and no other. */
static bool notify_is_busy(const struct notifier *notifier, struct str ns)
{
    for (const struct notify_request *at = notifier->first; at; at = at->next)
        if (str_is(ns, at->ns))
            return true;
    return notifier->under_way >= NOTIFY_UNDER_WAY_MAX;
}

static int notify_send(void *user,
                       struct str ns,
                       struct str url,
                       struct str body,
                       executor_posted_fn *done,
                       void *done_user)
{
    struct notifier *notifier = user;

    if (notify_is_busy(notifier, ns))
        return -EAGAIN;
    struct notify_request *request = MEM_NEW(struct notify_request);
    request->notifier = notifier;
    request->anywhere = notifier->anywhere;
    request->done = done;
    request->done_user = done_user;
    request->ns = notify_copy(ns);
    request->url = notify_copy(url);
    request->body = notify_copy(body);
    request->body_len = body.len;
    request->work.data = request;
    if (uv_queue_work(notifier->loop, &request->work, notify_work, notify_on_end) < 0) {
        notify_request_free(request);
        return -EAGAIN;
    }
    request->next = notifier->first;
    notifier->first = request;
    notifier->under_way++;
    return 0;
}

struct notifier *notifier_new(struct uv_loop_s *loop, bool anywhere)
{
    struct notifier *notifier = MEM_NEW(struct notifier);

    notifier->loop = loop;
    notifier->anywhere = anywhere;
    notifier->post = (struct executor_post){.send = notify_send, .user = notifier};
    return notifier;
}

const struct executor_post *notifier_post(const struct notifier *notifier)
{
    return &notifier->post;
}

void notifier_free(struct notifier *notifier)
{
    for (struct notify_request *at = notifier ? notifier->first : NULL; at; at = at->next) {
        at->notifier = NULL;
        atomic_store(&at->stop, true);
        at->done(at->done_user, -ECANCELED, NULL);
    }
    mem_free(notifier);
}
