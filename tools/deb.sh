#!/bin/sh
# deb.sh ARCH: a Debian package in dist/ for amd64 or arm64, made on either from what `tools/dist.sh ARCH` built: programs
# against the distribution's own libraries, manual pages, completion, and a systemd unit for `muster up`.
# Removing the package leaves settings and data, purging it leaves the data (/var/lib/muster): checkpoints are not ours.
set -eu
cd "$(dirname "$0")/.."
. tools/publisher.sh
arch=$1
case $arch in
amd64) triplet=x86_64-linux-gnu ;;
arm64) triplet=aarch64-linux-gnu ;;
*) echo "deb.sh: ARCH must be amd64 or arm64" >&2; exit 2 ;;
esac
version=$(sed -n "s/^project('muster', 'c', version : '\([^']*\)'.*/\1/p" meson.build)
# Of another commit it is another version, a newer one for a newer commit: apt replaces the one by the other.
build=$(tools/version.sh)
from=build-dist-$arch/muster-$version-linux-$arch
[ -d "$from" ] || { echo "deb.sh: there is no $from: run tools/dist.sh $arch" >&2; exit 1; }
root=build-dist-$arch/deb
file=dist/muster_${version}_$arch.deb
# Everything in the package is as old as the commit it was made from: the same tree gives the same bytes.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2> /dev/null || echo 0)
export SOURCE_DATE_EPOCH

# The packages of the libraries that the programs name; a name that is not known here is an error.
depends() {
    "$triplet-readelf" -d "$root/usr/bin/muster" "$root/usr/bin/kubectl-torchrun" |
        sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u | while read -r library; do
        case $library in
        libc.so.6 | libm.so.6) echo 'libc6 (>= 2.34)' ;;
        ld-linux-*) ;;
        libcurl-gnutls.so.4) echo libcurl3-gnutls ;;
        libgnutls.so.30) echo libgnutls30 ;;
        libsqlite3.so.0) echo libsqlite3-0 ;;
        libuv.so.1) echo libuv1 ;;
        libxxhash.so.0) echo libxxhash0 ;;
        libyaml-0.so.2) echo libyaml-0-2 ;;
        libz.so.1) echo zlib1g ;;
        libzstd.so.1) echo libzstd1 ;;
        *) echo "deb.sh: which package has $library?" >&2; echo UNKNOWN ;;
        esac
    done | sort -u | paste -sd, | sed 's/,/, /g'
}

rm -rf "$root"
mkdir -p "$root/DEBIAN" "$root/usr/bin" "$root/usr/lib" "$root/usr/share/man/man1" "$root/usr/share/zsh/vendor-completions" \
    "$root/usr/share/doc/muster" "$root/lib/systemd/system" "$root/etc/default"
cp "$from"/bin/* "$root/usr/bin/"
cp -R "$from/lib/muster" "$root/usr/lib/"
cp -R "$from/share/bash-completion" "$from/share/fish" "$root/usr/share/"
cp "$from"/share/zsh/site-functions/_* "$root/usr/share/zsh/vendor-completions/"
for page in "$from"/share/man/man1/*.1; do
    gzip -9nc "$page" > "$root/usr/share/man/man1/$(basename "$page").gz"
done
cp README.md "$root/usr/share/doc/muster/"
cp -R docs examples deploy "$root/usr/share/doc/muster/"
cp LICENSE "$root/usr/share/doc/muster/copyright"
cp -R "$from/share/doc/muster/licences" "$root/usr/share/doc/muster/" # of what the static programs bring along
cp deploy/systemd/muster.service "$root/lib/systemd/system/"
cp deploy/systemd/default "$root/etc/default/muster"
find "$root" -name __pycache__ -prune -exec rm -rf {} +
chmod -R u=rwX,go=rX "$root"

needs=$(depends)
case $needs in *UNKNOWN*) exit 1 ;; esac
cat > "$root/DEBIAN/control" <<END
Package: muster
Version: $version${build:++$build}
Architecture: $arch
Maintainer: $MAINTAINER
Section: science
Priority: optional
Depends: $needs, passwd
Recommends: python3-torch, kubernetes-client | kubectl
Suggests: crun
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Description: distributed PyTorch training, on Kubernetes or on this machine
 Job controllers, a gang scheduler, a node agent and an API server in one
 program, and the kubectl plugin "kubectl torchrun". Takes the manifests people
 have: TorchrunJob, PyTorchJob, TrainJob, and the queues of KAI Scheduler.
END
echo /etc/default/muster > "$root/DEBIAN/conffiles"
cat > "$root/DEBIAN/postinst" <<'END'
#!/bin/sh
set -e
if [ "$1" = configure ]; then
    getent passwd muster > /dev/null ||
        useradd --system --user-group --home-dir /var/lib/muster --no-create-home --shell /usr/sbin/nologin muster
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload
        [ -z "$2" ] || systemctl try-restart muster.service || true # an upgrade: pods go on meanwhile
    fi
    [ -n "$2" ] || echo "muster: start it with: systemctl enable --now muster"
fi
END
cat > "$root/DEBIAN/prerm" <<'END'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now muster.service || true
fi
END
cat > "$root/DEBIAN/postrm" <<'END'
#!/bin/sh
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload
if [ "$1" = purge ]; then
    if [ -d /var/lib/muster ]; then
        # Its files keep an owner: the next account would else have that number, and them.
        echo "muster: /var/lib/muster and user muster were left: there are volumes and checkpoints"
    elif getent passwd muster > /dev/null; then
        userdel muster || true
    fi
fi
END
chmod 755 "$root/DEBIAN/postinst" "$root/DEBIAN/prerm" "$root/DEBIAN/postrm"
(cd "$root" && find usr lib etc -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum > DEBIAN/md5sums)
mkdir -p dist
dpkg-deb --root-owner-group --build "$root" "$file" > /dev/null
echo "$file: $(du -h "$file" | cut -f1), needs $needs"
