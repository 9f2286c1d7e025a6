#include "observe/processes.h"
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(processes_are_asked_for_their_number_once_and_no_more_than_allowed)
{
    struct processes all = {0};
    size_t opens = 0;

    processes_read(&all);
    struct process *own = process_find(&all, getpid());
    struct process *above = process_find(&all, getppid());
    EXPECT(own && own->pid == getpid());
    if (own) {
        EXPECT(process_inner_pid(own, &opens) == 0);
        opens = 1;
        int64_t inner = process_inner_pid(own, &opens);
        EXPECT(inner > 0 && opens == 0);
        EXPECT(process_inner_pid(own, &opens) == inner); /* it is known by now */
        EXPECT(process_is_below(&all, own, own->pid));
        EXPECT(!above || process_is_below(&all, own, above->pid));
        EXPECT(!above || !process_is_below(&all, above, own->pid));
        EXPECT(!above || process_inner_pid(above, &opens) == 0);
    }
    VEC_DONE(&all);
}

TEST(a_zombie_tells_whether_it_failed)
{
    for (int status = 0; status < 2; status++) {
        struct processes all = {0};
        pid_t pid = fork();
        siginfo_t info;

        if (pid == 0)
            _exit(status);
        EXPECT(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
        processes_read(&all);
        const struct process *zombie = process_find(&all, pid);
        EXPECT(zombie && zombie->state == 'Z' && zombie->failed == (status != 0));
        VEC_DONE(&all);
        (void)waitpid(pid, NULL, 0);
    }
}

TEST(what_a_process_reads_and_writes_is_counted)
{
    static const char bytes[1 << 16];
    size_t opens = 0;
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

    EXPECT(process_io_bytes(getpid(), &opens) == 0);
    opens = 2;
    int64_t before = process_io_bytes(getpid(), &opens);
    EXPECT(write(fd, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes));
    int64_t after = process_io_bytes(getpid(), &opens);
    EXPECT(opens == 0 &&
           (!before || after - before >= (int64_t)sizeof(bytes))); /* some kernels do not say */
    (void)close(fd);
}
