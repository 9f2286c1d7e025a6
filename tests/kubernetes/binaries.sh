#!/usr/bin/env bash
# binaries.sh [PROGRAM...]: print a folder that holds the programs of a real Kubernetes.
# That is $KUBEBUILDER_ASSETS when it is set, else a cache folder (MUSTER_KUBE_CACHE, or muster/kubernetes-VERSION
# in $XDG_CACHE_HOME or ~/.cache) into which what is missing is built from pinned Go modules. Words go to
# stderr; exit 3 means "cannot be had here", for callers that skip. MUSTER_KUBE_VERSION=v1.37.1 takes another Kubernetes than
# the usual one, with the etcd that goes with it.
#
# k8s.io/kubernetes names its staging modules as v0.0.0 with `replace` lines, which count only in the main module.
# So the main module is a generated one that replaces each by its published twin (v1.X.Y <-> v0.X.Y).
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
kubernetes=${MUSTER_KUBE_VERSION:-v1.33.13}
case $kubernetes in # sample: of k8s.io/sample-*: only types of it are used, and not every version of it can be had
v1.28.*) sample=v0.${kubernetes#v1.} etcd=v3.5.21 ;; # the oldest of which every module can be had
v1.33.*) sample=v0.33.4 etcd=v3.5.21 ;;
v1.37.*) sample=v0.37.1 etcd=v3.7.0 ;;
*)
    echo "binaries.sh: which etcd goes with Kubernetes $kubernetes is not known here; add a line" >&2
    exit 3
    ;;
