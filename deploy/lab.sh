#!/usr/bin/env bash
# lab.sh: Muster on a Kubernetes of several machines, from its kubeconfig to the first gang over two nodes (docs/lab.md).
#
#   deploy/lab.sh --kubeconfig FILE --image REGISTRY/muster:VERSION --users ann,bob
#
# Every step may be repeated: what is there already is left, or brought up to date. Needs kubectl, and kubectl-torchrun for the
# first gang; helm is used where it is there. `--help` prints the options; docs/lab.md says how to go back.
set -euo pipefail
trap 'echo "lab.sh: the command in line $LINENO failed; see above, and repeat this" >&2' ERR
here=$(cd "$(dirname "$0")" && pwd)

kubeconfig='' context='' image='' users='' train_image='' storage_class='' server='' out=lab-users
cpus='' memory='' gpus='' workspace=10Gi token=720h install=1 gang=1 wait=1 plain=0 nodes_min=2
part_percent=75 # of the smallest node: the rest is the system's. Above a half, so that two pods of a gang never share a node

usage() {
    cat << USAGE
usage: deploy/lab.sh --image IMAGE --users NAME,... [option...]

  --kubeconfig FILE      of the cluster, with the rights of an administrator (default: kubectl's own, also \$KUBECONFIG)
  --context NAME         of that kubeconfig
  --image IMAGE          of the operator, as the nodes pull it: REGISTRY/muster:VERSION
  --users NAME,...       a namespace, an account and a queue each; their kubeconfigs are written to --out
  --out DIR              folder of these kubeconfigs (default lab-users)
  --server URL           of the API server as these people reach it (default: that of the kubeconfig)
  --token-lifetime TIME  of their tokens (default 720h)
  --train-image IMAGE    of the trainings, with PyTorch (default: Muster's)
  --storage-class NAME   of workspaces (default: the cluster's)
  --workspace SIZE       of a job's workspace (default 10Gi)
  --gpus N, --cpus N, --memory QUANTITY
                         what the pod of a whole node gets (default: all GPUs of the smallest node, three quarters of the rest)
  --plain                plain manifests, although helm is there
  --no-install           Muster is installed already
  --no-wait              do not wait for the operator
  --no-gang              do not run the first gang
  --one-node             go on with a single node, and then without the first gang
USAGE
}

say() { echo "lab.sh: $*"; }
die() {
    echo "lab.sh: $*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
    --kubeconfig | --context | --image | --users | --out | --server | --token-lifetime | --train-image | --storage-class | \
        --workspace | --gpus | --cpus | --memory)
        [ $# -ge 2 ] || die "$1 needs a value"
        case $1 in
        --kubeconfig) kubeconfig=$2 ;; --context) context=$2 ;; --image) image=$2 ;; --users) users=$2 ;; --out) out=$2 ;;
        --server) server=$2 ;; --token-lifetime) token=$2 ;; --train-image) train_image=$2 ;;
        --storage-class) storage_class=$2 ;; --workspace) workspace=$2 ;; --gpus) gpus=$2 ;; --cpus) cpus=$2 ;;
        --memory) memory=$2 ;;
        esac
        shift
        ;;
    --plain) plain=1 ;;
    --no-install) install=0 ;;
    --no-wait) wait=0 ;;
    --no-gang) gang=0 ;;
    --one-node) nodes_min=1 gang=0 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; die "$1 is no option" ;;
    esac
    shift
