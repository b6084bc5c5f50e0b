package io.pyslash.backlog;

import org.apache.spark.sql.connector.read.InputPartition;

/**
 * Some of the records of a partition that the connector has planned: which ones, their places in the topic say, so that
 * whoever reads them again takes the same.
 *
 * @param rate the share of them that is taken
 */
public record Sampled(InputPartition kafka, double rate) implements InputPartition {
  /** The column that says how many records one stands for. */
  public static final String WEIGHT = "_slash_weight";

  private static final double UNIT = 0x1p-53;

  @Override
  public String[] preferredLocations() {
    return kafka.preferredLocations();
  }

  /** Of a record that is taken. */
  public double weight() {
    return 1 / rate;
  }

  /** Whether a record is taken; {@code topic} is the hash code of its topic's name. */
  public boolean takes(int topic, int partition, long offset) {
    return rate == 1 || (mixed(mixed((long) topic << 32 | partition) + offset) >>> 11) * UNIT < rate;
  }

  /** The finalizer of SplitMix64: numbers next to each other become independent. */
  private static long mixed(long number) {
    long z = number + 0x9e3779b97f4a7c15L;
    z = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L;
    z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL;
    return z ^ (z >>> 31);
  }
}
