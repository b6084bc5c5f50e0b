package io.pyslash;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InterpretedUnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Projections in the driver, of so many rows: to generate code takes milliseconds, in each micro-batch for its own
 * attributes, in which Spark's interpreter projects some thousand rows.
 */
final class Projections {
  private static final int MOST_INTERPRETED = 1_000;

  private Projections() {}

  /** To these expressions of rows with these attributes. */
  static UnsafeProjection of(Seq<Expression> expressions, Seq<Attribute> input, int rows) {
    if (rows > MOST_INTERPRETED) {
      return UnsafeProjection.create(expressions, input);
    }
    List<Expression> bound = new ArrayList<>();
    CollectionConverters.asJava(expressions).forEach(one -> bound.add(bound(one, input)));
    return of(bound, rows);
  }

  private static UnsafeProjection of(List<Expression> bound, int rows) {
    Seq<Expression> expressions = CollectionConverters.asScala(bound).toSeq();
    return rows <= MOST_INTERPRETED
        ? InterpretedUnsafeProjection.createProjection(expressions)
        : UnsafeProjection.create(expressions);
  }

  /** Of rows of this schema, whatever holds them. */
  static UnsafeProjection of(StructType schema, int rows) {
    List<Expression> columns = new ArrayList<>();
    for (StructField field : schema.fields()) {
      columns.add(new BoundReference(columns.size(), field.dataType(), true));
    }
    return of(columns, rows);
  }

  private static Expression bound(Expression expression, Seq<Attribute> input) {
    if (expression instanceof Attribute read) {
      int place = input.indexWhere(one -> one.exprId().equals(read.exprId()), 0);
      Attribute column = input.apply(place);
      return new BoundReference(place, column.dataType(), column.nullable());
    }
    List<Expression> children = new ArrayList<>();
    CollectionConverters.asJava(expression.children()).forEach(child -> children.add(bound(child, input)));
    return children.isEmpty()
        ? expression
        : expression.withNewChildren(CollectionConverters.asScala(children).toSeq());
  }
}
