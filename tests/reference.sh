#!/bin/sh
# docs/reference says what the option tables, the messages in the source and the lists of tests/expected say, and deploy/crds and
# docs/kinds what deploy/kinds says. --write makes it so.
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
    tools/kinds.py --write || exit 1
    tools/messages.py --write || exit 1
    tests/kubernetes/conformance_page.py --write || exit 1
else
    tools/kinds.py --check || status=1
    tools/messages.py --check || status=1
    tests/kubernetes/conformance_page.py || status=1
fi
exit $status
