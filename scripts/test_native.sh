#!/usr/bin/env bash
# The native tests, built and run twice: under ASan and UBSan, and under TSan.
set -euo pipefail
cd "$(dirname "$0")/.."
export ASAN_OPTIONS="strict_string_checks=1:detect_stack_use_after_return=1:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1:${UBSAN_OPTIONS:-}"
export TSAN_OPTIONS="second_deadlock_stack=1:${TSAN_OPTIONS:-}"

# Sanitizers of older compilers fail to start when the kernel randomises addresses over more bits than they knew of.
fixed_addresses=()
setarch "$(uname -m)" -R true 2>/dev/null && fixed_addresses=(setarch "$(uname -m)" -R)

run() { # build directory, sanitizers
  local build=build/$1 sanitize=$2
  printf '\n== native tests, -fsanitize=%s\n' "$sanitize"
  cmake -S native -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPYSLASH_SANITIZE="$sanitize" \
    -DPYSLASH_TESTS=ON -DPYSLASH_PYTHON=OFF -DPYSLASH_JVM=OFF --log-level=WARNING
  cmake --build "$build" --parallel "${JOBS:-$(nproc)}"
  "${fixed_addresses[@]}" ctest --test-dir "$build" --output-on-failure --no-tests=error --timeout 300 \
    --parallel "$(nproc)"
}

run native-asan address,undefined
run native-tsan thread
