package io.pyslash.backlog;

/**
 * How many records or bytes a micro-batch may have, so that it takes about as long as it may. A part of that it takes whatever
 * it has, such as its sink's commit: a line through the sizes and times of the last ones tells it. Should it leave too little
 * time, the others get as much as this part: then a query does at least half of what it could. Where sizes hardly vary there is
 * no line, and one micro-batch is made half or twice as large to see.
 */
final class Pace {
  private static final double KEPT = 0.8; // the weight of what was known, by each micro-batch
  private static final double SPREAD = 0.25; // of the mean size; where sizes differ by less, the line would be noise
  private static final double MOST_FIXED = 0.95; // of the mean time: to read more costs something
  private static final double STRAIGHT = 0.95; // the correlation of sizes and times that is no chance

  private final long targetMs;
  private final double mostBeyondMs; // what the size may cost where the rest leaves it less time than that
  private final long least;
  private long most;
  private double weight;
  private double size; // the mean, as all of these of what is still known
  private double ms;
  private double sizes; // the sum of squares of what lies between a size and the mean
  private double times;
  private double both; // of products

  private Pace(long targetMs, double mostBeyondMs, long first, long least) {
    this.targetMs = targetMs;
    this.mostBeyondMs = mostBeyondMs;
    this.least = least;
    this.most = first;
  }

  static Pace ofRecords(long targetMs) {
    return new Pace(targetMs, Double.MAX_VALUE, 100_000, 1_000);
  }

  /** Records that are not taken cost a part of the time, too: the longer a micro-batch is, the more have arrived meanwhile. */
  static Pace ofSamples(long targetMs) {
    return new Pace(targetMs, targetMs / 4.0, 100_000, 1_000);
  }

  static Pace ofBytes(long targetMs) {
    return new Pace(targetMs, Double.MAX_VALUE, 128 << 20, 1 << 20);
  }

  synchronized long most() {
    return most;
  }

  /** A micro-batch of so many has taken so long; 0: of how many is not known. */
  synchronized void took(long count, long spentMs) {
    if (count == 0) {
      return;
    }
    add(count, Math.max(spentMs, 1));
    boolean isLine = sizes > SPREAD * size * SPREAD * size;
    double aim = isLine ? aim() : count * (2 * spentMs < targetMs || most == least ? 2 : 0.5);
    boolean isSure = isLine && weight > 3 && both > STRAIGHT * Math.sqrt(sizes * times);
    if (2 * count >= most || (isSure && spentMs > targetMs && aim < most)) { // small ones say little of large ones
      most = Math.max(least, Math.round(Math.min(2.0 * most, Math.max(0.5 * most, aim))));
    }
  }

  private void add(double count, double spentMs) {
    double off = count - size;
    double offMs = spentMs - ms;
    weight = KEPT * weight + 1;
    size += off / weight;
    ms += offMs / weight;
    sizes = KEPT * sizes + off * (count - size);
    times = KEPT * times + offMs * (spentMs - ms);
    both = KEPT * both + off * (spentMs - ms);
  }

  private double aim() {
    double fixed = Math.min(MOST_FIXED * ms, Math.max(0, ms - both / sizes * size));
    return Math.max(targetMs - fixed, Math.min(fixed, mostBeyondMs)) / (ms - fixed) * size;
  }
}
