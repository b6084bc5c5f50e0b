package io.pyslash.catalyst;

import java.io.Serializable;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The buffer of an aggregate function that Spark's own code computes, as a column of the update's input. {@link
 * BuffersExec} gives it: nothing evaluates this expression.
 */
final class BufferOf extends Expression implements Serializable {
  private static final long serialVersionUID = 1L;

  private final AggregateFunction function;
  private final Expression filter; // null: all rows count

  BufferOf(AggregateFunction function, Expression filter) {
    this.function = function;
    this.filter = filter;
  }

  AggregateFunction function() {
    return function;
  }

  Expression filter() {
    return filter;
  }

  @Override
  public String sql() {
    return "buffer of " + function.sql() + (filter == null ? "" : " where " + filter.sql());
  }

  @Override
  public DataType dataType() {
    return DataTypes.BinaryType;
  }

  @Override
  public boolean nullable() {
    return true;
  }

  /** Spark has functions that depend on the order of rows as not deterministic; a buffer keeps to that order. */
  @Override
  public boolean deterministic() {
    return true;
  }

  @Override
  public Seq<Expression> children() {
    List<Expression> children = filter == null ? List.of(function) : List.of(function, filter);
    return CollectionConverters.asScala(children).toSeq();
  }

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> children) {
    return new BufferOf((AggregateFunction) children.head(), filter == null ? null : children.apply(1));
  }

  @Override
  public Object eval(InternalRow row) {
    throw new UnsupportedOperationException(sql() + " is no value of a row");
  }

  @Override
  public ExprCode doGenCode(CodegenContext context, ExprCode code) {
    throw new UnsupportedOperationException(sql() + " is no value of a row");
  }

  @Override
  public int productArity() {
    return filter == null ? 1 : 2;
  }

  @Override
  public Object productElement(int index) {
    return index == 0 ? function : filter;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof BufferOf;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof BufferOf buffer && buffer.children().equals(children());
  }

  @Override
  public int hashCode() {
    return children().hashCode();
  }
}
