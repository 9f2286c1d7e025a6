#include "base/arena.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "launch/full.h"
#include "test.h"

#include <string.h>
#include <sys/statvfs.h>

/* The path says what there is: blocks of 4 KiB that are left, of 16 MiB. */
static int look(const char *path, struct statvfs *ret)
{
    *ret = (struct statvfs){
        .f_frsize = 4096, .f_blocks = 4096, .f_bavail = 4096, .f_files = 9, .f_favail = 9};
    if (strstr(path, "full"))
        ret->f_bavail = 1;
    if (strstr(path, "scarce"))
        ret->f_bavail = 200; /* less than a megabyte, but a twentieth of it */
    if (strstr(path, "names"))
        ret->f_favail = 0;
    if (strstr(path, "read"))
        ret->f_flag = ST_RDONLY;
    if (strstr(path, "tiny"))
        ret->f_blocks = 16;
    return strstr(path, "gone") ? -1 : 0;
}

TEST(disks_without_room_are_named_and_nothing_else)
{
    static const struct {
        const char *mounts;
        const char *names;
    } rows[] = {
        {"", ""},
        {"a / overlay rw 0 0\nb /data ext4 rw 0 0\n", ""},
        {"a / overlay rw 0 0\ntmpfs /full tmpfs rw 0 0\n", "/full"},
        {"a /full tmpfs rw 0 0\nb /full tmpfs rw 0 0\n", "/full"},
        {"a /full overlay rw 0 0\nb /data-names xfs rw 0 0\nc /scarce ext4 rw 0 0\n",
         "/full and /data-names"},
        {"a /full-read ext4 ro 0 0\nproc /proc-full proc rw 0 0\nt /tiny-full tmpfs rw 0 0\n"
         "g /full-gone nfs rw 0 0\nshort\n",
         ""},
        {"a /full1 ext4 rw\na /full2 ext4 rw\na /full3 ext4 rw\na /full4 ext4 rw\n",
         "/full1 and /full2 and /full3"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        test_case(rows[i].mounts);
        EXPECT(str_is(full_names(&arena, str_from(rows[i].mounts), look), rows[i].names));
    }
}
