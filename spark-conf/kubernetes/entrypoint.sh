#!/usr/bin/env bash
# What Spark on Kubernetes asks of an image: `driver ARGUMENTS...` and `executor`, their settings in the environment.
set -euo pipefail

case ${1:-} in
driver)
  shift
  exec "$SPARK_HOME/bin/spark-submit" --deploy-mode client \
    --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
    --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" "$@"
  ;;
executor)
  # SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, ...: options of the JVM, one a variable, in this order.
  options=()
  for ((number = 0; ; number++)); do
    name=SPARK_JAVA_OPT_$number
    [ -n "${!name+set}" ] || break
    options+=("${!name}")
  done
  java=${JAVA_HOME:+$JAVA_HOME/bin/}java
  classes=${SPARK_CONF_DIR:+$SPARK_CONF_DIR:}${SPARK_EXTRA_CLASSPATH:+$SPARK_EXTRA_CLASSPATH:}$SPARK_HOME/jars/*:$PWD
  exec "$java" "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$classes" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
  ;;
*) exec "$@" ;;
esac
