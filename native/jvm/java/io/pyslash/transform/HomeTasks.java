package io.pyslash.transform;

import java.io.Serializable;
import org.apache.spark.Partition;
import org.apache.spark.rdd.PartitionCoalescer;
import org.apache.spark.rdd.PartitionGroup;
import org.apache.spark.rdd.RDD;
import scala.Option;

/**
 * Gives each task a range of homes: task i of t has the homes from i * homes / t on, in order. Where an input follows
 * another one, each with a partition for each home, a home's partitions follow each other, too.
 */
public final class HomeTasks implements PartitionCoalescer, Serializable {
  private static final long serialVersionUID = 1L;

  private final int homes;

  public HomeTasks(int homes) {
    this.homes = homes;
  }

  @Override
  public PartitionGroup[] coalesce(int tasks, RDD<?> inputs) {
    Partition[] partitions = inputs.partitions();
    PartitionGroup[] groups = new PartitionGroup[tasks];
    for (int task = 0; task < tasks; task++) {
      groups[task] = new PartitionGroup(Option.empty());
      for (long home = (long) task * homes / tasks; home < (task + 1L) * homes / tasks; home++) {
        for (int at = (int) home; at < partitions.length; at += homes) {
          groups[task].partitions().addOne(partitions[at]);
        }
      }
    }
    return groups;
  }
}
