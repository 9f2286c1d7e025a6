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

    folder = os.environ.get("MUSTER_RANKS_DIR")
    rank = os.environ.get("RANK", "")
    if not folder or not rank.isdigit():
        return
    clock = getattr(time, "monotonic_ns", None) or (lambda: int(time.monotonic() * 1e9))
    CODE, BACKWARD, LOADER, SAVE = range(4)
    PID, STEPS, STEP_NS, PHASE, PHASE_NS = 1, 5, 6, 7, 8
    state = {"page": None}

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
        page[0] = 0x3130454741504d52
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=forked)
        state["page"] = page

    def stepped(*_):
        page = state["page"]
        if page is not None:
            page[STEP_NS] = clock()
            page[STEPS] += 1

    def timed(function, phase):
        """The same function, with a mark while it runs. A phase within another one leaves the outer mark."""
        import functools

        @functools.wraps(function)
        def run(*args, **kwargs):
            page = state["page"]
            if page is None or page[PHASE] != CODE:
                return function(*args, **kwargs)
            page[PHASE_NS] = clock()
            page[PHASE] = phase
            try:
                return function(*args, **kwargs)
            finally:
                page[PHASE_NS] = clock()
                page[PHASE] = CODE
        return run

    def quietly(function):
        def run(*args):
            try:
                function(*args)
            except Exception:
                pass
        return run

    page_open = quietly(page_open)

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
                stepped()
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

    def install(torch):
        module = sys.modules.get("torch.optim.optimizer")
        if module is None:
            return
        register = getattr(module, "register_optimizer_step_post_hook", None)
        wrap_init(module.Optimizer, register is None)
        compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None)

        def after_step(*_):
            if compiling is not None and compiling():
                return  # what is traced must not look at a clock
            stepped()
        if register is not None:
            register(after_step)
        quietly(install_phases)(torch)

    def install_phases(torch):
        torch.autograd.backward = timed(torch.autograd.backward, BACKWARD)
        loader = sys.modules.get("torch.utils.data.dataloader")
        if loader is not None:
            cls = loader._BaseDataLoaderIter
            cls.__next__ = timed(cls.__next__, LOADER)
        torch.save = timed(torch.save, SAVE)

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
_others()
