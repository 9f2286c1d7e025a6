#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"
#include "workspace/curves.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- writing what TensorBoard's writers write ---- */

static void add_le(struct buf *out, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        char byte = (char)(value >> (8 * i));

        buf_add(out, (struct str){&byte, 1});
    }
}

static void add_varint(struct buf *out, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        add_le(out, (value & 127) | 128, 1);
    add_le(out, value, 1);
}

static void add_bytes(struct buf *out, unsigned field, struct str bytes)
{
    add_varint(out, field << 3 | 2);
    add_varint(out, bytes.len);
    buf_add(out, bytes);
}

static void add_float(struct buf *out, unsigned field, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    add_varint(out, field << 3 | 5);
    add_le(out, bits, 4);
}

static void add_record(struct buf *file, struct str event)
{
    add_le(file, event.len, 8);
    add_le(file, 0, 4);
    buf_add(file, event);
    add_le(file, 0, 4);
}

enum form {
    SIMPLE,
    TENSOR_FLOATS,
    TENSOR_CONTENT,
    TENSOR_DOUBLES
};

static void add_scalar(struct buf *file,
                       const char *tag,
                       int64_t step,
                       float number,
                       enum form form)
{
    _cleanup_(buf_done) struct buf value = {0};
    _cleanup_(buf_done) struct buf tensor = {0};
    _cleanup_(buf_done) struct buf summary = {0};
    _cleanup_(buf_done) struct buf event = {0};
    double wide = (double)number;
    uint64_t bits;

    memcpy(&bits, &wide, sizeof(bits));
    add_bytes(&value, 1, str_from(tag));
    add_varint(&tensor, 1 << 3);
    add_varint(&tensor, form == TENSOR_DOUBLES ? 2 : 1);
    if (form == SIMPLE)
        add_float(&value, 2, number);
    else if (form == TENSOR_FLOATS)
        add_float(&tensor, 5, number);
    else if (form == TENSOR_DOUBLES) {
        add_varint(&tensor, 6 << 3 | 1);
        add_le(&tensor, bits, 8);
    } else {
        add_varint(&tensor, 4 << 3 | 2);
        add_varint(&tensor, 4);
        uint32_t narrow;
        memcpy(&narrow, &number, sizeof(narrow));
        add_le(&tensor, narrow, 4);
    }
    if (form != SIMPLE)
        add_bytes(&value, 8, buf_str(&tensor));
    add_bytes(&summary, 1, buf_str(&value));
    add_varint(&event, 2 << 3);
    add_varint(&event, (uint64_t)step);
    add_bytes(&event, 5, buf_str(&summary));
    add_record(file, buf_str(&event));
}

static struct json *read_whole(struct arena *arena, struct str file)
{
    _cleanup_(buf_done) struct buf out = {0};
    struct curves *curves = curves_new();
    struct json *root = NULL;

    curves_begin(curves, STR("runs/a"));
    curves_add(curves, file);
    curves_write(curves, false, &out);
    curves_free(curves);
    EXPECT(json_parse(arena, str_dup(arena, buf_str(&out)), &root, NULL) == 0);
    return root;
}

TEST(curves_of_every_form_of_a_scalar)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf file = {0};
    _cleanup_(buf_done) struct buf out = {0};
    struct curves *curves = curves_new();

    add_record(&file, STR("\x1a\x0d"
                          "brain.Event:2"));
    add_scalar(&file, "train/loss", 0, 1.5f, SIMPLE);
    add_scalar(&file, "train/loss", 1, 1.25f, TENSOR_FLOATS);
    add_scalar(&file, "train/loss", 2, 1.0f, TENSOR_CONTENT);
    add_scalar(&file, "train/loss", 3, 0.5f, TENSOR_DOUBLES);
    curves_begin(curves, STR("runs/a"));
    curves_add(curves, buf_str(&file));
    curves_write(curves, false, &out);
    EXPECT(str_is(buf_str(&out),
                  "{\"cut\":false,\"series\":[{\"run\":\"runs/a\",\"name\":\"train/loss\","
                  "\"points\":[[0,1.5],[1,1.25],[2,1],[3,0.5]]}]}"));
    curves_free(curves);
}

