#include "base/buf.h"
#include "base/cleanup.h"
#include "test.h"
#include "workspace/etcd.h"

#include <string.h>

struct answer {
    int status;
    char text[2000];
};

/* One request; the answer as text. */
static struct answer ask(struct etcd *etcd,
                         const char *method,
                         const char *path,
                         const char *query,
                         const char *form)
{
    struct etcd_request request = {.method = str_from(method),
                                   .path = str_from(path),
                                   .query = str_from(query),
                                   .form = str_from(form)};
    struct etcd_reply reply = {0};
    struct answer answer = {0};
    struct etcd_wait wait;

    etcd_handle(etcd, &request, 1000000, &reply, &wait);
    answer.status = reply.status;
    if (reply.body.len && reply.body.len < sizeof(answer.text))
        memcpy(answer.text, reply.body.p, reply.body.len);
    buf_done(&reply.body);
    return answer;
}

#define HAS(answer, words) (strstr((answer).text, words) != NULL)

TEST(etcd_sets_gets_and_deletes)
{
    _cleanup_(etcd_done) struct etcd etcd;
    struct answer a;

    etcd_open(&etcd);
    a = ask(&etcd, "GET", "/a", "", "");
    EXPECT(a.status == 404 && HAS(a, "\"errorCode\":100"));
    a = ask(&etcd, "PUT", "/a/b", "", "value=x%20y");
    EXPECT(a.status == 201 && HAS(a, "\"action\":\"set\"") && HAS(a, "\"value\":\"x y\""));
    a = ask(&etcd, "PUT", "/a/b", "", "value=z");
    EXPECT(a.status == 200 && HAS(a, "\"prevNode\"") && HAS(a, "x y"));
    a = ask(&etcd, "GET", "/a", "recursive=true", "");
    EXPECT(a.status == 200 && HAS(a, "\"dir\":true") && HAS(a, "\"nodes\":[{\"key\":\"/a/b\""));
    a = ask(&etcd, "PUT", "/a/b/c", "", "value=1");
    EXPECT(a.status == 400 && HAS(a, "\"errorCode\":104"));
    a = ask(&etcd, "DELETE", "/a", "dir=true", "");
    EXPECT(a.status == 403 && HAS(a, "\"errorCode\":108"));
    a = ask(&etcd, "DELETE", "/a", "recursive=true", "");
    EXPECT(a.status == 200 && ask(&etcd, "GET", "/a/b", "", "").status == 404);
    EXPECT(ask(&etcd, "DELETE", "/", "recursive=true", "").status == 403);
}

TEST(etcd_swaps_only_what_was_expected)
{
    _cleanup_(etcd_done) struct etcd etcd;
    struct answer a;

    etcd_open(&etcd);
    a = ask(&etcd, "PUT", "/k", "prevExist=false", "value=1");
    EXPECT(a.status == 201 && HAS(a, "\"action\":\"create\"") && HAS(a, "\"modifiedIndex\":2"));
    a = ask(&etcd, "PUT", "/k", "prevExist=false", "value=1");
    EXPECT(a.status == 412 && HAS(a, "\"errorCode\":105"));
    a = ask(&etcd, "PUT", "/k", "prevIndex=7", "value=2");
    EXPECT(a.status == 412 && HAS(a, "\"errorCode\":101"));
    a = ask(&etcd, "PUT", "/k", "prevIndex=2", "value=2");
    EXPECT(a.status == 200 && HAS(a, "\"action\":\"compareAndSwap\""));
    a = ask(&etcd, "PUT", "/k", "prevValue=1", "value=3");
    EXPECT(a.status == 412);
    a = ask(&etcd, "PUT", "/k", "prevValue=2", "value=3");
    EXPECT(a.status == 200);
    a = ask(&etcd, "PUT", "/new", "prevExist=true", "value=3");
    EXPECT(a.status == 404);
}

TEST(etcd_refuses_a_time_to_live_that_no_clock_reaches)
{
    _cleanup_(etcd_done) struct etcd etcd;
    struct answer a;

    etcd_open(&etcd);
    a = ask(&etcd, "PUT", "/k", "", "value=1&ttl=9223372036854775807");
    EXPECT(a.status == 400 && HAS(a, "\"errorCode\":202"));
    EXPECT(ask(&etcd, "GET", "/k", "", "").status == 404);
    EXPECT(ask(&etcd, "PUT", "/k", "", "value=1&ttl=3153600000").status == 201);
    EXPECT(ask(&etcd, "GET", "/k", "", "").status == 200);
}

TEST(etcd_keys_run_out_and_are_told)
{
    _cleanup_(etcd_done) struct etcd etcd;
    struct etcd_wait wait = {.path = "/k", .from = 3};
    struct etcd_reply reply = {0};

    etcd_open(&etcd);
    EXPECT(HAS(ask(&etcd, "PUT", "/k", "", "value=1&ttl=5"), "\"ttl\":5"));
    EXPECT(etcd_expire(&etcd, 1004999) == 1005000);
    EXPECT(!etcd_wait(&etcd, &wait, &reply));
    EXPECT(etcd_expire(&etcd, 1005000) == 0);
    EXPECT(etcd_wait(&etcd, &wait, &reply) && strstr(reply.body.p, "\"action\":\"expire\""));
    EXPECT(ask(&etcd, "GET", "/k", "", "").status == 404);
    buf_done(&reply.body);
}

TEST(etcd_waits_from_an_index_through_its_history)
{
    _cleanup_(etcd_done) struct etcd etcd;
    struct answer a;

    etcd_open(&etcd);
    EXPECT(ask(&etcd, "GET", "/d", "wait=true&recursive=true", "").status == 0);
    (void)ask(&etcd, "PUT", "/d/x", "", "value=1");
    a = ask(&etcd, "GET", "/d", "wait=true&recursive=true&waitIndex=2", "");
    EXPECT(a.status == 200 && HAS(a, "/d/x"));
    EXPECT(ask(&etcd, "GET", "/d", "wait=true&waitIndex=2", "").status == 0);
    for (int i = 0; i < ETCD_HISTORY_MAX + 5; i++)
        (void)ask(&etcd, "PUT", "/d/x", "", "value=2");
    a = ask(&etcd, "GET", "/d/x", "wait=true&waitIndex=2", "");
    EXPECT(a.status == 400 && HAS(a, "\"errorCode\":401"));
}

TEST(etcd_in_order_keys_sort_by_their_creation)
{
    _cleanup_(etcd_done) struct etcd etcd;
    struct answer a;

    etcd_open(&etcd);
    EXPECT(ask(&etcd, "POST", "/q", "", "value=first").status == 201);
    EXPECT(ask(&etcd, "POST", "/q", "", "value=second").status == 201);
    a = ask(&etcd, "GET", "/q", "", "");
    EXPECT(strstr(a.text, "first") && strstr(a.text, "first") < strstr(a.text, "second"));
}
