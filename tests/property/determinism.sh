#!/bin/sh
# determinism.sh PROPERTY: the same events give the same plans, byte for byte, whoever compiled the core.
# The hash below was recorded once; PROPERTY must print it. So must the core compiled here by clang, and for
# arm64 where a cross compiler and qemu are at hand; what is not here is counted as skipped.
set -u
hash=f4e35b5c766577a5
run="7 4 400"
here=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
skipped=0

check() { # NAME COMMAND...
    name=$1
    shift
    out=$("$@" $run $hash 2>&1) || { echo "$name: $out"; exit 1; }
    echo "$name: as recorded"
    passed=$((passed + 1))
}

skip() { # NAME WHY
    echo "$1: skipped: $2"
    skipped=$((skipped + 1))
}

build() { # NAME COMPILER...: the property test and the pure core, without Meson
    name=$1
    shift
    mkdir "$work/$name"
    # Selectors of devices, which the property test has none of: it would stop there.
    cat > "$work/unreached.c" << 'END'
#include <stdlib.h>
void decode_expressions(void) { abort(); }
void cel_device_compile(void) { abort(); }
void cel_device_matches(void) { abort(); }
END
    for file in "$here"/src/base/*.c "$here"/src/sched/*.c "$here"/src/api/scheduler_name.c "$here"/tests/property/property.c \
        "$work/unreached.c"; do
        case $file in *_test.c | *_fuzz.c | */yaml.c | */decode*.c) continue ;; esac
        echo "$file"
    done | xargs -P 2 -I{} sh -c '"$@" -c "{}" -o "$0/$(echo "{}" | tr / _).o"' "$work/$name" "$@" \
        -std=gnu17 -O2 -w -D_GNU_SOURCE -ffp-contract=off -I"$here/src" -I"$here/tests" || exit 1
    mv "$work/$name"/*tests_property_property.c.o "$work/$name.o"
    "${AR:-ar}" rc "$work/$name.a" "$work/$name"/*.o
    "$@" "$work/$name.o" "$work/$name.a" -lm -o "$work/$name.bin"
}

check "this build" "$1"
for name in clang-14 clang; do
    command -v $name > /dev/null && break
done
if command -v $name > /dev/null; then
    build clang $name
    check "clang" "$work/clang.bin"
else
    skip clang "not here"
fi
if command -v qemu-aarch64 > /dev/null && echo '#include <stdio.h>' | aarch64-linux-gnu-gcc -xc -E - > /dev/null 2>&1; then
    build arm64 aarch64-linux-gnu-gcc
    check "arm64" qemu-aarch64 -L /usr/aarch64-linux-gnu "$work/arm64.bin"
else
    skip arm64 "no cross compiler or no qemu here"
fi
echo "$passed passed, 0 failed, $skipped skipped"
