"""Muster's sitecustomize: counts the steps of a training in a page of shared memory (src/api/rank_page.h).

It does nothing until torch is imported, which it never does itself, and a page appears with the first optimizer of a
process that has a RANK. Whatever fails here fails silently: a training must not end because nobody could watch it. The
sitecustomize that would have been imported without it is imported as ever. Python 3.6 and later.

pod annotation muster.dev/observe: "off" keeps it out.
"""
import sys


def _muster():
    import os
    import time
    from _thread import get_ident as thread

    folder = os.environ.get("MUSTER_RANKS_DIR")
    rank = os.environ.get("RANK", "")
    if not folder or not rank.isdigit():
        return
    clock = getattr(time, "monotonic_ns", None) or (lambda: int(time.monotonic() * 1e9))
    CODE, BACKWARD, LOADER, SAVE = range(4)
    PID, STEPS, STEP_NS, PHASE, PHASE_NS, FIRST_NS, SAVE_NS, MARK, RESUMED, LOADED_MS = 1, 5, 6, 7, 8, 9, 10, 11, 12, 13
    OWN_NS, LATE_NS, OWN_PART, OWN_SPREAD = 14, 15, 16, 17
    SHORT_NS = 20 * 1000 * 1000  # of steps that are shorter nothing is said: it would be chance
    LONG_NS = 2 * 1000 * 1000 * 1000  # after such a step it may have been taken for hung: when that was over is told
    WINDOW, EVERY = 20, 2  # of so many steps it is told, and after how many
    # trained: the backward pass has been called; resumed: steps that optimizers had made when they were loaded
    state = {"page": None, "stepper": None, "trained": False, "resumed": {}, "loaded": 0, "checkpoint": False,
             "ddp": False, "backward": 0, "marks": None}
    owns, parts, steps = [], [], []  # of the last ones: time outside of the backward pass, which part that was, the whole
    waiting = []  # steps that a card may not have finished yet

    def forked():
        state["page"] = None  # a child of a rank is not that rank

    def page_open():
        """Once a process: the page of this rank."""
        import mmap
        if state["page"] is not None or state.get("tried") == os.getpid():
            return
        state["tried"] = os.getpid()
        # A process that a rank starts inherits its RANK, and may have an optimizer of its own.
        me = "%s-%d" % (rank, os.getpid())
        owner = os.environ.setdefault("MUSTER_RANK_OWNER", me)
        if owner != me and owner.split("-")[0] == rank:
            return
        path = os.path.join(folder, "%d-%d" % (int(rank), os.getpid()))
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o644)
        try:
            # Written, not only made long: a page that finds no room on a full disk would end the training later.
            if os.write(fd, bytes(mmap.PAGESIZE)) != mmap.PAGESIZE:
                return
            page = memoryview(mmap.mmap(fd, mmap.PAGESIZE)).cast("Q")
        finally:
            os.close(fd)
        local = os.environ.get("LOCAL_RANK", "")
        page[PID] = os.getpid()
        page[2] = int(rank)
        page[3] = int(local) if local.isdigit() else 0
        page[4] = page[PHASE_NS] = clock()
        page[LOADED_MS] = state["loaded"]
        page[0] = 0x3130454741504d52
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=forked)
        state["page"] = page
        mark_checkpoint()

    def stepped(optimizer=None, *_):
        page = state["page"]
        if page is None:
            return
        now = clock()
        if state["ddp"] and page[STEP_NS]:
            outside(page, optimizer, now - page[STEP_NS])
        if page[STEP_NS] and now - page[STEP_NS] >= LONG_NS:
            page[LATE_NS] = now
        page[STEP_NS] = now
        if not page[STEPS]:
            page[FIRST_NS] = now
        page[STEPS] += 1
        state["stepper"] = thread()
        if not state["checkpoint"]:
            mark_checkpoint()

    def outside(page, optimizer, step_ns):
        """Ranks of DDP wait for each other in the backward pass: who takes longest for the rest holds up the others."""
        device = optimizer.param_groups[0]["params"][0].device
        if device.type == "cpu":
            own_note(page, step_ns - state["backward"], step_ns)
        elif device.type == "cuda" and step_ns >= SHORT_NS:
            card_step(page, device)
        state["backward"] = 0

    def own_note(page, own_ns, step_ns):
        owns.append(own_ns)
        parts.append(own_ns / max(1, step_ns))  # of a step that is long for all ranks, each takes more
        steps.append(step_ns)
        if len(steps) < WINDOW:
            return
        if sorted(steps)[WINDOW // 2] >= SHORT_NS:
            own, own_apart = middle(owns)
            part, part_apart = middle(parts)
            page[OWN_SPREAD] = int(min(own_apart, part_apart) * 1e6)
            page[OWN_PART] = max(1, int(part * 1e6))
            page[OWN_NS] = max(1, int(own))
        else:
            page[OWN_NS] = 0
        del owns[:EVERY], parts[:EVERY], steps[:EVERY]

    def middle(values):
        """The median, and which part of it one of two values is apart from it at least."""
        median = sorted(values)[WINDOW // 2]
        return median, sorted([abs(v - median) for v in values])[WINDOW // 2] / max(1e-9, abs(median))

    def card_mark():
        """A moment of the card, which works on while the process goes ahead."""
        cuda = sys.modules["torch"].cuda
        if cuda.is_current_stream_capturing():
            raise RuntimeError
        event = cuda.Event(enable_timing=True)
        event.record()
        return event

    def card_step(page, device):
        """Marks: the end of the last step, the backward pass's beginning and end, and the end of this step. A step is counted
        when the card has come to its end; nobody waits for it."""
        marks, state["marks"] = state["marks"], None
        if sys.modules["torch"].cuda.current_device() != device.index:
            return
        end = card_mark()
        state["marks"] = [end]
        if marks is not None and len(marks) == 3 and len(waiting) < WINDOW:
            waiting.append(marks + [end])
        while waiting and waiting[0][3].query():
            before, begin, done, last = waiting.pop(0)
            whole = before.elapsed_time(last)
            own_note(page, int((whole - begin.elapsed_time(done)) * 1e6), int(whole * 1e6))

    def card_backward():
        """With several passes a step (gradients are accumulated) there are more marks, and it is not counted."""
        if state["marks"] is not None:
            state["marks"].append(card_mark())

    def timed(function, phase):
        """The same function, with a mark while it runs. A phase within another one leaves the outer mark."""
        import functools

        @functools.wraps(function)
        def run(*args, **kwargs):
            page = state["page"]
            if phase == BACKWARD:
                state["trained"] = True
            if page is None or page[PHASE] != CODE:
                return function(*args, **kwargs)
            # A checkpoint that another thread writes holds up nobody.
            if phase == SAVE and state["stepper"] not in (None, thread()):
                return function(*args, **kwargs)
            page[PHASE_NS] = begin = clock()
            page[PHASE] = phase
            if phase == BACKWARD:
                card_backward()
            try:
                value = function(*args, **kwargs)
                if phase == SAVE:
                    page[MARK] = page[STEPS] + 1
                return value
            finally:
                page[PHASE_NS] = end = clock()
                page[PHASE] = CODE
                if phase == SAVE:
                    page[SAVE_NS] += end - begin
                if phase == BACKWARD:
                    state["backward"] += end - begin
                    card_backward()
        return run

    def load_noted(ms):
        """Something was loaded before training began: since when it is there."""
        if not state["trained"] and ms > state["loaded"]:
            state["loaded"] = ms
            if state["page"] is not None:
                state["page"][LOADED_MS] = ms

    def file_age(args, kwargs):
        what = args[0] if args else kwargs.get("f")
        at = os.fstat(what.fileno()) if hasattr(what, "fileno") else os.stat(what)
        load_noted(int(at.st_mtime * 1000))

    def noting(function, note):
        """The same function; when it is done, `note` is told of it."""
        import functools

        @functools.wraps(function)
        def run(*args, **kwargs):
            value = function(*args, **kwargs)
            note(args, kwargs)
            return value
        return run

    def optimizer_loaded(args, _):
        """How far it was: optimizers that count steps (Adam and its like) say it themselves."""
        optimizer = args[0]
        load_noted(int(time.time() * 1000))
        for values in optimizer.state.values():
            step = values.get("step")
            if step is None or state["trained"]:
                continue
            if type(step) not in (int, float) and type(step) is not sys.modules["torch"].Tensor:
                continue
            state["resumed"][id(optimizer)] = int(step)
            if state["page"] is not None:
                state["page"][RESUMED] = sum(state["resumed"].values()) + 1
            return

    def mark_checkpoint():
        """Sharded checkpoints have a module of their own, which is imported later, if at all."""
        module = sys.modules.get("torch.distributed.checkpoint")
        if state["checkpoint"] or not hasattr(module, "FileSystemWriter"):
            return
        state["checkpoint"] = True
        for name in ("save", "async_save", "save_state_dict"):
            if hasattr(module, name):
                setattr(module, name, timed(getattr(module, name), SAVE))
        for name in ("load", "load_state_dict"):
            if hasattr(module, name):
                setattr(module, name, noting(getattr(module, name), lambda *_: load_noted(int(time.time() * 1000))))

    def quietly(function):
        def run(*args):
            try:
                function(*args)
            except Exception:
                pass
        return run

    page_open = quietly(page_open)
    outside = quietly(outside)
    card_backward = quietly(card_backward)
    mark_checkpoint = quietly(mark_checkpoint)
    file_age = quietly(file_age)
    optimizer_loaded = quietly(optimizer_loaded)

    def wrap_init(optimizer, old):
        """The first optimizer opens the page. Where there are no global hooks (1.13), the class's step is wrapped too."""
        import functools
        first = optimizer.__init__

        def wrap_step(cls):
            cls = next(c for c in cls.__mro__ if "step" in c.__dict__)
            step = cls.__dict__["step"]
            if getattr(step, "_muster", False):
                return

            @functools.wraps(step)
            def run(*args, **kwargs):
                value = step(*args, **kwargs)
                stepped(*args)
                return value
            run._muster = True
            cls.step = run
        wrap_step = quietly(wrap_step)

        @functools.wraps(first)
        def init(self, *args, **kwargs):
            first(self, *args, **kwargs)
            page_open()
            if old:
                wrap_step(type(self))
        optimizer.__init__ = init
        if hasattr(optimizer, "load_state_dict"):
            optimizer.load_state_dict = noting(optimizer.load_state_dict, optimizer_loaded)

    def install(torch):
        module = sys.modules.get("torch.optim.optimizer")
        if module is None:
            return
        register = getattr(module, "register_optimizer_step_post_hook", None)
        wrap_init(module.Optimizer, register is None)
        compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None)

        def after_step(*args):
            if compiling is not None and compiling():
                return  # what is traced must not look at a clock
            stepped(*args)
        if register is not None:
            register(after_step)
        quietly(install_phases)(torch)
        quietly(install_ddp)()

    def install_ddp():
        import functools
        cls = sys.modules["torch.nn.parallel.distributed"].DistributedDataParallel
        first = cls.__init__

        @functools.wraps(first)
        def init(self, *args, **kwargs):
            first(self, *args, **kwargs)
            state["ddp"] = True
        cls.__init__ = init

    def install_phases(torch):
        torch.autograd.backward = timed(torch.autograd.backward, BACKWARD)
        loader = sys.modules.get("torch.utils.data.dataloader")
        if loader is not None:
            cls = loader._BaseDataLoaderIter
            cls.__next__ = timed(cls.__next__, LOADER)
        torch.save = timed(torch.save, SAVE)
        torch.load = noting(torch.load, file_age)

    class Finder(object):
        """Sees the import of torch, once, and is gone. Who only asks whether there is a torch changes nothing."""

        @staticmethod
        def find_spec(name, path=None, target=None):
            if name != "torch" or Finder not in sys.meta_path:
                return None
            import importlib.util
            sys.meta_path.remove(Finder)
            try:
                spec = importlib.util.find_spec("torch")
            finally:
                sys.meta_path.insert(0, Finder)
            loader = getattr(spec, "loader", None)
            if loader is None or not hasattr(loader, "exec_module"):
                return spec

            class Loader(object):
                def __getattr__(self, name):
                    return getattr(loader, name)

                @staticmethod
                def create_module(spec):
                    return loader.create_module(spec)

                @staticmethod
                def exec_module(module):
                    if Finder in sys.meta_path:
                        sys.meta_path.remove(Finder)
                    spec.loader = module.__loader__ = loader
                    loader.exec_module(module)
                    quietly(install)(module)
            spec.loader = Loader()
            return spec

    if "torch" in sys.modules:  # this process came of one that has it (src/launch/warm.py)
        quietly(install)(sys.modules["torch"])
    else:
        sys.meta_path.insert(0, Finder)


def _others():
    """The sitecustomize that ours stands before. What it raises is told as if we were not there."""
    import importlib.machinery
    import importlib.util
    import os
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if not p or os.path.abspath(p) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


try:
    _muster()
except Exception:
    pass
if __name__ == "sitecustomize":
    _others()
