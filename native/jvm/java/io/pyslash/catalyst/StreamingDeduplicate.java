package io.pyslash.catalyst;

import io.pyslash.shim.StatefulNodes;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * A deduplication of a streaming query, found in Spark's physical plan and taken apart around its state.
 *
 * <pre>
 *   operators above             kept, over the rows that are new
 *   StreamingDeduplicate        tells the watermarks
 *   Exchange                    left out
 *   operators below             kept: the input
 * </pre>
 */
public final class StreamingDeduplicate extends StreamingOperator {
  private static final int END = 1; // of a window's bounds

  private final WindowedInput input;
  private final Attribute time; // null: the input has no watermark
  private final List<Attribute> unique; // columns that tell rows apart
  private final List<Expression> keys = new ArrayList<>(); // the same as native code takes them
  private final List<Attribute> others = new ArrayList<>(); // columns of which the first row counts
  private final List<List<RowValue>> firsts = new ArrayList<>(); // the same, one each

  /**
   * The deduplication that this operator of the plan does.
   *
   * @throws OnlySpark something about it is not understood
   */
  public StreamingDeduplicate(SparkPlan plan, SparkPlan operator) {
    super(plan, operator);
    SparkPlan below = operator.children().head();
    Attribute watermarked = null;
    for (Attribute column : CollectionConverters.asJava(below.output())) {
      if (column.metadata().contains(WATERMARK_KEY)) {
        if (watermarked != null) {
          throw new OnlySpark("its input has more than one event time");
        }
        watermarked = column;
      }
    }
    time = watermarked;
    boolean isOfWindows = time != null && time.dataType() instanceof StructType;
    if (isOfWindows && isWithinWatermark()) {
      throw new OnlySpark("its event time is the time window " + time.name());
    }
    NamedExpression moment =
        isOfWindows ? WindowedInput.alias(new GetStructField(time, END, Option.empty()), "window_end") : time;
    input = WindowedInput.ofRows(below instanceof ShuffleExchangeExec exchange ? exchange.child() : below, moment);
    unique = CollectionConverters.asJava(StatefulNodes.keys(operator));
    unique.forEach(key -> keys.add(isExact(key) ? KeyBytes.of(key) : key));
    for (Attribute column : CollectionConverters.asJava(below.output())) {
      // Keys are the same if they are equal, as the zeros and all NaNs are; the row keeps its own one.
      boolean isFloating = column.dataType() instanceof DoubleType || column.dataType() instanceof FloatType;
      if (keyOf(column) < 0 || isFloating) {
        others.add(column);
        firsts.add(List.of(new RowValue(KeyBytes.kept(column))));
      }
    }
  }

  @Override
  WindowedInput input() {
    return input;
  }

  /** Whether keys are forgotten as the watermark moves: the event time is one of them. */
  public boolean isTimed() {
    return time != null && keyOf(time) >= 0;
  }

  /** What tells rows apart. */
  @Override
  public List<Expression> keys() {
    return keys;
  }

  /** The columns of which the state has the first row's, each a list of its own. */
  @Override
  List<List<RowValue>> read() {
    return firsts;
  }

  @Override
  List<String> functionNames() {
    return others.stream().map(Attribute::name).toList();
  }

  /** The attributes that the state gives: keys, columns of first rows. A column may be both. */
  public List<Attribute> results() {
    List<Attribute> results = new ArrayList<>(unique);
    results.addAll(others);
    return results;
  }

  /** Rows at or before this (milliseconds) are late; the least long: none are. */
  @Override
  protected long lateWatermark() {
    return time == null ? NO_WATERMARK : millis(StatefulNodes.lateWatermark(operator));
  }

  /** Keys at or before this (milliseconds) are forgotten; the least long: none are. */
  @Override
  protected long evictionWatermark() {
    return isTimed() || isWithinWatermark() ? millis(StatefulNodes.evictionWatermark(operator)) : NO_WATERMARK;
  }

  /** Whether a key is kept for a delay after the time of the row that was emitted. */
  private boolean isWithinWatermark() {
    return StatefulNodes.isWithinWatermark(operator);
  }

  /** Of a deduplication within the watermark: the watermark's delay, in milliseconds. */
  public long delay() {
    return time.metadata().getLong(WATERMARK_KEY);
  }

  /** Of a deduplication within the watermark: which of the {@link #results} is the event time. */
  public int timeAt() {
    List<Attribute> results = results();
    int at = 0;
    while (results.get(at).exprId().id() != time.exprId().id()) {
      at++;
    }
    return at;
  }

  /**
   * The whole plan, with the new rows in the place of the state.
   *
   * @param merged columns: two that are ignored, and the state's {@link #results}
   */
  @Override
  public SparkPlan over(Dataset<Row> merged) {
    SparkPlan unique = planned(merged);
    return with(operator, inStage -> rows(unique, inStage));
  }

  /** The columns that the operator has given, in its order. */
  private SparkPlan rows(SparkPlan merged, boolean inStage) {
    List<Attribute> columns = CollectionConverters.asJava(merged.output());
    List<Attribute> results = results();
    List<NamedExpression> named = new ArrayList<>();
    for (Attribute column : CollectionConverters.asJava(operator.output())) {
      int at = results.size() - 1;
      while (results.get(at).exprId().id() != column.exprId().id()) {
        at--;
      }
      named.add(WindowedInput.alias(KeyBytes.given(columns.get(at + 2), column.dataType()), column));
    }
    SparkPlan rows = placed(merged, inStage);
    return new ProjectExec(CollectionConverters.asScala(named).toSeq(), rows);
  }

  /** Whether the bytes of equal keys are equal: releases of Spark differ in what they make of zeros and NaNs within. */
  private static boolean isExact(Attribute key) {
    return !key.dataType().existsRecursively(
        new AbstractFunction1<>() {
          @Override
          public Object apply(DataType type) {
            return type instanceof DoubleType || type instanceof FloatType;
          }
        });
  }

  private int keyOf(Attribute column) {
    for (int i = 0; i < unique.size(); i++) {
      if (unique.get(i).exprId().id() == column.exprId().id()) {
        return i;
      }
    }
    return -1;
  }
}
