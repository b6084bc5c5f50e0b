package io.pyslash.records;

import io.pyslash.core.Native;
import java.io.Serializable;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.LongAccumulator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * `from_json` or `from_avro` of a task, record by record: by native code where that is certain to read as Spark does, else by
 * Spark's own expression.
 *
 * <p>A row is valid until the next record, as Spark's operators have their rows.
 */
public final class RecordDecoder implements Function<Object, Object>, Serializable {
  private static final long serialVersionUID = 1L;
  private static final long FIRST_BYTES = 1 << 12;
  private static final int MOST_BYTES = 1 << 20; // of a record: Jackson has bounds of its own for what is longer

  private final byte[] schema;
  private final int fields;
  private final Expression spark;
  private final LongAccumulator leftToSpark;

  private transient TaskContext task;
  private transient long reader;
  private transient long page;
  private transient long pageBytes;
  private transient UnsafeRow row;

  /** `schema`: as the native core's RecordReader reads it; `spark`: Spark's expression; `leftToSpark` counts records. */
  public RecordDecoder(byte[] schema, Expression spark, LongAccumulator leftToSpark) {
    this.schema = schema;
    fields = ((StructType) spark.dataType()).length();
    Expression input = new BoundReference(0, spark.children().head().dataType(), true);
    this.spark = spark.withNewChildren(CollectionConverters.asScala(List.of(input)).toSeq());
    this.leftToSpark = leftToSpark;
  }

  @Override
  public InternalRow apply(Object record) {
    return record instanceof UTF8String text
        ? decoded(text, text.getBaseObject(), text.getBaseOffset(), text.numBytes())
        : decoded(record, record, Platform.BYTE_ARRAY_OFFSET, ((byte[]) record).length);
  }

  private InternalRow decoded(Object record, Object base, long offset, int size) {
    TaskContext current = TaskContext.get();
    if (current == null || size > MOST_BYTES) { // native memory belongs to a task
      return bySpark(record);
    }
    if (current != task) {
      open(current);
    }
    if (size > pageBytes) {
      grow(size);
    }
    Platform.copyMemory(base, offset, null, page, size);
    long found = Native.readRecord(reader, page, size);
    if (found == 0) {
      return bySpark(record);
    }
    row.pointTo(null, Platform.getLong(null, found + Long.BYTES), (int) Platform.getLong(null, found));
    return row;
  }

  private InternalRow bySpark(Object record) {
    leftToSpark.add(1L);
    return (InternalRow) spark.eval(new GenericInternalRow(new Object[] {record}));
  }

  private void open(TaskContext current) {
    close();
    task = current;
    row = new UnsafeRow(fields);
    reader = Native.createRecordReader(schema, false);
    current.<Void>addTaskCompletionListener(
        ended -> {
          if (ended == task) {
            close();
          }
          return null;
        });
    grow(FIRST_BYTES);
  }

  private void grow(long bytes) {
    Platform.freeMemory(page);
    page = 0;
    pageBytes = 0;
    page = Platform.allocateMemory(2 * bytes);
    pageBytes = 2 * bytes;
  }

  private void close() {
    if (task != null) {
      Native.closeRecordReader(reader);
      Platform.freeMemory(page);
      page = 0;
      pageBytes = 0;
      task = null;
    }
  }
}
