#include "api/kind.h"
#include "api/launch.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Twenty failures of a gang of four, and who is blamed for each: status, event and what is kept of
 * the last words. Pods end in the order of the row, each some seconds after the one before. Messages
 * are those of muster-launch (launch/record.h): %T is the moment at which the rank failed, given as
 * seconds after the job began. */

#define RANK(rank, how, text) "rank " rank " " how " at %T; its last lines:\n" text
#define BROKEN(code, why, text) \
    "rank 0 ended with exit code " code " at %T" LAUNCH_FINAL why "; its last lines:\n" text
#define LOST \
    "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:1\n"
#define NCCL "torch.distributed.DistBackendError: NCCL error: ncclRemoteError\n"
#define HANG \
    "[E ProcessGroupNCCL] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9)\n"
#define OWN "Traceback (most recent call last):\nValueError: loss is nan\n"

struct end {
    int pod;
    int code;
    const char *reason;  /* NULL: Error */
    const char *message; /* NULL: none */
    int rank_s;          /* when its first rank failed */
    int pod_s;           /* when the pod ended */
};

static const struct row {
    const char *why;
    struct end ends[4];
    int blamed;
    const char *phase;
    const char *message; /* a part of the status's */
    const char *kept;    /* a part of status.failure.message; NULL: it is empty */
} rows[] = {
    {"one rank, an exception",
     {{2, 1, NULL, RANK("2", "ended with exit code 1", OWN), 5, 6}},
     2,
     "Restarting",
     "j-worker-2 ended with exit status 1; restart 1 of 3",
     "loss is nan"},
    {"one rank, an exit code of its own",
     {{0, 7, NULL, RANK("0", "ended with exit code 7", "bye\n"), 5, 6}},
     0,
     "Restarting",
     "j-worker-0 ended with exit status 7",
     "exit code 7"},
    {"the culprit's pod ends first",
     {{1, 1, NULL, RANK("1", "ended with exit code 1", OWN), 5, 6},
      {0, 1, NULL, RANK("0", "ended with exit code 1", LOST), 6, 7}},
     1,
     "Restarting",
     "j-worker-1 ended",
     "loss is nan"},
    {"the culprit's pod ends six seconds after its victim's",
     {{0, 1, NULL, RANK("0", "ended with exit code 1", LOST), 5, 6},
      {1, 1, NULL, RANK("1", "ended with exit code 1", OWN), 4, 12}},
     1,
     "Restarting",
     "j-worker-1 ended",
     "loss is nan"},
    {"the culprit's pod ends last of four",
     {{0, 1, NULL, RANK("0", "ended with exit code 1", LOST), 5, 6},
      {1, 1, NULL, RANK("1", "ended with exit code 1", LOST), 5, 7},
      {3, 1, NULL, RANK("3", "ended with exit code 1", NCCL), 5, 9},
      {2, 3, NULL, RANK("2", "ended with exit code 3", OWN), 4, 20}},
     2,
     "Restarting",
     "j-worker-2 ended with exit status 3",
     "loss is nan"},
    {"the culprit's clock is ahead",
     {{0, 1, NULL, RANK("0", "ended with exit code 1", LOST), 5, 6},
      {1, 1, NULL, RANK("1", "ended with exit code 1", OWN), 9, 8}},
     1,
     "Restarting",
     "j-worker-1 ended",
     "loss is nan"},
    {"killed",
     {{3, 137, NULL, RANK("3", "was killed by SIGKILL", "step 9\n"), 5, 6}},
     3,
     "Restarting",
     "j-worker-3 was ended by signal 9",
     "killed by SIGKILL"},
    {"killed, after its victims",
     {{0, 1, NULL, RANK("0", "ended with exit code 1", LOST), 5, 6},
      {3, 137, NULL, RANK("3", "was killed by SIGKILL", "step 9\n"), 5, 14}},
     3,
     "Restarting",
     "j-worker-3 was ended by signal 9",
     "killed by SIGKILL"},
    {"out of memory, whatever the others say",
     {{0, 1, NULL, RANK("0", "ended with exit code 1", OWN), 5, 6},
      {1, 137, "OOMKilled", RANK("1", "was killed by SIGKILL", "step 9\n"), 5, 6}},
     1,
     "Restarting",
     "j-worker-1 was ended by signal 9, OOMKilled",
     "killed by SIGKILL"},
    {"out of memory with the whole container: no words at all",
     {{0, 1, NULL, RANK("0", "ended with exit code 1", LOST), 5, 6},
      {2, 137, "OOMKilled", NULL, 5, 16}},
     2,
     "Restarting",
     "j-worker-2 was ended by signal 9, OOMKilled",
     NULL},
    {"segmentation fault",
     {{0, 1, NULL, RANK("0", "ended with exit code 1", NCCL), 5, 6},
      {1, 139, NULL, RANK("1", "was killed by SIGSEGV", "cuda graph\n"), 5, 18}},
     1,
     "Restarting",
     "j-worker-1 was ended by signal 11",
     "killed by SIGSEGV"},
    {"aborted by the watchdog of a peer that hangs and says so later",
     {{0, 134, NULL, RANK("0", "was killed by SIGABRT", HANG), 5, 6},
      {2, 1, NULL, RANK("2", "ended with exit code 1", OWN), 5, 10}},
     2,
     "Restarting",
     "j-worker-2 ended with exit status 1",
     "loss is nan"},
    {"told to end by its own torchrun",
     {{0, 143, NULL, RANK("0", "was killed by SIGTERM", "step 3\n"), 5, 6},
      {1, 9, NULL, RANK("1", "ended with exit code 9", OWN), 5, 15}},
     1,
     "Restarting",
     "j-worker-1 ended with exit status 9",
     "loss is nan"},
    {"a torchrun that lost the rendezvous before any of its ranks failed",
     {{0, 1, NULL, "torchrun ended with exit code 1 before any rank failed\n", 5, 6},
      {3, 1, NULL, RANK("3", "ended with exit code 1", OWN), 5, 11}},
     3,
     "Restarting",
     "j-worker-3 ended",
     "loss is nan"},
    {"two exceptions of their own: the earlier",
     {{1, 1, NULL, RANK("1", "ended with exit code 1", "KeyError: 2\n"), 6, 7},
      {0, 1, NULL, RANK("0", "ended with exit code 1", OWN), 5, 7}},
     0,
     "Restarting",
     "j-worker-0 ended",
     "loss is nan"},
    {"all only lost a peer: the first, when nobody else speaks",
     {{1, 1, NULL, RANK("1", "ended with exit code 1", LOST), 6, 7},
      {0, 1, NULL, RANK("0", "ended with exit code 1", LOST), 5, 8}},
     0,
     "Restarting",
     "j-worker-0 ended with exit status 1",
     "Connection closed by peer"},
    {"a script that is not there: the next try would end so too",
     {{0, 2, NULL,
       BROKEN("2",
              "the script does not exist",
              "python: can't open file '/app/tran.py': [Errno 2] No such file or directory\n"),
       1, 2}},
     0,
     "Failed",
     "exit status 2: the script does not exist; it is not restarted",
     "/app/tran.py"},
    {"a program that Python cannot read",
     {{0, 1, NULL,
       BROKEN(
           "1",
           "Python cannot read the script",
           "  File \"train.py\", line 3\n    def f(:\n          ^\nSyntaxError: invalid syntax\n"),
       1, 2}},
     0,
     "Failed",
     "exit status 1: Python cannot read the script; it is not restarted",
     "def f(:"},
    {"a command that is not there",
     {{0, 127, NULL, NULL, 1, 2}},
     0,
     "Failed",
     "command not found",
     NULL},
    {"a node without PyTorch",
     {{0, 126, NULL, "no Python here can import torch", 1, 2}},
     0,
     "Failed",
     "j-worker-0 could not start: no Python here can import torch",
     "no Python here"},
};

