package io.pyslash.backlog;

/** How many records or bytes a micro-batch may have, so that it takes about as long as it may: as the last ones tell. */
final class Pace {
  private final long targetMs;
  private final long least;
  private long most;

  private Pace(long targetMs, long first, long least) {
    this.targetMs = targetMs;
    this.least = least;
    this.most = first;
  }

  static Pace ofRecords(long targetMs) {
    return new Pace(targetMs, 100_000, 1_000);
  }

  static Pace ofBytes(long targetMs) {
    return new Pace(targetMs, 128 << 20, 1 << 20);
  }

  synchronized long most() {
    return most;
  }

  /** A micro-batch of so many has taken so long. */
  synchronized void took(long size, long ms) {
    boolean tells = 2 * size >= most || ms > targetMs;
    if (tells && size > 0) {
      double aim = (double) size * targetMs / Math.max(ms, 1);
      most = Math.max(least, Math.round(Math.min(2.0 * most, Math.max(0.5 * most, aim))));
    }
  }
}
