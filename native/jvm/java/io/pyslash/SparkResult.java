package io.pyslash;

import java.io.Serializable;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** The result of an aggregate function, by Spark's own code, of what native code has kept of it. */
final class SparkResult extends Expression implements CodegenFallback, Serializable {
  private static final long serialVersionUID = 1L;
  private static final int HEAD_BYTES = 16; // of a buffer: its epoch and its length

  private final Expression child;
  private final AggregateFunction function;
  private final boolean isOfRegisters;
  private transient SparkFunction code;

  private SparkResult(Expression child, AggregateFunction function, boolean isOfRegisters) {
    this.child = child;
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
  public Object eval(InternalRow row) {
    if (code == null) {
      code = SparkFunction.of(function);
    }
    byte[] kept = (byte[]) child.eval(row);
    return code.result(isOfRegisters ? registers(kept) : merged(kept));
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
    InternalRow all = null;
    int at = 0;
    while (at < buffers.length) {
      long epoch = number(buffers, at);
      InternalRow ofEpoch = code.empty();
      while (at < buffers.length && number(buffers, at) == epoch) {
        int length = (int) number(buffers, at + Long.BYTES);
        code.merge(ofEpoch, code.view(buffers, at + HEAD_BYTES, length));
        at += HEAD_BYTES + length;
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

  private static long number(byte[] bytes, int at) {
    return Platform.getLong(bytes, Platform.BYTE_ARRAY_OFFSET + at);
  }

  @Override
  public ExprCode doGenCode(CodegenContext context, ExprCode result) {
    return CodegenFallback.super.doGenCode(context, result);
  }

  @Override
  public Seq<Expression> children() {
    return CollectionConverters.asScala(List.of(child)).toSeq();
  }

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> children) {
    return new SparkResult(children.head(), function, isOfRegisters);
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
  public int productArity() {
    return 2;
  }

  @Override
  public Object productElement(int index) {
    return index == 0 ? child : function;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof SparkResult;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof SparkResult result && result.child.equals(child) && result.function.equals(function);
  }

  @Override
  public int hashCode() {
    return 31 * child.hashCode() + function.hashCode();
  }
}
