#!/usr/bin/env bash
# What real pipelines need, into build/pipelines: a Kafka broker, clients for it and for PostgreSQL, and Spark's connector,
# its Avro and Delta with the PySpark that they are made for. From PyPI and Maven Central, by pip and Spark's own Ivy, so that
# nothing else has to be installed. A part that cannot be fetched is named, and the others are there.
set -euo pipefail
cd "$(dirname "$0")/.."
spark=4.2.0 # the newest that has a connector and a Delta
kafka=4.1.2
kafka_client=2.16.1
postgres_client=3.3.9
delta=4.4.0
name=pipelines folder=build/pipelines
jars=$folder/pyspark/pyspark/jars
. scripts/fetch.sh

install() { # packages, beside PySpark
  pip install --quiet --disable-pip-version-check --target "$folder/pyspark" "$@"
}

fetch_pyspark() {
  install "pyspark==$spark"
}

fetch_broker() {
  retrieve broker org.apache.kafka kafka_2.13 $kafka && rm -f "$folder"/broker/slf4j-* &&
    retrieve broker org.slf4j slf4j-simple 1.7.36
}

fetch_connector() {
  retrieve connector org.apache.spark spark-sql-kafka-0-10_2.13 $spark &&
    rm -f "$folder"/connector/{hadoop-client,scala-,slf4j-,jsr305-,lz4-,snappy-}* # Spark brings them itself
}

fetch_clients() {
  install --no-deps "confluent-kafka==$kafka_client" "psycopg==$postgres_client" "psycopg-binary==$postgres_client"
}

fetch_delta() {
  retrieve delta io.delta "delta-spark_${spark%.*}_2.13" $delta &&
    find "$folder/delta" -name '*.jar' ! -name 'delta-*' ! -name 'unitycatalog-*' -delete && # Spark brings the others
    install --no-deps "delta-spark==$delta" "importlib-metadata<=8.7.1" zipp
}

fetch_avro() {
  retrieve avro org.apache.spark spark-avro_2.13 $spark && find "$folder/avro" -name '*.jar' ! -name 'spark-avro*' -delete
}

fetch_parts "PyPI or Maven Central" pyspark broker clients connector delta avro
