package io.pyslash.catalyst;

import io.pyslash.shim.Counters;
import java.io.Serializable;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.execution.SparkPlan;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The node of Spark's own plan that a node is a copy of.
 *
 * <p>When a micro-batch has ended, Spark looks in the nodes of the plan that it has made for event times, observed
 * metrics and SQL metrics. pyslash executes copies of these nodes: above other children, in other stages, over other
 * scans. So each node of Spark's plan is tagged with itself, the tag goes with every copy that is made of it, by
 * whatever rule, and the nodes of a plan get the accumulators of their origins before it is executed.
 */
public final class Origin implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final TreeNodeTag<Origin> TAG = new TreeNodeTag<>("slash.origin");

  private final transient SparkPlan node; // tasks may be sent nodes with their tags

  private Origin(SparkPlan node) {
    this.node = node;
  }

  /** Every node of this plan is Spark's own. */
  public static void mark(SparkPlan plan) {
    plan.setTagValue(TAG, new Origin(plan));
    CollectionConverters.asJava(plan.children()).forEach(Origin::mark);
  }

  /** The node of Spark's plan; the node itself if it is a copy of none. */
  public static SparkPlan of(SparkPlan node) {
    SparkPlan tagged = tagged(node);
    boolean isCopy = tagged != null && tagged.getClass() == node.getClass();
    return isCopy ? tagged : node; // Spark's rules hand tags to what they put into a node's place, too
  }

  private static SparkPlan tagged(SparkPlan node) {
    Option<Origin> tag = node.getTagValue(TAG);
    return tag.isDefined() ? tag.get().node : null;
  }

  /** The same plan, which from now on counts where Spark looks. */
  public static SparkPlan counting(SparkPlan plan) {
    SparkPlan origin = of(plan);
    if (tagged(plan) == plan) {
      return plan; // Spark's own, and so is all that is below
    }
    if (origin != plan) {
      Counters.share(plan, origin);
    }
    CollectionConverters.asJava(plan.children()).forEach(Origin::counting);
    return plan;
  }
}
