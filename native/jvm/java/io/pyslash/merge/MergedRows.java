package io.pyslash.merge;

import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The merged rows of an epoch as a table that Spark scans: a partition is a range of hash prefixes, and reading it is
 * merging it. Nothing is consumed, so it may be scanned more than once.
 */
public final class MergedRows implements SupportsRead, Scan, Batch {
  private static final long PREFIXES = 1L << 32;

  /** Keys whose hash prefix lies in [lo, hi), and where they are kept, if they are. */
  public record Prefixes(long lo, long hi, String[] places) implements InputPartition {
    @Override
    public String[] preferredLocations() {
      return places;
    }

    /** One of so many equal ranges: keys are hashed, so they hold equal shares. */
    public static Prefixes of(int task, int tasks, String[] places) {
      String[] place = places.length == 0 ? places : new String[] {places[task % places.length]};
      return new Prefixes(PREFIXES * task / tasks, PREFIXES * (task + 1) / tasks, place);
    }
  }

  private final MergeSpec order;
  private final StructType schema;
  private final int tasks;
  private final boolean keeps;
  private final String[] places;
  private final MergeCounts counts;

  /**
   * {@code keeps}: tasks leave what they have read in memory, if the order says what to keep. {@code counts} is told what
   * tasks do; {@code places}, the same ones in the same order each time, are where tasks
   * would rather run, if anywhere.
   */
  public MergedRows(
      MergeSpec order, StructType schema, int tasks, boolean keeps, String[] places, MergeCounts counts) {
    this.order = order;
    this.schema = schema;
    this.tasks = tasks;
    this.keeps = keeps;
    this.places = places;
    this.counts = counts;
  }

  @Override
  public String name() {
    return "pyslash";
  }

  @Override
  @SuppressWarnings("deprecation") // what replaces it is not in every release that this runs on
  public StructType schema() {
    return schema;
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(TableCapability.BATCH_READ);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return () -> this;
  }

  @Override
  public StructType readSchema() {
    return schema;
  }

  @Override
  public String description() {
    return "merge of " + order.windows.length + " windows out of " + order.blocks.size() + " blocks";
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return ColumnarSupportMode.SUPPORTED;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    InputPartition[] partitions = new InputPartition[tasks];
    for (int i = 0; i < tasks; i++) {
      partitions[i] = Prefixes.of(i, tasks, places);
    }
    return partitions;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new MergeReader.Factory(order, schema, keeps, counts);
  }
}
