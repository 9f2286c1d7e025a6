#!/bin/sh
# configure.sh BUILD [OPTION...]: the build folder BUILD, set up with these options of meson when it is not there. One that
# is there is configured again when an optional library has come or gone since: `make` installs only what building
# needs, `make bench` and `make test` more, and meson asks for a library only once.
set -eu
cd "$(dirname "$0")/.."
build=$1
shift
seen=$build/optional.txt
log=$(mktemp)
trap 'rm -f "$log"' EXIT
prefix() { sed -n 's/.*"name": "prefix", "value": "\([^"]*\)".*/\1/p' "$build/meson-info/intro-buildoptions.json"; }
quietly() { "$@" > "$log" 2>&1 || { cat "$log"; exit 1; }; }

now=$(sed -n "s/.*dependency('\([a-z0-9.-]*\)', required : false).*/\1/p" meson.build bench/meson.build | while read -r name; do
    echo "$name $(pkg-config --modversion "$name" 2> /dev/null || echo none)"
done)
if [ ! -e "$build/build.ninja" ]; then
    # What a program says of its files begins at the tree, wherever that is: the same tree makes the same bytes (tests/paths.py).
    quietly meson setup "$build" "-Dc_args=${CFLAGS-} '-ffile-prefix-map=$PWD=.'" "$@"
elif [ "$now" != "$(cat "$seen" 2> /dev/null)" ]; then
    quietly meson setup --reconfigure "$build"
fi
if [ "${1:-}" = --prefix ] && [ "$(prefix)" != "$2" ]; then
    quietly meson setup --reconfigure "$build" --prefix "$2"
fi
[ "$now" = "$(cat "$seen" 2> /dev/null)" ] || echo "$now" > "$seen"
