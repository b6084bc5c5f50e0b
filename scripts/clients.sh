#!/usr/bin/env bash
# Spark Connect's client as it is without Spark, `pyspark-client`, into build/clients, for tests. From PyPI, by pip.
set -euo pipefail
cd "$(dirname "$0")/.."
client=4.2.0 # the newest; servers of other releases understand it
name=clients folder=build/clients
. scripts/fetch.sh

fetch_pyspark() {
  pip install --quiet --disable-pip-version-check --no-deps --target "$folder/pyspark" "pyspark-client==$client"
}

fetch_parts PyPI pyspark
