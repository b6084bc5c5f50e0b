#!/usr/bin/env bash
# An empty Debian 12 in build/debian, for tests that start from one: debootstrap's smallest, which apt installs where it is
# missing. Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=build/debian
[ -e $folder.complete ] && exit
rm -rf $folder
mkdir -p build
if { command -v debootstrap >/dev/null ||
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap; } >$folder.log 2>&1 &&
  debootstrap --variant=minbase bookworm $folder >>$folder.log 2>&1; then
  touch $folder.complete
else
  printf 'debian: NOT MADE: an empty Debian 12 takes root, debootstrap, and packages of Debian: see %s.log\n' $folder >&2
  exit 1
fi
