#!/bin/sh
# inside.sh ARCHIVE FOLDER COMMAND...: unpacks what pack.py made to FOLDER, unless it is there, and runs COMMAND in its tree.
# As root. The machine needs tar and xz (or a Python with lzma), mount, chroot; no compiler, no library of ours, no network.
set -eu
archive=$1
folder=$2
shift 2
if [ ! -d "$folder/proc" ]; then
    mkdir -p "$folder.new"
    if command -v xz > /dev/null; then
        xz -dc "$archive" | tar -C "$folder.new" -xf -
    else
        python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2], filter="fully_trusted")' \
            "$archive" "$folder.new"
    fi
    mv "$folder.new" "$folder"
fi
export INSIDE_FOLDER="$folder"
exec unshare --mount sh -euc '
    mount --make-rprivate /
    mount --bind "$INSIDE_FOLDER" "$INSIDE_FOLDER"
    mount -t proc proc "$INSIDE_FOLDER/proc"
    mount --rbind /dev "$INSIDE_FOLDER/dev"
    exec chroot "$INSIDE_FOLDER" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
        sh -c "cd \"\$(cat /tree)\" && exec \"\$@\"" sh "$@"' sh "$@"
