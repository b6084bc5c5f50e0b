package io.pyslash.transform;

import java.io.Serializable;
import org.apache.spark.rdd.PartitionCoalescer;
import org.apache.spark.rdd.PartitionGroup;
import org.apache.spark.rdd.RDD;
import scala.Option;

/** Gives each task a range of homes: task i of t has the homes from i * homes / t on, in order. */
public final class HomeTasks implements PartitionCoalescer, Serializable {
  private static final long serialVersionUID = 1L;

  @Override
  public PartitionGroup[] coalesce(int tasks, RDD<?> homes) {
    PartitionGroup[] groups = new PartitionGroup[tasks];
    long count = homes.partitions().length;
    for (int task = 0; task < tasks; task++) {
      groups[task] = new PartitionGroup(Option.empty());
      for (long home = task * count / tasks; home < (task + 1) * count / tasks; home++) {
        groups[task].partitions().addOne(homes.partitions()[(int) home]);
      }
    }
    return groups;
  }
}
