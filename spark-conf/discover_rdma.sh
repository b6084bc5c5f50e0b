#!/usr/bin/env bash
# Spark's resource discovery for RDMA: prints {"name": "rdma", "addresses": ["mlx5_0:1", ...]}, the active ports of a host.
# Another folder than sysfs's may be given, for tests.
shopt -s nullglob
addresses=()
for state in "${1:-/sys/class/infiniband}"/*/ports/*/state; do
  port=${state%/state}
  device=${port%/ports/*}
  [[ $(<"$state") == *ACTIVE ]] && addresses+=("\"${device##*/}:${port##*/}\"")
done
printf '{"name": "rdma", "addresses": [%s]}\n' "$(IFS=,; echo "${addresses[*]}")"
