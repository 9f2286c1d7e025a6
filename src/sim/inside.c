#include "sim/inside.h"

#include "base/arena.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/vec.h"
#include "exec/suspender.h"
#include "sim/machines.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define COMMAND_MS 2000 /* the longest that one takes */
#define FAULT_OF   16   /* one of so many does not arrive, and of one nobody hears */
#define TEXT_BYTES 300

struct command {
    struct arena arena;
    struct str ns;
    struct str pod;
    bool out;
    int64_t due_ms;
    suspender_ended_fn *ended;
    void *user;
};

struct inside {
    struct inside_options options;
    struct suspender_inside commands;
    VEC(struct command *) list;
    bool faults;
};

static void say(const struct inside *inside, const struct command *command, const char *what)
{
    char text[TEXT_BYTES];

    (void)snprintf(text, sizeof(text), "The operator: its command \"%s\" in pod " STR_FMT " %s.",
                   command->out ? "out" : "in", STR_ARG(command->pod), what);
    inside->options.trace(inside->options.user, text);
    if (inside->options.tell)
        inside->options.tell(inside->options.user, text);
}

static enum machines_moved carry_out(struct inside *inside, const struct command *command)
{
    static const char *const words[] = {[MACHINES_MOVED] = "is done",
                                        [MACHINES_STAYED] = "cannot be done",
                                        [MACHINES_UNREACHED] = "does not reach a container"};
    enum machines_moved moved =
        machines_move(inside->options.machines, command->ns, command->pod, command->out);

    say(inside, command, words[moved]);
    return moved;
}

static void command_end(struct command *command, int code, int status, const char *errors)
{
    command->ended(command->user, code, status, code || status ? STR_NONE : STR("ok out 1 400\n"),
                   str_from(errors));
    arena_done(&command->arena);
    mem_free(command);
}

static void run(void *user,
                const struct suspender_command *order,
                suspender_ended_fn *ended,
                void *ended_user)
{
    struct inside *inside = user;
    struct command *command = MEM_NEW(struct command);

    assert(order->count == 3);
    command->ns = str_dup(&command->arena, order->ns);
    command->pod = str_dup(&command->arena, order->pod);
    command->out = strcmp(order->words[2], "out") == 0;
    command->due_ms =
        inside->options.now(inside->options.user) + rng_between(inside->options.rng, 1, COMMAND_MS);
    command->ended = ended;
    command->user = ended_user;
    VEC_PUSH(NULL, &inside->list, command);
}

/* Once a turn: what is told may ask for more. */
static void command_run(struct inside *inside, struct command *command)
{
    uint64_t dice = inside->faults ? rng_below(inside->options.rng, FAULT_OF) : FAULT_OF;

    if (dice == 0) {
        say(inside, command, "does not arrive");
        command_end(command, -EIO, 0, "it did not arrive");
        return;
    }
    enum machines_moved moved = carry_out(inside, command);
    if (moved == MACHINES_UNREACHED)
        command_end(command, -ENOENT, 0, "there is no such container");
    else if (dice == 1)
        command_end(command, -ETIMEDOUT, 0, "nobody answered");
    else
        command_end(command, 0, moved == MACHINES_STAYED, moved == MACHINES_STAYED ? "cannot" : "");
}

static void take(struct inside *inside, size_t index)
{
    for (size_t i = index; i + 1 < inside->list.count; i++)
        inside->list.items[i] = inside->list.items[i + 1];
    inside->list.count--;
}

int64_t inside_turn(struct inside *inside)
{
    int64_t next = INT64_MAX;

    for (size_t i = 0; inside && i < inside->list.count; i++) {
        struct command *command = inside->list.items[i];

        if (inside->options.now(inside->options.user) >= command->due_ms) {
            take(inside, i);
            command_run(inside, command);
            return 0; /* there may be more */
        }
        if (command->due_ms < next)
            next = command->due_ms;
    }
    return next;
}

void inside_cut(struct inside *inside)
{
    while (inside && inside->list.count) {
        struct command *command = inside->list.items[0];

        take(inside, 0);
        if (rng_below(inside->options.rng, 2))
            (void)carry_out(inside, command);
        command_end(command, -EPIPE, 0, "the operator is gone");
    }
}

void inside_set_faults(struct inside *inside, bool on)
{
    inside->faults = on;
}

const struct suspender_inside *inside_commands(struct inside *inside)
{
    return &inside->commands;
}

struct inside *inside_new(const struct inside_options *options)
{
    struct inside *inside = MEM_NEW(struct inside);

    inside->options = *options;
    inside->commands = (struct suspender_inside){.run = run, .user = inside};
    return inside;
}

void inside_free(struct inside *inside)
{
    if (!inside)
        return;
    assert(!inside->list.count);
    VEC_DONE(&inside->list);
    mem_free(inside);
}
