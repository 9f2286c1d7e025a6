#!/bin/sh
# docs/reference says what the option tables and the messages in the source say. --write makes it so.
cd "$(dirname "$0")/.." || exit 1
build=${MUSTER_BUILD:-build}
status=0
for program in muster kubectl-torchrun; do
    page=docs/reference/$program.md
    if [ "${1:-}" = --write ]; then
        mkdir -p docs/reference
        "$build/$program" man markdown > "$page" || exit 1
    elif ! "$build/$program" man markdown | diff -u "$page" - > /dev/null; then
        echo "$page is not what $program says; run: make reference"
        status=1
    fi
done
if [ "${1:-}" = --write ]; then
    tools/messages.py --write || exit 1
else
    tools/messages.py --check || status=1
fi
exit $status
