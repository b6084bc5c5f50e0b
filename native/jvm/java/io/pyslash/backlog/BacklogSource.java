package io.pyslash.backlog;

import io.pyslash.core.Fields;
import io.pyslash.core.Json;
import io.pyslash.shim.StreamPlanning;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec;
import scala.jdk.javaapi.CollectionConverters;

/** A query that reads its Kafka topics, or its files, in another order behind a backlog, and its micro-batches. */
public final class BacklogSource {
  private BacklogSource() {}

  /** The names of the streaming sources of an analysed plan; those of files are "files", unless they have an order. */
  public static List<String> sources(LogicalPlan plan) {
    return streams(plan).stream().map(BacklogSource::source).toList();
  }

  private static String source(LogicalPlan leaf) {
    if (leaf instanceof StreamingRelationV2 relation) {
      return relation.sourceName();
    }
    return readsFiles(leaf) ? hasOrder(leaf) ? "files (latestFirst)" : "files" : leaf.nodeName();
  }

  private static boolean hasOrder(LogicalPlan files) {
    return CollectionConverters.asJava(StreamPlanning.source(files).options()).entrySet().stream()
        .anyMatch(one -> one.getKey().equalsIgnoreCase("latestFirst") && Boolean.parseBoolean(one.getValue()));
  }

  private static boolean readsFiles(LogicalPlan leaf) {
    DataSource source = StreamPlanning.source(leaf);
    return source != null && FileFormat.class.isAssignableFrom(source.providingClass());
  }

  private static List<LogicalPlan> streams(LogicalPlan plan) {
    return CollectionConverters.asJava(plan.collectLeaves()).stream().filter(LogicalPlan::isStreaming).toList();
  }

  /** The plan, its topics or its one stream of files read so. */
  public static LogicalPlan with(LogicalPlan plan, BacklogRules rules) {
    if (readsFiles(plan)) {
      return StreamPlanning.running(plan, new BacklogFiles(StreamPlanning.source(plan), rules));
    }
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
   * @param size how many records of topics, or bytes of files with what it costs to open them; 0: of files not known
   * @param rate the share of them that was taken
   * @param isAhead whether others before them are still to be read
   * @param debt how many those are: records of topics, or files
   * @param read how many have been read since there has been debt
   * @param shed how many were let go in it
   */
  public record Step(long size, double rate, boolean isAhead, long debt, long read, long shed) {}

  /** What decides which records or files a micro-batch has. */
  sealed interface Reader permits BacklogStream, BacklogFiles {
    /** What a micro-batch has read by this scan of its plan. */
    Step step(SparkPlan scan);

    /** So much of a micro-batch, what it has taken, was so long under way: the next ones go by it. */
    void took(long size, long ms);
  }

  /** What a micro-batch has read, in JSON; null if it reads nothing so. */
  public static String step(SparkPlan batch) {
    SparkPlan scan = scan(batch);
    return scan == null ? null : Json.of(reader(scan).step(scan));
  }

  /** So much of a micro-batch, what it has taken, was so long under way. */
  public static void took(SparkPlan batch, long size, long ms) {
    reader(scan(batch)).took(size, ms);
  }

  private static SparkPlan scan(SparkPlan plan) {
    return CollectionConverters.asJava(plan.collectLeaves()).stream()
        .filter(leaf -> reader(leaf) != null)
        .findFirst()
        .orElse(null);
  }

  private static Reader reader(SparkPlan leaf) {
    if (leaf instanceof MicroBatchScanExec scan && scan.stream() instanceof BacklogStream topics) {
      return topics;
    }
    boolean isStream = leaf instanceof FileSourceScanExec scan && scan.getStream().isDefined();
    return isStream && ((FileSourceScanExec) leaf).getStream().get() instanceof BacklogFiles files ? files : null;
  }
}
