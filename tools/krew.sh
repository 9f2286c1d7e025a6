#!/bin/sh
# krew.sh: dist/torchrun.yaml, the krew manifest of `kubectl torchrun`, for the tarballs that are in dist/, with their
# sums. RELEASE_URL (tools/publisher.sh) is where they will be found. Try one without publishing it:
#     kubectl krew install --manifest=dist/torchrun.yaml --archive=dist/muster-VERSION-linux-amd64.tar.gz
set -eu
cd "$(dirname "$0")/.."
. tools/publisher.sh
url=$RELEASE_URL
version=$(sed -n "s/^project('muster', 'c', version : '\([^']*\)'.*/\1/p" meson.build)
out=dist/torchrun.yaml
cat > "$out.new" <<END
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: torchrun
spec:
  version: v$version
  shortDescription: Submit, follow and edit distributed PyTorch jobs
  description: |
    Sends the folder you are in to the cluster, gathers the GPUs a job needs at
    once, runs torchrun on them, follows the log, and hot-reloads files you edit.
  caveats: |
    Needs Muster in the cluster, or "muster up" on this machine.
  platforms:
END
found=
for arch in amd64 arm64; do
    name=muster-$version-linux-$arch
    [ -e "dist/$name.tar.gz" ] || continue
    found=1
    cat >> "$out.new" <<END
    - selector:
        matchLabels:
          os: linux
          arch: $arch
      uri: $url/v$version/$name.tar.gz
      sha256: $(sha256sum "dist/$name.tar.gz" | cut -d' ' -f1)
      bin: bin/kubectl-torchrun
      files:
        - from: $name/bin/kubectl-torchrun
          to: bin
        - from: $name/lib/*.so*
          to: lib
        - from: $name/share/doc/muster/LICENSE
          to: .
END
done
[ -n "$found" ] || { rm -f "$out.new"; echo "krew.sh: no tarball of version $version in dist/: run make dist" >&2; exit 1; }
mv "$out.new" "$out"
echo "$out: $(grep -c sha256 "$out") platforms"
