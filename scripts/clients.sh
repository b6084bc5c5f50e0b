#!/usr/bin/env bash
# What tests come to Spark with, into build/clients, from PyPI by pip: Spark Connect's client as it is without Spark,
# `pyspark-client`; and Jupyter's kernel.
set -euo pipefail
cd "$(dirname "$0")/.."
client=4.2.0 # the newest; servers of other releases understand it
kernel=7.4.0
name=clients folder=build/clients
. scripts/fetch.sh

fetch_pyspark() {
  pip install --quiet --disable-pip-version-check --no-deps --target "$folder/pyspark" "pyspark-client==$client"
}

fetch_jupyter() {
  pip install --quiet --disable-pip-version-check --target "$folder/jupyter" "ipykernel==$kernel"
}

fetch_parts PyPI pyspark jupyter
