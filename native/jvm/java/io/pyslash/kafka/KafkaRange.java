package io.pyslash.kafka;

import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.InputPartition;
import scala.Product;

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

  static KafkaRange of(InputPartition planned) throws ReflectiveOperationException {
    Object offsets = call(planned, "offsetRange");
    @SuppressWarnings("unchecked")
    Map<String, Object> params = (Map<String, Object>) call(planned, "executorKafkaParams");
    return new KafkaRange(
        planned,
        offsets,
        (TopicPartition) call(offsets, "topicPartition"),
        (long) call(offsets, "fromOffset"),
        (long) call(offsets, "untilOffset"),
        params,
        (long) call(planned, "pollTimeoutMs"));
  }

  /** Whether both ends are offsets: negative ones stand for the first and the last that there are. */
  boolean isResolved() {
    return from >= 0 && until >= 0;
  }

  /** The same for Spark's reader, from an offset on. */
  InputPartition rest(long offset) {
    try {
      int first = 1; // the topic partition, the first offset, the last one
      return (InputPartition) with(planned, 0, with(offsets, first, offset));
    } catch (ReflectiveOperationException unknown) {
      throw new IllegalStateException("the Kafka connector is of an unknown version", unknown);
    }
  }

  private static Object call(Object object, String method) throws ReflectiveOperationException {
    return object.getClass().getMethod(method).invoke(object);
  }

  private static Object with(Object product, int place, Object value) throws ReflectiveOperationException {
    Product fields = (Product) product;
    Object[] values = new Object[fields.productArity()];
    for (int i = 0; i < values.length; i++) {
      values[i] = i == place ? value : fields.productElement(i);
    }
    return product.getClass().getConstructors()[0].newInstance(values);
  }
}
