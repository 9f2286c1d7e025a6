#!/bin/sh
# instructions.sh BENCH: instructions that fixed inputs of every case take, building the cluster included, held against
# what was recorded (gcc 12, x86-64, -O2; other builds are not compared). More than a tenth off, up or down,
# fails: up is slower, down is a new record to write down. Each line: case, size, instructions.
set -u
unset MALLOC_PERTURB_ # filling every allocation is counted too
recorded='
reclaim-large 50 8680428
many-single 20 8878296
unschedulable-rack 50 6623260
fill-gangs 100 10763100
many-queues 50 10567555
unschedulable-quota 50 31438849
unschedulable-apart 50 6640097
cpu-jobs 50 27600861
one-gang 100 12285382
one-more 100 12660882
reclaim-64 100 13990286
preempt-64 100 13823280
consolidate 50 5851407
topology-gang 100 1536999
explain 50 12807376
idle 100 15517929
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
