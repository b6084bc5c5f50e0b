package io.pyslash.kafka;

import io.pyslash.backlog.Sampled;
import io.pyslash.shim.KafkaConnector;
import org.apache.spark.sql.connector.read.InputPartition;

/** Partitions of topics by their names. */
public final class TopicPartitions {
  private TopicPartitions() {}

  /** The one that a range of offsets is of, as Kafka writes it: `topic-number`; null if it is planned by another source. */
  public static String of(InputPartition planned) {
    InputPartition range = planned instanceof Sampled sample ? sample.kafka() : planned;
    if (!KafkaConnector.plans(range)) {
      return null;
    }
    Object offsets = KafkaConnector.get(range, "offsetRange");
    return KafkaConnector.get(offsets, "topicPartition").toString();
  }
}
