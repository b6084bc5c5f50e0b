package io.pyslash.catalyst;

import java.io.Serializable;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.ObjectType;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** A function of one value, null of null, which generated code calls. */
abstract class UnaryFunction extends Expression implements Function<Object, Object>, Serializable {
  private static final long serialVersionUID = 1L;

  private final Expression child;

  UnaryFunction(Expression child) {
    this.child = child;
  }

  /** Of a value that is not null. */
  abstract Object of(Object value);

  /** The same of another value. */
  abstract UnaryFunction over(Expression other);

  final Expression child() {
    return child;
  }

  @Override
  public final Object eval(InternalRow row) {
    Object value = child.eval(row);
    return value == null ? null : of(value);
  }

  @Override
  public final Object apply(Object value) {
    return of(value);
  }

  /** As an interface of Java's own: generated code finds no class of an added jar. */
  @Override
  public final ExprCode doGenCode(CodegenContext context, ExprCode result) {
    Expression self = new Literal(this, ObjectType.apply(Function.class));
    Seq<AbstractDataType> anyTypes = CollectionConverters.asScala(List.<AbstractDataType>of()).toSeq();
    return new Invoke(self, "apply", dataType(), children(), anyTypes, true, true, true).genCode(context);
  }

  @Override
  public boolean nullable() {
    return child.nullable();
  }

  @Override
  public final Seq<Expression> children() {
    return CollectionConverters.asScala(List.of(child)).toSeq();
  }

  @Override
  public final Expression withNewChildrenInternal(IndexedSeq<Expression> children) {
    return over(children.head());
  }

  @Override
  public final int productArity() {
    return 2;
  }

  @Override
  public final Object productElement(int index) {
    return index == 0 ? child : dataType();
  }

  @Override
  public final boolean canEqual(Object other) {
    return getClass().isInstance(other);
  }

  @Override
  public boolean equals(Object other) {
    return canEqual(other) && ((UnaryFunction) other).child.equals(child);
  }

  @Override
  public int hashCode() {
    return child.hashCode();
  }
}
