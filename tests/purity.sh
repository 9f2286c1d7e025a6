#!/bin/sh
# purity.sh BASE_LIBRARY LIBRARY...: fail if a pure library needs a symbol that none of the given
# libraries defines and that is not on the list. What the list leaves out is the point: no file, no
# clock, no environment, no random source, no output. malloc and libyaml's memory parser are for the
# first library (base) alone.
set -u
common='^(mem(cpy|move|set|cmp|chr|mem|rchr)|str(len|nlen|chr|rchr|cmp|ncmp|spn|cspn)|qsort|bsearch|abort|v?snprintf|__v?snprintf_chk|__mem(cpy|move|set)_chk|__assert_fail|__stack_chk_.*|__asan_.*|__ubsan_.*|__sanitizer_.*|__tsan_.*|__sancov_.*|__gcov_.*|__muloti4|__popcountdi2|__u?divmodti4|__(u?div|u?mod)ti3|_GLOBAL_OFFSET_TABLE_)$'
base_only='^(malloc|calloc|realloc|free|yaml_.*)$'

for library in "$@"; do
    [ -s "$library" ] || { echo "purity: $library: no such library" >&2; exit 1; }
done
base=$1
defined=$(mktemp)
trap 'rm -f "$defined"' EXIT
nm --defined-only --format=posix "$@" | awk 'NF >= 2 { print $1 }' | sort -u > "$defined"

needs() { nm --undefined-only --format=posix "$@" | awk 'NF >= 2 && $2 == "U" { print $1 }' | sort -u |
    comm -23 - "$defined" | grep -Ev "$common"; }

bad=$(needs "$base" | grep -Ev "$base_only")
shift
bad="$bad $(needs "$@")"
bad=$(echo $bad)
[ -z "$bad" ] || { echo "a pure layer reaches outside: $bad" >&2; exit 1; }
