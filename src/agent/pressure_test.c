#include "agent/pressure.h"
#include "base/count.h"
#include "base/str.h"
#include "test.h"

#include <stddef.h>
#include <stdint.h>

static struct pressure_reading reading_of(int64_t left_percent, int64_t stall)
{
    struct pressure_reading reading = {.stall = stall};
    reading.total[PRESSURE_MEMORY] = 10000;
    reading.left[PRESSURE_MEMORY] = left_percent * 100;
    return reading;
}

TEST(pressure_stops_starts_first_and_evicts_when_it_lasts)
{
    static const struct {
        int64_t now_ms, left_percent, stall;
        bool is_short, dire;
        const char *why;
    } rows[] = {
        {0, 50, -1, false, false, "plenty"},
        {1000, 10, 100, false, false, "little, but nobody waits"},
        {2000, 10, 5000, true, false, "everybody waits for it"},
        {3000, 4, -1, true, false, "short"},
        {8000, 4, -1, true, true, "and still short"},
        {9000, 6, -1, true, true, "not enough to be fine again"},
        {10000, 8, -1, false, false, "fine"},
        {11000, 6, -1, false, false, "it is short from 5 on"},
        {12000, 1, -1, true, true, "nearly nothing left: at once"},
    };
    struct pressure pressure = {0};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct pressure_reading reading = reading_of(rows[i].left_percent, rows[i].stall);
        bool was = pressure.is_short[PRESSURE_MEMORY];
        test_case(rows[i].why);
        EXPECT(pressure_step(&pressure, &reading, rows[i].now_ms) == (was != rows[i].is_short));
        EXPECT(pressure.is_short[PRESSURE_MEMORY] == rows[i].is_short);
        EXPECT(pressure.dire[PRESSURE_MEMORY] == rows[i].dire);
        EXPECT((pressure_words(&pressure) != NULL) == rows[i].is_short);
        EXPECT(!pressure.is_short[PRESSURE_DISK] && !pressure.is_short[PRESSURE_PIDS]);
    }
}

TEST(a_disk_without_inodes_is_short_of_room_however_many_bytes_are_left)
{
    struct pressure_reading reading = {.stall = -1};
    struct pressure pressure = {0};

    reading.total[PRESSURE_DISK] = reading.left[PRESSURE_DISK] = 1 << 30;
    EXPECT(!pressure_step(&pressure, &reading, 0)); /* a file system that does not count them */
    reading.total[PRESSURE_INODES] = 10000;
    reading.left[PRESSURE_INODES] = 400;
    EXPECT(pressure_step(&pressure, &reading, 1));
    EXPECT(!pressure.is_short[PRESSURE_DISK] && pressure_is_told(&pressure, PRESSURE_DISK));
    EXPECT(!pressure_is_told(&pressure, PRESSURE_MEMORY));
    EXPECT(!pressure_is_told(&pressure, PRESSURE_PIDS));
    EXPECT(str_is(str_from(pressure_words(&pressure)), "inodes"));
    reading.left[PRESSURE_INODES] = 9000;
    EXPECT(pressure_step(&pressure, &reading, 2));
    EXPECT(!pressure_is_told(&pressure, PRESSURE_DISK) && !pressure_words(&pressure));
}

TEST(pressure_evicts_who_takes_more_than_asked_for_and_matters_least)
{
    static const struct {
        struct pressure_pod pods[3];
        size_t victim;
        const char *why;
    } rows[] = {
        {{{0, 0, 0}, {0, 0, 9}, {5, 0, 0}}, SIZE_MAX, "nobody uses anything"},
        {{{0, 50, 100}, {9, 101, 100}, {0, 90, 100}}, 1, "above its request, however important"},
        {{{5, 200, 100}, {1, 150, 100}, {1, 120, 100}}, 1, "the least important of those"},
        {{{1, 150, 100}, {1, 300, 200}, {1, 90, 0}}, 1, "furthest above its request"},
        {{{5, 50, 100}, {1, 20, 100}, {3, 99, 100}}, 1, "nobody is above: the least important"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        EXPECT(pressure_victim(rows[i].pods, 3) == rows[i].victim);
    }
}

TEST(pressure_is_read_from_the_kernels_words)
{
    struct pressure_reading reading = {0};
    pressure_read_memory(STR("MemTotal:       24035148 kB\nMemFree:  1 kB\n"
                             "MemAvailable:   23000000 kB\nBuffers: 2 kB\n"),
                         &reading);
    EXPECT(reading.total[PRESSURE_MEMORY] == 24035148LL * 1024);
    EXPECT(reading.left[PRESSURE_MEMORY] == 23000000LL * 1024);
    pressure_read_stall(STR("some avg10=1.00 avg60=0.00\nfull avg10=12.34 avg60=0.1 total=7\n"),
                        &reading);
    EXPECT(reading.stall == 1234);
    pressure_read_tasks(STR("0.33 0.28 0.20 2/456 1234\n"), 1000, &reading);
    EXPECT(reading.total[PRESSURE_PIDS] == 1000 && reading.left[PRESSURE_PIDS] == 544);

    struct pressure_reading none = {0};
    pressure_read_memory(STR("MemTotal: 5 kB\n"), &none); /* an old kernel */
    pressure_read_stall(STR("nonsense"), &none);
    pressure_read_tasks(STR(""), 1000, &none);
    EXPECT(!none.total[PRESSURE_MEMORY] && none.stall == -1 && !none.total[PRESSURE_PIDS]);
}

TEST(pods_without_requests_count_with_a_default)
{
    EXPECT(pressure_slots((int64_t)24 << 30) == 96);
    EXPECT(pressure_slots((int64_t)24 << 30) < 240); /* trainings that say nothing */
    EXPECT(pressure_slots(1) == PRESSURE_SLOTS_MIN);
    EXPECT(pressure_slots((int64_t)1 << 42) == PRESSURE_SLOTS_MAX);
}

TEST(virtual_nodes_divide_the_machines_cpus)
{
    EXPECT(pressure_cpu_milli(8, 1) == 8000);
    EXPECT(pressure_cpu_milli(8, 2) == 4000);
    EXPECT(pressure_cpu_milli(8, 3) == 2666);
    EXPECT(pressure_cpu_milli(2, 4) == 1000); /* one that asks for a CPU has a place */
}
