#!/bin/bash
# Writes `functions.txt` anew: builds the program, and records which functions hosts run under seven workloads.
#
# Usage: TOOLS=FOLDER record.sh. The folder has kubectl, nats-server, etcd and kube-apiserver; qemu-user 7 or newer, openssl
# and curl are installed.
# The emulated processor has fewer instructions than this one, so the hosts' own compiler of guests is emulated as well.
set -euo pipefail
cd "$(dirname "$0")/../.."
main=$PWD tools=$(realpath "${TOOLS:?names the folder of kubectl, nats-server, etcd and kube-apiserver}")
for tool in kubectl nats-server etcd kube-apiserver; do
  [ -x "$tools/$tool" ] || { echo "$tools has no $tool" >&2; exit 1; }
done
work=$(mktemp -d)
# A kube-apiserver without its etcd does not end otherwise.
trap 'kill -KILL $(jobs -p) 2> /dev/null || true; wait; rm -rf "$work"' EXIT
# The configuration of the person who runs this has other servers.
export KUBECONFIG=$work/kubeconfig
kubectl() { "$tools/kubectl" --request-timeout=30s "$@"; }

# As a release is built, but for the last step: another profile would give the instances of generic functions other hashes.
cargo rustc --release --target-dir target -p homeostat --bin homeostat -- -Cstrip=none "-Clink-arg=-Wl,-Map=$work/map"
program=$work/homeostat
cp target/release/homeostat "$program"
"$program" build examples/apps

cd "$work"
umask 077
mkdir empty apps
cp "$main"/examples/apps/{controllers.yaml,*.wasm} apps
printf '#!/bin/bash\nexec qemu-x86_64 -cpu max %q "$@"\n' "$program" > emulated
chmod +x emulated
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=localhost \
  -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE -keyout key.pem -out cert.pem 2> /dev/null
