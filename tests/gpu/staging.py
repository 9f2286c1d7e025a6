#!/usr/bin/env python3
"""staging.py [EXPERIMENT...]: on a machine with an NVIDIA GPU, what a library inside the process could add to the driver's
checkpoint: GPU memory copied out through pinned memory, in several streams, before the driver is asked.

Prints a line per observation; decides nothing; docs/internals/suspend.md has what follows. Needs a Python that can import
torch, gcc, and for `checkpoint` the right to trace processes (root).

    copy            GiB/s between the card and pinned memory, 1 to 4 streams, both directions
    pin GIB         seconds to get that much pinned memory: allocated so, or registered when it is there already
    out GIB         seconds to move that much out of the process and back: through a pinned ring with 1 to 16 threads into fresh
                    memory (plain and huge pages), and into memory that was pinned before
    checkpoint GIB  the driver's checkpoint of the rest, after the memory was moved out and unmapped, and after PyTorch's
                    cache was emptied; then everything back, and compared
"""

import ctypes
import mmap
import os
import subprocess
import sys
import tempfile
import time
import traceback

import suspend

GIB = 1 << 30
CHUNK = 64 << 20

SOURCE = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

/* The driver's calls, by pointers that Python found: no header of CUDA is needed. */
int (*ctx_set)(void *);
int (*stream_create)(void **, unsigned);
int (*stream_destroy)(void *);
int (*stream_sync)(void *);
int (*to_host)(void *, unsigned long long, size_t, void *);
int (*to_card)(unsigned long long, const void *, size_t, void *);

struct job {
    void *ctx;
    unsigned long long card;
    char *host, *ring; /* no ring: host is pinned itself */
    size_t bytes, chunk;
    int out;
    atomic_size_t next;
    atomic_int slot, failed;
};

static void *worker(void *user)
{
    struct job *job = user;
    char *slot = job->ring ? job->ring + job->chunk * atomic_fetch_add(&job->slot, 1) : NULL;
    void *stream = NULL;
    int r = ctx_set(job->ctx);
    r = r ? r : stream_create(&stream, 1);
    for (size_t at; !r && (at = atomic_fetch_add(&job->next, job->chunk)) < job->bytes;) {
        size_t n = job->bytes - at < job->chunk ? job->bytes - at : job->chunk;
        char *via = slot ? slot : job->host + at;
        if (!job->out && slot)
            memcpy(slot, job->host + at, n);
        r = job->out ? to_host(via, job->card + at, n, stream) : to_card(job->card + at, via, n, stream);
        r = r ? r : stream_sync(stream);
        if (!r && job->out && slot)
            memcpy(job->host + at, slot, n);
    }
    if (stream)
        stream_destroy(stream);
    if (r)
        atomic_store(&job->failed, r);
    return NULL;
}

int move(void *ctx, unsigned long long card, char *host, char *ring, size_t bytes, size_t chunk, int threads, int out)
{
    struct job job = {.ctx = ctx, .card = card, .host = host, .ring = ring, .bytes = bytes, .chunk = chunk, .out = out};
    pthread_t all[64];
    for (int i = 0; i < threads; i++)
        pthread_create(&all[i], NULL, worker, &job);
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    return job.failed;
}

struct part { char *at; size_t bytes; };
static void *toucher(void *user)
{
    struct part *part = user;
    for (size_t i = 0; i < part->bytes; i += 4096)
        part->at[i] = 1;
    return NULL;
}

