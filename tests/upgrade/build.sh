#!/bin/sh
# build.sh COMMIT: the programs of an earlier commit of this repository, built once outside of the tree; prints their folder.
# They lie in $MUSTER_UPGRADE_CACHE (~/.cache/muster-upgrade unless told), a folder for each commit. Exits 77, with the reason as
# its last line, where there is no history to build from.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
commit=$(git -C "$root" rev-parse --verify --quiet "$1^{commit}") || {
    echo "skipped: $1 is not in the history here"
    exit 77
}
place=${MUSTER_UPGRADE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/muster-upgrade}/$commit
if [ ! -e "$place/done" ]; then
    rm -rf "$place"
    mkdir -p "$place"
    git -C "$root" archive "$commit" | tar -x -C "$place"
    {
        meson setup "$place/build" "$place"
        nice ninja -C "$place/build" muster muster-shim muster-launch kubectl-torchrun libmuster-gpu.so
    } > "$place/log" 2>&1 || {
        tail -20 "$place/log"
        exit 1
    }
    touch "$place/done"
fi
echo "$place/build"
