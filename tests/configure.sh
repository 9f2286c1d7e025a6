#!/bin/sh
# configure.sh: a build folder that was set up before the optional libraries came has what needs them after
# tools/configure.sh, which `make bench` and `make test` call once they have installed them. Here the libraries come by
# being shown to pkg-config. Exits 77 where they are not installed.
set -eu
cd "$(dirname "$0")/.."
for library in jansson libmicrohttpd; do
    pkg-config --exists $library || { echo "$library is not here"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/without"
pkg-config --variable pc_path pkg-config | tr : '\n' | while read -r folder; do
    for file in "$folder"/*.pc; do
        case $file in */jansson.pc | */libmicrohttpd.pc | */\*.pc) continue ;; esac
        ln -sf "$file" "$work/without/"
    done
done
has() { ninja -C "$work/build" -t targets all | grep -q "^bench/bench-json:"; }
fail() { echo "$1"; exit 1; }

PKG_CONFIG_LIBDIR=$work/without tools/configure.sh "$work/build"
! has || fail "bench-json is built without its library: this test shows nothing"
tools/configure.sh "$work/build"
has || fail "bench-json is an unknown target after the library came"
before=$(stat -c %Y.%i "$work/build/build.ninja")
tools/configure.sh "$work/build"
[ "$before" = "$(stat -c %Y.%i "$work/build/build.ninja")" ] || fail "configured again although nothing changed"

# make install PREFIX=, where another one was set before.
tools/configure.sh "$work/build" --prefix "$work/there"
first=$(meson introspect --installed "$work/build" | tr ',' '\n' | grep -m 1 bin/muster)
case $first in *"$work/there/bin/"*) ;; *) fail "it would be installed elsewhere: $first" ;; esac
before=$(stat -c %Y.%i "$work/build/build.ninja")
tools/configure.sh "$work/build" --prefix "$work/there"
[ "$before" = "$(stat -c %Y.%i "$work/build/build.ninja")" ] || fail "configured again for the same prefix"