#define BEGIN_MS 1000000

static struct str words_of(struct scene *scene, const struct end *end)
{
    struct str text = str_from(end->message ? end->message : "");
    struct str out = STR("");
    struct str part;

    while (text.len) {
        size_t mark = 0;

        while (mark + 1 < text.len && !(text.p[mark] == '%' && text.p[mark + 1] == 'T'))
            mark++;
        bool found = mark + 1 < text.len;
        part = str_sub(text, 0, found ? mark : text.len);
        out = str_printf(
            &scene->arena, STR_FMT STR_FMT STR_FMT, STR_ARG(out), STR_ARG(part),
            STR_ARG(found ? time_text(&scene->arena, BEGIN_MS + end->rank_s * 1000) : STR("")));
        text = found ? str_sub(text, mark + 2, text.len) : STR("");
    }
    return out;
}

/* As its node reports it. */
static void end_pod(struct scene *scene, const struct end *end)
{
    struct arena *arena = &scene->arena;
    struct json *patch = json_new_object(arena);
    struct json *status = json_add_object(arena, patch, "status");
    struct json *container =
        json_push(json_add_array(arena, status, "containerStatuses"), json_new_object(arena));
    struct json *terminated = json_make_path(arena, container, "state.terminated");

    json_add_c(arena, status, "phase", "Failed");
    json_add_c(arena, container, "name", "trainer");
    json_add_i64(arena, terminated, "exitCode", end->code);
    json_add_c(arena, terminated, "reason", end->reason ? end->reason : "Error");
    json_add_str(arena, terminated, "message", words_of(scene, end));
    json_add_str(arena, terminated, "finishedAt", time_text(arena, scene->now_ms));
    scene_change(scene, &kind_pod, str_c(arena, str_printf(arena, "j-worker-%d", end->pod)), patch);
}

