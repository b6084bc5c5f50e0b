package io.pyslash.shim;

import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import scala.Product;

/**
 * Spark's connector to Kafka. It has a version of its own and need not be there at all, so its names are looked up where its
 * objects come.
 */
public final class KafkaConnector {
  private static final String STREAM = "org.apache.spark.sql.kafka010.KafkaMicroBatchStream";
  private static final String RANGE = "org.apache.spark.sql.kafka010.KafkaBatchInputPartition";

  private KafkaConnector() {}

  /** Whether a stream is the connector's. */
  public static boolean reads(SparkDataStream stream) {
    return stream.getClass().getName().equals(STREAM);
  }

  /** Whether what a task is to read is a range of offsets. */
  public static boolean plans(InputPartition partition) {
    return partition.getClass().getName().equals(RANGE);
  }

  /** What a public method without parameters gives. */
  public static <T> T get(Object object, String method) {
    return Member.call(Member.method(object.getClass(), method), object);
  }

  /** A partition that starts at another offset. */
  public static InputPartition from(InputPartition planned, Object offsets, long offset) {
    int first = 1; // the topic partition, the first offset, the last one
    return (InputPartition) with(planned, 0, with(offsets, first, offset));
  }

  private static Object with(Object product, int place, Object value) {
    Product fields = (Product) product;
    Object[] values = new Object[fields.productArity()];
    for (int i = 0; i < values.length; i++) {
      values[i] = i == place ? value : fields.productElement(i);
    }
    return Member.make(Member.constructor(product.getClass()), values);
  }
}
