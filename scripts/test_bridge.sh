#!/usr/bin/env bash
# The row bridge under ASan and UBSan: its tests again, in a JVM that has the sanitizers' runtime loaded first.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/native-asan-jvm

printf '\n== row bridge, -fsanitize=address,undefined\n'
cmake -S native -B $build -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPYSLASH_SANITIZE=address,undefined \
  -DPYSLASH_PYTHON=OFF --log-level=WARNING
cmake --build $build --parallel "${JOBS:-$(nproc)}"

# The JVM handles SIGSEGV itself, and neither it nor Python frees everything at its end.
export ASAN_OPTIONS=handle_segv=0:detect_leaks=0:log_path=$PWD/$build/report UBSAN_OPTIONS=print_stacktrace=1
# A session that has the bridge's classes already adds no jar of its own.
export PYSPARK_SUBMIT_ARGS="--jars $build/jvm/pyslash.jar pyspark-shell"
rm -f $build/report.*
LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libubsan.so)" \
  pytest -p no:cacheprovider tests/tasks/test_row_bridge.py -k "not missing_jar and not two_executors"
! cat $build/report.* 2>/dev/null
