#!/usr/bin/env bash
# Tests of whole pipelines, with a real Kafka broker and real Delta tables, on the newest PySpark that has both.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=build/pipelines

scripts/pipelines.sh || printf 'test: so not every pipeline is tested\n' >&2
printf '\n== pytest with Kafka and Delta\n'
if [ -e "$folder/pyspark/.complete" ]; then export PYTHONPATH=$folder/pyspark; fi
pytest -p no:cacheprovider tests/pipelines "$@"
