#!/bin/sh
# v017.sh CONFORMANCE: the decisions recorded from KAI Scheduler 0.17, when they lie beside the project. Not in the gate: what is
# not met yet is in tests/expected/conformance-v017.txt.
cases=$(dirname "$0")/../../../shared/scenarios/v017
[ -d "$cases" ] || { echo "no recorded decisions of 0.17 beside the project (../shared/scenarios/v017)"; exit 77; }
exec "$1" "$cases"/*.json "$cases"/units/*.json "$cases"/podgrouper/*.json
