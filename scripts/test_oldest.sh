#!/usr/bin/env bash
# A smoke run on the oldest supported PySpark, beside the environment's own: the plan, the hook, sinks, JSON, the Spark UI.
set -euo pipefail
cd "$(dirname "$0")/.."
oldest=4.0.0
folder=build/pyspark-$oldest

if ! [ -e "$folder/.complete" ]; then
  rm -rf "$folder"
  pip install --quiet --disable-pip-version-check --target "$folder" "pyspark==$oldest"
  touch "$folder/.complete"
fi
printf '\n== pytest on PySpark %s\n' "$oldest"
export PYTHONPATH="$PWD/$folder${PYTHONPATH:+:$PYTHONPATH}"
python -c "import pyspark; assert pyspark.__version__ == '$oldest', pyspark.__version__"
pytest -n 2 --dist loadfile -p no:cacheprovider tests/plan tests/streaming/test_hook.py tests/streaming/test_sinks.py \
  tests/tasks/test_json.py tests/streaming/test_deduplication.py
