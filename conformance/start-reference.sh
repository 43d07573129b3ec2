#!/usr/bin/env bash
# Starts etcd and kube-apiserver on loopback in a directory of their own and prints, as shell
# assignments, how to reach them. They run until the process given as the first argument is gone. With
# --controllers as the second, kube-controller-manager runs beside them; nodes and a scheduler are left to
# whoever asks for it. Further arguments are etcd's: with --unsafe-no-fsync it does not wait for the disk.
#
#   eval "$(conformance/start-reference.sh $$)"; curl -k -H "Authorization: Bearer $KUBEWRIGHT_TOKEN" $KUBEWRIGHT_SERVER/version
set -euo pipefail

owner=${1:?usage: start-reference.sh PID-TO-OUTLIVE [--controllers] [ETCD-FLAG...]}
shift
binaries=(kube-apiserver etcd)
if [ "${1:-}" = --controllers ]; then
  shift
  binaries+=(kube-controller-manager)
fi
bin=$("$(dirname "$0")/build-reference.sh" "${binaries[@]}")
dir=$(mktemp -d)
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
client=$(free_port) peer=$(free_port) api=$(free_port)
token=reference-$RANDOM$RANDOM

openssl ecparam -name prime256v1 -genkey -noout -out "$dir/sa.key" 2>/dev/null
openssl ec -in "$dir/sa.key" -pubout -out "$dir/sa.pub" 2>/dev/null
echo "$token,kubernetes-admin,admin,system:masters" >"$dir/tokens.csv"

started=$(date +%s%N)
"$bin/etcd" --data-dir "$dir/etcd" --log-level error "$@" \
  --listen-client-urls "http://127.0.0.1:$client" --advertise-client-urls "http://127.0.0.1:$client" \
  --listen-peer-urls "http://127.0.0.1:$peer" >"$dir/etcd.log" 2>&1 &
etcd=$!
# A few revisions that are gone before the first cache fills: expired ones behave at once as they would after minutes.
etcd_call() { curl -sf -o /dev/null "http://127.0.0.1:$client/v3/kv/$1" -d "$2"; }
for _ in 1 2 3 4 5; do
  until etcd_call put '{"key": "YmVmb3Jl", "value": ""}'; do kill -0 "$etcd"; sleep 0.02; done
done
etcd_call compaction '{"revision": "5"}'
"$bin/kube-apiserver" --etcd-servers "http://127.0.0.1:$client" --bind-address 127.0.0.1 --secure-port "$api" \
  --cert-dir "$dir/certs" --token-auth-file "$dir/tokens.csv" --authorization-mode RBAC \
  --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$dir/sa.pub" \
  --service-account-signing-key-file "$dir/sa.key" --service-cluster-ip-range 10.96.0.0/16 \
  --disable-admission-plugins ServiceAccount --allow-privileged=true >"$dir/kube-apiserver.log" 2>&1 &
apiserver=$!
pids="$apiserver $etcd"
controllers=
if [ ${#binaries[@]} -gt 2 ]; then
  cat >"$dir/kubeconfig" <<CONFIG
apiVersion: v1
kind: Config
clusters: [{name: reference, cluster: {server: "https://127.0.0.1:$api", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: $token}}]
contexts: [{name: reference, context: {cluster: reference, user: admin}}]
current-context: reference
CONFIG
  until [ -s "$dir/certs/apiserver.crt" ]; do kill -0 "$apiserver"; sleep 0.05; done
  # Nodes are what the tests make of them: none is lost because it says nothing for a while. Quotas of kinds that are
  # defined later are counted at the next full round, for which nobody waits five minutes.
  "$bin/kube-controller-manager" --kubeconfig "$dir/kubeconfig" --secure-port 0 --leader-elect=false \
    --controllers='*' --node-monitor-grace-period 24h --allocate-node-cidrs=false --resource-quota-sync-period 10s \
    --service-account-private-key-file "$dir/sa.key" --root-ca-file "$dir/certs/apiserver.crt" \
    >"$dir/kube-controller-manager.log" 2>&1 &
  controllers=$!
  pids="$pids $controllers"
fi
(
  while kill -0 "$owner" 2>/dev/null; do sleep 1; done
  # Not asked nicely: kube-apiserver never ends once its etcd has gone, and nothing of this is kept.
  kill -KILL $pids 2>/dev/null || true
  rm -rf "$dir"
) >/dev/null 2>&1 &

until curl -sk -o /dev/null -w '%{http_code}' "https://127.0.0.1:$api/readyz" | grep -q 200; do
  if ! kill -0 "$apiserver" 2>/dev/null; then
    echo "kube-apiserver ended:" >&2
    tail -n 5 "$dir/kube-apiserver.log" >&2
    exit 1
  fi
  sleep 0.05
done
# The first thing that the controllers do for everybody to see.
account=https://127.0.0.1:$api/api/v1/namespaces/default/serviceaccounts/default
until [ -z "$controllers" ] || curl -skf -o /dev/null -H "Authorization: Bearer $token" "$account"; do
  if ! kill -0 "$controllers" 2>/dev/null; then
    echo "kube-controller-manager ended:" >&2
    tail -n 5 "$dir/kube-controller-manager.log" >&2
    exit 1
  fi
  sleep 0.05
done
ready=$((($(date +%s%N) - started) / 1000000))
cat <<ENV
export KUBEWRIGHT_SERVER=https://127.0.0.1:$api
export KUBEWRIGHT_TOKEN=$token
export KUBEWRIGHT_SERVER_PIDS='$pids'
export KUBEWRIGHT_SERVER_READY_MS=$ready
ENV
