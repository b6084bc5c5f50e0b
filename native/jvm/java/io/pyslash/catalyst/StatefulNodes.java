package io.pyslash.catalyst;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.execution.SparkPlan;
import scala.jdk.javaapi.CollectionConverters;

/** The operators of a physical plan that keep state between micro-batches. */
public final class StatefulNodes {
  private StatefulNodes() {}

  /** Each behind those below it. */
  public static List<SparkPlan> of(SparkPlan plan) {
    List<SparkPlan> found = new ArrayList<>();
    for (SparkPlan child : CollectionConverters.asJava(plan.children())) {
      found.addAll(of(child));
    }
    if (keepsState(plan.getClass())) {
      found.add(plan);
    }
    return found;
  }

  private static boolean keepsState(Class<?> type) {
    return type != null
        && (type.getSimpleName().equals("StateStoreWriter")
            || keepsState(type.getSuperclass())
            || Arrays.stream(type.getInterfaces()).anyMatch(StatefulNodes::keepsState));
  }
}
