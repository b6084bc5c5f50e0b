#!/usr/bin/env bash
# What is too long for `make test`: all of it, or the parts that are named. A night of one machine, or parts of several.
set -euo pipefail
cd "$(dirname "$0")/.."

whole() { # every test of `make test`
  WHOLE=1 scripts/test.sh
}

long() { # those marked `nightly`, which need no broker
  scripts/class_archive.sh
  pytest -m nightly --ignore=tests/pipelines -n $(($(nproc) + 1)) --dist loadfile
}

pipelines() {
  scripts/test_pipelines.sh -m nightly
}

streams() { # one for each cell of the matrix whose source is a file
  PYSLASH_STREAMS=all pytest tests/streaming/streams
}

others() { # and whose source is a topic or a table
  PYSLASH_STREAMS_OF_OTHERS=all scripts/test_pipelines.sh -k test_streams
}

clients() { # by Spark Connect
  scripts/clients.sh
  PYSLASH_STREAMS_OF_CLIENTS=221 pytest --timeout 7200 tests/streaming/streams/test_streams_of_clients.py
}

faults() {
  make chaos ARGS= SLICE=$(($(date +%s) / 86400 % 7))
  make soak MINUTES=5
  make lab-spark
}

fuzz() {
  scripts/fuzz.sh 60
}

docs() {
  make docs
}

parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(whole long pipelines streams others clients faults fuzz docs)
for part in "${parts[@]}"; do
  [ "$(type -t "$part")" = function ] || { printf 'nightly: there is no part %s\n' "$part" >&2 && exit 2; }
done
for part in "${parts[@]}"; do
  printf '\n== nightly, %s\n' "$part"
  started=$SECONDS
  "$part" # not within `if` or `||`, where a failed command would not end it
  printf 'nightly: %s took %d s\n' "$part" $((SECONDS - started))
done
