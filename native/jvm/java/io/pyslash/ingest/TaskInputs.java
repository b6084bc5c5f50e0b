package io.pyslash.ingest;

import io.pyslash.core.InputRows;
import io.pyslash.kafka.TopicPartitions;
import io.pyslash.shim.ReadPartitions;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.Dependency;
import org.apache.spark.NarrowDependency;
import org.apache.spark.Partition;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.connector.read.InputPartition;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Which input of an operator each task of an update job reads, and which partition of a topic. It is found in the driver, by
 * the RDDs that the task's rows come through, so that readers and tasks have nothing to tell.
 */
public final class TaskInputs {
  /**
   * What a task has read.
   *
   * @param input of the operator, from 0
   * @param partition of a topic; null: the task has read none, several ones, or what a shuffle has brought
   * @param newestMs the newest event time; the least long: there was none
   * @param late its late rows that its block does not count
   */
  record Read(int input, String partition, long newestMs, long late) {}

  /** What a task is going to read. */
  private static final class Place {
    private int input;
    private final Set<String> partitions = new HashSet<>();
  }

  private final List<Place> places = new ArrayList<>();
  private long lateMetric;
  private boolean tells; // whether tasks differ

  private TaskInputs() {}

  /** Those of a job over these rows. */
  public static TaskInputs of(RDD<?> rows) {
    TaskInputs found = new TaskInputs();
    for (Partition partition : rows.partitions()) {
      Place place = new Place();
      found.visit(rows, partition, place);
      found.places.add(place);
    }
    return found;
  }

  /** The id of what counts late rows where inputs come together; 0: nothing does. */
  public long lateMetric() {
    return lateMetric;
  }

  /** Adds what the next task has read, if tasks differ in what they read. */
  void add(List<Read> reads, long newestMs, long late) {
    if (tells) {
      Place place = places.get(reads.size());
      String partition = place.partitions.size() == 1 ? place.partitions.iterator().next() : null;
      reads.add(new Read(place.input, partition, newestMs, late));
    }
  }

  private void visit(RDD<?> rows, Partition partition, Place place) {
    if (rows instanceof InputRows one) {
      place.input = one.input();
      lateMetric = one.lateMetric();
      tells = true;
    }
    for (InputPartition planned : ReadPartitions.of(partition)) {
      String name = TopicPartitions.of(planned);
      if (name != null) {
        place.partitions.add(name);
        tells = true;
      }
    }
    for (Dependency<?> dependency : CollectionConverters.asJava(rows.dependencies())) {
      if (dependency instanceof NarrowDependency<?> narrow) {
        for (Object parent : CollectionConverters.asJava(narrow.getParents(partition.index()))) {
          visit(narrow.rdd(), narrow.rdd().partitions()[(Integer) parent], place);
        }
      }
    }
  }
}
