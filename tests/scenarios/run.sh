#!/bin/sh
# run.sh MUSTER: every file here is a rule with an expectation; `muster simulate` checks it. Every reason
# a group can wait for, and every difference from KAI, has a file that shows it.
set -u
here=$(dirname "$0")
failed=0
fail() { failed=$((failed + 1)); echo "$1"; }
for file in "$here"/*.yaml; do
    out=$("$1" simulate "$file" 2>&1) || fail "$(echo "$out" | sed "s|$here/||")"
done
# A word that nobody reads is refused: a scenario that says it would show nothing.
for part in 'nodes: [{name: a, gpu: 8}]' 'queues: [{name: q, qouta: 1}]' 'expect: [{gang: g, runing: 1}]' \
    'gangs: [{name: g, queue: q, pod: 2}]' 'topology: {name: t, level: []}' 'node: []'; do
    out=$(echo "$part" | "$1" simulate /dev/stdin 2>&1) && fail "simulate accepts $part"
    case $out in *"is not known here"*) ;; *) fail "simulate says of $part: $out" ;; esac
done
out=$(printf '%s' '{kind: Pod, apiVersion: v1, metadata: {name: p, annotations: {simulate.muster.dev/from: soon}}, spec: {}}' |
    "$1" simulate /dev/stdin 2>&1) && fail "simulate accepts a cycle that is no number"
case $out in *'"soon" is not the number of a cycle'*) ;; *) fail "simulate says of a cycle that is no number: $out" ;; esac
# Each file by itself: a queue of one is not there in the next.
out=$("$1" simulate --each "$here/pack.yaml" "$here/pack.yaml" | grep -c '"cycles":') || true
[ "$out" = 2 ] || fail "simulate --each prints $out lines for two files"
header=$here/../../src/sched/sched.h
reasons=$(sed -n '/define SCHED_REASONS/,/^$/s/.*X([A-Z_]*, "\([A-Za-z]*\)").*/\1/p' "$header" | grep -v Scheduled)
for word in SchedulingGated $reasons; do
    grep -qE "reason: $word" "$here"/*.yaml || fail "no file shows the reason $word"
done
quirks=$(sed -n '/define SCHED_QUIRKS/,/^enum/p' "$header" | tr -d '\n\\' |
    grep -oE 'X\([A-Z_0-9]+, +"[a-z0-9-]+", +"' | sed 's/.*"\([a-z0-9-]*\)", *"$/\1/')
for word in $quirks; do
    case $word in
    old-groups) continue ;;   # of the pod grouper: control/grouping/grouping_test.c
    every-search) continue ;; # of hundreds of groups: sched/evict_test.c
    esac
    grep -qE "quirks:.*$word" "$here"/*.yaml || fail "no file shows the difference $word"
done
[ -n "$reasons" ] && [ -n "$quirks" ] || fail "$header could not be read"
[ "$failed" = 0 ] || { echo "$failed scenarios failed"; exit 1; }
