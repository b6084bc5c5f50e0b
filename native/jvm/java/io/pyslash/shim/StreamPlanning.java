package io.pyslash.shim;

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.streaming.OutputMode;
import scala.Option;

/** Spark's planning of streams. */
public final class StreamPlanning {
  private static final String WHERE = "runtime.";
  private static final Class<?> EXECUTION = Member.streaming(WHERE, "IncrementalExecution");
  private static final Constructor<?> MAKE_EXECUTION = Member.constructor(EXECUTION);
  private static final Object EXECUTION_DEFAULTS = Member.module(Member.type(EXECUTION.getName() + "$"));
  private static final Constructor<?> MAKE_METADATA =
      Member.constructor(Member.streaming("checkpointing.", "OffsetSeqMetadata"));
  private static final Class<?> PROPAGATORS = Member.streaming(WHERE, "WatermarkPropagator$");
  private static final Method NO_PROPAGATOR = Member.method(PROPAGATORS, "noop");
  private static final Class<?> RELATION = Member.streaming(WHERE, "StreamingRelation");
  private static final Method DATA_SOURCE = Member.method(RELATION, "dataSource");
  private static final Constructor<?> MAKE_RUNNING =
      Member.constructor(Member.streaming(WHERE, "StreamingExecutionRelation"));
  private static final int BEFORE_NAME = 3; // since 4.3 both relations end with a name
  private static final int KNOWN = 11; // parameters that are given; those behind them have defaults
  private static final Method[] DEFAULTS = defaults();

  private StreamPlanning() {}

  /** The physical plan of a query that has not started, as Spark's own explain() makes it. */
  public static SparkPlan plan(SparkSession session, LogicalPlan analysed, OutputMode mode) {
    Object[] arguments = new Object[MAKE_EXECUTION.getParameterCount()];
    Object[] known = {
      session,
      analysed,
      mode,
      "<unknown>",
      UUID.randomUUID(),
      UUID.randomUUID(),
      0L,
      Option.empty(),
      Member.make(MAKE_METADATA, 0L, 0L, scala.collection.immutable.Map$.MODULE$.empty()),
      Member.call(NO_PROPAGATOR, Member.module(PROPAGATORS)),
      false
    };
    System.arraycopy(known, 0, arguments, 0, KNOWN);
    for (int i = KNOWN; i < arguments.length; i++) {
      arguments[i] = Member.call(DEFAULTS[i], EXECUTION_DEFAULTS);
    }
    return Member.<QueryExecution>make(MAKE_EXECUTION, arguments).sparkPlan();
  }

  /** The source of a streaming relation that Spark reads by its first interface, such as files; null of another node. */
  public static DataSource source(LogicalPlan leaf) {
    return RELATION.isInstance(leaf) ? Member.call(DATA_SOURCE, leaf) : null;
  }

  /** The same leaf as a query has it once Spark has made its source: of this one. */
  public static LogicalPlan running(LogicalPlan leaf, SparkDataStream source) {
    DataSource data = source(leaf);
    List<Object> fields = new ArrayList<>(List.of(source, leaf.output(), data.catalogTable()));
    for (int i = BEFORE_NAME; i < leaf.productArity(); i++) {
      fields.add(leaf.productElement(i));
    }
    fields.add(data.sparkSession());
    return Member.make(MAKE_RUNNING, fields.toArray());
  }

  private static Method[] defaults() {
    Method[] found = new Method[MAKE_EXECUTION.getParameterCount()];
    for (int i = KNOWN; i < found.length; i++) {
      found[i] = Member.method(EXECUTION_DEFAULTS.getClass(), "$lessinit$greater$default$" + (i + 1));
    }
    return found;
  }
}
