#!/usr/bin/env bash
# Mutants of blocks, pages and requests under ASan and UBSan for so many minutes, each round with a seed of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
end=$((SECONDS + 60 * ${1:?usage: scripts/fuzz.sh MINUTES}))
export UBSAN_OPTIONS="print_stacktrace=1:${UBSAN_OPTIONS:-}"

fixed_addresses=()
setarch "$(uname -m)" -R true 2>/dev/null && fixed_addresses=(setarch "$(uname -m)" -R)
cmake -S native -B build/native-asan -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPYSLASH_SANITIZE=address,undefined \
  -DPYSLASH_TESTS=ON -DPYSLASH_PYTHON=OFF -DPYSLASH_JVM=OFF --log-level=WARNING
cmake --build build/native-asan --parallel "${JOBS:-$(nproc)}"
while [ $SECONDS -lt $end ]; do
  export PYSLASH_FUZZ_SEED=$((RANDOM * 32768 + RANDOM)) PYSLASH_FUZZ=20
  printf '\n== fuzzing, PYSLASH_FUZZ_SEED=%s\n' "$PYSLASH_FUZZ_SEED"
  "${fixed_addresses[@]}" build/native-asan/tests/pyslash_tests --gtest_filter='*Fuzz.*' --gtest_brief=1
  pytest -q tests/agent/test_codec.py tests/ingest/test_row_shape.py
done