TEST(curves_are_thinned_and_keep_the_first_and_the_newest)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf file = {0};
    int64_t step = -1;

    for (int i = 0; i < 10001; i++)
        add_scalar(&file, "loss", i, (float)i, SIMPLE);
    struct json *points =
        json_at(json_first(json_get(read_whole(&arena, buf_str(&file)), "series")), "points");
    EXPECT(json_count(points) > CURVES_POINTS_MAX / 2 - 1);
    EXPECT(json_count(points) <= CURVES_POINTS_MAX + 1);
    EXPECT(json_i64(json_first(json_first(points)), &step) && step == 0);
    JSON_FOREACH(points, point) {
        int64_t next = 0;

        EXPECT(json_i64(json_first(point), &next) && (step == 0 || next > step));
        step = next;
    }
    EXPECT(step == 10000);
}

TEST(curves_stop_at_what_is_no_record_and_pass_over_large_ones)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf file = {0};
    char *large = calloc(1, CURVES_RECORD_MAX + 1);

    EXPECT(large);
    add_scalar(&file, "a", 0, 1, SIMPLE);
    add_record(&file, (struct str){large, CURVES_RECORD_MAX + 1});
    add_scalar(&file, "b", 0, 1, SIMPLE);
    buf_add(&file, STR("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"));
    add_scalar(&file, "c", 0, 1, SIMPLE);
    EXPECT(json_count(json_get(read_whole(&arena, buf_str(&file)), "series")) == 2);
    free(large);
}

TEST(curves_take_no_more_series_than_a_page_shows_and_no_numbers_that_are_none)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf file = {0};
    float none;
    uint32_t bits = 0x7fc00000;

    memcpy(&none, &bits, sizeof(none));
    add_scalar(&file, "not a number", 0, none, SIMPLE);
    add_scalar(&file, "\xff\xfe", 0, 1, SIMPLE);
    for (int i = 0; i < 100; i++) {
        char tag[16];

        (void)snprintf(tag, sizeof(tag), "tag-%d", i);
        add_scalar(&file, tag, 0, 1, SIMPLE);
    }
    struct json *series = json_get(read_whole(&arena, buf_str(&file)), "series");
    EXPECT(json_count(series) == CURVES_SERIES_MAX);
    EXPECT(str_is(json_str(json_get(json_first(series), "name")), "\xef\xbf\xbd\xef\xbf\xbd"));
}

/* ---- files ---- */

static void write_file(int folder, const char *name, struct str bytes)
{
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    EXPECT(fd >= 0 && write(fd, bytes.p, bytes.len) == (ssize_t)bytes.len);
    (void)close(fd);
}

TEST(curves_of_a_folder_are_those_of_its_event_files)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf out = {0};
    _cleanup_(buf_done) struct buf earlier = {0};
    _cleanup_(buf_done) struct buf later = {0};
    char path[] = "/tmp/muster-curves-XXXXXX";
    struct err err = {0};
    struct json *root = NULL;
    int r;

    EXPECT(mkdtemp(path));
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    EXPECT(folder >= 0 && mkdirat(folder, "runs", 0700) == 0);
    add_scalar(&earlier, "loss", 1, 2, SIMPLE);
    add_scalar(&later, "loss", 2, 1, SIMPLE);
    write_file(folder, "runs/events.out.tfevents.2.host", buf_str(&later));
    write_file(folder, "runs/events.out.tfevents.1.host", buf_str(&earlier));
    write_file(folder, "runs/model.pt", buf_str(&later));
    EXPECT(symlinkat("/etc/passwd", folder, "events.out.tfevents.3.host") == 0);
    struct curves_walk *walk = curves_walk_new(folder);
    while ((r = curves_walk_turn(walk, &out, &err)) > 0)
        ;
    EXPECT(r == 0);
    curves_walk_free(walk);
    EXPECT(json_parse(&arena, buf_str(&out), &root, NULL) == 0);
    EXPECT(str_is(buf_str(&out),
                  "{\"cut\":false,\"series\":[{\"run\":\"runs\",\"name\":\"loss\",\"points\":"
                  "[[1,2],[2,1]]}]}"));
    static const char *const names[] = {"runs/events.out.tfevents.2.host",
                                        "runs/events.out.tfevents.1.host", "runs/model.pt",
                                        "events.out.tfevents.3.host"};
    folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        EXPECT(unlinkat(folder, names[i], 0) == 0);
    EXPECT(unlinkat(folder, "runs", AT_REMOVEDIR) == 0);
    (void)close(folder);
    EXPECT(rmdir(path) == 0);
}
