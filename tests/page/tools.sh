#!/usr/bin/env bash
# tools.sh: print the folder that holds what the tests of the page need besides a Chromium: playwright-core, axe-core and
# typescript, at fixed versions, in a cache folder (MUSTER_PAGE_CACHE, or muster/page in $XDG_CACHE_HOME or ~/.cache).
# With --have nothing is fetched. Words go to stderr; exit 3 means "cannot be had here", for callers that skip.
set -euo pipefail
packages=(playwright-core@1.50.1 axe-core@4.10.2 typescript@5.7.3)
cache=${MUSTER_PAGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/muster/page}

say() { echo "tools.sh: $*" >&2; }

command -v node >/dev/null || { say "there is no node"; exit 3; }
missing=()
for package in "${packages[@]}"; do
    grep -qs "\"version\": \"${package#*@}\"" "$cache/node_modules/${package%@*}/package.json" || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    [ "${1:-}" != --have ] || { say "missing ${missing[*]} in $cache; make test-page fetches them"; exit 3; }
    command -v npm >/dev/null || { say "missing ${missing[*]}, and there is no npm"; exit 3; }
    mkdir -p "$cache"
    [ -e "$cache/package.json" ] || echo '{"private":true}' > "$cache/package.json"
    (cd "$cache" && npm install --no-audit --no-fund "${packages[@]}" >&2) || { say "cannot fetch ${missing[*]}"; exit 3; }
fi
echo "$cache"
