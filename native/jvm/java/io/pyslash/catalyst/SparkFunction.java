package io.pyslash.catalyst;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.MutableProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.CollectList;
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate;
import org.apache.spark.sql.catalyst.expressions.aggregate.ImperativeAggregate;
import org.apache.spark.sql.catalyst.expressions.aggregate.Percentile;
import org.apache.spark.sql.catalyst.expressions.aggregate.TypedImperativeAggregate;
import org.apache.spark.unsafe.Platform;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** An aggregate function run by Spark's own code: rows into buffers, buffers into one, a buffer into the result. */
abstract class SparkFunction {
  private final UnsafeProjection toBytes;
  private final int fields;
  private final BufferShape shape;
  private final boolean isAssociative;

  /** Of buffers only: it takes no rows. */
  static SparkFunction of(AggregateFunction function) {
    return of(function, List.of());
  }

  /** `columns` are those of the rows that it takes. */
  static SparkFunction of(AggregateFunction function, List<Attribute> columns) {
    return function instanceof DeclarativeAggregate declarative
        ? new Declarative(declarative, columns)
        : new Imperative((ImperativeAggregate) function, columns);
  }

  private SparkFunction(AggregateFunction function) {
    fields = function.aggBufferSchema().length();
    toBytes = UnsafeProjection.create(function.aggBufferSchema());
    shape = BufferShape.of(function);
    isAssociative = function instanceof CollectList || function instanceof Percentile;
  }

  /** Whether buffers that are merged into one after the other give what they give in groups. */
  final boolean isAssociative() {
    return isAssociative;
  }

  /** The expression, evaluated over rows of these columns. */
  static Expression bound(Expression expression, List<? extends Attribute> columns) {
    return WindowedInput.replaced(
        expression,
        part -> {
          for (int i = 0; part instanceof Attribute attribute && i < columns.size(); i++) {
            Attribute column = columns.get(i);
            if (column.exprId().id() == attribute.exprId().id()) {
              return new BoundReference(i, column.dataType(), column.nullable());
            }
          }
          return null;
        });
  }

  /** A buffer that has taken nothing. */
  abstract InternalRow empty();

  abstract void update(InternalRow buffer, InternalRow row);

  /** Takes over another buffer, which came out of {@link #bytes}. */
  abstract void merge(InternalRow buffer, InternalRow other);

  abstract Object result(InternalRow buffer);

  /** Has the buffer hold what Spark would write of it: it takes no more rows. */
  abstract void seal(InternalRow buffer);

  /** What the buffer holds, as an UnsafeRow; it takes no more. */
  final byte[] bytes(InternalRow buffer) {
    seal(buffer);
    return toBytes.apply(buffer).copy().getBytes();
  }

  /** The buffer that such bytes hold, wherever they come from. */
  final InternalRow view(byte[] bytes, int offset, int length) {
    shape.check(bytes, offset, length);
    UnsafeRow row = new UnsafeRow(fields);
    row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET + offset, length);
    return row;
  }

  private static final class Imperative extends SparkFunction {
    private final ImperativeAggregate function;
    private final int fields;

    Imperative(ImperativeAggregate function, List<Attribute> columns) {
      super(function);
      fields = function.aggBufferSchema().length();
      this.function =
          (ImperativeAggregate)
              bound(function.withNewMutableAggBufferOffset(0).withNewInputAggBufferOffset(0), columns);
    }

    @Override
    InternalRow empty() {
      InternalRow buffer = new GenericInternalRow(new Object[fields]);
      function.initialize(buffer);
      return buffer;
    }

    @Override
    void update(InternalRow buffer, InternalRow row) {
      function.update(buffer, row);
    }

    @Override
    void merge(InternalRow buffer, InternalRow other) {
      function.merge(buffer, other);
    }

    @Override
    Object result(InternalRow buffer) {
      return function.eval(buffer);
    }

    @Override
    void seal(InternalRow buffer) {
      if (function instanceof TypedImperativeAggregate<?> typed) {
        typed.serializeAggregateBufferInPlace(buffer);
      }
    }
  }

  private static final class Declarative extends SparkFunction {
    private final List<Expression> initial;
    private final MutableProjection update; // null: it takes no rows
    private final MutableProjection merge;
    private final Expression result;
    private final JoinedRow both = new JoinedRow();

    Declarative(DeclarativeAggregate function, List<Attribute> columns) {
      super(function);
      List<Attribute> buffer = new ArrayList<>(CollectionConverters.asJava(function.aggBufferAttributes()));
      initial = CollectionConverters.asJava(function.initialValues());
      update =
          columns.isEmpty() ? null : MutableProjection.create(function.updateExpressions(), joined(buffer, columns));
      merge =
          MutableProjection.create(
              function.mergeExpressions(),
              joined(buffer, CollectionConverters.asJava(function.inputAggBufferAttributes())));
      result = bound(function.evaluateExpression(), buffer);
    }

    private static Seq<Attribute> joined(List<Attribute> buffer, List<? extends Attribute> others) {
      List<Attribute> all = new ArrayList<>(buffer);
      all.addAll(others);
      return CollectionConverters.asScala(all).toSeq();
    }

    @Override
    InternalRow empty() {
      return new GenericInternalRow(initial.stream().map(value -> value.eval(InternalRow.empty())).toArray());
    }

    @Override
    void update(InternalRow buffer, InternalRow row) {
      update.target(buffer).apply(both.apply(buffer, row));
    }

    @Override
    void merge(InternalRow buffer, InternalRow other) {
      merge.target(buffer).apply(both.apply(buffer, other));
    }

    @Override
    Object result(InternalRow buffer) {
      return result.eval(buffer);
    }

    @Override
    void seal(InternalRow buffer) {}
  }
}
