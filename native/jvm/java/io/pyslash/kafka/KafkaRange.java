package io.pyslash.kafka;

import io.pyslash.core.SlashException;
import io.pyslash.shim.KafkaConnector;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.InputPartition;

/**
 * The records of one topic partition that a task is to read, as Spark's connector has planned them. Its classes are found by
 * their methods' names: the connector has a version of its own, and need not be there at all.
 */
record KafkaRange(
    InputPartition planned,
    Object offsets,
    TopicPartition partition,
    long from,
    long until,
    Map<String, Object> params,
    long pollMillis) {

  static KafkaRange of(InputPartition planned) {
    Object offsets = KafkaConnector.get(planned, "offsetRange");
    Map<String, Object> params = KafkaConnector.get(planned, "executorKafkaParams");
    return new KafkaRange(
        planned,
        offsets,
        KafkaConnector.<TopicPartition>get(offsets, "topicPartition"),
        KafkaConnector.<Long>get(offsets, "fromOffset"),
        KafkaConnector.<Long>get(offsets, "untilOffset"),
        params,
        KafkaConnector.<Long>get(planned, "pollTimeoutMs"));
  }

  /** Whether both ends are offsets: negative ones stand for the first and the last that there are. */
  boolean isResolved() {
    return from >= 0 && until >= 0;
  }

  /** The same for Spark's reader, from an offset on. */
  InputPartition rest(long offset) {
    try {
      return KafkaConnector.from(planned, offsets, offset);
    } catch (SlashException unknown) {
      throw unknown.forDriver();
    }
  }
}
