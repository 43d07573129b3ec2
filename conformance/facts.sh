#!/usr/bin/env bash
# Regenerates the data tables of the API server from the reference: the fields of the built-in kinds
# from its Go types, the resources from the discovery of a running server.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
bin=$("$here/build-reference.sh" kube-apiserver etcd)
module=$(dirname "$bin")/src/kubernetes-$(basename "$bin" | tr -d v)
rm -rf "$module/facts"
cp -r "$here/facts" "$module/facts"
(cd "$module" && go build -o "$bin/facts" ./facts)
eval "$("$here/start-reference.sh" $$ --unsafe-no-fsync)"
data=$here/../crates/kubewright-apiserver/data
mkdir -p "$data"
"$bin/facts" types >"$data/types.txt"
"$bin/facts" resources >"$data/resources.txt"
wc -l "$data"/types.txt "$data"/resources.txt
