package io.pyslash.core;

/** Addresses, eight to sixteen bytes each: a set of boxed numbers takes some sixty. */
public final class AddressSet {
  private static final long MIXER = 0x9e3779b97f4a7c15L; // addresses are multiples of eight, and lie side by side

  private long[] slots = new long[1 << 8]; // 0 is no address
  private int size;

  /** Without effect if the set has it. */
  public void add(long address) {
    if (2 * size >= slots.length) {
      long[] before = slots;
      slots = new long[2 * before.length];
      for (long one : before) {
        if (one != 0) {
          slots[place(one)] = one;
        }
      }
    }
    int place = place(address);
    size += slots[place] == 0 ? 1 : 0;
    slots[place] = address;
  }

  public boolean contains(long address) {
    return slots[place(address)] == address;
  }

  /** Where it is, or would be. */
  private int place(long address) {
    int place = (int) (address * MIXER >>> (1 + Integer.numberOfLeadingZeros(slots.length)) >>> Integer.SIZE);
    while (slots[place] != 0 && slots[place] != address) {
      place = place + 1 & slots.length - 1;
    }
    return place;
  }
}