static void begin(struct scene *scene)
{
    scene_open(scene);
    scene_put(scene, &kind_node,
              "{'metadata':{'name':'node'},'status':{'conditions':[{'type':'Ready','status':"
              "'True'}]}}");
    scene_put(scene, &kind_torchrunqueue,
              "{'metadata':{'name':'q'},'spec':{'nodeResources':{'gpus':1}}}");
    scene_put(scene, &kind_torchrunjob,
              "{'metadata':{'name':'j'},'spec':{'jobQueue':'q','command':'x','numGPUs':4}}");
    scene_run(scene, &torchrun_job_controller, "j");
    for (int i = 0; i < 4; i++)
        scene_patch(scene, &kind_pod,
                    str_c(&scene->arena, str_printf(&scene->arena, "j-worker-%d", i)),
                    "{'spec':{'nodeName':'node'},'status':{'phase':'Running','containerStatuses':["
                    "{'name':'trainer','state':{'running':{}}}]}}");
    scene_run(scene, &torchrun_job_controller, "j");
}

static const struct json *status_of(struct scene *scene)
{
    return json_get(scene_get(scene, &kind_torchrunjob, "j"), "status");
}

static bool is_decided(struct scene *scene)
{
    struct str phase = json_str(json_get(status_of(scene), "phase"));

    return !str_is(phase, "Running") && !str_is(phase, "Queued");
}

static void play(const struct row *row)
{
    _cleanup_(scene_close) struct scene scene;

    test_case(row->why);
    begin(&scene);
    for (size_t j = 0; j < 4 && row->ends[j].pod_s; j++) {
        /* Whoever was named before the last of the row is wrong, or not to be overruled. */
        if (str_contains(scene.events, STR("Restarting")))
            break;
        /* The controller looks again when it wanted to, before the next pod ends. */
        scene.now_ms = BEGIN_MS + row->ends[j].pod_s * 1000 - 100;
        scene_run(&scene, &torchrun_job_controller, "j");
        if (str_contains(scene.events, STR("Restarting")))
            break;
        scene.now_ms += 100;
        end_pod(&scene, &row->ends[j]);
        scene_run(&scene, &torchrun_job_controller, "j");
    }
    /* Nobody else speaks. */
    if (!str_contains(scene.events, STR("Restarting")) && !is_decided(&scene)) {
        scene.now_ms += 60 * 1000;
        scene_run(&scene, &torchrun_job_controller, "j");
    }
    const struct json *failure = json_get(status_of(&scene), "failure");
    struct str words = json_str(json_get(failure, "message"));
    struct str blamed = str_printf(&scene.arena, "j-worker-%d", row->blamed);
    EXPECT(str_eq(json_str(json_get(failure, "pod")), blamed));
    EXPECT(str_is(json_str(json_get(failure, "node")), "node"));
    /* Its pods have one rank each. */
    bool told = str_starts(words, STR("rank "));
    EXPECT(json_i64_or(json_get(failure, "rank"), -1) == (told ? row->blamed : -1));
    EXPECT(str_contains(scene.events, str_from(row->phase)));
    EXPECT(str_contains(scene.event_words, str_from(row->message)));
    EXPECT(row->kept ? str_contains(words, str_from(row->kept)) : !words.len);
}

TEST(of_twenty_failures_each_names_the_rank_that_began)
{
    EXPECT(COUNT_OF(rows) == 20);
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        play(&rows[i]);
}

/* It has no record of a rank, but it is no victim either. */
TEST(a_torchrun_that_was_killed_is_to_blame)
{
    static const struct row row = {
        "torchrun killed, its peers lose it later",
        {{1, 137, NULL, "torchrun was killed by SIGKILL before any of its ranks failed\n", 5, 6},
         {0, 1, NULL, RANK("0", "ended with exit code 1", LOST), 6, 7}},
        1,
        "Restarting",
        "j-worker-1 was ended by signal 9",
        "torchrun was killed by SIGKILL"};

    play(&row);
}
