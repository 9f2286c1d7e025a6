#include "agent/pressure.h"

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- what is the matter ---- */

static bool pressure_is_below(const struct pressure_reading *reading,
                              enum pressure_kind kind,
                              int64_t percent)
{
    return reading->total[kind] > 0 && reading->left[kind] / percent < reading->total[kind] / 100;
}

bool pressure_step(struct pressure *pressure,
                   const struct pressure_reading *reading,
                   int64_t now_ms)
{
    bool changed = false;
    for (enum pressure_kind kind = 0; kind < PRESSURE_KINDS; kind++) {
        bool was = pressure->is_short[kind];
        int64_t percent = was ? PRESSURE_FINE_PERCENT : PRESSURE_SHORT_PERCENT;
        if (kind == PRESSURE_MEMORY && reading->stall >= PRESSURE_STALL)
            percent = PRESSURE_STALL_PERCENT;
        bool is_short = pressure_is_below(reading, kind, percent);
        if (is_short && !was)
            pressure->since_ms[kind] = now_ms;
        pressure->is_short[kind] = is_short;
        pressure->dire[kind] =
            is_short && (pressure_is_below(reading, kind, PRESSURE_DIRE_PERCENT) ||
                         now_ms - pressure->since_ms[kind] >= PRESSURE_EVICT_MS);
        changed = changed || is_short != was;
    }
    return changed;
}

bool pressure_is_told(const struct pressure *pressure, enum pressure_kind kind)
{
    return pressure->is_short[kind] ||
           (kind == PRESSURE_DISK && pressure->is_short[PRESSURE_INODES]);
}

const char *pressure_words(const struct pressure *pressure)
{
    static const char *const words[PRESSURE_KINDS] = {"memory", "ephemeral-storage", "pids",
                                                      "inodes"};
    for (size_t i = 0; i < PRESSURE_KINDS; i++)
        if (pressure->is_short[i])
            return words[i];
    return NULL;
}

/* ---- who has to go ---- */

/* Does `a` have to go rather than `b`? */
static bool pressure_before(const struct pressure_pod *a, const struct pressure_pod *b)
{
    bool a_over = a->used > a->requested, b_over = b->used > b->requested;
    if (a_over != b_over)
        return a_over;
    if (a->priority != b->priority)
        return a->priority < b->priority;
    return a->used - a->requested > b->used - b->requested;
}

size_t pressure_victim(const struct pressure_pod *pods, size_t count)
{
    size_t victim = SIZE_MAX;
    for (size_t i = 0; i < count; i++)
        if (pods[i].used > 0 && (victim == SIZE_MAX || pressure_before(&pods[i], &pods[victim])))
            victim = i;
    return victim;
}

int64_t pressure_slots(int64_t memory_bytes)
{
    int64_t slots = memory_bytes / PRESSURE_SLOT_BYTES;
    return slots < PRESSURE_SLOTS_MIN   ? PRESSURE_SLOTS_MIN
           : slots > PRESSURE_SLOTS_MAX ? PRESSURE_SLOTS_MAX
                                        : slots;
}

int64_t pressure_cpu_milli(int64_t cpus, int64_t nodes)
{
    int64_t milli = cpus * 1000 / nodes;
    return milli < 1000 ? 1000 : milli;
}

/* ---- reading ---- */

/* "MemTotal:       24035148 kB" */
static bool meminfo_line(struct str line, struct str name, int64_t *ret_bytes)
{
    struct str word;
    int64_t kib;
    if (!str_starts(line, name))
        return false;
    struct str rest = str_trim(str_sub(line, name.len, line.len));
    if (!str_cut(&rest, ' ', &word) || !str_to_i64(word, &kib) || kib < 0)
        return false;
    *ret_bytes = kib * 1024;
    return true;
}

void pressure_read_memory(struct str meminfo, struct pressure_reading *reading)
{
    struct str line;
    int64_t total = 0, left = -1;
    while (str_cut(&meminfo, '\n', &line))
        if (!meminfo_line(line, STR("MemTotal:"), &total))
            (void)meminfo_line(line, STR("MemAvailable:"), &left);
    reading->total[PRESSURE_MEMORY] = left < 0 ? 0 : total;
    reading->left[PRESSURE_MEMORY] = left < 0 ? 0 : left;
}

/* "full avg10=12.34 avg60=..." */
void pressure_read_stall(struct str psi, struct pressure_reading *reading)
{
    struct str line, word, whole;
    reading->stall = -1;
    while (str_cut(&psi, '\n', &line)) {
        if (!str_starts(line, STR("full avg10=")))
            continue;
        line = str_sub(line, sizeof("full avg10=") - 1, line.len);
        int64_t percent, hundredths;
        if (str_cut(&line, ' ', &word) && str_cut(&word, '.', &whole) &&
            str_to_i64(whole, &percent) && word.len == 2 && str_to_i64(word, &hundredths))
            reading->stall = percent * 100 + hundredths;
    }
}

/* "0.33 0.28 0.20 2/456 1234": of these tasks 456. */
void pressure_read_tasks(struct str loadavg, int64_t max, struct pressure_reading *reading)
{
    struct str word;
    int64_t tasks = 0;
    for (int i = 0; i < 4; i++)
        if (!str_cut(&loadavg, ' ', &word))
            return;
    size_t slash = str_find(word, '/');
    if (max <= 0 || slash >= word.len || !str_to_i64(str_sub(word, slash + 1, word.len), &tasks) ||
        tasks < 0)
        return;
    reading->total[PRESSURE_PIDS] = max;
    reading->left[PRESSURE_PIDS] = tasks < max ? max - tasks : 0;
}
