#!/bin/sh
# dist.sh [--programs] ARCH: a tarball in dist/ for amd64 or arm64, made on either; --programs: only the programs, in
# build-dist-ARCH/build. It holds our programs, the shared libraries they need beyond glibc (found by $ORIGIN), manual
# pages and completion. The libraries of the other architecture come as packages of this machine's distribution,
# unpacked into a folder of our own: nothing is installed but the cross compiler. Needs the packages of
# `tools/deps.sh dist ARCH`, and build/ for the manual pages.
set -eu
cd "$(dirname "$0")/.."
programs_only=
[ "$1" != --programs ] || { programs_only=1; shift; }
arch=$1
case $arch in
amd64) triplet=x86_64-linux-gnu family=x86_64 ;;
arm64) triplet=aarch64-linux-gnu family=aarch64 ;;
*) echo "dist.sh: ARCH must be amd64 or arm64" >&2; exit 2 ;;
esac
work=$PWD/build-dist-$arch
sysroot=$work/sysroot
version=$(sed -n "s/^project('muster', 'c', version : '\([^']*\)'.*/\1/p" meson.build)
name=muster-$version-linux-$arch
programs='muster kubectl-torchrun muster-shim muster-launch'
preloaded=libmuster-gpu.so # preloaded into containers with a share of a GPU; muster finds it in ../lib/muster
glibc_max=2.34 # what we say it needs; Ubuntu 22.04 has 2.35

