#!/usr/bin/env bash
# clean-root.sh [COMMAND...]: the README's three commands, `make`, `make demo` and `make test`, on a bare machine: a minimal
# Debian 12 (apt and make, nothing else) in a folder of its own, with nothing beside the clone, made from the package sources
# this machine is configured with. Then the same on Ubuntu 24.04, where CLEAN_UBUNTU names a package source that has it (the
# address of an archive; CLEAN_UBUNTU_KEYRING: the file with its keys). With COMMANDs, these instead of the three.
# Ends with `N passed, N failed, N skipped`; exits 77, saying why, where it cannot run.
# Needs root, mmdebstrap or debootstrap (tools/deps.sh clean-root), the network for packages, and 3 GB in TMPDIR.
# CLEAN_BRING=PATH brings a file or folder that git ignores, such as dist.
# CLEAN_ROOT=DIR keeps the root file system there (Ubuntu's in DIR.ubuntu), and uses it again the next time.
set -euo pipefail
cd "$(dirname "$0")/.."
limit_s=3600 # for one command: packages, and the tests
[ $# -gt 0 ] || set -- make "make demo" "make test"

skip() { echo "clean-root: skipped: $*"; exit 77; }
[ "$(id -u)" = 0 ] || skip "needs root to enter another root file system"
unshare --mount --pid --fork true 2> /dev/null || skip "this machine permits no mount and PID namespaces"
if ! command -v mmdebstrap debootstrap > /dev/null; then
    tools/deps.sh clean-root || skip "neither mmdebstrap nor debootstrap can be had here"
fi

if [ -n "${CLEAN_ROOT:-}" ]; then
    folder=$CLEAN_ROOT
else
    folder=$(mktemp -d "${TMPDIR:-/tmp}/muster-clean-root.XXXXXX")
    trap 'rm -rf --one-file-system "$folder" "$folder.ubuntu" "$folder.log" "$folder.ubuntu.log"' EXIT
fi
started=$(date +%s)
elapsed() { echo "$(($(date +%s) - started)) s"; }

# Where this machine gets its packages from, proxies included. Ubuntu's are what its root was made from.
copy_sources() {
    mkdir -p "$root/etc/apt" "$root/usr/share/keyrings"
    cp -R /etc/apt/apt.conf.d "$root/etc/apt/" 2> /dev/null || true
    if [ "$suite" = bookworm ]; then
        cp -R /etc/apt/sources.list.d "$root/etc/apt/" 2> /dev/null || true
        [ ! -e /etc/apt/sources.list ] || cp /etc/apt/sources.list "$root/etc/apt/"
    fi
    cp -R /usr/share/keyrings/. "$root/usr/share/keyrings/" 2> /dev/null || true
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/" 2> /dev/null || true
}

debian_mirror() {
    apt-cache policy base-files 2> /dev/null |
        sed -n 's/^ *[0-9]* \([a-z+]*:[^ ]*\) '"$suite"'\/main .*/\1/p' | head -n 1
}

make_root() { # MIRROR
    local include=make,ca-certificates,mount key=${CLEAN_UBUNTU_KEYRING:-/usr/share/keyrings/ubuntu-archive-keyring.gpg}
    local options=()
    if [ "$suite" = noble ]; then
        options+=(--components=main,universe)
        [ ! -e "$key" ] || options+=(--keyring="$key")
    fi
    if command -v mmdebstrap > /dev/null; then
        mmdebstrap --quiet --mode=root --variant=apt --include=$include "${options[@]}" "$suite" "$root" "$1"
    else
        debootstrap --variant=minbase --include=$include "${options[@]}" "$suite" "$root" "$1"
    fi > "$root.log" 2>&1 || { tail -n 20 "$root.log"; rm -f "$root.log"; return 1; }
    rm -f "$root.log"
}

# In namespaces of its own, with the folder as a real root (not a chroot, which no mount can be made private in):
# everything mounted or started goes with the command.
inside() {
    # shellcheck disable=SC2016
    timeout --kill-after=30 $limit_s unshare --mount --pid --fork --kill-child sh -c '
        set -e
        mount --make-rprivate /
        mount --bind "$1" "$1"
        mount -t proc proc "$1/proc"
        mount --rbind /sys "$1/sys"
        mount --rbind /dev "$1/dev"
        mount -t tmpfs tmpfs "$1/run"
        cd "$1"
        pivot_root . .
        umount -l .
        cd /root/muster
        exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 TERM=dumb sh -c "$2"' sh "$root" "$1"
}

passed=0
failed=0
skipped=0

play() { # NAME SUITE FOLDER MIRROR COMMAND...: everything on one system
    local name=$1 mirror=$4 began result packages
    suite=$2
    root=$3
    shift 4
    if [ ! -e "$root/usr/bin/make" ] && ! make_root "$mirror"; then
        echo "clean-root: $name: no root file system: FAILED"
        failed=$((failed + 1))
        return
    fi
    copy_sources
    rm -rf "$root/root/muster"
    git clone --quiet --depth 1 "file://$PWD" "$root/root/muster"
    git ls-files -co --exclude-standard -z | tar --null --files-from=- -cf - | tar -C "$root/root/muster" -xf -
    [ -z "${CLEAN_BRING:-}" ] || cp -R --parents "$CLEAN_BRING" "$root/root/muster/"
    packages=$(inside 'dpkg-query -W -f "\${Package}\n" | wc -l')
    echo "clean-root: $name: $packages packages, $(du -sm --one-file-system "$root" | cut -f1) MB ($(elapsed))"
    for command; do
        began=$(date +%s)
        if inside "$command"; then
            passed=$((passed + 1))
            result=ok
        else
            failed=$((failed + 1))
            result=FAILED
        fi
        echo "clean-root: $name: $command: $result ($(($(date +%s) - began)) s)"
        [ $result = ok ] || break
    done
}

suite=bookworm
mirror=$(debian_mirror)
[ -n "$mirror" ] || skip "no package source of this machine has Debian 12"
play "Debian 12" bookworm "$folder" "$mirror" "$@"
if [ -n "${CLEAN_UBUNTU:-}" ]; then
    play "Ubuntu 24.04" noble "$folder.ubuntu" "$CLEAN_UBUNTU" "$@"
else
    echo "clean-root: skipped: Ubuntu 24.04: CLEAN_UBUNTU names no package source that has it"
    skipped=$((skipped + $#))
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
