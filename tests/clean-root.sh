#!/usr/bin/env bash
# clean-root.sh [COMMAND...]: the README's two commands, `make` and `make demo`, on a bare machine: a minimal Debian 12
# (apt and make, nothing else) in a folder of its own, made from the package sources this machine is configured with.
# With COMMANDs, these instead of the two. Ends with `N passed, N failed, N skipped`; exits 77, saying why, where it cannot run.
# Needs root, mmdebstrap or debootstrap (tools/deps.sh clean-root), the network for packages, and 3 GB in TMPDIR.
# CLEAN_ROOT=DIR keeps the root file system there, and uses it again the next time.
set -euo pipefail
cd "$(dirname "$0")/.."
suite=bookworm
limit_s=1800 # for one command: most of it is packages
[ $# -gt 0 ] || set -- make "make demo"

skip() { echo "clean-root: skipped: $*"; exit 77; }
[ "$(id -u)" = 0 ] || skip "needs root to enter another root file system"
unshare --mount --pid --fork true 2> /dev/null || skip "this machine permits no mount and PID namespaces"
if ! command -v mmdebstrap debootstrap > /dev/null; then
    tools/deps.sh clean-root || skip "neither mmdebstrap nor debootstrap can be had here"
fi

if [ -n "${CLEAN_ROOT:-}" ]; then
    root=$CLEAN_ROOT
else
    root=$(mktemp -d "${TMPDIR:-/tmp}/muster-clean-root.XXXXXX")
    trap 'rm -rf --one-file-system "$root" "$root.log"' EXIT
fi
started=$(date +%s)
elapsed() { echo "$(($(date +%s) - started)) s"; }

# Where this machine gets its packages from, proxies included.
copy_sources() {
    mkdir -p "$root/etc/apt" "$root/usr/share/keyrings"
    cp -R /etc/apt/sources.list.d /etc/apt/apt.conf.d "$root/etc/apt/" 2> /dev/null || true
    [ ! -e /etc/apt/sources.list ] || cp /etc/apt/sources.list "$root/etc/apt/"
    cp -R /usr/share/keyrings/. "$root/usr/share/keyrings/" 2> /dev/null || true
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/" 2> /dev/null || true
}

make_root() {
    local mirror
    mirror=$(apt-cache policy base-files 2> /dev/null |
        sed -n 's/^ *[0-9]* \([a-z+]*:[^ ]*\) '"$suite"'\/main .*/\1/p' | head -n 1)
    [ -n "$mirror" ] || skip "no package source of this machine has Debian $suite"
    if command -v mmdebstrap > /dev/null; then
        mmdebstrap --quiet --mode=root --variant=apt --include=make,ca-certificates,mount "$suite" "$root" "$mirror"
    else
        debootstrap --variant=minbase --include=make,ca-certificates,mount "$suite" "$root" "$mirror"
    fi > "$root.log" 2>&1 || { tail -n 20 "$root.log"; rm -f "$root.log"; echo "clean-root: no root file system"; exit 1; }
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

main() {
    [ -e "$root/usr/bin/make" ] || make_root
    copy_sources
    mkdir -p "$root/root/muster"
    git ls-files -co --exclude-standard -z | tar --null --files-from=- -cf - | tar -C "$root/root/muster" -xf -
    packages=$(inside 'dpkg-query -W -f "\${Package}\n" | wc -l')
    echo "clean-root: $packages packages, $(du -sm --one-file-system "$root" | cut -f1) MB ($(elapsed))"
    passed=0
    failed=0
    for command; do
        began=$(date +%s)
        if inside "$command"; then
            passed=$((passed + 1))
            result=ok
        else
            failed=$((failed + 1))
            result=FAILED
        fi
        echo "clean-root: $command: $result ($(($(date +%s) - began)) s)"
        [ $result = ok ] || break
    done
    echo "$passed passed, $failed failed, 0 skipped"
    [ $failed = 0 ]
}
main "$@"
