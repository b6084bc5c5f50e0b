package io.pyslash.backlog;

import io.pyslash.backlog.Estimates.ObstacleException;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Average;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.NumericType;

/**
 * What one count, sum or mean is estimated from, in SQL. Of the records that were taken, x is its argument and w the weight:
 * the sum of w - 1 is how many were not taken by estimate, and that of w (w - 1) the variance of this estimate.
 *
 * @param call the job's own
 * @param number tells its columns from those of others
 * @param type of the result, in SQL
 */
record Estimate(AggregateExpression call, int number, String type) {
  /** Of all aggregates of a group: how many records were not taken, by estimate, whether x is known or not. */
  static final String LEFT_OUT = "_slash_left";

  static final String SUM_OF_LEFT_OUT = "sum(" + Sampled.WEIGHT + " - 1D)";

  private static final int LEAST_RECORDS = 30; // of a group, in samples: the mean of fewer need not be normal
  private static final double NORMAL_95 = 1.959963984540054;
  private static final double MIDDLE = NORMAL_95 * NORMAL_95 / 2;

  static Estimate of(NamedExpression column, int number) {
    if (!(column instanceof Alias alias) || !(alias.child() instanceof AggregateExpression call)) {
      throw new ObstacleException("it computes with aggregates in their own list; do that in a select() behind it");
    }
    AggregateFunction function = call.aggregateFunction();
    boolean isKnown = function instanceof Count || function instanceof Sum || function instanceof Average;
    if (!isKnown || function.children().size() != 1) {
      throw new ObstacleException(function.prettyName() + " of a sample says nothing of the rest");
    }
    if (call.isDistinct() || call.filter().isDefined() || !(call.dataType() instanceof NumericType)) {
      throw new ObstacleException(call.sql() + " is not estimated");
    }
    return new Estimate(call, number, call.dataType().sql());
  }

  Expression input() {
    return call.aggregateFunction().children().head();
  }

  /** A column of this one's alone. */
  String name(String of) {
    return "_slash_" + of + number;
  }

  /** What is summed up besides what the job sums up itself, by name. */
  Map<String, String> sums() {
    String more = "(" + Sampled.WEIGHT + " - 1D)";
    String variance = "(" + Sampled.WEIGHT + " * " + more + ")";
    String skew = variance + " * " + more;
    String value = "CAST(" + name("x") + " AS DOUBLE)";
    String isNull = name("x") + " IS NULL";
    Map<String, String> counts =
        Map.of(
            "n", "count(" + name("x") + ")",
            "rest", "sum(IF(" + isNull + ", 0D, " + more + "))",
            "var", "sum(IF(" + isNull + ", 0D, " + variance + "))");
    Map<String, String> all = new TreeMap<>(counts);
    if (isCount()) {
      all.put("skew", "sum(IF(" + isNull + ", 0D, " + skew + "))");
      return all;
    }
    all.put("xrest", "sum(" + value + " * " + more + ")");
    all.put("xxvar", "sum(" + value + " * " + value + " * " + variance + ")");
    if (!isMean()) {
      all.put("skew", "sum(" + value + " * " + value + " * " + value + " * " + skew + ")");
    } else {
      all.put("xsum", "sum(" + value + ")");
      all.put("xvar", "sum(" + value + " * " + variance + ")");
    }
    return all;
  }

  /** The estimate, in the type of the job's own column; where all records were taken, that column as it is. */
  String value() {
    return "IF(" + isExact() + ", " + name("s") + ", CAST(" + estimated() + " AS " + type + "))";
  }

  private String estimated() {
    if (isMean()) {
      return "IF(" + name("n") + " > 0, " + estimate() + ", NULL)";
    }
    String rest = "coalesce(" + name(isCount() ? "rest" : "xrest") + ", 0D)";
    boolean isWhole = call.dataType().equals(DataTypes.LongType);
    String added = isWhole ? "CAST(round(" + rest + ") AS BIGINT)" : "CAST(" + rest + " AS " + type + ")";
    return name("s") + " + " + added;
  }

  /**
   * The bounds; null where too few records were taken to tell. Where an estimate is low by chance, so is that of its variance:
   * they are as far off as the true variance says, which moves their middle (Wilson's interval, of a count).
   */
  String interval() {
    String moved = MIDDLE + "D * " + name("skew") + " / " + variance();
    String middle = isMean() ? "0D" : "IF(" + variance() + " > 0D, " + moved + ", 0D)";
    String squared = 2 * MIDDLE + "D * greatest(" + variance() + ", 0D) + " + middle + " * " + middle;
    String off = "sqrt(" + squared + ")";
    String from = estimate() + " + " + middle;
    String exact = "CAST(" + name("s") + " AS DOUBLE)";
    String estimated = bounds(from + " - " + off, from + " + " + off);
    String told = " WHEN " + tells() + " THEN " + estimated;
    return "CASE WHEN " + isExact() + " THEN " + bounds(exact, exact) + told + " END";
  }

  /**
   * Whether enough records of samples have a value to tell how it varies; those of micro-batches that were taken whole say
   * nothing of it. Of samples by several rates those count that weigh as much (Kish's effective size).
   */
  private String tells() {
    String squares = "(" + name("var") + " - " + name("rest") + ")"; // the sum of (w - 1)²
    double least = LEAST_RECORDS - 0.5; // sums of doubles are not exact
    return name("var") + " > 0D AND " + name("rest") + " * " + name("rest") + " >= " + least + "D * " + squares;
  }

  private static String bounds(String low, String high) {
    return "named_struct('low', " + low + ", 'high', " + high + ")";
  }

  private static String isExact() {
    return "coalesce(" + LEFT_OUT + ", 0D) = 0D";
  }

  private String estimate() {
    if (isMean()) {
      return "((" + name("xsum") + " + " + name("xrest") + ") / " + records() + ")";
    }
    return isCount() ? records() : "(CAST(" + name("s") + " AS DOUBLE) + " + name("xrest") + ")";
  }

  private String records() {
    return "(CAST(" + name("n") + " AS DOUBLE) + " + name("rest") + ")";
  }

  private String variance() {
    if (isMean()) { // of a ratio of two estimates
      String mean = estimate();
      String crossed = " - 2D * " + mean + " * " + name("xvar");
      String squares = name("xxvar") + crossed + " + " + mean + " * " + mean + " * " + name("var");
      return "(" + squares + ") / (" + records() + " * " + records() + ")";
    }
    return name(isCount() ? "var" : "xxvar");
  }

  private boolean isCount() {
    return call.aggregateFunction() instanceof Count;
  }

  private boolean isMean() {
    return call.aggregateFunction() instanceof Average;
  }
}
