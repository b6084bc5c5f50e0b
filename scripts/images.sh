#!/usr/bin/env bash
# An image for each Spark that is supported, NAME:VERSION-sparkSPARK, from spark-conf/kubernetes/Dockerfile and the wheel that
# `make wheels ARGS=cp311` has left in dist/. The newest release of each of Spark's lines.
# Arguments: the image's name, with its registry where it is to be pushed; then versions of Spark, all by default.
set -euo pipefail
cd "$(dirname "$0")/.."
name=${1:?the name of the image}
shift
[ $# -gt 0 ] || set -- 4.0.5 4.1.4 4.2.1 4.3.0
wheels=(dist/pyslash_streaming-*-cp311-*.whl)
[ -e "${wheels[0]}" ] || { printf 'images: no wheel in dist/: make wheels ARGS=cp311\n' >&2; exit 1; }
version=${wheels[0]#dist/pyslash_streaming-}
version=${version%%-*}
for spark in "$@"; do
  docker build --build-arg "PYSPARK===$spark" --tag "$name:$version-spark$spark" \
    --file spark-conf/kubernetes/Dockerfile .
done
