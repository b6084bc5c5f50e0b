package io.pyslash.shim;

import java.lang.reflect.Method;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * One of the watermarks out of which Spark makes that of a query: each `withWatermark` has its own.
 *
 * @param input the sources below it, as Spark's progress calls them
 * @param millis since 1970; -1 until Spark has seen an event time
 */
public record InputWatermark(String input, long millis) {
  private static final String WHERE = "runtime.";
  private static final Class<?> STREAM = Member.streaming(WHERE, "MicroBatchExecution");
  private static final Method PLAN = Member.method(STREAM, "logicalPlan");
  private static final Method TRACKER = Member.method(STREAM, "watermarkTracker");
  private static final Method WATERMARKS =
      Member.method(Member.streaming(WHERE, "WatermarkTracker"), "watermarkMap");
  private static final Class<?> V1 = Member.streaming(WHERE, "StreamingExecutionRelation");
  private static final Method V1_SOURCE = Member.method(V1, "source");

  /** Those of a query, as of its last micro-batch. {@code stream}: see {@link RunningStream}. */
  public static List<InputWatermark> of(Object stream) {
    scala.collection.immutable.Map<UUID, Option<Object>> known = Member.call(WATERMARKS, Member.<Object>call(TRACKER, stream));
    Map<UUID, Option<Object>> byNode = CollectionConverters.asJava(known);
    return nodes(Member.call(PLAN, stream))
        .map(node -> new InputWatermark(sources(node), millis(byNode.get(node.nodeId()))))
        .toList();
  }

  private static Stream<EventTimeWatermark> nodes(LogicalPlan plan) {
    Stream<EventTimeWatermark> below =
        CollectionConverters.asJava(plan.children()).stream().flatMap(InputWatermark::nodes);
    return plan instanceof EventTimeWatermark node ? Stream.concat(Stream.of(node), below) : below;
  }

  private static long millis(Option<Object> watermark) {
    return watermark == null || watermark.isEmpty() ? -1 : (Long) watermark.get();
  }

  private static String sources(LogicalPlan plan) {
    return CollectionConverters.asJava(plan.collectLeaves()).stream()
        .map(InputWatermark::source)
        .filter(name -> !name.isEmpty())
        .collect(Collectors.joining(", "));
  }

  private static String source(LogicalPlan leaf) {
    if (leaf instanceof StreamingDataSourceV2ScanRelation relation) {
      return relation.stream().toString();
    }
    return V1.isInstance(leaf) ? Member.call(V1_SOURCE, leaf).toString() : "";
  }
}