void touch(char *at, size_t bytes, int threads)
{
    pthread_t all[64];
    struct part parts[64];
    for (int i = 0; i < threads; i++) {
        parts[i] = (struct part){at + bytes / threads * i, bytes / threads};
        pthread_create(&all[i], NULL, toucher, &parts[i]);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
}

int huge(char *at, size_t bytes, int on)
{
    return madvise(at, bytes, on ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}
"""


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Properties(ctypes.Structure):  # CUmemAllocationProp
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location),
                ("win32", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


class Access(ctypes.Structure):  # CUmemAccessDesc
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


def must(code, what):
    if code:
        raise RuntimeError(f"{what}: CUDA error {code}")


class Card:
    """This process on the card, and the mover in C."""

    def __init__(self):
        import torch
        self.torch = torch
        torch.zeros(1, device="cuda")
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.context = ctypes.c_void_p()
        must(self.cuda.cuCtxGetCurrent(ctypes.byref(self.context)), "cuCtxGetCurrent")
        self.folder = tempfile.mkdtemp(prefix="staging-")
        source, library = os.path.join(self.folder, "mover.c"), os.path.join(self.folder, "mover.so")
        with open(source, "w", encoding="utf-8") as f:
            f.write(SOURCE)
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-pthread", "-o", library, source], check=True)
        self.mover = ctypes.CDLL(library)
        for name, symbol in (("ctx_set", "cuCtxSetCurrent"), ("stream_create", "cuStreamCreate"),
                             ("stream_destroy", "cuStreamDestroy_v2"), ("stream_sync", "cuStreamSynchronize"),
                             ("to_host", "cuMemcpyDtoHAsync_v2"), ("to_card", "cuMemcpyHtoDAsync_v2")):
            address = ctypes.cast(getattr(self.cuda, symbol), ctypes.c_void_p).value
            ctypes.c_void_p.in_dll(self.mover, name).value = address

    def pinned(self, size):
        at = ctypes.c_void_p()
        must(self.cuda.cuMemHostAlloc(ctypes.byref(at), ctypes.c_size_t(size), 1), "cuMemHostAlloc")
        return at.value

    def unpin(self, at):
        must(self.cuda.cuMemFreeHost(ctypes.c_void_p(at)), "cuMemFreeHost")

    def move(self, card, host, ring, size, threads, out):
        begun = time.monotonic()
        code = self.mover.move(self.context, ctypes.c_ulonglong(card), ctypes.c_void_p(host), ctypes.c_void_p(ring),
                               ctypes.c_size_t(size), ctypes.c_size_t(CHUNK), threads, int(out))
        must(code, "move")
        return time.monotonic() - begun


class Mapped:
    """GPU memory by the virtual memory calls: the addresses stay when the memory goes."""

    def __init__(self, card, size):
        self.card, self.size = card, size
        self.at, self.handle = ctypes.c_ulonglong(), ctypes.c_ulonglong()
        must(card.cuda.cuMemAddressReserve(ctypes.byref(self.at), ctypes.c_size_t(size), ctypes.c_size_t(0),
                                           ctypes.c_ulonglong(0), ctypes.c_ulonglong(0)), "cuMemAddressReserve")
        self.take()

    def take(self):
        cuda, place = self.card.cuda, Location(1, 0)
        properties = Properties(1, 0, place, None)
        access = Access(place, 3)
        must(cuda.cuMemCreate(ctypes.byref(self.handle), ctypes.c_size_t(self.size), ctypes.byref(properties),
                              ctypes.c_ulonglong(0)), "cuMemCreate")
        must(cuda.cuMemMap(self.at, ctypes.c_size_t(self.size), ctypes.c_size_t(0), self.handle, ctypes.c_ulonglong(0)),
             "cuMemMap")
        must(cuda.cuMemSetAccess(self.at, ctypes.c_size_t(self.size), ctypes.byref(access), ctypes.c_size_t(1)),
             "cuMemSetAccess")

    def give(self):
        must(self.card.cuda.cuMemUnmap(self.at, ctypes.c_size_t(self.size)), "cuMemUnmap")
        must(self.card.cuda.cuMemRelease(self.handle), "cuMemRelease")

    def fill(self):
        """A different word in every GiB."""
        for i in range(0, self.size, GIB):
            size = min(GIB, self.size - i)
            must(self.card.cuda.cuMemsetD32_v2(ctypes.c_ulonglong(self.at.value + i), 77 + i // GIB,
                                               ctypes.c_size_t(size // 4)), "cuMemsetD32")
        must(self.card.cuda.cuCtxSynchronize(), "cuCtxSynchronize")

    def whole(self):
        word = ctypes.c_uint32()
        for i in range(0, self.size, GIB):
            for at in (i, i + min(GIB, self.size - i) - 4):
                must(self.card.cuda.cuMemcpyDtoH_v2(ctypes.byref(word), ctypes.c_ulonglong(self.at.value + at),
                                                    ctypes.c_size_t(4)), "cuMemcpyDtoH")
                if word.value != 77 + i // GIB:
                    return False
        return True


class Fresh:
    """Memory of the host that nobody has touched."""

    def __init__(self, card, size, huge):
        self.map = mmap.mmap(-1, size + (2 << 20), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.view = (ctypes.c_char * len(self.map)).from_buffer(self.map)
        self.at = (ctypes.addressof(self.view) + (2 << 20) - 1) & ~((2 << 20) - 1)
        card.mover.huge(ctypes.c_void_p(self.at), ctypes.c_size_t(size), int(huge))

    def free(self):
        del self.view
        self.map.close()


def timed(function, *arguments):
    begun = time.monotonic()
    result = function(*arguments)
    return time.monotonic() - begun, result


def copy():
    card, size = Card(), 8 * GIB
    memory, host = Mapped(card, size), None
    host = card.pinned(size)
    for out in (True, False):
        for streams in (1, 2, 3, 4):
            card.move(memory.at.value, host, None, size, streams, out)
            rates = [size / GIB / card.move(memory.at.value, host, None, size, streams, out) for _ in range(3)]
            print(f"    pinned, {'out' if out else 'in'}, {streams} streams: " +
                  " ".join(f"{r:.1f}" for r in rates) + " GiB/s", flush=True)


def pin(gib):
    card, size = Card(), int(gib) * GIB
    print("    huge pages:", open("/sys/kernel/mm/transparent_hugepage/enabled", encoding="utf-8").read().strip())
    took, at = timed(card.pinned, size)
    gone, _ = timed(card.unpin, at)
    print(f"    {gib} GiB allocated pinned: {took:.1f} s, freed {gone:.1f} s", flush=True)
    for huge in (False, True):
        fresh = Fresh(card, size, huge)
        touched, _ = timed(card.mover.touch, ctypes.c_void_p(fresh.at), ctypes.c_size_t(size), 16)
        took, code = timed(card.cuda.cuMemHostRegister_v2, ctypes.c_void_p(fresh.at), ctypes.c_size_t(size), 1)
        must(code, "cuMemHostRegister")
        gone, _ = timed(card.cuda.cuMemHostUnregister, ctypes.c_void_p(fresh.at))
        print(f"    {gib} GiB, {'huge' if huge else 'plain'} pages: touched by 16 threads {touched:.1f} s, registered then "
              f"{took:.1f} s, unregistered {gone:.1f} s", flush=True)
        fresh.free()


def out(gib):
    card, size = Card(), int(gib) * GIB
    memory = Mapped(card, size)
    memory.fill()
    ring = card.pinned(16 * CHUNK)
    for huge in (False, True):
        for threads in (1, 4, 8, 16):
            fresh = Fresh(card, size, huge)
            out_s = card.move(memory.at.value, fresh.at, ring, size, threads, True)
            in_s = card.move(memory.at.value, fresh.at, ring, size, threads, False)
            print(f"    {gib} GiB through a ring of 1 GiB, {threads} threads, fresh {'huge' if huge else 'plain'} pages: "
                  f"out {out_s:.1f} s, in {in_s:.1f} s, whole: {memory.whole()}", flush=True)
            fresh.free()
    host = card.pinned(size)
    out_s = card.move(memory.at.value, host, None, size, 2, True)
    in_s = card.move(memory.at.value, host, None, size, 2, False)
    print(f"    {gib} GiB into memory pinned before: out {out_s:.1f} s, in {in_s:.1f} s, whole: {memory.whole()}",
          flush=True)


def serve(gib):
    """The process that is checkpointed: does what it reads, and says how long it took."""
    card, size = Card(), int(gib) * GIB
    memory = Mapped(card, size)
    memory.fill()
    ring, fresh, tensors = card.pinned(16 * CHUNK), Fresh(card, size, True), []
    print("ready", flush=True)
    for line in sys.stdin:
        word = line.strip()
        begun = time.monotonic()
        if word == "out":
            moved = card.move(memory.at.value, fresh.at, ring, size, 8, True)
            memory.give()
        elif word == "in":
            memory.take()
            moved = card.move(memory.at.value, fresh.at, ring, size, 8, False)
        elif word == "tensors":
            tensors = [card.torch.full((GIB // 8,), i, dtype=card.torch.int64, device="cuda") for i in range(int(gib))]
            card.torch.cuda.synchronize()
            moved = 0
        else:
            tensors.clear()
            card.torch.cuda.empty_cache()
            moved = 0
        print(f"{word} {time.monotonic() - begun:.2f} s, {moved:.2f} s of it the copy; whole: "
              f"{memory.whole() if word == 'in' else '-'}", flush=True)


def checkpoint(gib):
    child = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--serve", gib], text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(word):
        child.stdin.write(word + "\n")
        child.stdin.flush()
        print("    the process:", child.stdout.readline().strip(), f"({suspend.used_mib()} MiB on the card)", flush=True)

    def driver_turn(what):
        print(f"    {what}: {suspend.used_mib()} MiB on the card", flush=True)
        begun = time.monotonic()
        suspend.do("Lock", child.pid)
        suspend.do("Checkpoint", child.pid)
        away = time.monotonic() - begun
        print(f"    off the card: {away:.1f} s with the starts of two helpers; {suspend.used_mib()} MiB on it", flush=True)
        begun = time.monotonic()
        suspend.do("Restore", child.pid)
        suspend.do("Unlock", child.pid)
        print(f"    back: {time.monotonic() - begun:.1f} s", flush=True)

    try:
        if not any(line.startswith("ready") for line in iter(child.stdout.readline, "")):  # other lines may come before
            raise RuntimeError("the process did not start")
        ask("out")
        driver_turn(f"{gib} GiB moved out and unmapped")
        ask("in")
        ask("out")
        ask("tensors")
        ask("empty")
        driver_turn(f"{gib} GiB of PyTorch's freed, its cache emptied")
        ask("in")
    finally:
        child.kill()
        child.wait()


def main():
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2])
        return 0
    words, plan = sys.argv[1:] or ["copy", "pin", "40", "out", "40", "checkpoint", "40"], []
    while words:
        take = 1 if words[0] == "copy" else 2
        plan.append(words[:take])
        words = words[take:]
    if len(plan) == 1:
        print("==", *plan[0], flush=True)
        try:
            globals()[plan[0][0]](*plan[0][1:])
        except Exception:
            traceback.print_exc()
            return 1
        return 0
    # Each in a process of its own: what one leaves on the card or pinned is not the next one's.
    return max(subprocess.run([sys.executable, os.path.abspath(__file__), *each], check=False).returncode for each in plan)


if __name__ == "__main__":
    sys.exit(main())
