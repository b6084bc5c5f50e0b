package io.pyslash.join;

import java.io.Serializable;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * One side of a join of two streams, as Spark has planned it for a micro-batch; travels with tasks. Times are microseconds.
 *
 * @param columns of its rows
 * @param keys over these columns
 * @param own the part of the join's condition that these columns decide alone; null: there is none
 * @param late where rows have the time by which they are late; null: none of them is
 * @param lateUntil rows of times up to this are late
 * @param expiring where rows, or by {@code byKey} their keys, have the time by which they are evicted; null: none of them is
 * @param shift so much more than the watermark that time is when the row is evicted
 */
record JoinSide(
    Seq<Attribute> columns,
    Seq<Expression> keys,
    Expression own,
    TimeField late,
    long lateUntil,
    TimeField expiring,
    boolean byKey,
    long shift)
    implements Serializable {

  List<Attribute> columnList() {
    return CollectionConverters.asJava(columns);
  }

  boolean expires() {
    return expiring != null;
  }
}
