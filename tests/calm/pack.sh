#!/bin/sh
# pack.sh: build-zoo/, some 26 MB: our programs and the libraries that they need beyond glibc, for a machine that has none of
# them. There, in a copy of this tree with that folder, as root and without a network:
#     MUSTER_BUILD=build-zoo tests/calm/calm.py --jobs 12                (LOAD=8: beside others)
#     MUSTER_BUILD=build-zoo REPEAT=1 tests/faults/run.py
#     MUSTER_BUILD=build-zoo bench/step.py
# It needs a python3 that can import torch, and glibc as new as here.
set -eu
cd "$(dirname "$0")/../.."
programs='muster muster-shim muster-launch kubectl-torchrun'
# shellcheck disable=SC2016
tools/configure.sh build-rpath -Drpath='$ORIGIN/lib'
# shellcheck disable=SC2086
ninja -C build-rpath --quiet $programs
rm -rf build-zoo
mkdir -p build-zoo/lib
for program in $programs; do
    cp "build-rpath/$program" build-zoo/
done
ldd build-zoo/muster build-zoo/kubectl-torchrun | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u |
    grep -v '/lib\(c\|m\|dl\|pthread\|rt\|resolv\)\.so' | xargs cp -Lt build-zoo/lib
strip build-zoo/muster build-zoo/kubectl-torchrun
du -sh build-zoo
