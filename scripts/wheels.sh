#!/usr/bin/env bash
# Wheels into dist/: manylinux_2_28, so for Debian 10, RHEL 8, Ubuntu 20.04 and later. One for CPython 3.11, one for 3.12
# and later by the stable ABI. The jar is inside; nothing is compiled where one is installed (docs/design/034).
# Arguments: cp311, cp312; both by default. With -aarch64 behind, for ARM64 on whatever machine this is, into dist/aarch64/: it
# takes a cross compiler (Debian: g++-aarch64-linux-gnu). Fails where one cannot be built, after the others.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.venv/bin:$PATH
work=$PWD/build/wheels
tools=$work/tools

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

# What a wheel for another machine takes beyond one for this. `cross` are settings of CMake; Python's headers are
# those of the one that builds, which differ between the two machines in nothing that an extension sees.
cross_compile() { # MACHINE PYTHON
  local machine=$1 prefix=$1-linux-gnu suffix
  if ! command -v "$prefix-g++" >/dev/null; then
    say "NOT BUILT: a wheel for $machine needs $prefix-g++ (Debian: g++-$prefix), and it is not here"
    return 1
  fi
  suffix=$("$2" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
  export _PYTHON_HOST_PLATFORM=linux-$machine SETUPTOOLS_EXT_SUFFIX=${suffix/$(uname -m)/$machine}
  cross=(CMAKE_SYSTEM_NAME=Linux "CMAKE_SYSTEM_PROCESSOR=$machine" "CMAKE_CXX_COMPILER=$prefix-g++"
    "CMAKE_STRIP=$prefix-strip")
}

build() ( # TAG MACHINE VERSION...: the wheel of that tag, made with the first of these versions that is here
  # `set -e` does not hold in here.
  tag=$1 machine=$2 raw=$work/raw-$1-$2 stubs=$work/glibc-2.28-$2 folder=dist cross=()
  if ! python=$(find_python "${@:3}"); then
    say "NOT BUILT: $tag needs CPython ${*:3} with its headers, and none is here"
    return 1
  fi
  if [ "$machine" != "$(uname -m)" ]; then
    folder=dist/$machine
    cross_compile "$machine" "$python" || return 1
  fi
  say "$tag for $machine with $python"
  [ "$stubs/libc.so" -nt scripts/manylinux ] ||
    scripts/manylinux/stubs.sh "$stubs" "$tools/bin/python" "$machine" || return 1
  python=$(environment "$python") && rm -rf "$raw" && mkdir -p "$raw" "$folder" || return 1
  settings=("${cross[@]}" "CMAKE_MODULE_LINKER_FLAGS=-L$stubs" "PYSLASH_SPARK_JARS=$jars")
  "$python" -m pip wheel . --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$raw" \
    "${settings[@]/#/--config-settings=cmake.define.}" || return 1
  rm -f "$folder"/pyslash_streaming-*-"$tag"-*.whl*
  scripts/manylinux/audit "$tools/bin" "manylinux_2_28_$machine" "$raw"/*.whl "$folder" || return 1
  .venv/bin/python scripts/release/sbom.py "$folder"/pyslash_streaming-*-"$tag"-*.whl
)

if ! [ "$tools/.complete" -nt requirements/wheels.txt ]; then
  say "fetching ziglang and auditwheel"
  python -m venv --clear "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check --require-hashes --requirement requirements/wheels.txt
  touch "$tools/.complete"
fi
jars=$(python -c 'import importlib.util as u; print(u.find_spec("pyspark").submodule_search_locations[0] + "/jars")')

status=0
for tag in "${@:-cp311 cp312}"; do
  for tag in $tag; do
    machine=$(uname -m)
    [[ $tag != *-aarch64 ]] || machine=aarch64
    case ${tag%-aarch64} in
    cp311) build cp311 "$machine" 3.11 || status=1 ;;
    cp312) build cp312 "$machine" 3.12 3.13 3.14 || status=1 ;;
    *) say "cp311, cp312, cp311-aarch64 or cp312-aarch64, not $tag" && exit 2 ;;
    esac
  done
done
exit $status
