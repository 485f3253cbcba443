#!/usr/bin/env bash
# What Open MPI calls in the place of ssh: runs a command on a "host" of mpi_hosts.sh.
#   mpi_agent.sh [OPTIONS] HOST COMMAND...
while [ "${1#-}" != "$1" ]; do
    shift
done
host=$1
shift
exec ip netns exec "$host" unshare --uts bash -c "hostname $host; $*"
