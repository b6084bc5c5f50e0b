package io.pyslash.ingest;

import io.pyslash.catalyst.OnlySpark;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.optimizer.BuildRight$;
import org.apache.spark.sql.catalyst.plans.logical.CollectMetrics;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.joins.BroadcastHashJoinExec;
import scala.jdk.javaapi.CollectionConverters;

/** A broadcast join of a micro-batch's rows with a static table, told to those who would do it without Spark. */
final class StaticJoin {
  private final BroadcastHashJoinExec join;
  private final boolean tableIsRight;
  private final ScanPath.Join onPath;

  /** The join is the next one down the path. */
  StaticJoin(BroadcastHashJoinExec join, ScanPath path) {
    this.join = join;
    tableIsRight = join.buildSide() == BuildRight$.MODULE$;
    // What is small is broadcast: of a few new rows and a large table, the rows.
    if (logical().isStreaming()) {
      throw new OnlySpark("Spark broadcasts the stream that it joins with a table");
    }
    onPath = path.join(join.joinType(), tableIsRight, table().output());
  }

  /** Where the path goes on. */
  SparkPlan stream() {
    return tableIsRight ? join.left() : join.right();
  }

  private SparkPlan table() {
    return tableIsRight ? join.right() : join.left();
  }

  /** `late`, `outer`; of the files the `keys` (name, type); of the table the `columns`' types, and which are its keys. */
  Map<String, Object> describe(FilterText ofFiles) {
    if (join.condition().isDefined()) {
      throw new OnlySpark("it joins by " + join.condition().get().sql());
    }
    if (logical().exists(node -> node instanceof CollectMetrics)) {
      throw new OnlySpark("what it joins with is observed");
    }
    List<Attribute> columns = CollectionConverters.asJava(table().output());
    if (!ids(columns).equals(ids(CollectionConverters.asJava(logical().output())))) {
      throw notByItself();
    }
    List<Object> keys = new ArrayList<>();
    for (Expression key : CollectionConverters.asJava(tableIsRight ? join.leftKeys() : join.rightKeys())) {
      keys.add(ofFiles.joinKey(key));
    }
    List<Integer> tableKeys = new ArrayList<>();
    for (Expression key : CollectionConverters.asJava(tableIsRight ? join.rightKeys() : join.leftKeys())) {
      int at = key instanceof Attribute attribute ? ids(columns).indexOf(attribute.exprId().id()) : -1;
      if (at < 0) {
        throw new OnlySpark("it joins by " + key.sql());
      }
      tableKeys.add(at);
    }
    return Map.of(
        "late", onPath.late(),
        "outer", onPath.outer(),
        "keys", keys,
        "columns", columns.stream().map(column -> column.dataType().simpleString()).toList(),
        "table_keys", tableKeys);
  }

  private static List<Long> ids(List<Attribute> columns) {
    return columns.stream().map(column -> column.exprId().id()).toList();
  }

  /** What Spark has planned the table from. */
  LogicalPlan logical() {
    SparkPlan node = table();
    while (node instanceof QueryStageExec
        || node instanceof Exchange
        || node instanceof InputAdapter
        || node instanceof WholeStageCodegenExec) {
      node = node instanceof QueryStageExec stage ? stage.plan() : node.children().head();
    }
    if (node.logicalLink().isEmpty()) {
      throw notByItself();
    }
    return node.logicalLink().get();
  }

  private static OnlySpark notByItself() {
    return new OnlySpark("the table that it joins with is not planned by itself");
  }
}
