package io.pyslash.shim;

import java.lang.reflect.Method;
import java.util.List;
import java.util.stream.Stream;
import org.apache.spark.Partition;
import org.apache.spark.sql.connector.read.InputPartition;
import scala.collection.IterableOnce;
import scala.jdk.javaapi.CollectionConverters;

/** What a task reads of a source: in older releases it may be several of the source's partitions, since 4.2 it is one or none. */
public final class ReadPartitions {
  private static final Class<?> READ = Member.type("org.apache.spark.sql.execution.datasources.v2.DataSourceRDDPartition");
  private static final Method PLANNED =
      Stream.of(READ.getMethods())
          .filter(one -> one.getName().matches("inputPartitions?") && one.getParameterCount() == 0)
          .findFirst()
          .orElseThrow(() -> Member.missing("method " + READ.getName() + ".inputPartition", null));

  private ReadPartitions() {}

  /** The source's partitions that an RDD's partition is made of; none if no source plans it. */
  public static List<InputPartition> of(Partition partition) {
    if (!READ.isInstance(partition)) {
      return List.of();
    }
    IterableOnce<InputPartition> planned = Member.call(PLANNED, partition);
    return List.copyOf(CollectionConverters.asJava(planned.iterator().toSeq()));
  }
}
