#!/usr/bin/env bash
# Tests of whole pipelines, with a real Kafka broker, on the newest PySpark that has a connector.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=build/pipelines

scripts/pipelines.sh ||
  printf 'test: Kafka and its connector could not be fetched, so no pipeline is tested\n' >&2
printf '\n== pytest with Kafka\n'
if [ -e "$folder/.complete" ]; then export PYTHONPATH="$PWD/$folder/pyspark${PYTHONPATH:+:$PYTHONPATH}"; fi
pytest -p no:cacheprovider tests/pipelines "$@"
