#!/bin/sh
# torch.sh [--cached]: print a Python that has a current PyTorch, for the tests that need one newer than the
# distribution's (Debian 12 has 1.13). It is $MUSTER_TORCH_CACHE, or muster/torch in $XDG_CACHE_HOME or ~/.cache: a virtual
# environment, made by the first call, with pip and by name. A CPU build is enough: arm64 has one under the plain name; for
# x86-64 MUSTER_TORCH_INDEX may name an index that has. Without, x86-64 gets the plain one and the 5 GB of CUDA that it
# needs to be imported, where the disk has room for them. --cached makes nothing. Words go to stderr; exit 3 means "cannot
# be had here", for callers that skip; what was half installed is removed then.
set -u
cache=${MUSTER_TORCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/muster/torch}
python=$cache/bin/python3
limit_s=900                 # for one run of pip
room_kb=$((10 * 1024 * 1024)) # for the plain one on x86-64: 5.3 GB, what pip downloads before it, and some to live on
# What PyTorch imports, and NumPy, which the examples use.
needs='filelock fsspec jinja2 networkx numpy setuptools sympy typing-extensions'

say() { echo "torch.sh: $*" >&2; }
give_up() {
    say "$1"
    [ ! -s "$log" ] || tail -n 3 "$log" >&2
    exit 3
}
half_gone() { rm -rf "$cache/bin" "$cache/include" "$cache/lib" "$cache/lib64" "$cache/share" "$cache/pyvenv.cfg"; }
# It writes down what Python makes of the modules: pods may not, and would take seconds longer to import them, each time. Most of
# them come with the first optimizer, which imports the compiler: 10.7 s of processor time for a rank to begin become 4.3.
version() {
    PYTHONDONTWRITEBYTECODE='' "$python" -c 'import torch, torch.distributed as d, torch.distributed.run
import torch._dynamo, torch.distributed.checkpoint, torch.distributed.optim, torch.utils.data
torch.optim.AdamW(torch.nn.Linear(1, 1).parameters())
assert d.is_gloo_available(); print(torch.__version__)'
}

if [ -e "$cache/complete" ] && [ -x "$python" ]; then
    # One that an earlier torch.sh installed.
    [ -e "$cache/compiled" ] || ! [ -w "$cache" ] || { version > /dev/null 2>&1 && : > "$cache/compiled"; }
    echo "$python"
    exit 0
fi
log=/dev/null
[ "${1:-}" != --cached ] || give_up "no current PyTorch in $cache; tests/torch.sh installs one"
mkdir -p "$cache" || exit 3
log=$cache/log
exec 9> "$cache/lock"
flock -w 1800 9 || give_up "somebody else has been installing PyTorch into $cache for half an hour"
if [ ! -e "$cache/complete" ]; then
    : > "$log"
    cuda=
    if [ "$(uname -m)" = x86_64 ] && [ -z "${MUSTER_TORCH_INDEX:-}" ]; then
        cuda=yes
        half_gone
        free_kb=$(df -Pk "$cache" | awk 'NR == 2 { print $4 }')
        [ "${free_kb:-0}" -ge $room_kb ] ||
            give_up "PyTorch for x86-64 comes with CUDA and needs 10 GB free, and $cache has $((free_kb / 1048576)): \
free some, or name an index that has a CPU build in MUSTER_TORCH_INDEX"
    fi
    running=
    trap half_gone EXIT
    trap 'kill ${running:+"$running"} 2> /dev/null; wait; exit 3' HUP INT TERM
    say "installing PyTorch into $cache (a few minutes)"
    base=$(command -v python3) || give_up "no python3 here"
    "$base" -m venv "$cache" > "$log" 2>&1 || give_up "python3 -m venv failed; install python3-venv"
    # What pip unpacks goes beside, not to a small /tmp. In the background, so that the traps are not kept waiting for it.
    pip() {
        mkdir -p "$cache/share/tmp"
        TMPDIR=$cache/share/tmp timeout $limit_s "$python" -m pip install --quiet --disable-pip-version-check \
            --no-cache-dir --no-compile "$@" > "$log" 2>&1 9>&- &
        running=$!
        wait $running
    }
    if [ -n "$cuda" ]; then
        pip torch numpy || give_up "pip could not install torch with what it needs"
    else
        pip --no-deps ${MUSTER_TORCH_INDEX:+--index-url "$MUSTER_TORCH_INDEX"} torch || give_up "pip could not install torch"
        # shellcheck disable=SC2086
        pip $needs || give_up "pip could not install what torch imports: $needs"
    fi
    rm -rf "$cache/share/tmp"
    version > "$cache/version" 2> "$log" || give_up "PyTorch was installed, but cannot be used"
    : > "$cache/compiled"
    mv "$cache/version" "$cache/complete" # tests/e2e/harness.py reads it
    trap - EXIT
fi
echo "$python"