esac
minor=${kubernetes#v1.}
minor=${minor%%.*}
helm=v3.18.4
prometheus=v0.304.2 # of the module: Prometheus 3.4.2
jobset=v0.12.0
trainer=v2.3.0
control_plane=(etcd kube-apiserver kube-controller-manager kube-scheduler kubectl)
wanted=("$@")
[ ${#wanted[@]} -gt 0 ] || wanted=("${control_plane[@]}")

say() { echo "binaries.sh: $*" >&2; }

if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
    for program in "${wanted[@]}"; do
        [ -x "$KUBEBUILDER_ASSETS/$program" ] && continue
        command -v "$program" >/dev/null && continue
        say "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS has no $program"
        exit 3
    done
    echo "$KUBEBUILDER_ASSETS"
    exit 0
fi

cache=${MUSTER_KUBE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/muster/kubernetes-$kubernetes}
bin=$cache/bin
missing=()
for program in "${wanted[@]}"; do
    [ -x "$bin/$program" ] || missing+=("$program")
done
if [ ${#missing[@]} -eq 0 ]; then
    echo "$bin"
    exit 0
fi
if [ "${MUSTER_KUBE_BUILD:-1}" = 0 ]; then
    say "missing ${missing[*]} in $bin, and MUSTER_KUBE_BUILD=0 forbids to build them"
    exit 3
fi
PATH=$PATH:/usr/local/go/bin
if ! command -v go >/dev/null; then
    say "missing ${missing[*]}: set KUBEBUILDER_ASSETS, or install Go 1.24 or newer to build them"
    exit 3
fi

mkdir -p "$bin"
exec 9>"$cache/lock"
flock 9 # two callers must not build the same thing twice
export GOFLAGS=-mod=mod GOWORK=off CGO_ENABLED=0 GOTOOLCHAIN=${GOTOOLCHAIN:-local}
jobs=${MUSTER_KUBE_JOBS:-$(nproc)}

kubernetes_module() {
    local folder=$cache/kubernetes source name
    mkdir -p "$folder"
    source=$(cd "$folder" && go mod download -json "k8s.io/kubernetes@$kubernetes" |
        sed -n 's/^\t"GoMod": "\(.*\)",\?$/\1/p')
    [ -n "$source" ] || { say "cannot download k8s.io/kubernetes $kubernetes"; exit 3; }
    {
        echo "module binaries"
        sed -n '/^go /p; /^godebug/p' "$source"
        sed -n '/^require (/,/^)/p' "$source" | sed '/ v0\.0\.0$/d; / v0\.0\.0 /d'
        echo "require k8s.io/kubernetes $kubernetes"
        sed -n 's|^\t\(k8s.io/[^ ]*\) => ./staging/.*|\1|p' "$source" | while read -r name; do
            echo "require $name v0.0.0"
            case $name in
            k8s.io/sample-*) echo "replace $name => $name $sample" ;;
            *) echo "replace $name => $name v0.${kubernetes#v1.}" ;;
            esac
        done
    } > "$folder/go.mod"
    (cd "$folder" && "$@")
}

one_module() { # name module version command...: in a main module that requires this one
    local folder=$cache/$1
    mkdir -p "$folder"
    printf 'module binaries\n\ngo 1.24\n\nrequire %s %s\n' "$2" "$3" > "$folder/go.mod"
    (cd "$folder" && "${@:4}")
}

build() { # program package [ldflags]
    say "building $1 (a few minutes)"
    go build -p "$jobs" -trimpath -ldflags "-s -w ${3:-}" -o "$bin/.$1" "$2" >&2
    mv "$bin/.$1" "$bin/$1"
}

build_test() { # program package [ldflags]: a package's tests as a program
    say "building $1 (a quarter of an hour)"
    go test -c -vet=off -p "$jobs" -trimpath -ldflags "-s -w ${3:-}" -o "$bin/.$1" "$2" >&2
    mv "$bin/.$1" "$bin/$1"
}

specs() { # program ldflags: Kubernetes' own specs of scheduling, without its other tests
    mkdir -p specs
    cp "$here/specs/scheduling_test.go" specs/
    build_test "$1" ./specs "$2"
}

ours() { # program: one of this folder, with Go's own packages alone
    local folder=$cache/$1
    mkdir -p "$folder"
    cp "$here/$1/main.go" "$folder/"
    printf 'module binaries\n\ngo 1.24\n' > "$folder/go.mod"
    (cd "$folder" && build "$1" .)
}

version="-X k8s.io/component-base/version.gitVersion=$kubernetes"
version+=" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$minor"
version+=" -X k8s.io/client-go/pkg/version.gitVersion=$kubernetes"
for program in "${missing[@]}"; do
    [ -x "$bin/$program" ] && continue
    case $program in
    etcd) one_module etcd go.etcd.io/etcd/server/v3 "$etcd" build etcd go.etcd.io/etcd/server/v3 || exit 3 ;;
    helm) one_module helm helm.sh/helm/v3 "$helm" build helm helm.sh/helm/v3/cmd/helm || exit 3 ;;
    promtool)
        module=github.com/prometheus/prometheus
        one_module prometheus $module "$prometheus" build promtool $module/cmd/promtool || exit 3
        ;;
    jobset-e2e) one_module jobset sigs.k8s.io/jobset "$jobset" build_test jobset-e2e sigs.k8s.io/jobset/test/e2e || exit 3 ;;
    trainer-e2e)
        module=github.com/kubeflow/trainer/v2
        one_module trainer $module "$trainer" build_test trainer-e2e $module/test/e2e || exit 3
        ;;
    e2e.test) kubernetes_module build_test e2e.test k8s.io/kubernetes/test/e2e "$version" || exit 3 ;;
    scheduling-e2e) kubernetes_module specs scheduling-e2e "$version" || exit 3 ;;
    webserver) ours webserver || exit 3 ;;
    agnhost) kubernetes_module build agnhost k8s.io/kubernetes/test/images/agnhost || exit 3 ;;
    nonewprivs) kubernetes_module build nonewprivs k8s.io/kubernetes/test/images/nonewprivs || exit 3 ;;
    *) kubernetes_module build "$program" "k8s.io/kubernetes/cmd/$program" "$version" || exit 3 ;;
    esac
done
echo "$bin"
