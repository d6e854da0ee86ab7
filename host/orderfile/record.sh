#!/bin/bash
# Writes `functions.txt` anew: builds the program, and records which functions hosts run in six works.
#
# Needs qemu-user 7 or newer, openssl and curl, and kubectl and nats-server in the folder TOOLS. Usage: TOOLS=target/tools record.sh
# The emulated processor has fewer instructions than this one, so the hosts' own compiler of guests is emulated as well.
set -euo pipefail
cd "$(dirname "$0")/../.."
main=$PWD tools=$(realpath "${TOOLS:?names the folder of kubectl and nats-server}")
kubectl() { "$tools/kubectl" --request-timeout=30s "$@"; }
work=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null; rm -rf "$work"' EXIT
umask 077

cargo run --quiet --release -p homeostat -- build examples/apps
CARGO_PROFILE_RELEASE_STRIP=none CARGO_TARGET_DIR=target/orderfile \
  cargo rustc --release -p homeostat --bin homeostat -- "-Clink-arg=-Wl,-Map=$work/map"
program=$main/target/orderfile/release/homeostat

cd "$work"
mkdir empty apps
cp "$main"/examples/apps/{controllers.yaml,*.wasm} apps
printf '#!/bin/bash\nexec qemu-x86_64 -cpu max %q "$@"\n' "$program" > emulated
chmod +x emulated
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=localhost \
  -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem 2> /dev/null
echo '- {name: admin, token: a-token-of-this-work, access: write}' > tokens.yaml
secure=(--listen https://127.0.0.1:0 --tls-cert cert.pem --tls-key key.pem)

# Waits for the address in the log of a host.
address() {
  for _ in $(seq 240); do
    if grep -q 'serving' "$1"; then grep -o 'https\?://127.0.0.1:[0-9]*' "$1" | head -1; return; fi
    sleep 0.5
  done
  cat "$1" >&2
  return 1
}

# Starts a host whose functions are recorded under a name. A program that it starts itself is emulated, too.
record() {
  local name=$1; shift
  cp "$program" "host-$name"
  qemu-x86_64 -cpu max -d in_asm -D "trace-$name" "$work/host-$name" "$@" --data "data-$name" > "log-$name" 2>&1 &
  host=$!
  sleep 2
  cp emulated new && mv new "host-$name"
  at=$(address "log-$name")
}

end() { kill "$host"; wait "$host" || true; }

# Rolls a deployment out, scales it and deletes it, through the server of these options.
deployment() {
  kubectl "$@" apply -f "$main/examples/apps/web.yaml"
  kubectl "$@" rollout status deployment web --timeout 150s
  kubectl "$@" scale deployment web --replicas 10
  sleep 15
  kubectl "$@" get deployments,pods
  kubectl "$@" delete deployment web
  sleep 5
}

record idle run empty --listen 127.0.0.1:0
sleep 5
end

record secure run empty "${secure[@]}" --tokens tokens.yaml
ask() { curl --silent --show-error --cacert cert.pem -H 'Authorization: Bearer a-token-of-this-work' -H 'Content-Type: application/json' "$@" > /dev/null; }
ask "$at/readyz"
sleep 3
end

record requests run empty "${secure[@]}" --tokens tokens.yaml
maps=$at/api/v1/namespaces/default/configmaps
document() { printf '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s"},"data":{"a":"%s"}}' "$@"; }
for name in a b c; do ask "$maps" -d "$(document $name old)"; done
(ask --max-time 8 "$maps?watch=true" || true) &
sleep 1
for name in a b c; do ask -X PUT "$maps/$name" -d "$(document $name new)"; done
ask "$maps?limit=2"
ask "$maps"
ask -X DELETE "$maps/a"
sleep 20
end

record apps run apps --listen 127.0.0.1:0
deployment --server "$at"
kubectl --server "$at" create configmap one --from-literal a=b
kubectl --server "$at" patch configmap one -p '{"data":{"a":"c"}}'
kubectl --server "$at" get configmaps,events
kubectl --server "$at" delete configmap one
curl --silent "$at/metrics" > /dev/null
end

stores() {
  printf 'apiVersion: homeostat.dev/v1alpha1\nkind: Stores\nstores:\n  - {name: far, %s}\nroutes:\n  - {kinds: ["apps/*", "v1/Pod"], store: far}\n' "$1" > stores.yaml
}

# A host that is not recorded takes the place of the cluster.
"$program" run empty "${secure[@]}" --data data-cluster-server > log-cluster-server 2>&1 &
at=$(address log-cluster-server)
export KUBECONFIG=$work/kubeconfig
kubectl config set-cluster far --server "$at" --certificate-authority "$work/cert.pem"
kubectl config set-context far --cluster far
kubectl config use-context far
stores "kubernetes: {kubeconfig: $KUBECONFIG}"
record cluster run apps --stores stores.yaml --listen 127.0.0.1:0
deployment
end

"$tools/nats-server" -js -sd "$work/nats" -a 127.0.0.1 -p -1 --ports_file_dir "$work" > log-nats 2>&1 &
for _ in $(seq 40); do ls nats-server_*.ports > /dev/null 2>&1 && break; sleep 0.5; done
nats=$(grep -ho 'nats://127.0.0.1:[0-9]*' nats-server_*.ports | head -1)
stores "nats: {servers: [\"$nats\"], bucket: homeostat, create: {replicas: 1}}"
record bus run apps --stores stores.yaml --listen 127.0.0.1:0
deployment --server "$at"
end

cd "$main"
# Not onto the list itself, which this command compiles.
cargo run --quiet -p homeostat-orderfile --example record -- "$work/map" \
  "$work"/trace-{idle,secure,requests,apps,cluster,bus} > "$work/functions.txt"
cp "$work/functions.txt" host/orderfile/functions.txt
