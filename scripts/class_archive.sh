#!/usr/bin/env bash
# The class archive that every JVM of the tests starts by, into build/tests.jsa, unless it is as new as the environment.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build
[ build/tests.jsa -nt .venv/.dependencies ] || python -m tests.support.class_archive build/tests.jsa >build/tests.jsa.log 2>&1 ||
  printf 'test: no class archive, so the JVMs start slowly: see build/tests.jsa.log\n' >&2
