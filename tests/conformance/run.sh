#!/bin/sh
# run.sh CONFORMANCE: the recorded decisions, when they lie beside the project, in mimic mode. The
# cases named in known.txt may fail; any other failure, or a known one that passes, fails the test.
set -u
here=$(dirname "$0")
cases=$here/../../../shared/scenarios
[ -d "$cases" ] || { echo "no recorded scenarios here"; exit 77; }
failed=$("$1" "$cases"/*.json "$cases"/units/*.json "$cases"/podgrouper/*.json |
    grep -v ' passed, ' | cut -d: -f1 | sort -u)
known=$(grep -v '^#' "$here/known.txt" | cut -d' ' -f1 | sort -u)
[ "$failed" = "$known" ] && exit 0
echo "not as recorded, and not known:"
echo "$failed" | grep -vxF "$known"
echo "known, but right now:"
echo "$known" | grep -vxF "$failed"
exit 1
