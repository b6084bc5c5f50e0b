package io.pyslash.catalyst;

import io.pyslash.core.RowShape;
import java.nio.ByteBuffer;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Collect;
import org.apache.spark.sql.catalyst.expressions.aggregate.TypedAggregateWithHashMapAsBuffer;
import org.apache.spark.sql.execution.aggregate.ComplexTypedAggregateExpression;
import org.apache.spark.sql.execution.aggregate.ScalaAggregator;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What the bytes of an aggregate function's buffer look like: an UnsafeRow, of which one field may hold what the function
 * itself has written. Where that is UnsafeRows again they are checked, too; what else there is Spark reads out of arrays
 * and streams of Java's, which end where they end.
 */
final class BufferShape {
  private static final int END = -1; // in place of the size of a row

  private final RowShape row;
  private final int fields;
  private final RowShape within; // null: the field is not made of rows
  private final boolean isList; // of rows, with a size in front of each

  private BufferShape(StructType buffer, RowShape within, boolean isList) {
    this.row = RowShape.of(buffer);
    this.fields = buffer.length();
    this.within = within;
    this.isList = isList;
  }

  static BufferShape of(AggregateFunction function) {
    StructType buffer = function.aggBufferSchema();
    if (function instanceof TypedAggregateWithHashMapAsBuffer counts) {
      StructType pair = new StructType().add("key", counts.child().dataType()).add("count", DataTypes.LongType);
      return new BufferShape(buffer, RowShape.of(pair), true);
    }
    StructType held = null;
    if (function instanceof Collect<?> list) {
      held = new StructType().add("values", new ArrayType(list.bufferElementType(), true));
    } else if (function instanceof ScalaAggregator<?, ?, ?> aggregator) {
      held = columns(aggregator.bufferEncoder().namedExpressions());
    } else if (function instanceof ComplexTypedAggregateExpression aggregator) {
      held = columns(aggregator.bufferSerializer());
    }
    return new BufferShape(buffer, held == null ? null : RowShape.of(held), false);
  }

  private static StructType columns(Seq<?> expressions) {
    StructType columns = new StructType();
    for (Object one : CollectionConverters.asJava(expressions)) {
      columns = columns.add("c" + columns.length(), ((Expression) one).dataType());
    }
    return columns;
  }

  /** Fails unless {@code length} bytes from {@code offset} on are such a buffer. */
  void check(byte[] bytes, int offset, int length) {
    row.check(bytes, offset, length);
    if (within == null) {
      return;
    }
    UnsafeRow buffer = new UnsafeRow(fields);
    buffer.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET + offset, length);
    byte[] held = buffer.getBinary(0);
    if (held == null) {
      return;
    }
    if (!isList) {
      within.check(held, 0, held.length);
      return;
    }
    for (int at = 0; ; ) {
      int size = at > held.length - Integer.BYTES ? END : ByteBuffer.wrap(held).getInt(at);
      if (size < 0) {
        return; // or Spark finds the end of the stream
      }
      at += Integer.BYTES;
      within.check(held, at, size);
      at += size;
    }
  }
}
