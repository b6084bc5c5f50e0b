package io.pyslash.shim;

import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.types.StructType;

/** Spark's operator of `applyInPandasWithState`: a function over the frames of a key, and one state of that key. */
final class GroupStateNode extends TransformNode {
  static final String NAME = "FlatMapGroupsInPandasWithStateExec";

  GroupStateNode(SparkPlan node) {
    super(node);
  }

  @Override
  public int[] offsets() {
    // Scala's name of a private value that a class within reads.
    return get(node.getClass().getName().replace('.', '$') + "$$argOffsets");
  }

  @Override
  public String takes() {
    return "group state";
  }

  @Override
  public String timers() {
    return switch (get("timeoutConf").toString()) {
      case "ProcessingTimeTimeout" -> BY_PROCESSING_TIME;
      case "EventTimeTimeout" -> BY_EVENT_TIME;
      default -> BY_NONE;
    };
  }

  @Override
  public boolean hasInitialState() {
    return false;
  }

  @Override
  public String state() {
    return this.<StructType>get("stateType").json();
  }
}
