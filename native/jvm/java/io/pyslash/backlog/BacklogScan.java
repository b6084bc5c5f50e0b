package io.pyslash.backlog;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** The connector's scan of Kafka topics, as a query reads them that is behind. */
record BacklogScan(Scan kafka, BacklogRules rules) implements Scan {
  @Override
  public StructType readSchema() {
    boolean isSampled = rules.order() == BacklogRules.Order.SAMPLED;
    return isSampled ? kafka.readSchema().add(Sampled.WEIGHT, DataTypes.DoubleType, false) : kafka.readSchema();
  }

  @Override
  public String description() {
    return kafka.description();
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpoint) {
    return new BacklogStream(kafka.toMicroBatchStream(checkpoint), rules);
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return kafka.supportedCustomMetrics();
  }

  @Override
  public CustomTaskMetric[] reportDriverMetrics() {
    return kafka.reportDriverMetrics();
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return kafka.columnarSupportMode();
  }
}
