#!/usr/bin/env bash
# FOLDER with what a linker needs of glibc 2.28 (`g++ -LFOLDER`): the names and versions of its symbols, without code.
# `make wheels` links against it, so that the system's own compiler makes libraries for older systems than its own.
# Arguments: FOLDER, a Python that has the package ziglang, which knows every glibc's symbols, and the machine.
set -euo pipefail
folder=$1 python=$2 machine=${3:-x86_64}
cc=gcc
[ "$machine" = "$(uname -m)" ] || cc=$machine-linux-gnu-gcc
rm -rf "$folder"
mkdir -p "$folder"
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT

# Zig makes the stubs for whatever it links.
echo 'int main(void) { return 0; }' >"$cache/main.c"
ZIG_GLOBAL_CACHE_DIR=$cache ZIG_LOCAL_CACHE_DIR=$cache \
  "$python" -m ziglang cc -target "$machine-linux-gnu.2.28" "$cache/main.c" -o "$cache/main"
found=$(find "$cache" -name libpthread.so.0)
cp "${found%/*}"/lib*.so.* "$folder"
ln -s libm.so.6 "$folder/libm.so"
ln -s libpthread.so.0 "$folder/libpthread.so"

"$cc" -O2 -fPIC -fvisibility=hidden -Wall -Werror -c "${BASH_SOURCE%/*}/glibc_2_28.c" -o "$folder/glibc_2_28.o"
# -lc is all of them, as later versions have them in one library.
cat >"$folder/libc.so" <<SCRIPT
GROUP ( $folder/libc.so.6 $folder/glibc_2_28.o $("$cc" -print-file-name=libc_nonshared.a)
        AS_NEEDED ( $folder/libpthread.so.0 $folder/libdl.so.2 $folder/librt.so.1 $folder/libld.so.2 ) )
SCRIPT
