#!/usr/bin/env bash
# What tests take of Hadoop that PySpark has not, into build/hadoop: its S3 client, and its small YARN. Of the Hadoop that
# PySpark has, from Maven Central, by Spark's own Ivy. A part that cannot be fetched is named, and the other is there.
set -euo pipefail
cd "$(dirname "$0")/.."
sdk=2.35.4         # of AWS, as hadoop-aws 3.5.0 names it
accelerator=1.3.1  # the same
junit=5.13.4       # these two are what the small YARN does not bring itself
bouncycastle=1.78.1
name=hadoop folder=build/hadoop
jars=$(python -c 'import importlib.util as u; print(u.find_spec("pyspark").submodule_search_locations[0] + "/jars")')
hadoop=$(basename "$jars"/hadoop-client-api-*.jar .jar)
hadoop=${hadoop##*-}

. scripts/fetch.sh

# hadoop-aws names a bundle of all of AWS, of 670 MB. These 15 MB of it are what S3 takes.
fetch_s3() {
  retrieve s3 org.apache.hadoop hadoop-aws "$hadoop" -notransitive &&
    retrieve s3 software.amazon.s3.analyticsaccelerator analyticsaccelerator-s3 $accelerator -notransitive &&
    retrieve s3 software.amazon.awssdk s3-transfer-manager $sdk &&
    retrieve s3 software.amazon.awssdk sts $sdk &&
    rm -f "$folder"/s3/{netty-[!n],slf4j-,commons-codec-,commons-logging-,httpc}* # Spark brings them itself
}

fetch_yarn() {
  retrieve yarn org.apache.hadoop hadoop-client-minicluster "$hadoop" -notransitive &&
    retrieve yarn org.junit.jupiter junit-jupiter-api $junit -notransitive &&
    retrieve yarn org.bouncycastle bcpkix-jdk18on $bouncycastle
}

fetch_parts "Maven Central" s3 yarn
