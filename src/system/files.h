#pragma once

#include <sys/types.h>
#include <time.h>

struct stat;

/* When a file's content was written, and when anything of it was changed, as finely as is known. */
struct timespec file_modified(const struct stat *st);
struct timespec file_changed(const struct stat *st);
/* What a file would be given as its time now: not finer than the file systems' own clock. */
struct timespec file_clock(void);

/* A new file for writing in a folder, without a name; -1 and errno. */
int file_open_unnamed(const char *folder);
/* The same for reading too, to be given a name later; -1: there is none where the folder is. */
int file_open_nameless(int folder_fd);
/* Its name, if nothing has it; -1 and errno: EEXIST. */
int file_give_name(int fd, int folder_fd, const char *name);

/* What stands at a name and is no regular file, or one of another volume than `device`: *ret says which. */
#ifdef __linux__
#    define FILE_OTHER_KIND EMEDIUMTYPE
#else
#    define FILE_OTHER_KIND EFTYPE
#endif
/* Opens a regular file for reading, and nothing else: a FIFO would block, a device act, and no link is followed. Returns the
 * descriptor, or -errno; *ret is filled also with -FILE_OTHER_KIND. */
int file_open_regular(int parent_fd, const char *name, dev_t device, struct stat *ret);

/* A name in a folder. */
struct file_name {
    int folder_fd;
    const char *name;
};

/* Another name for a file, if nothing has it; -1 and errno: EEXIST, or EINVAL where the volume cannot. */
int file_rename_new(struct file_name from, struct file_name to);

/* Two names change what they stand for, at once; -1 and errno: EINVAL where the volume cannot. */
int file_exchange(struct file_name a, struct file_name b);

/* A file that is read by its path and that no other user can read. On Linux it has no name and is in memory; elsewhere it
 * lies in the temporary folder until it is closed. */
struct private_file {
    int fd;        /* -1: none */
    char path[64]; /* what to open; on Linux only inside this process */
};

/* Makes it, empty; -1 and errno when it cannot be had. */
int private_file_open(struct private_file *file, const char *name);
/* Takes one that is not open too. */
void private_file_close(struct private_file *file);
