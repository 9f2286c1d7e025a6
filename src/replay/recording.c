#include "replay/recording.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "replay/plan_hash.h"
#include "sched/policy.h"
#include "sched/sched.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The way out: an input becomes a line. */

void recording_begin(struct buf *out, struct arena *arena, const struct sched *sched)
{
    struct json *head = json_make(arena, "{muster: $}", (int64_t)RECORDING_VERSION);

    json_set(head, STR("settings"), policy_tell(arena, sched));
    json_write(out, head);
    buf_addc(out, '\n');
}

bool recording_is(struct str text)
{
    return str_starts(text, STR("{\"muster\":"));
}

static struct json *add_list(struct arena *arena, struct json *line, const char *key)
{
    return json_add_array(arena, line, key);
}

static void push_str(struct arena *arena, struct json *list, struct str text)
{
    json_push(list, json_new_str(arena, text));
}

static void push_i64(struct arena *arena, struct json *list, int64_t number)
{
    json_push(list, json_new_number(arena, str_printf(arena, "%lld", (long long)number)));
}

/* What counts of a pod that holds room and is not ours to place. */
static void add_pod(struct arena *arena, struct json *line, const struct sched_pod *pod)
{
    struct json *to = json_add_object(arena, line, "pod");
    struct json *labels = json_add_object(arena, to, "labels");

    json_fill(arena, to,
              "{ns: $, name: $, uid: $, group: $, scheduler: $, node: $, phase: $, created: $, "
              "cpu: $, memory: $, gpus: $, started: $, deleted: $}",
              pod->ns, pod->name, pod->uid, pod->group, pod->scheduler, pod->node,
              (int64_t)pod->phase, pod->created_ms, pod->cpu_milli, pod->memory_bytes, pod->gpus,
              pod->started_ms, pod->deleted_ms);
    for (size_t i = 0; i < pod->label_count; i++)
        json_add_str(arena, labels, str_c(arena, pod->labels[i].key), pod->labels[i].value);
}

static void add_drop(struct arena *arena, struct json *line, const struct object *object)
{
    const struct kind *kind = object->kind;
    struct str version = kind->group[0] ? str_printf(arena, "%s/%s", kind->group, kind->version)
                                        : str_from(kind->version);

    json_fill(arena, line,
              "{drop: {apiVersion: $, kind: $, metadata: {name: $, namespace: $, uid: $}}}",
              version, kind->name, object->name, object->ns, object->uid);
}

static void add_usage(struct arena *arena, struct json *line, const struct sched_input *input)
{
    struct json *list = add_list(arena, line, "usage");

    push_str(arena, list, input->name);
    for (size_t i = 0; i < SCHED_RESOURCES; i++) {
        uint64_t bits = 0;

        memcpy(&bits, &input->usage[i], sizeof(bits));
        push_str(arena, list, str_printf(arena, "%016llx", (unsigned long long)bits));
    }
}

static void add_policy(struct arena *arena, struct json *line, const struct sched_input *input)
{
    struct json *list = add_list(arena, line, "policy");

    push_str(arena, list, input->name);
    if (input->policy)
        policy_tell_one(arena, input->policy, json_push(list, json_new_object(arena)));
    else
        json_push(list, json_new_null(arena));
}

static void add_pod_name(struct arena *arena,
                         struct json *line,
                         const char *key,
                         const struct sched_input *input)
{
    struct json *list = add_list(arena, line, key);

    push_str(arena, list, input->ns);
    push_str(arena, list, input->name);
    if (input->uid.len)
        push_str(arena, list, input->uid);
}

static struct json *line_of(struct arena *arena, const struct sched_input *input)
{
    struct json *line = json_new_object(arena);
    struct json *list = NULL;

    switch (input->kind) {
    case SCHED_INPUT_OBJECT: add_drop(arena, line, input->object); break;
    case SCHED_INPUT_POD: add_pod(arena, line, input->pod); break;
    case SCHED_INPUT_POD_GONE: add_pod_name(arena, line, "podGone", input); break;
    case SCHED_INPUT_BIND_FAILED: add_pod_name(arena, line, "bindFailed", input); break;
    case SCHED_INPUT_EVICT_FAILED: add_pod_name(arena, line, "evictFailed", input); break;
    case SCHED_INPUT_EVICT_REFUSED:
        list = add_list(arena, line, "evictRefused");
        push_str(arena, list, input->ns);
        push_str(arena, list, input->name);
        push_str(arena, list, input->uid);
        push_i64(arena, list, input->now_ms);
        break;
    case SCHED_INPUT_BIND_UNDONE: add_pod_name(arena, line, "bindUndone", input); break;
    case SCHED_INPUT_WRITTEN:
    case SCHED_INPUT_SHARE:
        list = add_list(arena, line, input->kind == SCHED_INPUT_SHARE ? "share" : "written");
        if (input->kind == SCHED_INPUT_WRITTEN)
            push_str(arena, list, input->ns);
        push_str(arena, list, input->name);
        json_push(list, json_new_bool(arena, input->failed));
        push_i64(arena, list, input->now_ms);
        break;
    case SCHED_INPUT_POLICY: add_policy(arena, line, input); break;
    case SCHED_INPUT_NAMES:
        list = add_list(arena, line, "names");
        push_str(arena, list, input->ns);
        push_str(arena, list, input->name);
        push_str(arena, list, input->pool);
        break;
    case SCHED_INPUT_USAGE: add_usage(arena, line, input); break;
    case SCHED_INPUT_FORGET: json_add_str(arena, line, "forget", input->name); break;
    case SCHED_INPUT_CYCLE:
        json_fill(arena, line, "{cycle: $, plan: $, binds: $, evicts: $}", input->now_ms,
                  str_printf(arena, "%016llx", (unsigned long long)plan_hash(input->plan)),
                  (int64_t)input->plan->bind_count, (int64_t)input->plan->evict_count);
        break;
    }
    return line;
}

void recording_add(struct buf *out, struct arena *arena, const struct sched_input *input)
{
    if (input->kind == SCHED_INPUT_OBJECT && input->change == SCHED_PUT) {
        buf_add(out, STR("{\"put\":"));
        buf_add(out, input->object->raw);
        buf_addc(out, '}');
    } else {
        json_write(out, line_of(arena, input));
    }
    buf_addc(out, '\n');
}
