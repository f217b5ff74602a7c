#!/bin/sh
# One job by torchrun on two machines: network namespaces with a link between them.
# Usage: two_machines.sh PYTHON CODE SCRATCH RANKS_EACH [RATE|cut]   runs SCRATCH/job.pkl, results in SCRATCH/results
#   RATE, such as 100mbit: what the link carries; "cut": the link breaks once SCRATCH/cut exists.
# Starts itself anew inside namespaces of its own, so that nothing is left behind and no port is taken.
set -eu
if [ "${TWO_MACHINES_INSIDE:-}" = "" ]; then
  user=$([ "$(id -u)" = 0 ] || echo "--user --map-root-user")
  TWO_MACHINES_INSIDE=1 exec unshare $user --net --mount --pid --fork --kill-child --mount-proc "$0" "$@"
fi
python=$1 code=$2 scratch=$3 each=$4 rate=${5:-}
export PYTHONPATH="$code" GLOO_SOCKET_IFNAME=link0

machine() {  # its number, and by which command its network is entered
  exec ${2:-} "$python" -m torch.distributed.run --nnodes 2 --node-rank "$1" --nproc-per-node "$each" --master-addr 10.78.0.1 \
    --master-port 29500 --local-addr "10.78.0.$(($1 + 1))" -m utils.ranks.torchrun "$scratch/job.pkl" "$scratch/results" \
    >"$scratch/machine$1.log" 2>&1
}

ip link set lo up
unshare --net sh -c "ip link set lo up; echo ready >'$scratch/ready'; until ip address show link0 2>/dev/null | grep -q 10.78; do
  sleep 0.05; done; exec sleep 600" &
other=$!
until [ -s "$scratch/ready" ]; do sleep 0.05; done
ip link add link0 type veth peer name link1 netns "$other"
ip address add 10.78.0.1/24 dev link0
ip link set link0 up
nsenter --target "$other" --net ip link set link1 name link0
nsenter --target "$other" --net ip link set link0 up
nsenter --target "$other" --net ip address add 10.78.0.2/24 dev link0
if [ "$rate" != "" ] && [ "$rate" != cut ]; then
  tc qdisc add dev link0 root tbf rate "$rate" burst 64kb latency 1s
  nsenter --target "$other" --net tc qdisc add dev link0 root tbf rate "$rate" burst 64kb latency 1s
fi

(machine 0) & first=$!
(machine 1 "nsenter --target $other --net") & second=$!
if [ "$rate" = cut ]; then
  until [ -e "$scratch/cut" ]; do sleep 0.05; done
  ip link set link0 down
fi
status=0
wait "$first" || status=$?
[ "$rate" = cut ] || wait "$second" || status=$?
exit $status
