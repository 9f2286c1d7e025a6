#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "cmd/connect.h"
#include "cmd/muster.h"
#include "kube/client.h"
#include "kube/kubeconfig.h"
#include "kube/transport.h"
#include "plugin/plugin.h"
#include "tool/option.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

/* muster open: a link that signs in at the web page, once, as whom the kubeconfig names. The code
 * stands behind a #, so that browsers do not send it and no log has it. */

struct open_values {
    struct common_values common; /* first: open_job_run() reads them */
    bool print;
};

static const struct option open_options[] = {
    COMMON_OPTIONS,
    {"print", 0, OPTION_BOOL, offsetof(struct open_values, print),
     .help = "print the link only, and start no browser"},
    {0},
};

struct question {
    struct arena *arena;
    struct str code;
    struct err err;
    bool answered;
};

static void on_link(void *user, const struct transport_reply *reply)
{
    struct question *question = user;
    struct json *answer = NULL;

    question->answered = true;
    if (reply->code < 0)
        question->err = *reply->err;
    else if (json_parse(question->arena, str_dup(question->arena, reply->body), &answer, NULL) < 0)
        (void)err_set(&question->err, -EBADMSG, "the server answered %d: it serves no page",
                      reply->status);
    else if (reply->status != 201)
        (void)err_set(&question->err, -EACCES, STR_FMT,
                      STR_ARG(json_str(json_get(answer, "message"))));
    else
        question->code = json_str(json_get(answer, "code"));
}

static int ask_link(const struct kube_config *config, struct question *question)
{
    struct client *client = NULL;
    uv_loop_t loop;

    if (uv_loop_init(&loop) < 0)
        return err_set(&question->err, -ENOMEM, "cannot create an event loop");
    int r = client_new(&(struct client_options){.loop = &loop,
                                                .config = config,
                                                .user_agent = "muster open",
                                                .per_second = 10,
                                                .burst = 10,
                                                .under_way_max = 4},
                       &client, &question->err);
    if (r == 0) {
        (void)client_send(client, &(struct client_request){.class = LIMITER_READ,
                                                           .method = "POST",
                                                           .path = STR("/ui/link"),
                                                           .content_type = "application/json",
                                                           .accept = "application/json",
                                                           .body = STR("{}"),
                                                           .done = on_link,
                                                           .user = question});
        while (!question->answered && uv_run(&loop, UV_RUN_ONCE))
            ;
        client_free(client);
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    (void)uv_loop_close(&loop);
    return question->err.code;
}

/* A browser is there when a screen is. */
static void start_browser(const char *link)
{
    const char *x = getenv("DISPLAY");
    const char *wayland = getenv("WAYLAND_DISPLAY");

    if ((x && *x) || (wayland && *wayland)) {
        (void)fflush(stdout);
        (void)execlp("xdg-open", "xdg-open", link, (char *)NULL);
    }
}

static int open_run(struct invocation *invocation)
{
    const struct open_values *values = invocation->values;
    struct question question = {.arena = invocation->arena};
    struct kube_config config = {0};

    if (invocation->arg_count)
        return open_job_run(invocation);
    int r = connect_config(invocation->arena,
                           &(struct connect_options){.kubeconfig = values->common.kubeconfig,
                                                     .context = values->common.context},
                           &config, &question.err);

    if (r == 0)
        r = ask_link(&config, &question);
    if (r < 0) {
        (void)fprintf(stderr, "muster open: %s\n", question.err.text);
        return EXIT_FAILURE;
    }
    const char *link =
        str_printf(invocation->arena, "%s/ui/enter#" STR_FMT, config.server, STR_ARG(question.code))
            .p;
    (void)printf("%s\n", link);
    if (!values->print)
        start_browser(link);
    return EXIT_SUCCESS;
}

const struct command command_open = {
    .name = "open",
    .summary = "open the web page, or the address of a program in a job",
    .usage = "[JOB PORT]",
    .about =
        "The link is good once, for ten minutes, and signs in as the user of the kubeconfig, with "
        "that user's rights. With a job and a port it prints where that port of the job's first "
        "pod "
        "can be reached: TensorBoard, Jupyter.",
    .example = "muster open\nmuster open --print\nmuster open train-x7k2p 6006",
    .options = open_options,
    .values_size = sizeof(struct open_values),
    .args_max = 2,
    .run = open_run,
};
