#!/usr/bin/env bash
# Builds the reference (kube-apiserver, kube-controller-manager, etcd, kubectl) as ordinary Go modules into a cache
# outside the repository. Prints the directory that holds the binaries. Does nothing if they exist.
#
#   conformance/build-reference.sh [kube-apiserver kube-controller-manager etcd kubectl ...]
#
# KUBEWRIGHT_REFERENCE_CACHE   where to build (default: ${XDG_CACHE_HOME:-~/.cache}/kubewright/reference)
set -euo pipefail

KUBERNETES=1.36.3
ETCD=3.6.8

root=${KUBEWRIGHT_REFERENCE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kubewright/reference}
bin=$root/v$KUBERNETES
[ $# -gt 0 ] || set -- kube-apiserver kube-controller-manager etcd kubectl

missing=()
for binary in "$@"; do [ -x "$bin/$binary" ] || missing+=("$binary"); done
if [ ${#missing[@]} -eq 0 ]; then
  echo "$bin"
  exit 0
fi
if ! command -v go >/dev/null; then
  echo "the reference server is built from its Go modules, and no 'go' is on the PATH: install Go 1.25 or newer" >&2
  exit 2
fi

# The main module of Kubernetes points at its own staging directories; as a dependency they are
# replaced by the released modules of the same minor version.
kubernetes_module() {
  local src=$root/src/kubernetes-$KUBERNETES
  mkdir -p "$src"
  cd "$src"
  [ ! -e complete ] || return 0
  printf 'module kubewright.invalid/reference\n\ngo 1.25\n' >go.mod
  go mod download "k8s.io/kubernetes@v$KUBERNETES"
  local staging
  staging=$(awk '$2 == "=>" && $3 ~ /^\.\/staging/ { print $1 }' "$(go env GOMODCACHE)/k8s.io/kubernetes@v$KUBERNETES/go.mod")
  {
    echo 'require ('
    echo "  k8s.io/kubernetes v$KUBERNETES"
    echo ')'
    echo 'replace ('
    for module in $staging; do echo "  $module => $module v0.${KUBERNETES#1.}"; done
    echo ')'
  } >>go.mod
  cat >commands.go <<'GO'
package reference

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver/app"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	_ "k8s.io/kubectl/pkg/cmd"
)
GO
  go mod tidy
  touch complete
}

etcd_module() {
  local src=$root/src/etcd-$ETCD
  mkdir -p "$src"
  cd "$src"
  [ ! -e complete ] || return 0
  printf 'module kubewright.invalid/etcd\n\ngo 1.25\n' >go.mod
  printf 'package reference\n\nimport _ "go.etcd.io/etcd/server/v3/etcdmain"\n' >commands.go
  go get "go.etcd.io/etcd/server/v3@v$ETCD"
  go mod tidy
  touch complete
}

mkdir -p "$bin"
for binary in "${missing[@]}"; do
  echo "building $binary (once; a few minutes)" >&2
  case $binary in
    etcd)
      (etcd_module >&2 && go build -trimpath -o "$bin/etcd" go.etcd.io/etcd/server/v3 >&2)
      ;;
    *)
      version=k8s.io/component-base/version
      (kubernetes_module >&2 && go build -trimpath \
        -ldflags "-s -w -X $version.gitVersion=v$KUBERNETES -X $version.gitMajor=1 -X $version.gitMinor=${KUBERNETES:2:2}" \
        -o "$bin/$binary" "k8s.io/kubernetes/cmd/$binary" >&2)
      ;;
  esac
done
echo "$bin"
