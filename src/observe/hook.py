"""Muster's sitecustomize: counts the steps of a training in a page of shared memory (src/api/rank_page.h).

It does nothing until torch is imported, which it never does itself, and a page appears with the first optimizer of a
process that has a RANK. Whatever fails here fails silently: a training must not end because nobody could watch it. The
sitecustomize that would have been imported without it is imported as ever. Python 3.6 and later.

Others may compare, pickle and copy what is torch's: nothing that has a public name is another object than without this, but for
torch.autograd.backward, which is known by that one name alone. What it touches, and tests/e2e/test_hook.py holds it to it:

    torch.autograd.backward                      wrapped: passes and how long they take
    Optimizer.__init__, .load_state_dict         methods: the first optimizer, where a training goes on
    SUBCLASS.step                                method, PyTorch before 2.0 alone; later ones have a hook for all optimizers
    DistributedDataParallel.__init__             method: whether ranks meet in the backward pass
    ProcessGroupGloo.__init__                    method: whether there is a group with others than the gang
    _BaseDataLoaderIter.__next__                 method: waiting for data
    torch.serialization._open*.__enter__ and __exit__   methods: what torch.save and torch.load open
    _save_state_dict, _load_state_dict           functions of torch.distributed.checkpoint, from 2.2 on
    os.environ["MUSTER_RANK_OWNER"]              which process is the rank, and whether it trains
    sys.excepthook                               in torchrun alone, whose report of a rank that failed is left out
    sys.path, sys.meta_path                      our folder is taken out at once, our finder when torch is imported

pod annotation muster.dev/observe: "off" keeps it out.
"""
import sys


def _torchrun():
    """In torchrun, not in a rank: that one has failed is told by muster-launch; a second traceback would bury the first."""
    before = sys.excepthook

    def tell(kind, value, trace):
        if kind.__name__ != "ChildFailedError" or not kind.__module__.startswith("torch.distributed.elastic"):
            before(kind, value, trace)
    sys.excepthook = tell


