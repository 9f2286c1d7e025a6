#include "workspace/facts.h"

#include "base/count.h"
#include "workspace/httpd.h"

#include <stddef.h>
#include <stdio.h>

#define HOST_BYTES 300

static const struct {
    const char *path;
    const char *type;
    const char *text; /* NULL: our own address, from the request */
} facts[] = {
    {"/version", "application/json", "{\"etcdserver\":\"2.3.8\",\"etcdcluster\":\"2.3.0\"}\n"},
    {"/v2/machines", "text/plain", NULL},
    {"/v2/stats/self", "application/json",
     "{\"name\":\"muster\",\"id\":\"1\",\"state\":\"StateLeader\"}\n"},
    {"/v2/members", "application/json", "{\"members\":[]}\n"},
};

bool facts_has(struct str path)
{
    for (size_t i = 0; i < COUNT_OF(facts); i++)
        if (str_is(path, facts[i].path))
            return true;
    return false;
}

bool facts_answer(struct httpd_conn *conn)
{
    const struct httpd_request *request = httpd_request(conn);

    for (size_t i = 0; i < COUNT_OF(facts); i++) {
        char self[HOST_BYTES];

        if (!str_is(request->path, facts[i].path))
            continue;
        (void)snprintf(self, sizeof(self), "http://" STR_FMT, STR_ARG(request->host));
        httpd_reply(conn, 200, "", facts[i].type, str_from(facts[i].text ? facts[i].text : self));
        return true;
    }
    return false;
}
