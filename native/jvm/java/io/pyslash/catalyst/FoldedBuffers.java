package io.pyslash.catalyst;

import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.Platform;

/**
 * One buffer of a group in the place of all that there are, of groups that no watermark ends: by Spark's own code, now and
 * then. Null of a group that has few.
 *
 * <pre>
 *   value of native `collect ... folds`:   int64 epoch up to whose end it stands for all, or -1 | buffer
 * </pre>
 */
final class FoldedBuffers extends UnaryFunction {
  private static final long serialVersionUID = 1L;

  private static final long OF_ROWS = -1;

  private final AggregateFunction function;
  private final long epoch;
  private final int least;
  private transient SparkResult buffers;

  /**
   * @param epoch the last one of which there are buffers
   * @param least so many buffers are few
   */
  FoldedBuffers(Expression kept, AggregateFunction function, long epoch, int least) {
    super(kept);
    this.function = function;
    this.epoch = epoch;
    this.least = least;
  }

  /** The buffer that a task has made of rows, as native code takes it. */
  static byte[] ofRows(byte[] buffer) {
    return headed(OF_ROWS, buffer);
  }

  private static byte[] headed(long epoch, byte[] buffer) {
    byte[] value = new byte[Long.BYTES + buffer.length];
    Platform.putLong(value, Platform.BYTE_ARRAY_OFFSET, epoch);
    System.arraycopy(buffer, 0, value, Long.BYTES, buffer.length);
    return value;
  }

  @Override
  Object of(Object kept) {
    if (buffers == null) {
      buffers = SparkResult.ofBuffers(child(), function);
    }
    return SparkResult.count((byte[]) kept) < least ? null : headed(epoch, buffers.buffer((byte[]) kept));
  }

  @Override
  UnaryFunction over(Expression other) {
    return new FoldedBuffers(other, function, epoch, least);
  }

  /** Whether the last buffer of a list is of this epoch: of those that stand for others, none is. */
  static Expression isChanged(Expression kept, long epoch) {
    return new Changed(kept, epoch);
  }

  private static final class Changed extends UnaryFunction {
    private static final long serialVersionUID = 1L;

    private final long epoch;

    Changed(Expression kept, long epoch) {
      super(kept);
      this.epoch = epoch;
    }

    @Override
    Object of(Object kept) {
      return SparkResult.lastEpoch((byte[]) kept) == epoch;
    }

    @Override
    UnaryFunction over(Expression other) {
      return new Changed(other, epoch);
    }

    @Override
    public DataType dataType() {
      return DataTypes.BooleanType;
    }
  }

  @Override
  public boolean nullable() {
    return true;
  }

  @Override
  public DataType dataType() {
    return DataTypes.BinaryType;
  }
}
