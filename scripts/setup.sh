#!/usr/bin/env bash
# Makes .venv from nothing: what the system lacks (apt, only when it lacks it), Python packages, pyslash itself.
# A second run does only what changed: the Python packages follow requirements/, the installed pyslash follows native/.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.venv

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }

# The oldest JDK from 17 on that this distribution has: Debian 12 has 17, Debian 13 has 21.
jdk_package() {
  local version
  for version in 17 21 25; do
    if apt-cache show "openjdk-$version-jdk-headless" >/dev/null 2>&1; then break; fi
  done
  echo "openjdk-$version-jdk-headless"
}

# Install system packages; `jdk` is one of several. Runs only when something is missing.
install_packages() {
  command -v apt-get >/dev/null || fail "this system has no apt-get; please install by hand: $*"
  local run=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "please install as root: $*"
    run=(sudo)
  fi
  "${run[@]}" apt-get update -qq
  local package packages=()
  for package; do
    [ "$package" != jdk ] || package=$(jdk_package)
    packages+=("$package")
  done
  say "installing ${packages[*]}"
  "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
}

# A Python is tried, not only looked up: a version manager's shims exist for versions that do not run.
python_is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
  local candidate
  for candidate in ${PYTHON:-} python3.11 python3.12 python3.13 python3.14 python3; do
    if python_is_new_enough "$candidate"; then
      "$candidate" -c 'import sys; print(sys.executable)'
      return
    fi
  done
  return 1
}

python_missing_parts() { # the Debian packages that this Python still needs for venv and for headers
  "$1" - <<'PY'
import importlib.util, os, sys, sysconfig
version = f"python{sys.version_info.major}.{sys.version_info.minor}"
if importlib.util.find_spec("ensurepip") is None or importlib.util.find_spec("venv") is None:
    print(f"{version}-venv")
if not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
    print(f"{version}-dev")
PY
}

javac_is_new_enough() {
  local javac=javac version
  [ -n "${JAVA_HOME:-}" ] && javac="$JAVA_HOME/bin/javac"
  version=$("$javac" -version 2>&1 | sed -n 's/^javac //p') # JAVA_TOOL_OPTIONS have a line before it
  [[ ${version%%.*} =~ ^[0-9]+$ ]] && [ "${version%%.*}" -ge 17 ]
}

compiler_is_new_enough() {
  echo '#include <span>
#include <concepts>
int main() { return 0; }' | "${CXX:-c++}" -std=c++20 -x c++ -fsyntax-only - 2>/dev/null
}

header_is_there() { echo "#include <$1>" | "${CXX:-c++}" -std=c++20 -x c++ -fsyntax-only - 2>/dev/null; }

system_packages() {
  local wanted=()
  compiler_is_new_enough || wanted+=(g++)
  find_python >/dev/null || wanted+=(python3 python3-venv python3-dev)
  if ! javac_is_new_enough; then
    [ -z "${JAVA_HOME:-}" ] || fail "JAVA_HOME=$JAVA_HOME has no javac of version 17 or later"
    wanted+=(jdk)
  fi
  command -v ps >/dev/null || wanted+=(procps) # Spark's scripts call it
  command -v strace >/dev/null || wanted+=(strace) # counts forks in tests, and kills a driver in the midst of a write
  header_is_there gtest/gtest.h || wanted+=(libgtest-dev)
  header_is_there benchmark/benchmark.h || wanted+=(libbenchmark-dev)
  [ ${#wanted[@]} = 0 ] || install_packages "${wanted[@]}"

  compiler_is_new_enough || fail "no C++20 compiler: ${CXX:-c++} is too old or missing"
  javac_is_new_enough || fail "javac is still older than 17: point JAVA_HOME at a newer JDK"
  python=$(find_python) || fail "Python 3.11 or later is needed and none was found; set PYTHON=/path/to/python3.11"
  local parts
  mapfile -t parts < <(python_missing_parts "$python")
  [ ${#parts[@]} = 0 ] || install_packages "${parts[@]}"
}

python_packages() {
  if [ -x $venv/bin/python ] && ! python_is_new_enough $venv/bin/python; then
    say "$venv holds an older Python, making it anew"
    rm -rf $venv
  fi
  if ! [ -x $venv/bin/pip ]; then
    say "making $venv with $("$python" --version)"
    "$python" -m venv $venv
  fi
  if ! cmp -s requirements/development.txt $venv/.dependencies; then
    say "installing Python packages"
    $venv/bin/pip install --quiet --require-hashes --requirement requirements/development.txt
    cp requirements/development.txt $venv/.dependencies
  fi
}

# Editable: Python sources are read from the tree, the native parts from $venv. Without build isolation the native build
# directory stays valid, so a rebuild compiles only what changed.
pyslash_itself() {
  local stamp=$venv/.installed modules
  # An editable installation knows each module's file: one that moves has to be installed anew.
  modules=$(find pyslash -name '*.py' | sort | cksum)
  if [ "$modules" != "$(cat $stamp 2>/dev/null)" ] ||
    [ -n "$(find pyproject.toml native -newer $stamp -print -quit)" ]; then
    say "building and installing pyslash"
    echo "$modules" >$stamp.next
    # As the distribution was called once: two of them would own the same files.
    $venv/bin/pip uninstall --quiet --yes pyslash 2>/dev/null
    PATH="$PWD/$venv/bin:$PATH" $venv/bin/pip install --quiet --no-build-isolation --no-deps --editable .
    mv $stamp.next $stamp
  fi
}

# pyverbs: the distribution's, if it was built for this Python's version, else one built here against the installed
# libibverbs. Without it everything but the verbs transport works, and `pyslash doctor` says so.
pyverbs() {
  local site ours theirs=/usr/lib/python3/dist-packages/pyverbs stamp=$venv/.pyverbs
  $venv/bin/python -c 'import pyverbs.device' 2>/dev/null && return
  [ -e $stamp ] && [ $stamp -nt scripts/setup.sh ] && return # tried before, in vain
  ours=$($venv/bin/python -c 'import sys; print(f"cpython-{sys.version_info.major}{sys.version_info.minor}")')
  if command -v apt-get >/dev/null && [[ $(apt_python) = "$ours" ]]; then
    [ -e $theirs ] || (install_packages python3-pyverbs ibverbs-providers) || true
    # Only this one package: the virtual environment stays blind to the system's others.
    site=$($venv/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["platlib"])')
    [ -e $theirs ] && ln -sfn $theirs "$site/pyverbs"
  elif command -v pkg-config >/dev/null && pkg-config --exists libibverbs; then
    local version
    version=$(dpkg-query -W -f '${Version}' libibverbs-dev 2>/dev/null | cut -d- -f1)
    $venv/bin/pip install --quiet "pyverbs==${version:-$(pkg-config --modversion libibverbs)}" 2>/dev/null || true
  fi
  if ! $venv/bin/python -c 'import pyverbs.device' 2>/dev/null; then
    say "no pyverbs for this Python, so no verbs transport; \`pyslash doctor\` says what is missing"
    touch $stamp
  fi
}

# The Python that the distribution's packages are built for, as their file names spell it.
apt_python() { /usr/bin/python3 -c 'import sys; print(f"cpython-{sys.version_info.major}{sys.version_info.minor}")' 2>/dev/null ||
  apt-cache depends python3 2>/dev/null | sed -n 's/.*Depends: python3\.\([0-9]*\)$/cpython-3\1/p' | head -1; }

system_packages
python_packages
pyslash_itself
pyverbs
