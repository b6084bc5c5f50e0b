#!/usr/bin/env bash
# The wheel for ARM64, tried on a machine that is none: cross-built, then run by qemu-user with Debian 12's own Python and Java
# for ARM64. The jar's library has to refuse a plan in a JVM, and then come the tests of the native code.
# Arguments: pytest's; tests/native by default. Beside the cross compiler and qemu, which apt installs where they are missing,
# everything goes into build/arm64. Ends with 125 where something cannot be had here.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.venv/bin:$PATH
work=$PWD/build/arm64
root=$work/root

say() { printf 'arm64: %s\n' "$*" >&2; }

install_tools() {
  command -v aarch64-linux-gnu-g++ qemu-aarch64-static >/dev/null && return
  local run=()
  [ "$(id -u)" = 0 ] || run=(sudo -n)
  "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    g++-aarch64-linux-gnu qemu-user-static >"$work/log" 2>&1
}

# By an apt whose machine is another, and which knows of no installed package.
unpack_root() {
  [ -e "$root/.complete" ] && return
  rm -rf "$root" && mkdir -p "$root" "$work"/state/lists/partial "$work"/cache/archives/partial && : >"$work/status" || return 1
  local apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::State=$work/state"
    -o "Dir::State::status=$work/status" -o "Dir::Cache=$work/cache")
  "${apt[@]}" update >>"$work/log" 2>&1 || true # a source of other packages may not be there
  "${apt[@]}" install --download-only --yes --no-install-recommends \
    python3.11-minimal libpython3.11-stdlib libstdc++6 openjdk-17-jre-headless >>"$work/log" 2>&1 || return 1
  local package
  for package in "$work"/cache/archives/*.deb; do
    dpkg-deb -x "$package" "$root" || return 1
  done
  touch "$root/.complete"
}

# What has native code, of the versions that development uses; the rest is in .venv.
fill_site() {
  rm -rf "$work/site"
  sed -E '/^ +(--hash|#)/d; s/ \\$//' requirements/development.txt >"$work/versions"
  pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.11 \
    --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux_2_24_aarch64 \
    --platform manylinux2014_aarch64 --target "$work/site" --constraint "$work/versions" \
    numpy pandas pyarrow hypothesis dist/aarch64/pyslash_streaming-*-cp311-*.whl
}

emulate() { qemu-aarch64-static -L "$root" "$root$1" "${@:2}"; }

mkdir -p "$work"
: >"$work/log"
if ! install_tools || ! unpack_root; then
  say "NOT TESTED: it takes Debian 12's g++-aarch64-linux-gnu, qemu-user-static and packages for ARM64: see $work/log"
  exit 125
fi
scripts/wheels.sh cp311-aarch64
fill_site
jar=$work/site/pyslash/jars/pyslash.spark.jar
javac --release 17 -cp "$jar" -d "$work/classes" tests/install/NativeProbe.java
emulate /usr/lib/jvm/java-17-openjdk-arm64/bin/java -XX:TieredStopAtLevel=1 -Xmx256m -cp "$jar:$work/classes" NativeProbe
export PYTHONPATH=$work/site:$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') PYTHONDONTWRITEBYTECODE=1
# The tree's own pyslash, which has no native code for ARM64, comes last.
emulate /usr/bin/python3.11 -P -m pytest --import-mode=append -p no:cacheprovider "${@:-tests/native}"