# The libraries, for that architecture, as apt would install them on an empty machine.
unpack_libraries() {
    rm -rf "$work"
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$sysroot"
    : > "$work/status"
    for step in update "install --download-only --no-install-recommends $(tools/deps.sh --libraries)"; do
        # shellcheck disable=SC2086
        timeout 600 apt-get -qq -y -o APT::Architecture="$arch" -o APT::Architectures="$arch" \
            -o Dir::State::Lists="$work/lists" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" \
            -o Debug::NoLocking=1 -o APT::Sandbox::User= $step > "$work/apt.log" 2>&1 || { cat "$work/apt.log" >&2; exit 1; }
    done
    for package in "$work"/cache/archives/*.deb; do
        dpkg-deb -x "$package" "$sysroot"
        # For the image's bill of materials: package, version and files.
        dpkg-deb --showformat='${Package} ${Version}\n' -W "$package"
        dpkg-deb --fsys-tarfile "$package" | tar -t | sed -n 's|^\./|/|p'
    done > "$work/packages"
    rm -rf "$work/cache" "$work/lists"
}

configure() {
    cat > "$work/cross.ini" <<END
[binaries]
c = '$triplet-gcc'
ar = '$triplet-ar'
strip = '$triplet-strip'
pkgconfig = 'pkg-config'
[properties]
sys_root = '$sysroot'
pkg_config_libdir = '$sysroot/usr/lib/$triplet/pkgconfig:$sysroot/usr/share/pkgconfig'
[built-in options]
c_args = ['--sysroot=$sysroot', '-ffile-prefix-map=$PWD=.']
c_link_args = ['--sysroot=$sysroot', '-Wl,-rpath-link,$sysroot/lib/$triplet:$sysroot/usr/lib/$triplet']
[host_machine]
system = 'linux'
cpu_family = '$family'
cpu = '$family'
endian = 'little'
END
    meson setup "$work/build" -Drpath='$ORIGIN/../lib' --cross-file "$work/cross.ini" > "$work/meson.log" 2>&1 ||
        { tail -n 20 "$work/meson.log" >&2; exit 1; }
}

# What the given files need and glibc does not have, each once.
needed() {
    "$triplet-readelf" -d "$@" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u |
        grep -Ev '^(libc|libm|libdl|librt|libpthread|libresolv|libutil|libanl)\.so|^ld-linux'
}

# Copy the libraries that the files need, then those that these need.
bundle() {
    for library in $(needed "$@"); do
        [ ! -e "$root/lib/$library" ] || continue
        file=
        for folder in "$sysroot/usr/lib/$triplet" "$sysroot/lib/$triplet"; do
            [ ! -e "$folder/$library" ] || file=$folder/$library
        done
        [ -n "$file" ] || { echo "dist.sh: $library is nowhere in the packages" >&2; exit 1; }
        cp -L "$file" "$root/lib/$library"
        chmod 644 "$root/lib/$library"
        bundle "$root/lib/$library"
    done
}

check_glibc() {
    newest=$("$triplet-readelf" -V "$root"/bin/* "$root"/lib/*.so* | grep -o 'GLIBC_2\.[0-9]*' |
        sed 's/GLIBC_//' | sort -Vu | tail -n 1)
    [ "$(printf '%s\n' "$newest" $glibc_max | sort -V | tail -n 1)" = $glibc_max ] ||
        { echo "dist.sh: needs glibc $newest, newer than $glibc_max: make it on Debian 12" >&2; exit 1; }
}

# glibc refuses a search path in a program that brings no loader, with an assertion before main().
check_static() {
    for program in muster-shim muster-launch; do
        "$triplet-readelf" -lW "$root/bin/$program" | grep -q INTERP && continue
        if "$triplet-readelf" -d "$root/bin/$program" | grep -qE '\((RPATH|RUNPATH)\)'; then
            echo "dist.sh: $program is static and has an rpath: it cannot start" >&2
            exit 1
        fi
    done
    for program in muster kubectl-torchrun; do
        "$triplet-readelf" -d "$root/bin/$program" | grep -q 'RPATH.*\$ORIGIN/\.\./lib' ||
            { echo "dist.sh: $program does not look for its libraries in ../lib" >&2; exit 1; }
    done
    [ "$(dpkg --print-architecture 2> /dev/null)" != "$arch" ] || "$root/bin/muster-launch" 2> /dev/null || [ $? -lt 128 ] ||
        { echo "dist.sh: muster-launch ends by a signal" >&2; exit 1; }
}

[ -e "$work/unpacked" ] || { unpack_libraries && touch "$work/unpacked"; }
[ -e "$work/build/build.ninja" ] || configure
# shellcheck disable=SC2086
ninja -C "$work/build" --quiet $programs $preloaded
[ -z "$programs_only" ] || exit 0
root=$work/$name
rm -rf "$root"
mkdir -p "$root/bin" "$root/lib" "$root/share/doc/muster/licences" "$root/share/man/man1"
for program in $programs; do
    "$triplet-strip" -o "$root/bin/$program" "$work/build/$program"
done
bundle "$root/bin/muster" "$root/bin/kubectl-torchrun"
"$triplet-strip" --strip-unneeded "$root"/lib/*
mkdir "$root/lib/muster"
"$triplet-strip" --strip-unneeded -o "$root/lib/muster/$preloaded" "$work/build/$preloaded"
check_glibc
check_static
cp -R LICENSE README.md docs examples deploy "$root/share/doc/muster/"
for folder in "$sysroot"/usr/share/doc/*/; do
    [ ! -e "$folder/copyright" ] || [ -L "${folder%/}" ] ||
        cp "$folder/copyright" "$root/share/doc/muster/licences/$(basename "$folder")"
done
for program in muster kubectl-torchrun; do
    mkdir -p "$root/share/bash-completion/completions" "$root/share/zsh/site-functions" \
        "$root/share/fish/vendor_completions.d"
    "build/$program" man > "$root/share/man/man1/$program.1"
    "build/$program" completion bash > "$root/share/bash-completion/completions/$program"
    "build/$program" completion zsh > "$root/share/zsh/site-functions/_$program"
    "build/$program" completion fish > "$root/share/fish/vendor_completions.d/$program.fish"
done
mkdir -p dist
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct 2> /dev/null || echo 0)" \
    -cf - "$name" | gzip -9n > "dist/$name.tar.gz"
echo "dist/$name.tar.gz: $(du -h "dist/$name.tar.gz" | cut -f1), $(find "$root/lib" -type f | wc -l) libraries"
