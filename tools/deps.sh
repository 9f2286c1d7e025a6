#!/bin/sh
# deps.sh [--dry-run] [build|demo|test|tidy|analyze|fuzz|clean-root|dist ARCH]: install what is missing for building (default), or
# for the make target of that name, by the names Debian and Ubuntu have for it. --dry-run prints the names of the missing
# packages, one a line, and installs nothing. On other systems it says what to install.
# deps.sh --libraries: print the packages of the libraries that are linked.
set -eu
cd "$(dirname "$0")/.."
limit_s=900 # for one run of the package manager or of pip

libraries='libc6-dev libcurl4-gnutls-dev libgnutls28-dev libsqlite3-dev libuv1-dev libxxhash-dev
    libyaml-dev libzstd-dev zlib1g-dev'
build="gcc make meson ninja-build pkg-config $libraries"
test='bind9-dnsutils binutils curl valgrind clang-14 clang-format-14 crun git iproute2 libjansson-dev libmicrohttpd-dev nftables
    openmpi-bin procps python3 python3-etcd python3-mpi4py skopeo'
tidy='clang-tidy-19'
analyze='clang-14 cppcheck'
fuzz='libclang-rt-14-dev' # libFuzzer and clang's sanitizers, which clang-14 only recommends
# Used when the distribution has them; what needs them says so when they are missing.
optional='bind9-dnsutils clang-14 clang-format-14 cppcheck crun iproute2 kubernetes-client nftables openmpi-bin python3-etcd
    python3-mpi4py skopeo'

dry_run=
group=build
cross=
while [ $# -gt 0 ]; do
    case $1 in
    --dry-run) dry_run=1 ;;
    --libraries) echo $libraries; exit 0 ;;
    build | demo | test | tidy | analyze | fuzz | clean-root) group=$1 ;;
    dist)
        group=dist
        case ${2:-} in
        amd64) cross='gcc-x86-64-linux-gnu' ;;
        arm64) cross='gcc-aarch64-linux-gnu' ;;
        *) echo "deps.sh dist: ARCH must be amd64 or arm64" >&2; exit 2 ;;
        esac
        # The compiler of this machine is also called by its full name.
        [ "$(dpkg --print-architecture 2> /dev/null)" != "$2" ] || cross=
        shift
        ;;
    *) echo "usage: tools/deps.sh [--dry-run] [build|demo|test|tidy|analyze|fuzz|clean-root|dist ARCH]" >&2; exit 2 ;;
    esac
    shift
done
say() { echo "deps: $*" >&2; }

has_torch() {
    for python in .venv/bin/python3 python3 /usr/bin/python3; do
        command -v "$python" > /dev/null && "$python" -c 'import torch' > /dev/null 2>&1 && return 0
    done
    return 1
}
installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2> /dev/null)" = installed ]; }
# A library that came from somewhere else than its package is as good.
present() {
    installed "$1" && return 0
    case $1 in
    libcurl4-gnutls-dev) pkg-config --exists libcurl 2> /dev/null ;;
    gcc | make | meson | python3 | git) command -v "$1" > /dev/null ;;
    gcc-aarch64-linux-gnu) command -v aarch64-linux-gnu-gcc > /dev/null ;;
    gcc-x86-64-linux-gnu) command -v x86_64-linux-gnu-gcc > /dev/null ;;
    *) return 1 ;;
    esac
}

case $group in
test) wanted="$build $test" ;;
tidy) wanted="$build $tidy" ;;
analyze) wanted="$build $analyze" ;;
fuzz) wanted="$build $test $fuzz" ;;
clean-root) wanted=mmdebstrap ;;
dist) wanted="$build $cross" ;;
*) wanted=$build ;;
esac
if ! command -v apt-get > /dev/null || ! command -v dpkg-query > /dev/null; then
    command -v meson > /dev/null && pkg-config --exists libuv gnutls libcurl sqlite3 libzstd \
        yaml-0.1 2> /dev/null && exit 0
    say "this system has no apt-get; install what these Debian packages contain:" $wanted
    exit 1
fi

missing=
for package in $wanted; do
    present "$package" || missing="$missing $package"
done
if [ $group = demo ] || [ $group = test ]; then
    command -v kubectl > /dev/null || missing="$missing kubernetes-client"
fi
torch=
if [ $group = demo ] || [ $group = test ]; then
    has_torch || torch=1
fi
if [ -n "$dry_run" ]; then
    for package in $missing; do echo "$package"; done
    [ -z "$torch" ] || echo "python3-venv python3-torch" | tr ' ' '\n'
    exit 0
fi
[ -n "$missing$torch" ] || exit 0

root=
[ "$(id -u)" = 0 ] || root=sudo
if [ -n "$root" ] && ! { command -v sudo > /dev/null && sudo -n true 2> /dev/null; } && [ ! -t 0 ]; then
    say "not root; run: apt-get install$missing${torch:+ python3-torch}"
    exit 1
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
    $root env DEBIAN_FRONTEND=noninteractive timeout $limit_s apt-get -qq -y -o Acquire::Retries=3 \
        -o DPkg::Lock::Timeout=120 "$@" > "$log" 2>&1
}
candidate() { apt-cache policy "$1" 2> /dev/null | grep -q 'Candidate: [^(]'; }
install() {
    apt install --no-install-recommends "$@" || { tail -n 20 "$log" >&2; return 1; }
}

apt update || say "the package lists could not be refreshed; going on with what is there"
chosen=
for package in $missing; do
    if candidate "$package"; then
        chosen="$chosen $package"
    elif case " $(echo $optional) " in *" $package "*) true ;; *) false ;; esac; then
        say "$package is not in this distribution; what needs it is skipped"
    else
        say "$package is not in this distribution; Debian 12 or Ubuntu 24.04 or later have it"
        exit 1
    fi
done
if [ -n "$chosen" ]; then
    say "installing$chosen"
    install $chosen
fi
[ -n "$torch" ] || exit 0

# PyTorch. pip has a CPU build for arm64; for x86-64 only where pip is pointed at an index with one
# (MUSTER_TORCH_INDEX), because the plain one brings gigabytes of CUDA. Else the distribution's.
from_pip() {
    candidate python3-venv && install python3-venv &&
        python3 -m venv .venv > "$log" 2>&1 &&
        timeout $limit_s .venv/bin/pip install --quiet --disable-pip-version-check \
            ${MUSTER_TORCH_INDEX:+--index-url "$MUSTER_TORCH_INDEX"} torch numpy > "$log" 2>&1 &&
        .venv/bin/python3 -c 'import torch' > "$log" 2>&1 || { rm -rf .venv; return 1; }
}
say "installing PyTorch"
if [ "$(uname -m)" = aarch64 ] || [ -n "${MUSTER_TORCH_INDEX:-}" ]; then
    from_pip || install python3-torch
else
    { candidate python3-torch && install python3-torch; } || from_pip
fi || { tail -n 5 "$log" >&2; say "PyTorch could not be installed; install it for python3"; exit 1; }
