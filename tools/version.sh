#!/bin/sh
# version.sh: what a build is of, beside its version: "1424.gdf800c0f" (commits, the newest of them), with ".modified" where
# files differ from it. Nothing outside of a git repository; MUSTER_BUILD_ID stands for it there (a release in a container).
cd "$(dirname "$0")/.." || exit 1
if [ -n "${MUSTER_BUILD_ID+set}" ]; then
    printf '%s' "$MUSTER_BUILD_ID"
elif [ -e .git ] && commit=$(git rev-parse --short=8 HEAD 2>/dev/null); then
    count=$(git rev-list --count HEAD)
    modified=$(git diff --quiet HEAD -- 2>/dev/null || printf .modified)
    printf '%s.g%s%s' "$count" "$commit" "$modified"
fi
