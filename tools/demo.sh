#!/usr/bin/env bash
# demo.sh: one real training job through the whole path, on this machine, in a folder of its own.
# Starts `muster up` with two virtual nodes of four pretend GPUs, makes a queue, submits a real PyTorch
# script as two pods of two ranks, follows it, and cleans up. KEEP=1 leaves the server running.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$PWD/build
folder=$(mktemp -d "${TMPDIR:-/tmp}/muster-demo.XXXXXX")
export KUBECONFIG=$folder/kubeconfig PATH=$build:$PATH
server=

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] && [ -z "${NO_COLOR:-}" ] || say() { printf '\n%s\n' "$*"; }
finish() {
    status=$?
    if [ -n "$server" ] && [ "${KEEP:-}" = 1 ] && [ $status = 0 ]; then
        say "Left running (pid $server). Try: export KUBECONFIG=$KUBECONFIG; kubectl get pods; kill $server"
        return
    fi
    [ -z "$server" ] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }
    [ $status = 0 ] || tail -n 20 "$folder/muster.log" >&2
    rm -rf "$folder"
}
trap finish EXIT
started=$(date +%s)

say "1. muster up: two virtual nodes with four pretend GPUs each"
muster up --data-dir "$folder/data" --listen 127.0.0.1:0 --kubeconfig-out "$KUBECONFIG" \
    --nodes 2 --gpus-per-node 4 > "$folder/muster.log" 2>&1 &
server=$!
for _ in $(seq 300); do
    kill -0 $server 2>/dev/null || { cat "$folder/muster.log" >&2; exit 1; }
    [ -e "$KUBECONFIG" ] && kubectl get --raw /readyz >/dev/null 2>&1 && break
    sleep 0.1
done
kubectl get nodes

say "2. a queue whose jobs get pods of up to two GPUs"
kubectl apply -f examples/queue.yaml

say "3. submit: this folder's code, four GPUs, real torchrun and PyTorch"
(cd examples/train && kubectl-torchrun submit --queue demo --gpus 4 --name hello "python train.py --steps 60")

say "4. what is left of it"
kubectl get torchrunjobs
kubectl get pods -l torchrun-job-name=hello
kubectl-torchrun delete hello
say "Done in $(($(date +%s) - started)) s."
