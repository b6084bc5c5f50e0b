package io.pyslash.backlog;

/** How many records a micro-batch may have, so that it takes about as long as it may: as the last ones tell. */
final class Pace {
  private static final long FIRST = 100_000;
  private static final long LEAST = 1_000;

  private final long targetMs;
  private long most = FIRST;

  Pace(long targetMs) {
    this.targetMs = targetMs;
  }

  synchronized long most() {
    return most;
  }

  /** A micro-batch of so many records has taken so long. */
  synchronized void took(long records, long ms) {
    boolean tells = 2 * records >= most || ms > targetMs;
    if (tells && records > 0) {
      double aim = (double) records * targetMs / Math.max(ms, 1);
      most = Math.max(LEAST, Math.round(Math.min(2.0 * most, Math.max(0.5 * most, aim))));
    }
  }
}
