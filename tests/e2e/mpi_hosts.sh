#!/usr/bin/env bash
# Network namespaces that stand for hosts: NAMEh, where the launcher runs, with NAMEa and NAMEb on its bridge. As root.
#   mpi_hosts.sh up NAME
#   mpi_hosts.sh down NAME
set -euo pipefail

name=$2
if [ "$1" = down ]; then
    for host in a b h; do
        ip netns del "$name$host" 2>/dev/null || true
    done
    exit 0
fi
ip netns add "${name}h"
ip -n "${name}h" link set lo up
ip -n "${name}h" link add name br0 type bridge
ip -n "${name}h" addr add 10.77.0.254/24 dev br0
ip -n "${name}h" link set br0 up
number=1
for host in a b; do
    ip netns add "$name$host"
    ip -n "${name}h" link add name "port$host" type veth peer name eth0 netns "$name$host"
    ip -n "${name}h" link set "port$host" master br0 up
    ip -n "$name$host" addr add "10.77.0.$number/24" dev eth0
    ip -n "$name$host" link set eth0 up
    ip -n "$name$host" link set lo up
    number=$((number + 1))
done
