#include "plugin/sbatch.h"

#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"

#include <errno.h>
#include <string.h>

#define MARK       "#SBATCH"
#define MIB        ((int64_t)1 << 20)
#define NUMBER_MAX 1000000

struct reading {
    struct arena *arena;
    struct sbatch *into;
    int64_t line;
    int64_t gpus; /* a node */
    int64_t nodes;
    int64_t tasks;
    int64_t cpus;       /* a task */
    int64_t memory_gpu; /* a GPU */
};

enum word {
    GPUS,
    GRES,
    NODES,
    TASKS,
    CPUS,
    CPUS_GPU,
    MEM,
    MEM_GPU,
    NAME,
    TIME,
    ARRAY,
    CHDIR,
    REQUEUE,
    EXPORT,
    DEPENDENCY,
    NOTHING, /* it is so here anyway, or the words of the command say it better */
};

static const struct {
    const char *name;
    char letter;
    enum word word;
} words[] = {
    {"gpus", 'G', GPUS},          {"gpus-per-node", 0, GPUS},      {"gres", 0, GRES},
    {"nodes", 'N', NODES},        {"ntasks", 'n', TASKS},          {"ntasks-per-node", 0, TASKS},
    {"cpus-per-task", 'c', CPUS}, {"cpus-per-gpu", 0, CPUS_GPU},   {"mem", 0, MEM},
    {"mem-per-gpu", 0, MEM_GPU},  {"job-name", 'J', NAME},         {"time", 't', TIME},
    {"array", 'a', ARRAY},        {"chdir", 'D', CHDIR},           {"requeue", 0, REQUEUE},
    {"export", 0, EXPORT},        {"dependency", 'd', DEPENDENCY}, {"output", 'o', NOTHING},
    {"error", 'e', NOTHING},      {"open-mode", 0, NOTHING},       {"no-requeue", 0, NOTHING},
    {"exclusive", 0, NOTHING},
};

/* "4", or the last part of "gpu:a100:4" and "a100:4". */
static bool read_count(struct str value, int64_t *ret)
{
    size_t at = value.len;

    while (at > 0 && value.p[at - 1] != ':')
        at--;
    return str_to_i64(str_sub(value, at, value.len), ret) && *ret > 0 && *ret <= NUMBER_MAX;
}

/* "64G", "64000M", "64000" are GiB and MiB. */
static bool read_memory(struct str value, int64_t *ret)
{
    char unit = value.len ? value.p[value.len - 1] : '\0';
    int64_t each = unit == 'T' || unit == 't'   ? MIB << 20
                   : unit == 'G' || unit == 'g' ? MIB << 10
                   : unit == 'K' || unit == 'k' ? MIB >> 10
                                                : MIB;
    int64_t count = 0;

    if (unit < '0' || unit > '9')
        value = str_sub(value, 0, value.len ? value.len - 1 : 0);
    if (!str_to_i64(value, &count) || count < 0 || count > NUMBER_MAX * (int64_t)1024 * 1024 ||
        count > INT64_MAX / each)
        return false;
    *ret = count * each;
    return true;
}

/* ALL and NONE are what they are; names and NAME=VALUE go along. */
static void read_export(struct reading *reading, struct str value)
{
    struct str word;

    while (str_cut(&value, ',', &word))
        if (word.len && !str_is(word, "ALL") && !str_is(word, "NONE"))
            VEC_PUSH(reading->arena, &reading->into->env, str_c(reading->arena, word));
}

static bool read_word(struct reading *reading, enum word word, struct str value)
{
    struct sbatch *into = reading->into;
    const char *text = str_c(reading->arena, value);

    switch (word) {
    case GPUS: return read_count(value, &reading->gpus);
    case GRES:
        if (str_starts(value, STR("gpu")) && !read_count(value, &reading->gpus))
            reading->gpus = 1; /* "gpu", "gpu:a100" */
        return str_starts(value, STR("gpu"));
    case NODES: return read_count(value, &reading->nodes);
    case TASKS: return read_count(value, &reading->tasks);
    case CPUS: return read_count(value, &reading->cpus);
    case CPUS_GPU: return read_count(value, &into->cpus);
    case MEM: return read_memory(value, &into->memory_bytes);
    case MEM_GPU: return read_memory(value, &reading->memory_gpu);
    case NAME: into->name = text; break;
    case TIME: into->time = text; break;
    case ARRAY: into->array = text; break;
    case CHDIR: into->folder = text; break;
    case REQUEUE: into->requeue = true; return true;
    case EXPORT: read_export(reading, value); break;
    case DEPENDENCY: VEC_PUSH(reading->arena, &into->after, text); break;
    case NOTHING: return true;
    }
    return value.len > 0;
}

