#include "cmd/gauges.h"

#include "base/buf.h"
#include "base/count.h"
#include "base/version.h"
#include "server/server.h"
#include "store/store.h"

#include <dirent.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static void head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void gauge(struct buf *out, const char *name, const char *help, uint64_t value)
{
    head(out, name, "gauge", help);
    buf_addf(out, "%s %llu\n", name, (unsigned long long)value);
}

static uint64_t resident_bytes(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (file && fscanf(file, "%*u %lu", &pages) != 1)
        pages = 0;
    if (file)
        (void)fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t open_files(void)
{
    uint64_t count = 0;
    DIR *folder = opendir("/proc/self/fd");

    for (struct dirent *entry; folder && (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return count ? count - 1 : 0; /* the folder's own */
}

static void write_process(const struct gauges *gauges, struct buf *out)
{
    struct rusage use;
    struct rlimit files;

    if (getrusage(RUSAGE_SELF, &use) == 0) {
        head(out, "process_cpu_seconds_total", "counter", "Processor time, user and system");
        buf_addf(out, "process_cpu_seconds_total %.2f\n",
                 (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
                     (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6);
    }
    gauge(out, "process_resident_memory_bytes", "Memory", resident_bytes());
    gauge(out, "process_open_fds", "Open files and connections", open_files());
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        gauge(out, "process_max_fds", "How many there may be", files.rlim_cur);
    gauge(out, "process_start_time_seconds", "When it was started, seconds since 1970",
          (uint64_t)gauges->started_ms / 1000);
    head(out, "muster_build_info", "gauge", "1, with what was built");
    buf_addf(out, "muster_build_info{version=\"%s\",build=\"%s\"} 1\n", MUSTER_VERSION,
             muster_build);
}

static uint64_t file_bytes(const char *folder, const char *name)
{
    char path[PATH_MAX];
    struct stat status;
    int n = snprintf(path, sizeof(path), "%s/%s", folder, name);

    return n > 0 && (size_t)n < sizeof(path) && stat(path, &status) == 0 ? (uint64_t)status.st_size
                                                                         : 0;
}

static void write_store(const struct gauges *gauges, struct buf *out)
{
    struct statvfs disk;
    struct store_stats stats;

    store_stats(gauges->store, &stats);
    gauge(out, "muster_store_objects", "Objects that are stored", stats.objects);
    gauge(out, "muster_store_revision", "Revision of the newest change", stats.revision);
    gauge(out, "muster_store_read_only", "1 while writes are refused, but for deletes",
          store_read_only(gauges->store) != NULL);
    gauge(out, "muster_store_bytes", "Size of the store's file and its log",
          file_bytes(gauges->data_dir, "store.db") + file_bytes(gauges->data_dir, "store.db-wal"));
    if (statvfs(gauges->data_dir, &disk) != 0)
        return;
    gauge(out, "muster_disk_bytes", "Size of the disk of the data folder",
          (uint64_t)disk.f_blocks * disk.f_frsize);
    gauge(out, "muster_disk_free_bytes", "What is free of it",
          (uint64_t)disk.f_bavail * disk.f_frsize);
    gauge(out, "muster_disk_free_inodes", "Files for which it has room", disk.f_favail);
}

static void write_requests(const struct gauges *gauges, struct buf *out)
{
    static const char name[] = "muster_server_requests_total";
    struct server_count counts[SERVER_COUNTS_MAX];
    size_t count = server_counts(gauges->server, counts);

    head(out, name, "counter", "Requests that were answered");
    for (size_t i = 0; i < count; i++)
        buf_addf(out, "%s{method=\"%s\",code=\"%uxx\"} %llu\n", name, counts[i].method,
                 counts[i].code, (unsigned long long)counts[i].count);
}

void gauges_write(const struct gauges *gauges, struct buf *out)
{
    /* There is one, and it leads: alerts and panels for the operator mean this too. */
    gauge(out, "muster_leading", "1 in the replica that leads", 1);
    write_process(gauges, out);
    write_store(gauges, out);
    write_requests(gauges, out);
}