done
[ -n "$users" ] || { usage >&2; die "--users: name at least one person"; }
[ "$install" = 0 ] || [ -n "$image" ] || die "--image: name the operator's image as the nodes pull it (make image builds it)"
for user in ${users//,/ }; do
    [[ $user =~ ^[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?$ ]] ||
        die "--users: \"$user\" cannot be the name of a namespace: use small letters, digits and hyphens"
done
command -v kubectl > /dev/null || die "kubectl is not installed"

k() { kubectl ${kubeconfig:+--kubeconfig "$kubeconfig"} ${context:+--context "$context"} "$@"; }

# ---- the cluster ----
k get --raw /version > /dev/null || die "the API server does not answer: see --kubeconfig and --context"
# name, CPUs, memory, GPUs, true when cordoned, words of conditions
columns='{range .items[*]}{.metadata.name}{"\t"}{.status.allocatable.cpu}{"\t"}{.status.allocatable.memory}{"\t"}'
columns+='{.status.allocatable.nvidia\.com/gpu}{"\t"}{.spec.unschedulable}{"\t"}'
columns+='{range .status.conditions[?(@.type=="Ready")]}{.status}{end}{"\n"}{end}'
# The smallest of those that can be used, in millicores and MiB: count, CPUs, memory, GPUs, all GPUs. Only nodes with GPUs count
# where there are any.
read -r count node_cpu node_memory node_gpus all_gpus < <(k get nodes -o "jsonpath=$columns" | awk -F '\t' '
    function milli(q) { return q ~ /m$/ ? q + 0 : q * 1000 }
    function mib(q) {
        if (q ~ /Ki$/) return q / 1024
        if (q ~ /Mi$/) return q + 0
        if (q ~ /Gi$/) return q * 1024
        if (q ~ /Ti$/) return q * 1048576
        return q / 1048576
    }
    $6 == "True" && $5 != "true" {
        rows++; cpu[rows] = milli($2); memory[rows] = mib($3); gpu[rows] = $4 + 0; all += gpu[rows]; any = any || gpu[rows] > 0
    }
    END {
        for (i = 1; i <= rows; i++) {
            if (any && !gpu[i]) continue
            if (!n || cpu[i] < c) c = cpu[i]
            if (!n || memory[i] < m) m = memory[i]
            if (!n || gpu[i] < g) g = gpu[i]
            n++
        }
        printf "%d %d %d %d %d\n", n, c, m, g, all
    }')
if [ "$count" -lt "$nodes_min" ]; then
    die "$count of the cluster's nodes can be used (Ready, not cordoned$([ "$all_gpus" = 0 ] || echo ', with GPUs')), and" \
        "$nodes_min are needed: add nodes, or say --one-node"
fi
gpus=${gpus:-$node_gpus}
cpus=${cpus:-$((node_cpu * part_percent / 100))m}
memory=${memory:-$((node_memory * part_percent / 100))Mi}
say "$count nodes, $all_gpus GPUs; the pod of a whole node gets $gpus GPUs, $cpus CPUs, $memory memory"

# ---- storage ----
if [ -n "$storage_class" ]; then
    k get storageclass "$storage_class" -o name > /dev/null ||
        die "--storage-class: there is no StorageClass \"$storage_class\""
else
    default='{range .items[?(@.metadata.annotations.storageclass\.kubernetes\.io/is-default-class=="true")]}'
    default+='{.metadata.name}{"\n"}{end}'
    storage_class=$(k get storageclass -o "jsonpath=$default" | sed -n 1p)
    [ -n "$storage_class" ] ||
        die "the cluster has no default StorageClass, and workspaces need one: install a provisioner (k3s brings local-path)" \
            "and name it with --storage-class"
fi
say "workspaces: $workspace each, StorageClass $storage_class"

# ---- Muster ----
apply_plain() {
    k apply -f "$here/crds" > /dev/null
    k wait --for=condition=Established -f "$here/crds" --timeout=60s > /dev/null
    k apply -f "$here/rbac/role.yaml" -f "$here/rbac/webhook.yaml" -f "$here/rbac/users.yaml" > /dev/null
    sed "s|muster:0\.1\.0|$image|g" "$here/deployment.yaml" | k apply -f - > /dev/null
    k apply -f "$here/webhooks.yaml" > /dev/null
}

apply_chart() {
    local registry=${image%/*} name=${image##*/} flags=()
    [ "$registry" != "$image" ] || registry=''
    flags=(--set "global.registry=$registry,image.name=${name%%:*}")
    [ "${name%%:*}" = "$name" ] || flags+=(--set-string "global.tag=${name#*:}")
    helm ${kubeconfig:+--kubeconfig "$kubeconfig"} ${context:+--kube-context "$context"} upgrade --install muster \
        "$here/chart/muster" --namespace muster-system --create-namespace "${flags[@]}" > /dev/null
}

if [ "$install" = 1 ]; then
    if [ "$plain" = 0 ] && command -v helm > /dev/null; then
        apply_chart
        say "installed by helm: release muster in namespace muster-system"
    else
        apply_plain
        say "installed by plain manifests, in namespace muster-system"
    fi
    if [ "$wait" = 1 ]; then
        k -n muster-system rollout status deployment/muster-operator --timeout=180s > /dev/null ||
            die "the operator did not become ready: kubectl -n muster-system describe pods; can the nodes pull $image?"
        say "the operator is ready"
    fi
fi

# ---- people ----
# What everybody needs to see, and what `edit` of Kubernetes does not have of our kinds; bound beside it, so that the cluster's
# own roles stay as they are. Status and finalizers are the operator's. Queues are the administrator's: who could write them
# could take a share of somebody else.
k apply -f - > /dev/null << 'ROLES'
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: muster-lab-edit, labels: {muster.dev/lab: "true"}}
rules:
  - apiGroups: [torchrun.ai]
    resources: [torchrunjobs]
    verbs: [get, list, watch, create, update, patch, delete, deletecollection]
  - apiGroups: [kubeflow.org]
    resources: [pytorchjobs, mpijobs, tfjobs, xgboostjobs, paddlejobs, jaxjobs]
    verbs: [get, list, watch, create, update, patch, delete, deletecollection]
  - apiGroups: [trainer.kubeflow.org]
    resources: [trainjobs, trainingruntimes]
    verbs: [get, list, watch, create, update, patch, delete, deletecollection]
  - apiGroups: [jobset.x-k8s.io]
    resources: [jobsets]
    verbs: [get, list, watch, create, update, patch, delete, deletecollection]
  - apiGroups: [batch.tensorstack.dev]
    resources: [pytorchtrainingjobs]
    verbs: [get, list, watch, create, update, patch, delete, deletecollection]
  - apiGroups: [tensorstack.dev]
    resources: [tensorboards]
    verbs: [get, list, watch, create, update, patch, delete, deletecollection]
  - {apiGroups: [torchrun.ai], resources: [torchrunqueues], verbs: [get, list, watch]}
  - {apiGroups: [scheduling.run.ai], resources: [podgroups], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: muster-lab-everybody, labels: {muster.dev/lab: "true"}}
rules:
  - {apiGroups: [""], resources: [nodes], verbs: [get, list, watch]}
  - {apiGroups: [scheduling.run.ai], resources: [queues], verbs: [get, list, watch]}
  - {apiGroups: [scheduling.k8s.io], resources: [priorityclasses], verbs: [get, list, watch]}
  - {apiGroups: [storage.k8s.io], resources: [storageclasses], verbs: [get, list, watch]}
ROLES

view() { k config view --raw --minify --flatten -o "jsonpath={.clusters[0].cluster.$1}"; }
address=${server:-$(view server)}
authority=$(view certificate-authority-data)
# Those of earlier runs have their share too.
people=$({
    printf '%s\n' ${users//,/ }
    k get namespaces -l muster.dev/lab=true -o jsonpath='{range .items[?(@.status.phase=="Active")]}{.metadata.name}{"\n"}{end}'
} | sort -u | grep -c .)
quota=$((all_gpus / people))
mkdir -p "$out"
out=$(cd "$out" && pwd) # the first gang starts in another folder

# An account with rights in a namespace of its own, a queue there, and the share of an equal among equals.
add_person() {
    local user=$1 file=$out/$1.kubeconfig
    k apply -f - > /dev/null << PERSON
apiVersion: v1
kind: Namespace
metadata: {name: $user, labels: {muster.dev/lab: "true", pod-security.kubernetes.io/enforce: baseline}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: person, namespace: $user}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: person-edit, namespace: $user}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: ServiceAccount, name: person, namespace: $user}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: person-muster, namespace: $user}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: muster-lab-edit}
subjects: [{kind: ServiceAccount, name: person, namespace: $user}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: muster-lab-$user, labels: {muster.dev/lab: "true"}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: muster-lab-everybody}
subjects: [{kind: ServiceAccount, name: person, namespace: $user}]
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: default, namespace: $user}
spec:
  ${train_image:+image: "$train_image"}
  queue:
    name: lab-$user
    resources: {gpu: {quota: $quota, limit: -1, overQuotaWeight: 1}}
  namespaces: [$user] # whoever may make pods could name it by a label
  nodeResources: {gpus: $gpus, cpus: $cpus, memory: $memory}
  storage:
    workspace: {enabled: true, size: $workspace, storageClass: $storage_class}
