package io.pyslash.join;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What a join of two streams gives; travels with tasks.
 *
 * @param type of the join
 * @param left columns of the left side's rows
 * @param right columns of the right side's rows
 * @param condition what neither side decides alone, over the columns of both; null: rows of equal keys join
 */
record JoinRules(Type type, Seq<Attribute> left, Seq<Attribute> right, Expression condition) implements Serializable {
  /** Spark's types of joins that its streams have, by the names that they have in SQL. */
  enum Type {
    INNER,
    LEFT_OUTER,
    RIGHT_OUTER,
    FULL_OUTER,
    LEFT_SEMI;

    /** Whether rows of the left side count that have joined with nothing when they are evicted. */
    boolean keepsLeft() {
      return this == LEFT_OUTER || this == FULL_OUTER;
    }

    /** Likewise of the right side. */
    boolean keepsRight() {
      return this == RIGHT_OUTER || this == FULL_OUTER;
    }

    /** Whether it counts in later micro-batches that a row of the left side has joined. */
    boolean remembersLeft() {
      return keepsLeft() || this == LEFT_SEMI;
    }

    /** Whether it counts for rows of either side. */
    boolean remembers() {
      return this != INNER;
    }
  }

  StructType leftSchema() {
    return DataTypeUtils.fromAttributes(left);
  }

  StructType rightSchema() {
    return DataTypeUtils.fromAttributes(right);
  }

  /** The columns of both sides. */
  Seq<Attribute> both() {
    List<Attribute> all = new ArrayList<>(CollectionConverters.asJava(left));
    all.addAll(CollectionConverters.asJava(right));
    return CollectionConverters.asScala(all).toSeq();
  }
}
