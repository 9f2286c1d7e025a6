"""warm.py SOCKET: a Python that has torch imported, and turns into programs by forking (src/launch/warm.h).

A request has the descriptors 0 to 2 of who asks, its folder, its umask, its arguments and its environment. The answer is "f PID",
and "e STATUS" when that has ended; or "n": what is asked for could not be the same as with a Python of its own, which is
then started. Who asked and is gone takes the program along. Nothing here may touch a GPU. Python 3.6 and later.
"""
import sys

FRESH = frozenset(name.partition(".")[0] for name in sys.modules)  # what every Python has at its start

import array  # noqa: E402
import gc  # noqa: E402
import os  # noqa: E402
import select  # noqa: E402
import signal  # noqa: E402
import socket  # noqa: E402
import struct  # noqa: E402
import time  # noqa: E402

REQUEST_MAX = 4 << 20
# Python, the loader, and what libraries read when they are loaded: it has happened here already.
READ_EARLY = (b"PYTHON", b"LD_", b"LANG", b"LC_", b"OMP_", b"KMP_", b"GOMP_", b"MKL_", b"OPENBLAS_", b"MALLOC_", b"TORCH_",
              b"PYTORCH_")
# What torchrun gives to its ranks; it is read when a process group is made.
READ_LATE = (b"TORCH_NCCL_ASYNC_ERROR_HANDLING",)

# How long ranks wait for the first one to listen, and how often they look.
FIRST_LISTENS_S = 0.25
FIRST_LOOK_S = 0.005

# A Python that finds no locale takes one, and says so in its environment.
TAKEN = (b"C.UTF-8", b"C.utf8", b"UTF-8")


def load():
    import torch  # noqa: F401
    for name in ("torch.distributed.run", "torch.nn.parallel", "torch.utils.data", "numpy"):
        try:
            __import__(name)
        except Exception:
            pass
    # So that -m finds it as new as it expects.
    if sys.modules.pop("torch.distributed.run", None) is not None:
        delattr(sys.modules["torch.distributed"], "run")


def early(environment):
    return {k: v for k, v in environment.items()
            if k.startswith(READ_EARLY) and k not in READ_LATE and not (k == b"LC_CTYPE" and v in TAKEN)}


class Request(object):
    def __init__(self, fields, count, fds):
        self.fds = fds
        self.cwd, mask = fields[0], fields[1]
        self.umask = int(mask, 8)
        self.argv = [os.fsdecode(a) for a in fields[2:2 + count]]
        self.env = dict(e.split(b"=", 1) for e in fields[2 + count:] if b"=" in e)
        self.module, self.script = None, None
        rest = self.argv[1:]
        if rest[:1] == ["-u"] and self.env.get(b"PYTHONUNBUFFERED"):
            rest = rest[1:]
        if rest[:1] == ["-m"] and len(rest) > 1:
            self.module, self.rest = rest[1], rest[2:]
        elif rest and not rest[0].startswith("-"):
            self.script, self.rest = rest[0], rest[1:]

    def folder(self):
        """Where the program's own modules are."""
        if self.module:
            return os.fsdecode(self.cwd)
        return os.path.dirname(os.path.realpath(os.path.join(os.fsdecode(self.cwd), self.script)))

    def shadows(self):
        """A file of the program would have been imported instead of something that is imported here."""
        here = {name.partition(".")[0] for name in os.listdir(self.folder())}
        return here & ({name.partition(".")[0] for name in sys.modules} - FRESH)

    def possible(self, environment):
        if self.script:
            path = os.path.join(os.fsdecode(self.cwd), self.script)
            if path.endswith(".pyc") or not os.path.isfile(path) or not os.access(path, os.R_OK):
                return False
        return bool(self.script or self.module) and early(self.env) == early(environment) and not self.shadows()


def retitle(argv):
    """What ps shows: the arguments of this process lie where the kernel put them, and there was room left for more."""
    import ctypes
    with open("/proc/self/stat", "rb") as f:
        fields = f.read().rpartition(b")")[2].split()
    begin, end = int(fields[45]), int(fields[46])
    text = b"\0".join(os.fsencode(a) for a in argv)[:end - begin - 1]
    ctypes.memmove(begin, text + b"\0" * (end - begin - len(text)), end - begin)


def reseed():
    for name in ("random", "numpy.random"):
        if name in sys.modules:
            sys.modules[name].seed()


def watch():
    """The hook that counts steps began when there was no rank yet (src/observe/hook.py)."""
    path = os.path.join(os.environ.get("PYTHONPATH", "").partition(":")[0], "sitecustomize.py")
    if "MUSTER_RANKS_DIR" in os.environ and os.path.isfile(path):
        with open(path, "rb") as f:
            exec(compile(f.read(), path, "exec"), {"__name__": "muster_hook", "__file__": path})


def wait_for_first():
    """PyTorch sleeps for a second when it asks for a store that nobody has opened yet. Without us ranks take seconds to
    come that far, and the first one, which opens it, is a little ahead; here they come there together."""
    if os.environ.get("RANK", "0") == "0" or "TORCHELASTIC_RUN_ID" not in os.environ or \
            os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return
    where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    until = time.monotonic() + FIRST_LISTENS_S
    while time.monotonic() < until:
        try:
            socket.create_connection(where, timeout=FIRST_LISTENS_S).close()
            return
        except ConnectionRefusedError:
            time.sleep(FIRST_LOOK_S)


