#!/usr/bin/env python3
"""programs.py PROGRAM...: what the linker was to give each program, read from the program itself.

It can be loaded at any address (PIE; also what is linked statically), what the loader fills in is read-only afterwards, all of
it is filled in at the start, and no segment can be both written and executed, the stack included.
"""

import os
import struct
import sys

ET_DYN = 3
PT_DYNAMIC, PT_GNU_STACK, PT_GNU_RELRO = 2, 0x6474E551, 0x6474E552
PF_X, PF_W = 1, 2
DT_FLAGS, DT_FLAGS_1, DT_BIND_NOW = 30, 0x6FFFFFFB, 24
DF_BIND_NOW, DF_1_NOW, DF_1_PIE = 8, 1, 0x08000000


def segments(image):
    """(type, flags, offset, size in the file) of each"""
    at, (size, count) = struct.unpack_from("<Q", image, 32)[0], struct.unpack_from("<HH", image, 54)
    for i in range(count):
        kind, flags, offset, _, _, filled = struct.unpack_from("<IIQQQQ", image, at + i * size)
        yield kind, flags, offset, filled


def dynamic(image):
    """The entries by their tag."""
    for kind, _, offset, filled in segments(image):
        if kind == PT_DYNAMIC:
            return dict(struct.unpack_from("<qQ", image, offset + i) for i in range(0, filled, 16))
    return {}


def faults(image):
    """What is wrong, a sentence each."""
    if image[:6] != b"\x7fELF\x02\x01":
        yield "it is no program for a 64-bit machine"
        return
    entries, parts = dynamic(image), list(segments(image))
    if struct.unpack_from("<H", image, 16)[0] != ET_DYN or not entries.get(DT_FLAGS_1, 0) & DF_1_PIE:
        yield "it is loaded at one fixed address: link it as PIE (-static-pie where it is static)"
    if not any(kind == PT_GNU_RELRO for kind, *_ in parts):
        yield "what the loader fills in stays writable: link it with -z relro"
    if not (DT_BIND_NOW in entries or entries.get(DT_FLAGS, 0) & DF_BIND_NOW or entries.get(DT_FLAGS_1, 0) & DF_1_NOW):
        yield "addresses are filled in late: link it with -z now"
    if not any(kind == PT_GNU_STACK for kind, *_ in parts):
        yield "nothing says that its stack is not executed"
    if any(flags & PF_X and flags & PF_W for _, flags, *_ in parts):
        yield "it has a segment that is written and executed"


def main(argv):
    if not argv:
        sys.exit(__doc__.strip().splitlines()[0])
    passed = failed = 0
    for path in argv:
        with open(path, "rb") as f:
            wrong = list(faults(f.read()))
        for sentence in wrong:
            print(f"{os.path.basename(path)}: {sentence}")
        passed, failed = passed + (not wrong), failed + bool(wrong)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
