#!/bin/sh
# Two worker hosts for Dask: network namespaces with a link each to this one, where the scheduler and the command run.
# Usage: two_hosts.sh PYTHON CODE COURSE SCRATCH COMMAND...   ({} in COMMAND becomes the scheduler's address)
# Starts itself anew inside namespaces of its own, so that nothing is left behind and no port is taken.
set -eu
if [ "${TWO_HOSTS_INSIDE:-}" = "" ]; then
  user=$([ "$(id -u)" = 0 ] || echo "--user --map-root-user")
  TWO_HOSTS_INSIDE=1 exec unshare $user --net --mount --pid --fork --kill-child --mount-proc "$0" "$@"
fi
python=$1 code=$2 course=$3 scratch=$4
shift 4

ip link set lo up
export PYTHONPATH="$code"
"$python" -m distributed.cli.dask_scheduler --host 0.0.0.0 --port 0 --no-dashboard --scheduler-file "$scratch/scheduler" \
  >"$scratch/scheduler.log" 2>&1 &
until [ -s "$scratch/scheduler" ]; do sleep 0.1; done
port=$(sed -n 's/.*"address": "tcp:.*:\([0-9]*\)".*/\1/p' "$scratch/scheduler")

for host in 1 2; do
  # A host has its own network and sees an empty folder where the course is.
  unshare --net --mount sh -c "ip link set lo up; mount -t tmpfs none '$course'; echo ready >'$scratch/$host'
    until ip address show link0 2>/dev/null | grep -q 10.77; do sleep 0.1; done
    exec '$python' -m distributed.cli.dask_worker tcp://10.77.$host.1:$port --nthreads 1 --no-dashboard --no-nanny \
      --local-directory '$scratch/worker$host'" >"$scratch/worker$host.log" 2>&1 &
  pid=$!
  until [ -s "$scratch/$host" ]; do sleep 0.1; done
  ip link add "host$host" type veth peer name link0 netns "$pid"
  ip address add "10.77.$host.1/24" dev "host$host"
  ip link set "host$host" up
  nsenter --target "$pid" --net ip link set link0 up
  nsenter --target "$pid" --net ip address add "10.77.$host.2/24" dev link0
done
until [ "$(grep -c 'Register worker' "$scratch/scheduler.log")" = 2 ]; do sleep 0.2; done

status=0
cd "$course"
for word in "$@"; do
  shift
  set -- "$@" "$(printf %s "$word" | sed "s|{}|tcp://127.0.0.1:$port|")"
done
"$@" || status=$?
awk '/host[12]:/ { print $1, "sent", $2, "bytes" }' /proc/net/dev
exit $status
