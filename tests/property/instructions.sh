#!/bin/sh
# instructions.sh BENCH: instructions that fixed inputs of every case take, building the cluster included, held against
# what was recorded (gcc 12, x86-64, -O2; other builds are not compared). More than a tenth off, up or down,
# fails: up is slower, down is a new record to write down. Each line: case, size, instructions.
set -u
unset MALLOC_PERTURB_ # filling every allocation is counted too
recorded='
reclaim-large 50 9284940
many-single 20 9511394
unschedulable-rack 50 7092573
fill-gangs 100 11636673
many-queues 50 11484249
unschedulable-quota 50 35292744
unschedulable-apart 50 7110603
cpu-jobs 50 29475007
one-gang 100 13148679
one-more 100 13550903
reclaim-64 100 15061339
preempt-64 100 14843191
consolidate 50 6270845
topology-gang 100 1594067
explain 50 13559584
idle 100 16620142
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