token=a-token-of-this-work
echo "- {name: admin, token: $token, access: write}" > tokens.yaml
secure=(--listen https://127.0.0.1:0 --tls-cert cert.pem --tls-key key.pem --tokens tokens.yaml)

# Waits until a command succeeds. After so many seconds the shell stops.
wait_until() {
  local seconds=$1; shift
  for _ in $(seq $((seconds * 4))); do
    if "$@" > /dev/null 2>&1; then return; fi
    sleep 0.25
  done
  echo "not within $seconds s: $*" >&2
  return 1
}

# Prints the address in the log of a host, once the host has written it.
address() {
  if ! wait_until 120 grep -q 'serving' "$1"; then cat "$1" >&2; return 1; fi
  grep -o 'https\?://127.0.0.1:[0-9]*' "$1" | head -1
}

# Starts a host whose functions are recorded under a name. A program that it starts itself is emulated, too.
record() {
  local name=$1; shift
  cp "$program" "host-$name"
  qemu-x86_64 -cpu max -d in_asm -D "trace-$name" "$work/host-$name" "$@" --data "data-$name" > "log-$name" 2>&1 &
  host=$!
  # The emulator has opened the program; the next one that is started in its place is the emulated one.
  wait_until 10 grep -q "host-$name" "/proc/$host/maps"
  cp emulated new
  mv new "host-$name"
  server=$(address "log-$name")
}

# Ends the recorded host. The shell stops if the host failed.
end() { kill "$host"; wait "$host"; }

# Rolls a deployment out, scales it and deletes it, through the server of these options.
deployment() {
  kubectl "$@" apply -f "$main/examples/apps/web.yaml"
  kubectl "$@" rollout status deployment web --timeout 150s
  kubectl "$@" scale deployment web --replicas 150
  kubectl "$@" rollout status deployment web --timeout 150s
  kubectl "$@" get deployments,pods
  kubectl "$@" delete deployment web
  sleep 5
}

record idle run empty --listen 127.0.0.1:0
sleep 5
end

record secure run empty "${secure[@]}"
ask() {
  curl --fail --silent --show-error --cacert cert.pem -H "Authorization: Bearer $token" \
    -H 'Content-Type: application/json' "$@" > /dev/null
}
ask "$server/readyz"
sleep 3
end

record requests run empty "${secure[@]}"
maps=$server/api/v1/namespaces/default/configmaps
document() { printf '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s"},"data":{"a":"%s"}}' "$@"; }
for name in a b c; do ask "$maps" -d "$(document $name old)"; done
(ask --max-time 8 "$maps?watch=true" 2> /dev/null || true) &
sleep 1
for name in a b c; do ask -X PUT "$maps/$name" -d "$(document $name new)"; done
ask "$maps?limit=2"
ask "$maps"
ask -X DELETE "$maps/a"
sleep 20
end

record apps run apps --listen 127.0.0.1:0
deployment --server "$server"
kubectl --server "$server" create configmap one --from-literal a=b
kubectl --server "$server" patch configmap one -p '{"data":{"a":"c"}}'
kubectl --server "$server" get configmaps,events
kubectl --server "$server" delete configmap one
curl --silent "$server/metrics" > /dev/null
end

stores() {
  printf 'apiVersion: homeostat.dev/v1alpha1\nkind: Stores\nstores:\n  - {name: far, %s}\nroutes:\n  - {kinds: ["apps/*", "v1/Pod"], store: far}\n' "$1" > stores.yaml
}

# A host that is not recorded takes the place of the cluster.
"$program" run empty "${secure[@]}" --data data-cluster-server > log-cluster-server 2>&1 &
kubectl config set-cluster far --server "$(address log-cluster-server)" --certificate-authority "$work/cert.pem"
kubectl config set-credentials admin --token "$token"
kubectl config set-context far --cluster far --user admin
kubectl config use-context far
stores "kubernetes: {kubeconfig: $KUBECONFIG}"
record cluster run apps --stores stores.yaml --listen 127.0.0.1:0
deployment
end

# A real cluster with many resources. Nobody asks the recorded host, whose controller comes later.
ec=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
openssl req -x509 "${ec[@]}" -days 30 -subj /CN=authority -keyout authority.key -out authority.pem 2> /dev/null
openssl req "${ec[@]}" -subj /CN=localhost -keyout server.key -out server.csr 2> /dev/null
openssl x509 -req -in server.csr -CA authority.pem -CAkey authority.key -CAcreateserial -days 30 \
  -extfile <(echo subjectAltName=IP:127.0.0.1) -out server.pem 2> /dev/null
openssl ec -in key.pem -pubout -out accounts.pem 2> /dev/null
echo "$token,admin,admin,system:masters" > tokens.csv
mapfile -t ports < <(shuf -i 20000-60000 -n 3)
client=http://127.0.0.1:${ports[0]} peer=http://127.0.0.1:${ports[1]} port=${ports[2]}
"$tools/etcd" --data-dir etcd --unsafe-no-fsync --listen-client-urls "$client" --advertise-client-urls "$client" \
  --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "default=$peer" > log-etcd 2>&1 &
"$tools/kube-apiserver" --etcd-servers "$client" --secure-port "$port" --bind-address 127.0.0.1 --cert-dir certificates \
  --tls-cert-file server.pem --tls-private-key-file server.key --client-ca-file authority.pem --token-auth-file tokens.csv \
  --service-account-key-file accounts.pem --service-account-signing-key-file key.pem \
  --service-account-issuer https://kubernetes.default.svc --service-cluster-ip-range 10.0.0.0/24 \
  --advertise-address 127.0.0.1 --endpoint-reconciler-type none --authorization-mode RBAC \
  --disable-admission-plugins ServiceAccount > log-apiserver 2>&1 &
kubectl config set-cluster far --server "https://127.0.0.1:$port" --certificate-authority "$work/authority.pem"
wait_until 60 kubectl get namespace default
mkdir loop
cp apps/kubelet.wasm loop
for number in $(seq 400); do
  printf -- '---\napiVersion: v1\nkind: Pod\nmetadata: {name: pod-%s}\nspec: {containers: [{name: a, image: a}]}\n' "$number"
done > pods.yaml
kubectl create -f pods.yaml > /dev/null
record loop run loop --stores stores.yaml --listen 127.0.0.1:0
awk 'BEGIN { RS = "---\n" } /name: kubelet/' apps/controllers.yaml > loop/controllers.yaml
grep -q kubelet loop/controllers.yaml
all_run() { [ "$(kubectl get pods --field-selector status.phase=Running --output name | wc -l)" = 400 ]; }
wait_until 120 all_run
sleep 5
end

"$tools/nats-server" -js -sd "$work/nats" -a 127.0.0.1 -p -1 > log-nats 2>&1 &
wait_until 20 grep -q 'Server is ready' log-nats
nats=nats://$(grep -o '127.0.0.1:[0-9]*' log-nats | head -1)
stores "nats: {servers: [\"$nats\"], bucket: homeostat, create: {replicas: 1}}"
kubectl config unset current-context
record bus run apps --stores stores.yaml --listen 127.0.0.1:0
deployment --server "$server"
end

cd "$main"
# The command compiles the old list, so it does not write the new one in its place.
cargo run --quiet -p homeostat-orderfile --example record -- "$work/map" \
  "$work"/trace-{idle,secure,requests,apps,cluster,loop,bus} > "$work/functions.txt"
cp "$work/functions.txt" host/orderfile/functions.txt
