#!/bin/sh
# packages.sh: print a Python that has the current PyTorch of tests/torch.sh and the packages that the zoo trains with:
# transformers, lightning, accelerate, and what asks servers (aiohttp, grpcio). It is $MUSTER_ZOO_CACHE, or muster/zoo in
# $XDG_CACHE_HOME or ~/.cache: a virtual environment, made by the first call, with pip and by name, some 600 MB; PyTorch itself
# is that of torch.sh.
# Exit 3 means "cannot be had here": the zoo counts the programs that need them as skipped then.
set -u
here=$(cd "$(dirname "$0")" && pwd)
cache=${MUSTER_ZOO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/muster/zoo}
python=$cache/bin/python3
limit_s=900
packages='transformers lightning accelerate aiohttp grpcio'

give_up() {
    echo "packages.sh: $1" >&2
    [ ! -s "$cache/log" ] || tail -n 3 "$cache/log" >&2
    exit 3
}

if [ ! -e "$cache/complete" ]; then
    torch=$("$here/../torch.sh") || exit 3
    mkdir -p "$cache" || exit 3
    exec 9> "$cache/lock"
    flock -w 1800 9 || give_up "somebody else has been installing into $cache for half an hour"
fi
if [ ! -e "$cache/complete" ]; then
    rm -rf "$cache/bin" "$cache/lib" "$cache/lib64" "$cache/include"
    "$torch" -c 'import sys; print(sys.base_prefix + "/bin/python3")' > "$cache/base" || give_up "PyTorch's Python does not run"
    "$(cat "$cache/base")" -m venv "$cache" > "$cache/log" 2>&1 || give_up "python3 -m venv failed; install python3-venv"
    # What torch.sh installed counts as installed: pip does not fetch it again.
    "$torch" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$("$python" -c \
        'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
    # shellcheck disable=SC2086
    timeout $limit_s "$python" -m pip install --quiet --disable-pip-version-check --no-cache-dir $packages > "$cache/log" 2>&1 ||
        give_up "pip could not install $packages"
    "$python" -c 'import torch, transformers, lightning, accelerate; print(transformers.__version__, lightning.__version__,
        accelerate.__version__)' > "$cache/versions" 2> "$cache/log" || give_up "they were installed, but cannot be imported"
    mv "$cache/versions" "$cache/complete"
fi
echo "$python"
