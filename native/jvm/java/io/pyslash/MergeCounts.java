package io.pyslash;

import java.io.Serializable;
import org.apache.spark.util.LongAccumulator;

/** What merge tasks do: bytes of blocks that they read, rows that they give. */
record MergeCounts(LongAccumulator bytesRead, LongAccumulator rowsGiven) implements Serializable {}
