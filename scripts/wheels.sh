#!/usr/bin/env bash
# Wheels into dist/: manylinux_2_28, so for Debian 10, RHEL 8, Ubuntu 20.04 and later. One for CPython 3.11, one for 3.12
# and later by the stable ABI. The jar is inside; nothing is compiled where one is installed (docs/design/034).
# Arguments: cp311, cp312; both by default. Fails where one cannot be built, after the other.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.venv/bin:$PATH
work=$PWD/build/wheels
tools=$work/tools
platform=manylinux_2_28_$(uname -m)

say() { printf 'wheels: %s\n' "$*" >&2; }

# Prints the first CPython of these versions that runs here, with its headers; pyenv's too, whose shims may not run.
find_python() {
  local version candidate
  for version in "$@"; do
    for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
      "$candidate" - "$version" 2>/dev/null <<'PY' && return
import os, sys, sysconfig
assert ".".join(map(str, sys.version_info[:2])) == sys.argv[1]
assert os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h"))
print(os.path.realpath(sys.executable) if sys.prefix == sys.base_prefix else sys.executable)
PY
    done
  done
  return 1
}

# The environment that builds with this Python: .venv, where it is its own, for what is compiled is then compiled already.
environment() {
  local of=$1 venv=$work/${1##*/}
  case $of in
  "$PWD"/.venv/*) echo "$of" ;;
  *)
    if ! [ "$venv/.complete" -nt requirements/backend.txt ]; then
      "$of" -m venv --clear "$venv" &&
        "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r requirements/backend.txt &&
        touch "$venv/.complete" || return 1
    fi
    echo "$venv/bin/python"
    ;;
  esac
}

build() { # TAG VERSION...: the wheel of that tag, made with the first of these versions that is here
  local tag=$1 python raw=$work/raw-$1
  if ! python=$(find_python "${@:2}"); then
    say "NOT BUILT: $tag needs CPython ${*:2} with its headers, and none is here"
    return 1
  fi
  say "$tag with $python"
  # `set -e` does not hold in here.
  python=$(environment "$python") && rm -rf "$raw" && mkdir -p "$raw" || return 1
  "$python" -m pip wheel . --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$raw" \
    --config-settings cmake.define.CMAKE_MODULE_LINKER_FLAGS="-L$work/glibc-2.28" \
    --config-settings cmake.define.PYSLASH_SPARK_JARS="$jars" || return 1
  rm -f dist/pyslash_streaming-*-"$tag"-*.whl*
  scripts/manylinux/audit "$tools/bin" "$platform" "$raw"/*.whl dist || return 1
  .venv/bin/python scripts/release/sbom.py dist/pyslash_streaming-*-"$tag"-*.whl
}

if ! [ "$tools/.complete" -nt requirements/wheels.txt ]; then
  say "fetching ziglang and auditwheel"
  python -m venv --clear "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check --require-hashes --requirement requirements/wheels.txt
  touch "$tools/.complete"
fi
[ "$work/glibc-2.28/libc.so" -nt scripts/manylinux ] || \
  scripts/manylinux/stubs.sh "$work/glibc-2.28" "$tools/bin/python" "$(uname -m)"
jars=$(python -c 'import importlib.util as u; print(u.find_spec("pyspark").submodule_search_locations[0] + "/jars")')

status=0
for tag in "${@:-cp311 cp312}"; do
  for tag in $tag; do
    case $tag in
    cp311) build cp311 3.11 || status=1 ;;
    cp312) build cp312 3.12 3.13 3.14 || status=1 ;;
    *) say "cp311 or cp312, not $tag" && exit 2 ;;
    esac
  done
done
exit $status
