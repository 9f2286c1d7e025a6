#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "test.h"
#include "workspace/disk.h"
#include "workspace/frame.h"
#include "workspace/keep_results.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOM ((uint64_t)1000)

/* What a reader is sent, in words: "E:path,size B:path,bytes X:words C". */
struct told {
    char text[400];
    size_t len;
};

static int on_frame(void *user, const struct frame *frame, struct err *err)
{
    struct told *told = user;
    char *at = told->text + told->len;
    size_t left = sizeof(told->text) - told->len;
    int n = 0;

    (void)err;
    if (frame->type == FRAME_ENTRY)
        n = snprintf(at, left, "E:" STR_FMT ",%d ", STR_ARG(frame->entry.path),
                     (int)frame->entry.size);
    else if (frame->type == FRAME_BLOB)
        n = snprintf(at, left, "B:" STR_FMT "," STR_FMT " ", STR_ARG(frame->blob.path),
                     STR_ARG(frame->blob.bytes));
    else if (frame->type == FRAME_GONE)
        n = snprintf(at, left, "X:%.10s ", frame->path.p);
    else if (frame->type == FRAME_COMMIT)
        n = snprintf(at, left, "C");
    told->len += (size_t)n;
    return 0;
}

static const char *told_of(int root, uint64_t generation, const char *path, bool list)
{
    static struct told told;
    _cleanup_(buf_done) struct buf out = {0};
    struct keep_results *kept = keep_results_open(
        root, &(struct keep_results_request){
                  .generation = generation, .path = str_from(path), .list = list});

    told = (struct told){.text = ""};
    if (!kept)
        return "nothing";
    while (keep_results_read(kept, &out) > 0)
        ;
    keep_results_close(kept);
    EXPECT(frame_read(&out, on_frame, &told, NULL) == 0);
    return told.text;
}

static void add_file(struct buf *out, const char *path, const char *bytes)
{
    size_t len = strlen(bytes);
    size_t half = len / 2;

    frame_add_blob(out,
                   &(struct frame_blob){
                       .size = len, .mode = 0644, .path = str_from(path), .bytes = {bytes, half}});
    frame_add_blob(out, &(struct frame_blob){.size = len,
                                             .offset = half,
                                             .mode = 0644,
                                             .path = str_from(path),
                                             .bytes = {bytes + half, len - half}});
}

static int open_folder(char *folder)
{
    EXPECT(mkdtemp(folder) != NULL);
    return open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int keep(int root, uint64_t generation, uint64_t offset, struct str frames)
{
    return keep_results_add(
        root,
        &(struct keep_results_piece){.generation = generation, .offset = offset, .frames = frames},
        ROOM, NULL);
}

TEST(what_a_pod_wrote_is_listed_and_read_by_path_after_its_end)
{
    char folder[] = "/tmp/muster-keep-XXXXXX";
    int root = open_folder(folder);
    _cleanup_(buf_done) struct buf out = {0};

    add_file(&out, "model.pt", "weights");
    frame_add_gone(&out, STR("link is a link"));
    add_file(&out, "out/a", "ab");
    frame_add_empty(&out, FRAME_COMMIT);
    EXPECT(strcmp(told_of(root, 0, "", true), "nothing") == 0);
    /* In two pieces that are cut anywhere, the first of them sent twice. */
    EXPECT(keep(root, 0, 0, str_sub(buf_str(&out), 0, 20)) == 0);
    EXPECT(keep(root, 0, 0, str_sub(buf_str(&out), 0, 20)) == 0);
    EXPECT(keep(root, 0, 21, STR("x")) == -ESTALE);
    EXPECT(strcmp(told_of(root, 0, "", true), "") == 0); /* no end: it was cut */
    /* The second was cut, too: the service died while it wrote. */
    EXPECT(keep(root, 0, 20, str_sub(buf_str(&out), 20, 5)) == 0);
    EXPECT(keep(root, 0, 20, str_sub(buf_str(&out), 20, out.len)) == 0);
    EXPECT(keep(root, 0, 20, str_sub(buf_str(&out), 20, out.len)) == 0);
    EXPECT(strcmp(told_of(root, 0, "", true), "E:model.pt,7 X:link is a  E:out/a,2 C") == 0);
    EXPECT(strcmp(told_of(root, 0, "", false),
                  "B:model.pt,wei B:model.pt,ghts X:link is a  B:out/a,a B:out/a,b C") == 0);
    EXPECT(strcmp(told_of(root, 0, "out", false), "X:link is a  B:out/a,a B:out/a,b C") == 0);
    EXPECT(strcmp(told_of(root, 0, "ou", true), "X:link is a  X:no such fi ") == 0);
    EXPECT(strcmp(told_of(root, 1, "", true), "nothing") == 0);
    close(root);
    (void)disk_remove_path(folder);
}

TEST(old_generations_make_room_and_what_is_too_much_alone_is_not_kept)
{
    char folder[] = "/tmp/muster-keep-XXXXXX";
    char many[301];
    int root = open_folder(folder);
    _cleanup_(buf_done) struct buf out = {0};
    _cleanup_(buf_done) struct buf more = {0};

    memset(many, 'x', sizeof(many) - 1);
    many[sizeof(many) - 1] = '\0';
    frame_add_blob(&out, &(struct frame_blob){.size = 300, .path = STR("a"), .bytes = {many, 300}});
    frame_add_empty(&out, FRAME_COMMIT);
    for (uint64_t i = 0; i < 3; i++)
        EXPECT(keep(root, i, 0, buf_str(&out)) == 0);
    EXPECT(strcmp(told_of(root, 0, "", true), "nothing") == 0);
    EXPECT(strcmp(told_of(root, 1, "", true), "E:a,300 C") == 0);
    /* One that comes late makes no newer one go. */
    EXPECT(keep(root, 0, 0, buf_str(&out)) == -EFBIG);
    EXPECT(strcmp(told_of(root, 1, "", true), "E:a,300 C") == 0);
    EXPECT(strcmp(told_of(root, 2, "", true), "E:a,300 C") == 0);
    EXPECT(strcmp(told_of(root, 0, "", true), "X:what the j ") == 0);
    for (int i = 0; i < 4; i++)
        buf_add(&more, buf_str(&out));
    EXPECT(keep(root, 3, 0, buf_str(&more)) == -EFBIG);
    EXPECT(strcmp(told_of(root, 3, "", true), "X:what the j ") == 0); /* and no end */
    close(root);
    (void)disk_remove_path(folder);
}
