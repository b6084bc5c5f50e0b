package io.pyslash;

import io.pyslash.FileScan.OnlySpark;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import scala.jdk.javaapi.CollectionConverters;

/** What {@link FileScan} will say of a query's batches, so far as its plan tells before there is one. */
final class ScanOutlook {
  private ScanOutlook() {}

  /** Why only Spark can read the input of this optimized plan over a file source; null: nothing is known against it. */
  static String obstacle(LogicalPlan plan) {
    ScanPath path = new ScanPath();
    try {
      LogicalPlan node = plan;
      while (!node.children().isEmpty()) {
        if (node instanceof Project project) {
          path.project(project.projectList());
        } else if (node instanceof Filter filter) {
          path.filter(filter.condition());
        } else if (node instanceof EventTimeWatermark) {
          path.watermark();
        } else if (node instanceof Join join && join.left().isStreaming() != join.right().isStreaming()) {
          boolean tableIsRight = join.left().isStreaming();
          path.join(join.joinType(), tableIsRight, (tableIsRight ? join.right() : join.left()).output());
          node = tableIsRight ? join.left() : join.right();
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
      path.filters(names);
      path.lateFilters(names);
      return null;
    } catch (OnlySpark reason) {
      return reason.getMessage();
    }
  }
}