def quietly(function, *args):
    """What it returns; None when it fails."""
    try:
        return function(*args)
    except Exception:
        return None


def become(request):
    """In the new process: all but the program itself. The function that is left to call."""
    for number, fd in enumerate(request.fds):
        os.dup2(fd, number)
    for fd in request.fds:
        if fd > 2:
            os.close(fd)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.chdir(request.cwd)
    os.umask(request.umask)
    locale = os.environb.get(b"LC_CTYPE")
    os.environb.clear()
    os.environb.update(request.env)
    if locale in TAKEN:
        os.environb.setdefault(b"LC_CTYPE", locale)
    main = type(sys)("__main__")
    main.__builtins__ = sys.modules["builtins"]
    sys.modules["__main__"] = main
    sys.argv[:] = ([request.script] if request.script else ["-m"]) + request.rest
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = request.argv
    sys.executable = request.argv[0]
    sys.path[0] = request.folder()
    quietly(retitle, request.argv)
    quietly(reseed)
    quietly(watch)
    quietly(wait_for_first)
    if request.module:
        import runpy
        return lambda: runpy._run_module_as_main(request.module)
    from importlib.machinery import SourceFileLoader
    path = os.path.join(os.getcwd(), request.script) if sys.version_info >= (3, 9) else request.script
    main.__file__, main.__cached__ = path, None
    main.__loader__ = SourceFileLoader("__main__", path)
    with open(path, "rb") as f:
        source = f.read()

    def program():
        exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)
    return program


def end_as_python(program):
    """As if it were this Python's own program: what it raises is told without the frames from here."""
    try:
        program()
    except SystemExit:
        raise
    except BaseException as e:
        trace = e.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        e.__traceback__ = trace
        sys.excepthook(type(e), e, trace)
        if isinstance(e, KeyboardInterrupt) and sys.version_info >= (3, 8):
            import atexit
            atexit._run_exitfuncs()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        sys.exit(1)


class Server(object):
    def __init__(self, path):
        self.environment = dict(os.environb)
        self.asking = {}  # pid -> connection
        self.wake, wake = socket.socketpair()
        for end in (self.wake, wake):
            end.setblocking(False)
        self.woken_by = wake
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake.fileno())
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path + ".new")
        self.listener.listen(64)
        os.rename(path + ".new", path)  # whoever can connect is answered

    def read(self, connection):
        connection.settimeout(10)
        room = socket.CMSG_SPACE(3 * 4)
        head, control, _, _ = connection.recvmsg(8, room)
        fds = array.array("i")
        for level, kind, data in control:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(data[:len(data) // 4 * 4])
        try:
            length, count = struct.unpack("II", head)
            if length > REQUEST_MAX or len(fds) != 3:
                raise ValueError
            body = b""
            while len(body) < length:
                piece = connection.recv(length - len(body))
                if not piece:
                    raise ValueError
                body += piece
            return Request(body.split(b"\0")[:-1], count, list(fds))
        except Exception:
            for fd in fds:
                os.close(fd)
            raise

    def take(self):
        """One request. In the new process: what is to be run there."""
        connection, _ = self.listener.accept()
        try:
            request = self.read(connection)
        except Exception:
            connection.close()
            return None
        if not quietly(request.possible, self.environment):
            quietly(connection.sendall, b"n\n")
            connection.close()
            for fd in request.fds:
                os.close(fd)
            return None
        pid = os.fork()
        if pid == 0:
            return self.leave(request, connection)
        self.asking[pid] = connection
        for fd in request.fds:
            os.close(fd)
        quietly(connection.sendall, b"f %d\n" % pid)
        return None

    def leave(self, request, connection):
        for mine in [self.wake, self.woken_by, self.listener, connection] + list(self.asking.values()):
            mine.close()
        try:
            return become(request)
        except Exception as e:
            os.write(2, ("%s\n" % e).encode())
            os._exit(126)

    def reap(self):
        try:
            self.wake.recv(4096)
        except OSError:
            pass
        while self.asking:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except OSError:
                return
            if not pid:
                return
            connection = self.asking.pop(pid, None)
            if connection is not None:
                quietly(connection.sendall, b"e %d\n" % status)
                connection.close()

    def turn(self):
        ready, _, _ = select.select([self.wake, self.listener] + list(self.asking.values()), [], [])
        for pid, connection in self.asking.items():
            if connection in ready:  # who asked says nothing more: it is gone
                quietly(os.kill, pid, signal.SIGKILL)
                quietly(connection.shutdown, socket.SHUT_RD)
        if self.wake in ready:
            self.reap()
        return self.take() if self.listener in ready else None


def main():
    load()
    gc.collect()
    if hasattr(gc, "freeze"):
        gc.freeze()  # its pages stay shared with those of the programs
    server = Server(sys.argv[1])
    program = None
    while program is None:
        program = server.turn()
    return program


end_as_python(main())
