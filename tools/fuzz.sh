#!/bin/sh
# fuzz.sh SECONDS [TARGET...]: look for inputs that break a fuzz target, SECONDS for each. New inputs are kept in
# build-fuzz/corpus/TARGET for the next time; what breaks one is left beside and named. Ends with
# `N passed, N failed, N skipped`.
set -eu
cd "$(dirname "$0")/.."
seconds=$1
shift
if [ ! -e build-fuzz/build.ninja ]; then
    CC=clang-14 meson setup build-fuzz -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false \
        -Dc_args=-fno-sanitize-recover=all > /dev/null
fi
ninja -C build-fuzz --quiet tests/fuzz/fuzz
[ $# -gt 0 ] || set -- $(ls tests/corpus)
passed=0
failed=0
for target; do
    mkdir -p "build-fuzz/corpus/$target"
    log=build-fuzz/$target.log
    if MUSTER_FUZZ=$target build-fuzz/tests/fuzz/fuzz -max_total_time="$seconds" -max_len=4096 -timeout=10 \
        -rss_limit_mb=1024 -print_final_stats=1 -artifact_prefix="build-fuzz/$target-" \
        "build-fuzz/corpus/$target" "tests/corpus/$target" > "$log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        echo "fuzz $target: $runs inputs in $seconds s, no finding"
        passed=$((passed + 1))
    else
        tail -n 40 "$log"
        echo "fuzz $target: FAILED (build-fuzz/$target.log)"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
