#!/usr/bin/env bash
# What real pipelines need, into build/pipelines: a Kafka broker, Spark's connector, and the PySpark that it is made for.
# From PyPI and Maven Central; Spark's own Ivy is the client, so that nothing else has to be installed.
set -euo pipefail
cd "$(dirname "$0")/.."
spark=4.2.0 # the newest that has a connector
kafka=4.1.2
folder=build/pipelines

[ -e "$folder/.complete" ] && [ "$folder/.complete" -nt scripts/pipelines.sh ] && exit
rm -rf "$folder"
pip install --quiet --disable-pip-version-check --target "$folder/pyspark" "pyspark==$spark"

retrieve() { # folder, organisation, module, revision
  java -jar "$folder"/pyspark/pyspark/jars/ivy-*.jar -warn -m2compatible -cache "$folder/cache" -confs default \
    -dependency "$2" "$3" "$4" -retrieve "$folder/$1/[artifact]-[revision].[ext]" >/dev/null
}

retrieve broker org.apache.kafka kafka_2.13 $kafka
retrieve logging org.slf4j slf4j-simple 1.7.36
rm -f "$folder"/broker/slf4j-*
mv "$folder"/logging/*.jar "$folder/broker/"
retrieve connector org.apache.spark spark-sql-kafka-0-10_2.13 $spark
# What Spark brings itself.
rm -f "$folder"/connector/{hadoop-client,scala-,slf4j-,jsr305-,lz4-,snappy-}*
rm -rf "$folder/cache" "$folder/logging"
touch "$folder/.complete"
