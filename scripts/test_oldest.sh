#!/usr/bin/env bash
# A smoke run on the oldest supported PySpark, beside the environment's own: the plan, the hook, sinks, JSON, keys of
# floating point, some random streams; and the Iceberg sink, whose runtimes follow Spark's releases by some months.
# `fetch` only fetches what it needs; `test` runs, with options for pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
oldest=4.0.0
iceberg=1.11.0
folder=build/pyspark-$oldest

if ! [ -e "$folder/.complete" ]; then
  rm -rf "$folder"
  pip install --quiet --disable-pip-version-check --target "$folder" "pyspark==$oldest"
  touch "$folder/.complete"
fi
runtime=build/iceberg/iceberg-spark-runtime-${oldest%.*}_2.13-$iceberg.jar
if ! [ -e "$runtime" ]; then
  java -jar "$folder"/pyspark/jars/ivy-*.jar -warn -m2compatible -cache build/iceberg/cache -confs default \
    -dependency org.apache.iceberg "iceberg-spark-runtime-${oldest%.*}_2.13" $iceberg \
    -retrieve 'build/iceberg/[artifact]-[revision].[ext]' >build/iceberg.fetch.log 2>&1 || true
  rm -rf build/iceberg/cache
  [ -e "$runtime" ] || printf 'test: NOT FETCHED from Maven Central: %s\n' "$runtime" >&2
fi
[ "${1:-}" != fetch ] || exit 0
shift || true

export PYTHONPATH="$PWD/$folder${PYTHONPATH:+:$PYTHONPATH}"
python -c "import pyspark; assert pyspark.__version__ == '$oldest', pyspark.__version__"

# Beside the others, which leave a core when their last file is under way.
pytest -p no:cacheprovider "$@" tests/iceberg --junitxml=build/iceberg.xml >build/iceberg.log 2>&1 &
beside=$!

status=0
printf '\n== pytest on PySpark %s\n' "$oldest"
PYSLASH_STREAMS=1:7 pytest "$@" -n "$(nproc)" --dist loadfile -p no:cacheprovider tests/streaming/streams/test_random_streams.py \
  tests/streaming/test_deduplication.py::test_zeros_and_nans_are_one_key_and_rows_keep_their_own \
  tests/plan tests/driver/test_hook.py tests/driver/test_sinks.py tests/ingest/test_json.py tests/streaming/test_json.py ||
  status=1
wait $beside || status=1
printf '\n== pytest with Iceberg\n'
cat build/iceberg.log
exit $status
