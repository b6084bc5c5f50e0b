#!/usr/bin/env bash
# A Soft-RoCE device (rdma_rxe) on this machine, where its kernel can: setup_rxe.sh up [NETDEV] | down | status
# Safe to repeat. `up` installs what is missing, loads the module, adds the link rxe0 to NETDEV (default: the interface of
# the default route), and proves it by an RDMA READ through pyverbs. Exit status: 0 done, 1 failed (of `status`: there is
# no such link), 3 this kernel cannot. RXE_LINK names another link than rxe0.
set -euo pipefail
cd "$(dirname "$0")/.."
link=${RXE_LINK:-rxe0}

say() { printf 'rxe: %s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }
cannot() {
  say "$@"
  say "the lab has its own kernel and needs none of this: scripts/rxe_lab/lab run -- COMMAND, or make lab"
  exit 3
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

install_missing() {
  shopt -s nullglob
  local providers=(/usr/{lib,lib64,lib/*}/libibverbs/librxe*)
  shopt -u nullglob
  command -v rdma >/dev/null && command -v ip >/dev/null && [ ${#providers[@]} != 0 ] && return
  if command -v apt-get >/dev/null; then
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      iproute2 kmod rdma-core ibverbs-providers >/dev/null
  elif command -v dnf >/dev/null; then
    as_root dnf install -y -q iproute kmod rdma-core libibverbs iproute-tc
  else
    fail "please install iproute2 (ip, rdma), kmod, and the rxe provider of libibverbs (rdma-core)"
  fi
}

load_module() {
  [ -d /sys/module/rdma_rxe ] && return
  local release error
  release=$(uname -r)
  error=$(as_root modprobe rdma_rxe 2>&1) && return
  # Distributions keep the module in a package beside the kernel's own.
  if command -v apt-get >/dev/null && apt-cache show "linux-modules-extra-$release" >/dev/null 2>&1; then
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "linux-modules-extra-$release" >/dev/null
  elif command -v dnf >/dev/null; then
    as_root dnf install -y -q "kernel-modules-extra-$release" || true
  fi
  as_root modprobe rdma_rxe 2>/dev/null || cannot "Linux $release has no module rdma_rxe: ${error:-modprobe failed}"
}

default_netdev() { ip route show default | sed -n 's/.* dev \([^ ]*\).*/\1/p' | head -1; }

advise_memlock() {
  local limit
  limit=$(ulimit -l)
  [ "$limit" = unlimited ] && return
  say "locked memory is limited to $limit KiB here, and registered memory counts against it. For services:"
  say "  LimitMEMLOCK=infinity; for logins: '* - memlock unlimited' in /etc/security/limits.d/rdma.conf"
}

verify() {
  local python=python3
  [ -x .venv/bin/python ] && python=.venv/bin/python
  "$python" - "$link" <<'PY'
import sys
from pyslash.errors import SlashError
from pyslash.rdma.loopback import loopback
from pyslash.rdma.port import choose_port
try:
    port = choose_port(wanted=sys.argv[1])
    figures = loopback(port, 1 << 20)
except SlashError as error:
    sys.exit(f"rxe: {error}")
print(f"rxe: {port}: 64 B in {figures.latency_us:.1f} us, 1 MiB at {figures.megabytes_per_second:.0f} MB/s")
PY
}

up() {
  local netdev=${1:-$(default_netdev)}
  [ -n "$netdev" ] || fail "no default route, so name an interface: setup_rxe.sh up NETDEV"
  [ -e "/sys/class/net/$netdev" ] || fail "there is no interface $netdev"
  install_missing
  load_module
  if [ -e "/sys/class/infiniband/$link" ]; then
    local present
    present=$(<"/sys/class/infiniband/$link/parent")
    [ "$present" = "$netdev" ] || fail "$link is on $present, not on $netdev; first: setup_rxe.sh down"
    say "$link is on $netdev already"
  else
    as_root rdma link add "$link" type rxe netdev "$netdev"
  fi
  advise_memlock
  verify
}

case "${1:-}" in
  up) up "${2:-}" ;;
  down)
    [ -e "/sys/class/infiniband/$link" ] || { say "there is no $link"; exit 0; }
    as_root rdma link delete "$link"
    ;;
  status)
    [ -d /sys/class/infiniband ] || cannot "this kernel has no RDMA loaded"
    rdma link show
    [ -e "/sys/class/infiniband/$link" ] || exit 1
    ;;
  *)
    echo "usage: setup_rxe.sh up [NETDEV] | down | status" >&2
    exit 2
    ;;
esac
