#!/usr/bin/env bash
# The native benchmarks: cycles a record of each kernel on one core, and the memory's bandwidth beside them.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake -S native -B build/native-bench -G Ninja -DCMAKE_BUILD_TYPE=Release -DPYSLASH_BENCHMARKS=ON \
  -DPYSLASH_PYTHON=OFF -DPYSLASH_JVM=OFF --log-level=WARNING
cmake --build build/native-bench
exec build/native-bench/benchmarks/pyslash_benchmarks "$@"
