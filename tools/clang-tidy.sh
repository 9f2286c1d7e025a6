#!/bin/sh
# clang-tidy.sh [FILE...]: clang-tidy 19 over the given sources, or all of src; exits 1 if it has anything to say.
# Needs build/ (for its compile commands). Takes some seconds a file.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- $(git ls-files 'src/*.c')
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The compile commands are gcc's: clang does not know all of its warnings.
printf '%s\n' "$@" | xargs -P "$(nproc)" -n 1 clang-tidy-19 -p build --quiet \
    --extra-arg=-Wno-unknown-warning-option 2> /dev/null | grep -E '(warning|error):' | sort -u > "$log" || true
cat "$log"
found=$(wc -l < "$log")
echo "clang-tidy: $# files, $found findings"
[ "$found" = 0 ]
