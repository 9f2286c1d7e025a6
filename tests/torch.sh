#!/bin/sh
# torch.sh [--cached]: print a Python that has a current PyTorch, for the tests that need one newer than the
# distribution's (Debian 12 has 1.13). It is $MUSTER_TORCH_CACHE, or muster/torch in $XDG_CACHE_HOME or ~/.cache: a virtual
# environment, made by the first call, with pip and by name. A CPU build is enough: arm64 has one under the plain name; for
# x86-64 MUSTER_TORCH_INDEX names an index that has (the plain one is gigabytes of CUDA, and cannot be imported without
# them). --cached makes nothing. Words go to stderr; exit 3 means "cannot be had here", for callers that skip.
set -u
cache=${MUSTER_TORCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/muster/torch}
python=$cache/bin/python3
limit_s=900 # for one run of pip
# What PyTorch imports, and NumPy, which the examples use.
needs='filelock fsspec jinja2 networkx numpy setuptools sympy typing-extensions'

say() { echo "torch.sh: $*" >&2; }
give_up() {
    say "$1"
    [ ! -s "$log" ] || tail -n 3 "$log" >&2
    exit 3
}
version() { "$python" -c 'import torch, torch.distributed as d; assert d.is_gloo_available(); print(torch.__version__)'; }

if [ -e "$cache/complete" ] && [ -x "$python" ]; then
    echo "$python"
    exit 0
fi
log=/dev/null
[ "${1:-}" != --cached ] || give_up "no current PyTorch in $cache; tests/torch.sh installs one"
[ "$(uname -m)" != x86_64 ] || [ -n "${MUSTER_TORCH_INDEX:-}" ] ||
    give_up "pip has a CPU build of PyTorch for x86-64 only where MUSTER_TORCH_INDEX names an index with one"
mkdir -p "$cache" || exit 3
log=$cache/log
exec 9> "$cache/lock"
flock -w 1800 9 || give_up "somebody else has been installing PyTorch into $cache for half an hour"
if [ ! -e "$cache/complete" ]; then
    say "installing PyTorch into $cache (a few minutes)"
    base=$(command -v python3) || give_up "no python3 here"
    "$base" -m venv "$cache" > "$log" 2>&1 || give_up "python3 -m venv failed; install python3-venv"
    pip() {
        timeout $limit_s "$python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-compile "$@" \
            > "$log" 2>&1
    }
    pip --no-deps ${MUSTER_TORCH_INDEX:+--index-url "$MUSTER_TORCH_INDEX"} torch || give_up "pip could not install torch"
    # shellcheck disable=SC2086
    pip $needs || give_up "pip could not install what torch imports: $needs"
    version > "$cache/version" 2> "$log" || give_up "PyTorch was installed, but cannot be used"
    mv "$cache/version" "$cache/complete" # tests/e2e/harness.py reads it
fi
echo "$python"
