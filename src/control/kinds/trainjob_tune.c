#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "control/kinds/trainjob.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* torchtune: a TrainJob whose command is exactly `tune run` says what to train by the runtime it
 * names, torchtune-<family>-<size>, and how by its args. The command is completed here:
 *
 *     tune run --rdzv_endpoint=HOST:29500 RECIPE --config FAMILY/SIZE_HOW.yaml SETTING=VALUE...
 *
 * The settings are those that the runtime's own command fixes; the args of the job follow. */

bool trainjob_is_tune(const struct json *command)
{
    return json_count(command) == 2 && str_is(json_str(json_index(command, 0)), "tune") &&
           str_is(json_str(json_index(command, 1)), "run");
}

/* torchtune-llama3.2-1b: llama3_2/1B */
static struct str model_of(struct arena *arena, struct str runtime)
{
    struct str prefix;
    struct str family;

    if (!str_cut(&runtime, '-', &prefix) || !str_cut(&runtime, '-', &family) ||
        !str_is(prefix, "torchtune") || !family.len || !runtime.len ||
        str_find(runtime, '-') != runtime.len)
        return STR_NONE;
    char *text =
        str_c(arena, str_printf(arena, STR_FMT "/" STR_FMT, STR_ARG(family), STR_ARG(runtime)));
    for (size_t i = 0; i < family.len; i++)
        if (text[i] == '.')
            text[i] = '_';
    for (char *c = text + family.len; *c; c++)
        if (*c >= 'a' && *c <= 'z')
            *c = (char)(*c - 'a' + 'A');
    return str_from(text);
}

/* Whether an argument sets `name`; `value` NULL: to whatever. */
static bool sets(const struct json *args, const char *name, const char *value)
{
    JSON_FOREACH(args, arg) {
        struct str rest = json_str(arg);
        struct str key;

        if (str_cut(&rest, '=', &key) && str_is(key, name) && (!value || str_is(rest, value)))
            return true;
    }
    return false;
}

struct how {
    const char *recipe;
    const char *suffix;
};

static struct how how_to_tune(const struct json *args, int64_t nodes, bool single)
{
    bool lora = sets(args, "model.lora_attn_modules", NULL);
    bool quantized =
        sets(args, "model.quantize_base", "True") && !sets(args, "model.use_dora", "True");

    if (nodes > 1)
        return (struct how){"full_finetune_distributed", "_full_multinode.yaml"};
    if (quantized)
        return single ? (struct how){"lora_finetune_single_device", "_qlora_single_device.yaml"}
                      : (struct how){"lora_finetune_distributed", "_qlora.yaml"};
    if (lora)
        return single ? (struct how){"lora_finetune_single_device", "_lora_single_device.yaml"}
                      : (struct how){"lora_finetune_distributed", "_lora.yaml"};
    return single ? (struct how){"full_finetune_single_device", "_full_single_device.yaml"}
                  : (struct how){"full_finetune_distributed", "_full.yaml"};
}

/* Where things are is the runtime's to say. */
static bool is_fixed(struct str setting)
{
    static const char *const names[] = {"output_dir", "tokenizer.path", "tokenizer.merges_file",
                                        "checkpointer.checkpoint_dir"};
    struct str name = str_sub(setting, 0, str_find(setting, '='));

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (str_is(name, names[i]))
            return true;
    return false;
}

int trainjob_tune(struct trainjob_build *build,
                  struct json *node,
                  const struct trainjob_place *place,
                  struct err *err)
{
    struct arena *arena = build->arena;
    struct str runtime = build->spec->runtime;
    struct str model = model_of(arena, runtime);
    bool single = build->nodes == 1 && str_is(place->processes, "1");
    struct how how = how_to_tune(json_get(node, "args"), build->nodes, single);
    struct json *command = json_new_array(arena);

    if (!model.len)
        return err_set(
            err, -EINVAL,
            "spec.runtimeRef.name: the command `tune run` needs a runtime whose name says "
            "what to train, torchtune-FAMILY-SIZE (torchtune-llama3.2-1b), not " STR_FMT,
            STR_ARG(runtime));
    json_push(command, json_new_str(arena, STR("tune")));
    json_push(command, json_new_str(arena, STR("run")));
    if (!single)
        json_push(command, json_new_str(arena, str_printf(arena, "--rdzv_endpoint=" STR_FMT ":%d",
                                                          STR_ARG(place->master), TRAINJOB_PORT)));
    json_push(command, json_new_str(arena, str_from(how.recipe)));
    json_push(command, json_new_str(arena, STR("--config")));
    json_push(command,
              json_new_str(arena, str_printf(arena, STR_FMT "%s", STR_ARG(model), how.suffix)));
    JSON_FOREACH(build->runtime_command, word)
        if (is_fixed(json_str(word)))
            json_push(command, json_clone(arena, word));
    json_set(node, STR("command"), command);
    return 0;
}