PERSON
    local secret
    secret=$(k create token person -n "$user" --duration "$token")
    (
        umask 077
        cat > "$file" << CONFIG
apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: "$address"${authority:+, certificate-authority-data: $authority}}}]
users: [{name: $user, user: {token: $secret}}]
contexts: [{name: lab, context: {cluster: lab, user: $user, namespace: $user}}]
current-context: lab
CONFIG
    )
    say "$user: namespace $user, queue default (scheduler's queue lab-$user, quota $quota GPUs), $file"
}

for user in ${users//,/ }; do add_person "$user"; done

# ---- the first gang, as the first person ----
[ "$gang" = 1 ] || exit 0
plugin=$(command -v kubectl-torchrun || true)
[ -n "$plugin" ] || [ ! -x "$here/../build/kubectl-torchrun" ] || plugin=$here/../build/kubectl-torchrun
[ -n "$plugin" ] || die "the first gang needs kubectl-torchrun: install the wheel, and repeat this with --no-install"
first=${users%%,*}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/first.py" << 'TRAINING'
import os, socket, torch, torch.distributed as dist
dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")
total = torch.ones(1, device=device) * (dist.get_rank() + 1)
dist.all_reduce(total)
who = f"rank {dist.get_rank()} of {dist.get_world_size()} on {socket.gethostname()}"
print(f"{who}: the sum of all ranks is {int(total.item())}", flush=True)
dist.destroy_process_group()
TRAINING
job=first-gang
person() { kubectl --kubeconfig "$out/$first.kubeconfig" "$@"; }
person delete torchrunjob "$job" --ignore-not-found > /dev/null
say "the first gang: two pods of a whole node each, as $first"
if ! (cd "$folder" && "$plugin" submit --kubeconfig "$out/$first.kubeconfig" --queue default --nodes 2 --name "$job" --follow \
    "python3 first.py"); then
    "$plugin" explain --kubeconfig "$out/$first.kubeconfig" "$job" || true
    die "the first gang did not succeed: kubectl --kubeconfig $out/$first.kubeconfig describe torchrunjob $job"
fi
where=$(person get pods -l "torchrun.ai/job-name=$job" -o jsonpath='{range .items[*]}{.spec.nodeName}{"\n"}{end}' | sort -u)
say "the first gang ran on $(echo "$where" | grep -c .) nodes: $(echo $where)"
say "next: kubectl torchrun submit --kubeconfig $out/$first.kubeconfig --gpus N \"python train.py\""
