package io.pyslash.shim;

import java.lang.reflect.Method;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.python.PandasGroupUtils;
import org.apache.spark.sql.streaming.TimeMode;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Seq;

/**
 * Spark's operator of a user's own state in Python: `TransformWithStateInPySparkExec`, or that of
 * `applyInPandasWithState` ({@link GroupStateNode}).
 */
public class TransformNode {
  /** What goes by no time, by the processing time, and by the event time, as Spark names it in Python. */
  public static final String BY_NONE = "None";
  public static final String BY_PROCESSING_TIME = "ProcessingTime";
  public static final String BY_EVENT_TIME = "EventTime";

  final SparkPlan node;

  TransformNode(SparkPlan node) {
    this.node = node;
  }

  /** The operator that this node of a plan is. */
  public static TransformNode of(SparkPlan node) {
    return node.getClass().getSimpleName().equals(GroupStateNode.NAME) ? new GroupStateNode(node)
                                                                       : new TransformNode(node);
  }

  final <T> T get(String method) {
    // Looked up when it is used: releases before 4.3 have another operator, which is not covered.
    Method found = Member.method(node.getClass(), method, 0);
    return Member.call(found, node);
  }

  /** What rows are grouped by. */
  public final Seq<Attribute> keys() {
    return get("groupingAttributes");
  }

  /** The columns that the Python worker gets: keys that no other column has, and the columns below. */
  public final Seq<Attribute> columns() {
    return get("dedupAttributes");
  }

  /** Which of the columns are the key and which the row: their number, how many are keys, and their places. */
  public int[] offsets() {
    return get("argOffsets");
  }

  public final PythonFunction function() {
    return get("pythonFunction");
  }

  /** What the user's function takes: {@code rows}, {@code frames} of pandas, or frames and a {@code group state}. */
  public String takes() {
    return get("userFacingDataType").toString().equals("python_row") ? "rows" : "frames";
  }

  /** What timers go by. */
  public String timers() {
    TimeMode mode = get("timeMode");
    if (mode.equals(TimeMode.ProcessingTime())) {
      return BY_PROCESSING_TIME;
    }
    return mode.equals(TimeMode.EventTime()) ? BY_EVENT_TIME : BY_NONE;
  }

  /** Whether the micro-batch takes an initial state: Spark says so of a query's first one alone, until it is committed. */
  public boolean hasInitialState() {
    return get("hasInitialState");
  }

  /** The rows of the initial state, as they are shuffled and sorted. */
  public final SparkPlan initialState() {
    return get("initialState");
  }

  /** What these are grouped by. */
  public final Seq<Attribute> initialKeys() {
    return get("initialStateGroupingAttrs");
  }

  /** Their columns that the Python worker gets, as {@link #columns}. */
  public final Seq<Attribute> initialColumns() {
    return initial()._1();
  }

  /** Which of these are the key and which the row, as {@link #offsets}. */
  public final int[] initialOffsets() {
    return initial()._2();
  }

  private Tuple2<Seq<Attribute>, int[]> initial() {
    return PandasGroupUtils.resolveArgOffsets(initialState().output(), initialKeys());
  }

  /** The schema of the state, in Spark's JSON; empty: the function declares it. */
  public String state() {
    return "";
  }

  /** The time of the micro-batch, in milliseconds. */
  public final Option<?> batchTimestamp() {
    return get("batchTimestampMs");
  }
}
