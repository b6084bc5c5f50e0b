package io.pyslash.catalyst;

import io.pyslash.core.SlashException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;

/** The result of an aggregate function, by Spark's own code, of what native code has kept of it. */
final class SparkResult extends UnaryFunction {
  private static final long serialVersionUID = 1L;
  private static final int HEAD_BYTES = 16; // of a buffer: its epoch and its length

  private final AggregateFunction function;
  private final boolean isOfRegisters;
  private transient SparkFunction code;

  private SparkResult(Expression child, AggregateFunction function, boolean isOfRegisters) {
    super(child);
    this.function = function;
    this.isOfRegisters = isOfRegisters;
  }

  /** Of a list of buffers, as native `collect` gives it. */
  static SparkResult ofBuffers(Expression kept, AggregateFunction function) {
    return new SparkResult(kept, function, false);
  }

  /** Of the registers of HyperLogLog++, as native `approx_count_distinct` gives them. */
  static SparkResult ofRegisters(Expression kept, AggregateFunction function) {
    return new SparkResult(kept, function, true);
  }

  @Override
  Object of(Object kept) {
    return code().result(isOfRegisters ? registers((byte[]) kept) : merged((byte[]) kept));
  }

  /** All buffers of a list as one. */
  byte[] buffer(byte[] buffers) {
    return code().bytes(merged(buffers));
  }

  /** So many buffers are in a list. */
  static int count(byte[] buffers) {
    int count = 0;
    for (int at = 0; at < buffers.length; at = next(buffers, at)) {
      count++;
    }
    return count;
  }

  /** The epoch of the last buffer in a list; -1: it has none, of a function that the query has had for less time. */
  static long lastEpoch(byte[] buffers) {
    if (buffers.length == 0) {
      return -1;
    }
    int last = 0;
    for (int at = 0; at < buffers.length; at = next(buffers, at)) {
      last = at;
    }
    return number(buffers, last);
  }

  private SparkFunction code() {
    if (code == null) {
      code = SparkFunction.of(function);
    }
    return code;
  }

  @Override
  UnaryFunction over(Expression other) {
    return new SparkResult(other, function, isOfRegisters);
  }

  private static InternalRow registers(byte[] words) {
    Object[] buffer = new Object[words.length / Long.BYTES];
    for (int i = 0; i < buffer.length; i++) {
      buffer[i] = Platform.getLong(words, Platform.BYTE_ARRAY_OFFSET + (long) i * Long.BYTES);
    }
    return new GenericInternalRow(buffer);
  }

  /** As Spark merges: the buffers of an epoch's tasks with each other, and then with what there was. */
  private InternalRow merged(byte[] buffers) {
    return code().isAssociative() ? mergedInOrder(buffers) : mergedByEpoch(buffers);
  }

  /** Each into what those before it have become: none is written again to be read again. */
  private InternalRow mergedInOrder(byte[] buffers) {
    InternalRow all = code.empty();
    for (int at = 0; at < buffers.length; ) {
      int end = next(buffers, at);
      code.merge(all, code.view(buffers, at + HEAD_BYTES, end - at - HEAD_BYTES));
      at = end;
    }
    return all;
  }

  private InternalRow mergedByEpoch(byte[] buffers) {
    InternalRow all = null;
    int at = 0;
    while (at < buffers.length) {
      long epoch = number(buffers, at);
      InternalRow ofEpoch = code.empty();
      while (at < buffers.length && number(buffers, at) == epoch) {
        int end = next(buffers, at);
        code.merge(ofEpoch, code.view(buffers, at + HEAD_BYTES, end - at - HEAD_BYTES));
        at = end;
      }
      if (all == null) {
        all = ofEpoch;
      } else {
        byte[] bytes = code.bytes(ofEpoch);
        code.merge(all, code.view(bytes, 0, bytes.length));
      }
    }
    return all == null ? code.empty() : all;
  }

  /** Where the buffer ends that begins there. */
  private static int next(byte[] buffers, int at) {
    long length = number(buffers, at + Long.BYTES);
    if (length < 0 || length > buffers.length - at - HEAD_BYTES) {
      throw endsEarly();
    }
    return at + HEAD_BYTES + (int) length;
  }

  private static long number(byte[] bytes, int at) {
    if (at > bytes.length - Long.BYTES) {
      throw endsEarly();
    }
    return Platform.getLong(bytes, Platform.BYTE_ARRAY_OFFSET + at);
  }

  private static RuntimeException endsEarly() {
    return new SlashException("CorruptBlockError", "a list of buffers ends within one of them").forDriver();
  }

  @Override
  public DataType dataType() {
    return function.dataType();
  }

  @Override
  public boolean nullable() {
    return function.nullable();
  }

  @Override
  public boolean equals(Object other) {
    return super.equals(other) && ((SparkResult) other).function.equals(function);
  }

  @Override
  public int hashCode() {
    return 31 * super.hashCode() + function.hashCode();
  }
}
