#!/usr/bin/env python3
"""programs.py BUILD PROGRAM...: what compiler and linker were to give each program, read from the program itself.

It can be loaded at any address (PIE; also what is linked statically), what the loader fills in is read-only afterwards, all of
it is filled in at the start, and no segment can be both written and executed, the stack included.

Control-flow protection: each object file of ours says that it has it, and each function that others may call by address begins
with the mark of a place where such a call may arrive. The linker writes the same on a whole program only where all of it has
it, the C library's start code included: Debian's has none, and neither have its libc.a and libzstd.a, so there the program's
own word is not asked for. Where the start code has the mark, it is.
"""

import json
import os
import struct
import sys

ET_DYN = 3
PT_DYNAMIC, PT_GNU_STACK, PT_GNU_RELRO = 2, 0x6474E551, 0x6474E552
PF_X, PF_W = 1, 2
DT_FLAGS, DT_FLAGS_1, DT_BIND_NOW = 30, 0x6FFFFFFB, 24
DF_BIND_NOW, DF_1_NOW, DF_1_PIE = 8, 1, 0x08000000
SHT_SYMTAB, SHT_NOTE, STT_FUNC, STB_GLOBAL = 2, 7, 2, 1
NT_GNU_PROPERTY_TYPE_0 = 5
# By machine: the property with its two bits, how a function that may be called by address begins, and who asks for it.
FLOW = {62: (0xC0000002, 3, (b"\xf3\x0f\x1e\xfa",), "-fcf-protection=full"),  # IBT, SHSTK; endbr64
        # BTI, PAC; bti c, paciasp
        183: (0xC0000000, 3, (b"\x5f\x24\x03\xd5", b"\x3f\x23\x03\xd5"), "-mbranch-protection=standard")}


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


def sections(image):
    """(type, address, offset, size, link) of each"""
    at, (size, count) = struct.unpack_from("<Q", image, 40)[0], struct.unpack_from("<HH", image, 58)
    for i in range(count):
        _, kind, _, address, offset, filled, link = struct.unpack_from("<IIQQQQI", image, at + i * size)
        yield kind, address, offset, filled, link


def functions(image):
    """(name, is it seen by other files, section, value) of each that is defined here"""
    parts = list(sections(image))
    for kind, _, offset, filled, link in parts:
        if kind != SHT_SYMTAB:
            continue
        names = parts[link][2]
        for at in range(offset, offset + filled, 24):
            name, info, _, section, value, _ = struct.unpack_from("<IBBHQQ", image, at)
            if info & 15 == STT_FUNC and 0 < section < 0xFF00:
                end = image.index(b"\0", names + name)
                yield image[names + name:end].decode(), info >> 4 == STB_GLOBAL, section, value


def properties(image):
    """The GNU properties by their type."""
    found = {}
    for kind, _, offset, filled, _ in sections(image):
        at = offset
        while kind == SHT_NOTE and at + 16 <= offset + filled:
            named, described, note = struct.unpack_from("<III", image, at)
            start = at + 12 + (named + 3 & ~3)
            at, stop = start + (described + 3 & ~3), start + described
            while note == NT_GNU_PROPERTY_TYPE_0 and start + 12 <= stop:
                which, length, value = struct.unpack_from("<III", image, start)
                found[which] = value
                start += 8 + (length + 7 & ~7)
    return found


def says_protected(image):
    which, bits, _, _ = FLOW[struct.unpack_from("<H", image, 18)[0]]
    return properties(image).get(which, 0) & bits == bits


def unmarked(image, ours):
    """The functions among these names that a call by address cannot arrive at."""
    marks, parts = FLOW[struct.unpack_from("<H", image, 18)[0]][2], list(sections(image))
    marked, found = set(), set()
    for name, _, section, value in functions(image):
        if name in ours:
            _, address, offset, _, _ = parts[section]
            at = offset + value - address
            (marked if image[at:at + 4] in marks else found).add(name)
    return sorted(found - marked)


def flow_faults(image, ours):
    """What is wrong with the control-flow protection of a program, a sentence each."""
    if struct.unpack_from("<H", image, 18)[0] not in FLOW:
        return
    if not any(name in ours for name, *_ in functions(image)):
        yield "it has none of our functions by name: it was stripped, or BUILD is another build's folder"
        return
    wrong = unmarked(image, ours)
    if wrong:
        yield f"{len(wrong)} functions do not begin with the mark of control-flow protection: {', '.join(wrong[:3])}"
    if not unmarked(image, {"_start"}) and not says_protected(image):
        yield "the C library has control-flow protection, and the program does not say so: to see which file has none, link it " \
              "with -z cet-report=error (x86-64) or -z force-bti (arm64)"


def objects(build, programs):
    """The object files of ours that these programs may be made of: their own and the libraries'."""
    with open(os.path.join(build, "compile_commands.json")) as f:
        outputs = {entry["output"] for entry in json.load(f)}
    for output in sorted(outputs):
        target = os.path.basename(os.path.dirname(output)).removesuffix(".p")
        if target in programs or target.startswith("lib") and target.endswith((".a", ".so")):
            path = os.path.join(build, output)
            if os.path.exists(path):
                with open(path, "rb") as f:
                    yield output, f.read()


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
    if len(argv) < 2:
        sys.exit(__doc__.strip().splitlines()[0])
    build, programs = argv[0], argv[1:]
    failed, ours, own, count = 0, set(), set(), 0
    for path, image in objects(build, {os.path.basename(program) for program in programs}):
        if ".so.p" not in path:  # libmuster-gpu.so has a dlsym() of its own, and is in none of the programs
            for name, is_global, *_ in functions(image):
                (ours if is_global else own).add(name)
        count += 1
        flow = FLOW.get(struct.unpack_from("<H", image, 18)[0])
        if flow and not says_protected(image):
            print(f"{path}: it has no control-flow protection: compile it with {flow[3]}")
            failed = 1
    ours -= own  # in a program, a file's own function looks the same as one that others call, and it needs no mark
    for path in programs:
        with open(path, "rb") as f:
            image = f.read()
        wrong = [*faults(image), *flow_faults(image, ours)]
        for sentence in wrong:
            print(f"{os.path.basename(path)}: {sentence}")
        failed += bool(wrong)
    print(f"{len(programs)} programs, {count} object files with {len(ours)} functions that other files may call")
    print(f"{len(programs) + 1 - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