def _muster():
    import os
    import time
    from _thread import get_ident as thread

    folder = os.environ.get("MUSTER_RANKS_DIR")
    rank = os.environ.get("RANK", "")
    if folder and not rank and "MUSTER_RUN_DIR" in os.environ:
        _torchrun()
    if not folder or not rank.isdigit():
        return
    clock = getattr(time, "monotonic_ns", None) or (lambda: int(time.monotonic() * 1e9))
    CODE, BACKWARD, LOADER, SAVE = range(4)
    PID, STEPS, STEP_NS, PHASE, PHASE_NS, FIRST_NS, SAVE_NS, MARK, RESUMED, LOADED_MS = 1, 5, 6, 7, 8, 9, 10, 11, 12, 13
    OWN_NS, LATE_NS, OWN_PART, OWN_SPREAD, WORLD, PASSES = 14, 15, 16, 17, 18, 19
    OWNER, TRAINS = "MUSTER_RANK_OWNER", "-trains"
    SHORT_NS = 20 * 1000 * 1000  # of steps that are shorter nothing is said: it would be chance
    LONG_NS = 2 * 1000 * 1000 * 1000  # after such a step it may have been taken for hung: when that was over is told
    WINDOW, EVERY = 20, 2  # of so many steps it is told, and after how many
    # trained: the backward pass has been called; resumed: steps that optimizers had made when they were loaded
    state = {"page": None, "stepper": None, "trained": False, "resumed": {}, "loaded": 0, "checkpoint": False,
             "ddp": False, "world": 0, "stores": set(), "backward": 0, "passes": 0, "marks": None, "compiling": None}
    saving = {}  # by what is open for it: since when
    owns, parts, steps = [], [], []  # of the last ones: time outside of the backward pass, which part that was, the whole
    waiting = []  # steps that a card may not have finished yet

    def forked():
        state["page"] = None  # a child of a rank is not that rank

    def group():
        """torch.distributed, where this process is in a group."""
        dist = sys.modules.get("torch.distributed")
        asked = getattr(dist, "is_initialized", None)  # not in a PyTorch without it, nor while it is being imported
        return dist if asked is not None and asked() else None

    def is_spawned():
        parent = getattr(sys.modules.get("multiprocessing"), "parent_process", None)
        return parent is not None and parent() is not None

    def page_open(stepping=False):
        """Once a process: the page of this rank."""
        import mmap
        if state["page"] is not None or state.get("tried") == os.getpid():
            return
        # One that multiprocessing started may be a rank of its own, whatever RANK says: its group knows, and may come later.
        if is_spawned() and group() is None and not stepping:
            return
        state["tried"] = os.getpid()
        number = int(group().get_rank() if group() is not None else os.environ.get("RANK", rank))
        # A process that a rank starts inherits its RANK, and may have an optimizer of its own. Where the rank trains already,
        # what it starts is none of the gang, whatever RANK says: an evaluation may have a torchrun of its own.
        me = "%d-%d" % (number, os.getpid())
        owner = os.environ.setdefault(OWNER, me)
        if owner != me and (owner.endswith(TRAINS) or owner.split("-")[0] == str(number)):
            return
        path = os.path.join(folder, me)
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
        page[2] = number
        page[3] = int(local) if local.isdigit() else 0
        page[4] = page[PHASE_NS] = clock()
        page[LOADED_MS] = state["loaded"]
        page[WORLD] = max(0, state["world"])
        page[PASSES] = state["passes"]
        page[0] = 0x3130454741504d52
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=forked)
        state["page"] = page
        mark_checkpoint()

    def stepped(optimizer=None, *_):
        page = state["page"]
        if page is None:
            page_open(True)
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
            os.environ[OWNER] = "%d-%d%s" % (page[2], page[PID], TRAINS)
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
            if state["compiling"] is not None and state["compiling"]():
                return function(*args, **kwargs)  # what is traced must not look at a clock
            page = state["page"]
            if phase == BACKWARD:
                state["trained"] = True
                state["passes"] += page is None
            if page is None or page[PHASE] != CODE:
                return function(*args, **kwargs)
            # A checkpoint that another thread writes holds up nobody.
            if phase == SAVE and is_aside():
                steps = page[STEPS]
                value = function(*args, **kwargs)
                page[MARK] = steps + 1
                return value
            page[PHASE_NS] = begin = clock()
            page[PHASE] = phase
            if phase == BACKWARD:
                page[PASSES] += 1
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

    def is_aside():
        return state["stepper"] not in (None, thread())

    def is_written(opened):
        return "writer" in type(opened).__name__ or "w" in str(getattr(opened.file_like, "mode", ""))

    def save_begun(opened):
        page = state["page"]
        if page is None or page[PHASE] != CODE or is_aside() or not is_written(opened):
            return
        page[PHASE_NS] = saving[id(opened)] = clock()
        page[PHASE] = SAVE

    def save_ended(opened, whole):
        page, begin = state["page"], saving.pop(id(opened), None)
        if page is None or begin is None:
            return
        page[PHASE_NS] = end = clock()
        page[PHASE] = CODE
        page[SAVE_NS] += end - begin
        if whole:
            page[MARK] = page[STEPS] + 1

    def wrap_open(cls):
        """What torch.save and torch.load open for writing and for reading, from when it is open until it is closed."""
        import functools
        first, last = cls.__enter__, cls.__exit__

        @functools.wraps(first)
        def enter(self):
            value = first(self)
            save_begun(self)
            return value

        @functools.wraps(last)
        def leave(self, *args):
            whole = not args or args[0] is None
            if whole:
                load_ended(self)
            try:
                value = last(self, *args)
            except BaseException:
                save_ended(self, False)
                raise
            save_ended(self, whole)
            return value
        cls.__enter__, cls.__exit__ = enter, leave

    def load_noted(ms):
        """Something was loaded before training began: since when it is there."""
        if not state["trained"] and ms > state["loaded"]:
            state["loaded"] = ms
            if state["page"] is not None:
                state["page"][LOADED_MS] = ms

    def load_ended(opened):
        if not is_written(opened):
            load_noted(int(os.fstat(opened.file_like.fileno()).st_mtime * 1000))

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
        """Sharded checkpoints have a module of their own, which is imported later, if at all. By then others may hold its
        functions: those that these call are wrapped."""
        module = sys.modules.get("torch.distributed.checkpoint")
        if state["checkpoint"] or not hasattr(module, "FileSystemWriter"):
            return
        state["checkpoint"] = True
        saver, loader = module.state_dict_saver, module.state_dict_loader
        saver._save_state_dict = timed(saver._save_state_dict, SAVE)
        loader._load_state_dict = noting(loader._load_state_dict, lambda *_: load_noted(int(time.time() * 1000)))

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
    load_ended = quietly(load_ended)
    save_begun = quietly(save_begun)
    save_ended = quietly(save_ended)
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
        compiling = state["compiling"] = getattr(getattr(torch, "compiler", None), "is_compiling", None)

        def after_step(*args):
            if compiling is not None and compiling():
                return  # what is traced must not look at a clock
            stepped(*args)
        if register is not None:
            register(after_step)
        quietly(install_phases)(torch)
        quietly(install_ddp)()
        quietly(install_groups)()

    def install_ddp():
        import functools
        cls = sys.modules["torch.nn.parallel.distributed"].DistributedDataParallel
        first = cls.__init__

        @functools.wraps(first)
        def init(self, *args, **kwargs):
            first(self, *args, **kwargs)
            state["ddp"] = True
            world_note(self)
        cls.__init__ = init

    def install_groups():
        import functools
        cls = sys.modules["torch.distributed.distributed_c10d"].ProcessGroupGloo
        first = cls.__init__

        @functools.wraps(first)
        def init(self, *args, **kwargs):
            first(self, *args, **kwargs)
            by_torch = sys._getframe(1).f_globals.get("__name__") == "torch.distributed.distributed_c10d"
            store_note(args[0] if args else kwargs["store"], by_torch)
        cls.__init__ = init

    def store_note(store, by_torch):
        """The groups of a gang meet by one store. Where there is another, or a group that new_group() did not make, gloo may
        wait for others: an engine that samples."""
        while hasattr(store, "underlying_store"):
            store = store.underlying_store
        state["stores"].add((type(store).__name__,) + tuple(str(getattr(store, name, "")) for name in ("host", "port", "path")))
        if len(state["stores"]) > 1 or not by_torch:
            state["world"] = -1
            if state["page"] is not None:
                state["page"][WORLD] = 0
    store_note = quietly(store_note)

    def world_note(ddp):
        """Of how many ranks it is, if these are all; one of fewer means that some do not meet the others."""
        dist = sys.modules["torch.distributed"]
        world = dist.get_world_size()
        whole = dist.get_world_size(ddp.process_group) == world and state["world"] >= 0
        state["world"] = world if whole else -1
        if state["page"] is not None:
            state["page"][WORLD] = max(0, state["world"])
    world_note = quietly(world_note)

    def install_phases(torch):
        torch.autograd.backward = timed(torch.autograd.backward, BACKWARD)
        loader = sys.modules.get("torch.utils.data.dataloader")
        if loader is not None:
            cls = loader._BaseDataLoaderIter
            cls.__next__ = timed(cls.__next__, LOADER)
        files = sys.modules["torch.serialization"]
        for name in ("_open_file", "_open_buffer_reader", "_open_buffer_writer", "_open_zipfile_writer_file",
                     "_open_zipfile_writer_buffer"):
            wrap_open(getattr(files, name))

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
