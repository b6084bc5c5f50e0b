package io.pyslash.core;

/** Blocks that native code reads, once they are where this JVM can read them. */
public interface BlockSource {
  /** Their heads, once they have been brought. */
  byte[][] heads();

  /**
   * Makes blocks readable: for each head an arena's handle and a place in it, or -1 where the place is the offset in the
   * head. Those of earlier epochs are left out unless {@code all}: theirs are 0 and 0.
   */
  long[] bring(boolean all);
}
