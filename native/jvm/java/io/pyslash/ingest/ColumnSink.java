package io.pyslash.ingest;

import java.io.Serializable;
import java.util.function.LongUnaryOperator;
import org.apache.spark.sql.types.StructType;

/**
 * What generated code calls when the task's {@link ColumnPage} is full: by a type of the JDK's, because Spark keeps
 * generated classes for other sessions, which may have loaded pyslash's once more.
 */
record ColumnSink(StructType schema) implements LongUnaryOperator, Serializable {
  @Override
  public long applyAsLong(long textBytes) {
    return ColumnPage.of(schema).flush(textBytes);
  }
}
