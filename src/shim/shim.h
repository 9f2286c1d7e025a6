#pragma once

/* clang-format off: the lists below are tables */

/* shim: the protocol between the node agent and muster-shim, the one small process each pod has.
 *
 * The shim owns what must not die with muster: the pod's namespaces, the containers' pipes and log
 * files, the reaping of their processes and the record of how they ended. It decides nothing: the
 * agent says what to start and what to signal. A newer muster meets older shims after an upgrade,
 * so this file only ever grows: a reader ignores records, words and messages it does not know, and
 * nothing documented here changes its meaning. SHIM_PROTOCOL counts the additions.
 *
 * ## The pod's folder
 *
 *     pod                 what the sandbox is made of: records, see below
 *     shim.sock           the shim listens here: SOCK_SEQPACKET, one agent at a time, the newest
 *                         wins. It is there once the shim can be spoken to
 *     shim.lock           locked (flock) from before the shim is made until it is gone: the agent
 *                         takes the lock, the shim inherits it. Who finds it locked and no socket
 *                         waits for the socket; nobody makes a second shim
 *     c/<container>/      one folder a container, one number (0, 1, ...) an instance of it:
 *       <n>.spec          what to run: records, written by the agent before it says "start"
 *       <n>.log           its output, one record a line:
 *                             2026-11-15T02:03:04.123456789Z stdout F the line\n
 *                         F: a whole line, P: a piece of one that goes on in the next record
 *       <n>.log.<k>       older output, 1 the youngest of them; at most SHIM_LOG_FILES_MAX in all
 *       <n>.log.cut       there was output before all of these
 *       <n>.begun         it is about to start: on the disk before its program runs, so an
 *                         instance that has one is never started again
 *       <n>.exit          it ended, see below; written whole or not at all, and on the disk before
 *                         it is told. Where it cannot be written (a full disk) the shim stays and
 *                         tries again
 *       <n>.message       the container's /dev/termination-log
 *       <n>.upper/        what it wrote to its own file system
 *
 * All names are relative to the folder, which is the shim's only argument and its working
 * directory. Descriptor SHIM_FD, where open, is already connected to the agent that started it.
 *
 * `muster-shim --spawner [FOLDER PATH...]` makes shims without the cost of starting a program each:
 * every packet on its SHIM_FD is the path of a pod's folder and brings the descriptor that becomes
 * its shim's SHIM_FD, and that of the locked shim.lock, which the shim keeps. It goes when the
 * agent does; the shims stay. FOLDER, as they see it, has the PATHs in it: what root.points below
 * is for.
 *
 * ## Records
 *
 * `pod` and `<n>.spec` are sequences of "name=value", each ended by a NUL byte; order counts only
 * where a name says so.
 *
 * pod:
 *     hostname=H          UTS name (with ns=uts)
 *     ns=net|uts|ipc|user namespaces the pod's containers share; one record each
 *     net.bridge=INDEX    with ns=net: connect it to this interface of the host, by a pair whose
 *                         other end is net.name=N there and eth0 in the pod, which gets
 *                         net.address=A net.prefix=N and a default route by net.gateway=A
 *     scope=abstract      abstract sockets of others are out of reach, where the kernel has Landlock
 *                         6 (Linux 6.12): a network is shared, they need not be
 *     tmpfs.options=O     of the memory that follows
 *     tmpfs=P             memory at P inside the folder, for all containers, gone with the shim
 *     cgroup.make=D       as below, of the container that starts first: the shim makes its groups
 *                         while the agent makes its files
 *
 * <n>.spec:
 *     arg=A               one an argument; the first is looked up in PATH of the env records
 *     env=K=V
 *     cwd=D               made where it is missing
 *     uid=N gid=N group=N the last any number of times
 *     stdin=1 tty=1       stdin=2: closed when the first one who attached to it leaves
 *     ns=pid|mount        namespaces of the container alone; of an exec: those to enter
 *     pid.of=C            it is born in the pid namespace of container C, which runs
 *     root=overlay|bind|P overlay: a writable view of /; bind: a new root with the directories of /
 *                         in it; else a folder that is the root
 *     root.points=P       with overlay: a folder of empty files and folders to mount things on,
 *                         seen below what is written and above what the host has
 *     root.at=P           an empty folder to put the root together at; else <n>.root, which is
 *                         made
 *     root.lower=P        with overlay: a view of P instead of /
 *     runtime=1           the command is an OCI runtime: it finds the root, with all mounts but
 *                         /proc, at <n>.root, and is the parent of the container's first process.
 *                         What it says in <n>.runtime is why it could not start it
 *     mount.source=S mount.sub=P mount.target=T mount.options=ro,rec
 *     mount=bind|tmpfs    the mount the records before it describe, made in this order; sub: a path
 *                         inside the source, made where missing, that cannot lead out of it.
 *                         Options: ro, rec, nosuid, nodev; host: the pod chose the source, so what
 *                         is masked is refused or covered there (shim/hidden.h); with nodev also
 *                         devices and /proc; as: sub is found with the rights of uid, gid and the
 *                         groups of this spec, and not made
 *     mask=P              hide a file or folder, wherever it is seen
 *     absent=P            a name of the machine that is not there yet: of a root that is an overlay
 *                         of the machine's it is not seen when it comes. What it is in has no links
 *     shut=P keep=P       an empty folder in place of P, but what is to be kept is seen in it as
 *                         before; of what the machine has, before any mount
 *     caps=HEX            capabilities it keeps; default all
 *     nonewprivs=1 seccomp=1
 *     cgroup.make=D       a folder to make, cgroup.file=F + cgroup.write=TEXT: a file to write;
 *                         where that fails nothing is started, unless cgroup.except=ERRNO was before
 *     cgroup.into=D       a version 2 group to be born in
 *     cgroup.join=F       a file that takes the pid; cgroup.oom=F: "oom_kill N" there tells of one
 *     sysctl.file=F       a kernel setting of the pod's namespaces, sysctl.write=TEXT: what it is
 *     oomscore=N          /proc/self/oom_score_adj
 *     log.bytes=N         size of one log file; default SHIM_LOG_BYTES
 *
 * ## The exit file
 *
 * One line: "<code> <signal> <started ms> <finished ms> <flags>\n". A process that ended by a
 * signal has code 128 + signal. flags: "-" or letters: o the kernel killed it for memory, s it
 * never started and the rest of the file says why, l it was started earlier and nobody saw its end.
 *
 * ## Messages
 *
 * One packet, one message, words separated by blanks, at most SHIM_MESSAGE_BYTES. Containers have
 * no blanks in their names.
 *
 * agent to shim:
 *
 *     start C N           start instance N of container C from its spec
 *     signal C N SIG      to its first process; SIGKILL ends every process of the container
 *     exec ID C FILE      run what the spec FILE says inside container C, with the descriptors that
 *                         come with the packet as stdin, stdout, stderr; without any: in a terminal
 *                         of its own, answered by "terminal ID" with its master side
 *     execsignal ID SIG   to the first process of an exec
 *     attach C            answered by "attached C" with the write end of its stdin (or its
 *                         terminal) when it has one
 *     tee C               the descriptor that comes along gets a copy of what C writes from now
 *                         on, as far as it keeps up
 *     state               answered by "running" or "ended" for every instance that has no exit file
 *                         yet, then "synced": an instance it says nothing of has an exit file, or
 *                         this shim did not start it
 *     stop                end every container and go when all exit files are written
 *     stop forget         the same, but go at once: nobody will read them
 *
 * shim to agent:
 *     hello PROTOCOL      first on every connection
 *     started C N PID MS
 *     exited C N          the exit file is there
 *     ended C N TEXT      it ended, but its exit file cannot be written yet; TEXT is what it will
 *                         have in it. "exited" follows
 *     running C N PID MS
 *     terminal ID
 *     execexit ID CODE
 *     synced
 *
 * The agent's going away changes nothing. When the shim itself dies the kernel ends its containers.
 */
/* clang-format on */

#define SHIM_PROTOCOL      5
#define SHIM_FD            3
#define SHIM_MESSAGE_BYTES 4096
#define SHIM_FDS_MAX       3

#define SHIM_SPAWNER     "--spawner"
#define SHIM_POD_FILE    "pod"
#define SHIM_SOCKET_FILE "shim.sock"
#define SHIM_LOCK_FILE   "shim.lock"

#define SHIM_NAME_BYTES     256 /* a container's name: 63 in Kubernetes */
#define SHIM_CONTAINERS_MAX 64  /* of one pod, init containers included */
#define SHIM_GROUPS_MAX \
    192 /* of a user: 64 of the machine's or a person, fsGroup, what a pod asks for */
#define SHIM_SPEC_BYTES    (4 << 20) /* of a spec file: environment and mounts */
#define SHIM_LOG_BYTES     (10 << 20)
#define SHIM_LOG_FILES_MAX 5
#define SHIM_LOG_CUT       ".cut" /* behind the name of a log: its beginning was dropped */
#define SHIM_LINE_BYTES    16384  /* longer lines are cut into P records */
