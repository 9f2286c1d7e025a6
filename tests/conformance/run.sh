#!/bin/sh
# run.sh CONFORMANCE: the recorded decisions, when they lie beside the project. In mimic mode the cases named
# in known.txt may fail; any other failure, or a known one that passes, fails the test. By our own rules the
# same and those in native.txt may, each put right by the one difference that is named there. The table of
# differences in the documentation is the one in the code. Ends with `N passed, N failed, N skipped`: what the program does
# not compare is skipped, and so is what known.txt names, each with its reason. Exits 77 without recorded decisions.
set -u
here=$(dirname "$0")
cases=$here/../../../shared/scenarios
table=$("$1" --quirks)
documented=$(grep '^| `' "$here/../../docs/differences.md")
[ -n "$table" ] && [ "$table" = "$documented" ] || {
    echo "docs/differences.md does not have the table of conformance --quirks:"
    echo "$table" | grep -vxF "$documented"
    exit 1
}
[ -d "$cases" ] || { echo "no recorded decisions beside the project (../shared/scenarios)"; exit 77; }
play() { "$@" "$cases"/*.json "$cases"/units/*.json "$cases"/podgrouper/*.json; }
failing() { grep -v -e ' passed, ' -e ': skipped: ' | cut -d: -f1 | sort -u; }
known=$(grep -v '^#' "$here/known.txt" | cut -d' ' -f1 | sort -u)
changed=$(grep -v '^#' "$here/native.txt" | cut -d' ' -f1)
compare() {
    [ "$2" = "$3" ] && return
    echo "$1, not as recorded, and not known:"
    echo "$2" | grep -vxF "$3"
    echo "$1, known, but right now:"
    echo "$3" | grep -vxF "$2"
    exit 1
}
said=$(play "$1")
compare "mimicking" "$(printf '%s\n' "$said" | failing)" "$known"
compare "by our own rules" "$(play "$1" --native | failing)" "$(printf '%s\n%s\n' "$known" "$changed" | grep . | sort -u)"
grep -v '^#' "$here/native.txt" | while read -r id quirk _; do
    "$1" --native "--quirk=$quirk" "--only=$id" "$cases"/*.json > /dev/null ||
        { echo "$id: not explained by $quirk"; exit 1; }
done || exit 1
printf '%s\n' "$said" | grep ': skipped: '
grep -v '^#' "$here/known.txt" | sed 's/ /: skipped: known to differ: /'
printf '%s\n' "$said" | tail -n 1 | {
    read -r passed _ _ _ skipped _
    echo "$passed passed, 0 failed, $((skipped + $(echo "$known" | wc -l))) skipped"
}
