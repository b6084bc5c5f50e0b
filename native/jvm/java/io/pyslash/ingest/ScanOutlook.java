package io.pyslash.ingest;

import io.pyslash.catalyst.OnlySpark;
import io.pyslash.shim.Watermark;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.joins.BroadcastHashJoinExec;
import scala.jdk.javaapi.CollectionConverters;

/** What {@link FileScan} will say of a query's batches, so far as the plan of a query that has not started tells. */
public final class ScanOutlook {
  private ScanOutlook() {}

  /** Why only Spark can read this input over a file source; null: nothing is known against it. */
  public static String obstacle(SparkPlan plan) {
    ScanPath path = new ScanPath();
    try {
      SparkPlan node = plan;
      while (!node.children().isEmpty()) {
        if (node instanceof ProjectExec project) {
          path.project(project.projectList());
        } else if (node instanceof FilterExec filter) {
          path.filter(filter.condition());
        } else if (Watermark.is(node)) {
          path.watermark(node);
        } else if (node instanceof BroadcastHashJoinExec join) {
          node = new StaticJoin(join, path).stream();
          continue;
        } else {
          throw path.obstacle(node.nodeName());
        }
        node = node.children().head();
      }
      path.end();
      Map<Long, String> names = new HashMap<>();
      for (Attribute attribute : CollectionConverters.asJava(node.output())) {
        names.put(attribute.exprId().id(), attribute.name());
      }
      ScanPath.columns(plan.output(), path.namesOfAll(names));
      names = path.names(names);
      path.time(names);
      path.filters(names);
      path.lateFilters(names);
      return null;
    } catch (OnlySpark reason) {
      return reason.getMessage();
    }
  }
}
