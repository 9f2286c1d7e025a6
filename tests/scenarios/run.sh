#!/bin/sh
# run.sh MUSTER: every file here is a rule with an expectation; `muster simulate` checks it.
set -u
here=$(dirname "$0")
failed=0
for file in "$here"/*.yaml; do
    out=$("$1" simulate "$file" 2>&1) || { failed=$((failed + 1)); echo "$out" | sed "s|$here/||"; }
done
[ "$failed" = 0 ] || { echo "$failed scenarios failed"; exit 1; }