/* One word of a line, with its value: "--time=1:00:00", "--time 1:00:00", "-t 1:00:00", "-t1:00:00". */
static int read_flag(struct reading *reading, struct str flag, struct str *rest, struct err *err)
{
    bool with_name = str_starts(flag, STR("--"));
    size_t equals = str_find(flag, '=');
    struct str name = with_name ? str_sub(flag, 2, equals - 2) : STR_NONE;
    struct str value = with_name ? str_sub(flag, equals + 1, flag.len) : str_sub(flag, 2, flag.len);

    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (with_name ? !str_is(name, words[i].name) : flag.len < 2 || flag.p[1] != words[i].letter)
            continue;
        if (!value.len && words[i].word != REQUEUE && words[i].word != NOTHING)
            (void)str_cut(rest, ' ', &value);
        if (read_word(reading, words[i].word, value))
            return 0;
        return err_set(err, -EINVAL,
                       "line %lld: " MARK " " STR_FMT ": '" STR_FMT "' is no value for it",
                       (long long)reading->line, STR_ARG(str_sub(flag, 0, 60)),
                       STR_ARG(str_sub(value, 0, 60)));
    }
    VEC_PUSH(reading->arena, &reading->into->unread, str_c(reading->arena, flag));
    return 0;
}

static int read_line(struct reading *reading, struct str line, struct err *err)
{
    struct str rest = str_trim(str_sub(line, strlen(MARK), line.len));
    struct str flag;
    int r = 0;

    reading->into->any = true;
    while (r == 0 && rest.len) {
        size_t end = str_find(rest, ' ');

        flag = str_sub(rest, 0, end);
        rest = str_trim(str_sub(rest, end + 1, rest.len));
        if (flag.p[0] == '#')
            break; /* words for people */
        if (flag.p[0] == '-')
            r = read_flag(reading, flag, &rest, err);
        rest = str_trim(rest);
    }
    return r;
}

static int settle(struct reading *reading, struct err *err)
{
    struct sbatch *into = reading->into;

    if (reading->nodes > 1)
        return err_set(
            err, -EINVAL,
            "it asks for %lld nodes, and `run` is for this machine: `submit --nodes %lld` is for a "
            "cluster",
            (long long)reading->nodes, (long long)reading->nodes);
    into->gpus = reading->gpus;
    into->task_cpus = reading->cpus;
    if (reading->cpus)
        into->cpus = reading->cpus * (reading->tasks ? reading->tasks : 1);
    else if (into->cpus)
        into->cpus *= into->gpus ? into->gpus : 1;
    if (reading->memory_gpu)
        into->memory_bytes = reading->memory_gpu * (into->gpus ? into->gpus : 1);
    return 0;
}

int sbatch_read(struct arena *arena, struct str text, struct sbatch *ret, struct err *err)
{
    struct reading reading = {.arena = arena, .into = ret};
    bool commands = false;
    struct str line;
    int r = 0;

    *ret = (struct sbatch){0};
    while (r == 0 && str_cut(&text, '\n', &line)) {
        struct str trimmed = str_trim(line);

        reading.line++;
        if (!commands && str_starts(line, STR(MARK " ")))
            r = read_line(&reading, line, err);
        commands = commands || (trimmed.len && trimmed.p[0] != '#');
        if (r == 0 && str_starts(trimmed, STR("srun ")))
            r = err_set(err, -EINVAL,
                        "line %lld: there is no srun here: write its command alone, and torchrun "
                        "--nproc_per_node $SLURM_GPUS_ON_NODE before a script that is to have a "
                        "rank for each "
                        "GPU",
                        (long long)reading.line);
    }
    return r ? r : settle(&reading, err);
}
