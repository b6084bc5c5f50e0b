#!/usr/bin/env bash
# What looks at the Spark UI and at metrics in tests/watch, where it is missing: Debian's Chromium with its driver, and its
# Prometheus, which is unpacked into build/ and not installed, since the package would start a server of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
missing=()

if ! { command -v chromium && command -v chromedriver; } >/dev/null; then
  run=()
  [ "$(id -u)" = 0 ] || run=(sudo -n)
  "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver \
    >/dev/null 2>&1 || missing+=(chromium chromium-driver)
fi
if ! command -v prometheus >/dev/null && ! [ -x build/prometheus/usr/bin/prometheus ]; then
  mkdir -p build/prometheus
  (cd build/prometheus && apt-get download -qq prometheus >/dev/null 2>&1 && dpkg -x prometheus_*.deb . && rm prometheus_*.deb) ||
    missing+=(prometheus)
fi
if [ ${#missing[@]} != 0 ]; then
  printf 'watch_tools: NOT INSTALLED from Debian: %s\n' "${missing[*]}" >&2
  exit 1
fi
