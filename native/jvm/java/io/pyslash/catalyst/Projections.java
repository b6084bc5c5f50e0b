package io.pyslash.catalyst;

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
public final class Projections {
  private static final int MOST_INTERPRETED = 1_000;

  private Projections() {}

  /** To these expressions of rows with these attributes. */
  static UnsafeProjection of(Seq<Expression> expressions, Seq<Attribute> input, int rows) {
    if (rows > MOST_INTERPRETED) {
      return UnsafeProjection.create(expressions, input);
    }
    List<Attribute> attributes = CollectionConverters.asJava(input);
    List<Expression> bound = new ArrayList<>();
    CollectionConverters.asJava(expressions).forEach(one -> bound.add(SparkFunction.bound(one, attributes)));
    return InterpretedUnsafeProjection.createProjection(CollectionConverters.asScala(bound).toSeq());
  }

  /** Of rows of this schema, whatever holds them. */
  public static UnsafeProjection of(StructType schema, int rows) {
    Seq<Expression> columns = columns(schema, 0);
    return rows > MOST_INTERPRETED
        ? UnsafeProjection.create(columns)
        : InterpretedUnsafeProjection.createProjection(columns);
  }

  /** The columns of rows that have these fields from a place on. */
  public static Seq<Expression> columns(StructType fields, int from) {
    List<Expression> columns = new ArrayList<>();
    for (StructField field : fields.fields()) {
      columns.add(new BoundReference(from + columns.size(), field.dataType(), true));
    }
    return CollectionConverters.asScala(columns).toSeq();
  }
}
