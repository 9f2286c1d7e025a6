#!/bin/sh
# box.sh FOLDER COMMAND...: COMMAND where a planted fault can hurt nobody: processes, mounts and network of its own, every file
# read only, and an empty /tmp that is gone afterwards. FOLDER (which may lie in /tmp) and what is below it can be read.
set -eu
folder=$1
shift
if [ "${MUSTER_BOX:-}" != inside ]; then
    as=
    [ "$(id -u)" = 0 ] || as=-r
    MUSTER_BOX=inside exec unshare $as --mount --pid --net --fork --mount-proc --kill-child "$0" "$folder" "$@"
fi
unset MUSTER_BOX
ip link set lo up 2> /dev/null || true
mount --make-rprivate /
mount --rbind "$folder" /mnt
for where in $(findmnt -rno TARGET | grep -vE '^/(proc|dev)(/|$)'); do
    mount -o remount,bind,ro "$where" 2> /dev/null || true
done
mount -t tmpfs -o size=1g,mode=1777 tmpfs /tmp
mount -t tmpfs -o size=64m tmpfs /run
case $folder in
/tmp/*)
    mkdir -p "$folder"
    mount --rbind /mnt "$folder"
    ;;
esac
cd "$folder/build"
exec "$@"
