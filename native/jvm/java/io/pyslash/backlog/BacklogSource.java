package io.pyslash.backlog;

import io.pyslash.core.Fields;
import io.pyslash.core.Json;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec;
import scala.jdk.javaapi.CollectionConverters;

/** A query that reads its Kafka topics in another order behind a backlog, and its micro-batches. */
public final class BacklogSource {
  private BacklogSource() {}

  /** The names of the streaming sources of an analysed plan. */
  public static List<String> sources(LogicalPlan plan) {
    return streams(plan).stream()
        .map(leaf -> leaf instanceof StreamingRelationV2 relation ? relation.sourceName() : leaf.nodeName())
        .toList();
  }

  private static List<LogicalPlan> streams(LogicalPlan plan) {
    return CollectionConverters.asJava(plan.collectLeaves()).stream().filter(LogicalPlan::isStreaming).toList();
  }

  /** The plan, its topics read so. */
  public static LogicalPlan with(LogicalPlan plan, BacklogRules rules) {
    if (plan instanceof StreamingRelationV2 relation && relation.table() instanceof SupportsRead kafka) {
      return relation.makeCopy(Fields.of(relation, kafka, new BacklogTable(kafka, rules)));
    }
    List<LogicalPlan> children = new ArrayList<>();
    CollectionConverters.asJava(plan.children()).forEach(child -> children.add(with(child, rules)));
    return children.isEmpty() ? plan : plan.withNewChildren(CollectionConverters.asScala(children).toSeq());
  }

  /**
   * What a micro-batch has read.
   *
   * @param records how many records
   * @param rate the share of them that was taken
   * @param isAhead whether others before them are still to be read
   * @param debt how many those are
   * @param read how many have been read since there has been debt
   * @param shed how many were let go in it
   */
  public record Step(long records, double rate, boolean isAhead, long debt, long read, long shed) {}

  /** What a micro-batch has read, in JSON; null if it reads no topics so. */
  public static String step(SparkPlan batch) {
    MicroBatchScanExec scan = scan(batch);
    if (scan == null) {
      return null;
    }
    Backlog start = Backlog.parse(scan.start().json());
    Backlog end = Backlog.parse(scan.end().json());
    long records = end.since(start).stream().filter(Range::isWhole).mapToLong(Range::records).sum();
    long shed = end.shed().stream().mapToLong(Range::records).sum();
    return Json.of(new Step(records, end.rate(), end.isAhead(start), end.owed(), end.read(), shed));
  }

  /** So many records of a micro-batch, those that it has taken, were so long under way. */
  public static void took(SparkPlan batch, long records, long ms) {
    ((BacklogStream) scan(batch).stream()).took(records, ms);
  }

  private static MicroBatchScanExec scan(SparkPlan plan) {
    return CollectionConverters.asJava(plan.collectLeaves()).stream()
        .filter(leaf -> leaf instanceof MicroBatchScanExec scan && scan.stream() instanceof BacklogStream)
        .map(MicroBatchScanExec.class::cast)
        .findFirst()
        .orElse(null);
  }
}
