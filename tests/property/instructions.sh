#!/bin/sh
# instructions.sh BENCH: instructions that fixed inputs of every case take, building the cluster included, held against
# what was recorded (gcc 12, x86-64, -O2; other builds are not compared). More than a tenth off, up or down,
# fails: up is slower, down is a new record to write down. Each line: case, size, instructions.
set -u
unset MALLOC_PERTURB_ # filling every allocation is counted too
recorded='
reclaim-large 50 9271049
many-single 20 9979460
unschedulable-rack 50 6952231
fill-gangs 100 12524183
many-queues 50 12658722
unschedulable-quota 50 35259631
unschedulable-apart 50 6971644
cpu-jobs 50 31543640
one-gang 100 12962219
one-more 100 13352163
reclaim-64 100 14878727
preempt-64 100 14679372
consolidate 50 6162951
topology-gang 100 1593876
explain 50 13584963
idle 100 16366959
'
command -v valgrind > /dev/null || { echo "no valgrind here: instructions are not counted"; exit 77; }
[ "$(uname -m)" = x86_64 ] || { echo "recorded for x86-64 only"; exit 77; }
failed=0
echo "$recorded" | grep . | {
    while read -r name size before; do
        out=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$1" "$name" once "$size" 2>&1)
        now=$(echo "$out" | sed -n 's/.*Collected : \([0-9]*\)$/\1/p')
        [ -n "$now" ] || { echo "$name $size: $out"; exit 1; }
        echo "$name $size: $now instructions, recorded $before"
        [ $((now * 10)) -le $((before * 11)) ] && [ $((now * 10)) -ge $((before * 9)) ] || failed=1
    done
    exit $failed
}
