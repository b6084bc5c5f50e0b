package io.pyslash.core;

import java.nio.ByteBuffer;

/**
 * The native core as Java sees it. Handles are numbers that are checked at every call and never given out twice; every
 * failure is a {@link SlashException}.
 */
public final class Native {
  static {
    NativeLibrary.load();
  }

  private Native() {}

  /** Fields of a row, the event time included. */
  public static native int fields(byte[] planText);

  /** Bytes of every row if the plan's columns all have fixed width, else 0. */
  public static native int fixedRowBytes(byte[] planText);

  /** Epoch and partition say where the rows stand among all others. */
  public static native long createAccumulator(byte[] planText, long watermarkMicros, long epoch, long partition);

  /** {@code rows} rows back to back in {@code bytes} bytes of off-heap memory; each after its size as int64 if sizes vary. */
  public static native void add(long accumulator, long pageAddress, long bytes, long rows);

  /**
   * Rows in columns of values, off-heap: of each the address of its values, that of a byte for each (0 where it is null), and
   * the bytes of a value, which of strings and binaries is an address and a size (longs).
   */
  public static native void addValues(long accumulator, long[] columns, long rows);

  /** Writes the block into the arena and publishes it; its head is the receipt. */
  public static native byte[] seal(long accumulator, long arena, byte[] query, long epoch, long attempt);

  static native long rows(long accumulator);

  static native long lateRows(long accumulator);

  /** Nothing if the handle is closed already. */
  public static native void closeAccumulator(long accumulator);

  /** Maps the arena behind /proc/PID/fd/FD; fails if its header carries another incarnation. */
  public static native long openArena(String procFdPath, byte[] incarnation);

  /** Calls that use the arena at this moment keep its mapping until they return. */
  public static native void closeArena(long arena);

  /**
   * Merges the windows that start at these microseconds, of keys whose hash prefix lies in [prefixLo, prefixHi); unless
   * {@code changedIn} is negative, only groups that blocks of this epoch have rows of.
   */
  public static native long createMerger(
      byte[] planText, long[] windowStarts, long prefixLo, long prefixHi, long changedIn);

  /**
   * Adds a block that lies in the arena, at the offset in its head, or at {@code place} unless that is -1; returns the
   * bytes of it that the merger will read.
   */
  public static native long addBlock(long merger, byte[] head, long arena, long place);

  /**
   * What a reader of panes in [paneLo, paneHi) and hash prefixes in [prefixLo, prefixHi) reads of a block: first the block's
   * offset in its arena, its length and its epoch, then offset in the block and length of each range.
   */
  public static native long[] blockRanges(byte[] head, long paneLo, long paneHi, long prefixLo, long prefixHi);

  /** A descriptor of a folder, through which a name in it has a short path: /proc/self/fd/N/name. */
  public static native int openDirectory(String path);

  public static native void closeDirectory(int descriptor);

  /**
   * The next batch of merged rows; null at the end. First the number of rows, then for each column four numbers: how many
   * nulls it has, and the addresses of its validity, values and offsets in Arrow's layout (0: there is none). They are
   * valid until the next call.
   */
  public static native long[] nextRows(long merger, long maxRows);

  /** Nothing if the handle is closed already. */
  public static native void closeMerger(long merger);

  /**
   * A reader of the groups of a query, of keys whose hash prefix lies in [prefixLo, prefixHi), that this JVM keeps from
   * epoch to epoch. They are brought to {@code version}, the state after the epoch, from {@code before}, the one before
   * it, by the blocks of that epoch, or where they are as of another one by all blocks; windows that end by {@code
   * evictedMicros} are dropped first. Of sessions, those of {@code pane} are kept, and the reader gives those that end by
   * {@code closingMicros}. {@code keeps}: they stay in this JVM for the next epoch. {@code told} gets the bytes of blocks
   * that were read, and how many groups there are.
   */
  public static native long openHome(
      byte[] planText,
      byte[] query,
      long prefixLo,
      long prefixHi,
      byte[] before,
      byte[] version,
      long epoch,
      long evictedMicros,
      long pane,
      long closingMicros,
      boolean changedOnly,
      boolean keeps,
      BlockSource blocks,
      long[] told);

  /** As {@link #nextRows}; fails if the groups are of another epoch by now. */
  public static native long[] nextHomeRows(long reader, long maxRows);

  /** Nothing if the handle is closed already. */
  public static native void closeHomeRows(long reader);

  /**
   * A reader of the pairs of rows that a join of two streams looks at in a micro-batch, of keys whose hash prefix lies in
   * [prefixLo, prefixHi). As with {@link #openHome}, the rows of both sides that are kept are brought to {@code version};
   * {@code keeps}: they stay in this JVM for the next micro-batch. Rows that expire by {@code evictedMicros} had been evicted
   * before, those that do by {@code closingMicros} are by its end. {@code remembers}: it counts in later micro-batches which
   * rows have joined, and of {@code leftOuter} and {@code rightOuter} sides rows that have not are given when they are evicted.
   * The shapes are those of both sides' rows, in the text of {@link RowShape}: a row that has another one is an error.
   */
  public static native long openJoin(
      byte[] planText,
      byte[] query,
      long prefixLo,
      long prefixHi,
      byte[] before,
      byte[] version,
      long epoch,
      long evictedMicros,
      long closingMicros,
      boolean leftOuter,
      boolean rightOuter,
      boolean remembers,
      byte[] leftShape,
      byte[] rightShape,
      boolean keeps,
      BlockSource blocks,
      long[] bytesRead);

  /**
   * The phase of the next pairs, their number, and the address of two addresses of rows for each, 0 where there is none; null
   * at the end. They are valid until the next call.
   */
  public static native long[] nextPairs(long reader, long most);

  /** Nothing if the handle is closed already. */
  public static native void closeJoin(long reader);

  /** The handle of a shape of rows, by its text; for good. */
  static native long rowShape(byte[] text);

  /** Fails unless these bytes are a row of the shape, wherever its fields point. */
  static native void checkRow(long shape, byte[] bytes, int offset, int length);

  /** Forgets what is kept of a query; a reader may still finish. */
  public static native void closeHomes(byte[] query);

  /**
   * A reader of records of text into rows of this schema, in the text of the native core's RecordReader. {@code sized}: a
   * page's rows stand each behind its size, as {@link #add} takes them.
   */
  public static native long createRecordReader(byte[] schema, boolean sized);

  /**
   * Reads the record in {@code bytes} bytes of off-heap memory. The address of two longs, bytes and address of an
   * UnsafeRow, which are valid until the next call; 0 if it is not certain that Spark reads the record so.
   */
  public static native long readRecord(long reader, long address, long bytes);

  /**
   * Reads the records of a part of a text file, a line each, in {@code bytes} bytes of off-heap memory. The address of
   * longs, valid until the next call: bytes consumed; 1 if there was no room for the row of the next line, else 0; number of
   * lines, those that are empty left out; number of lines without a row; bytes and address of all rows, and of the header.
   * Then for each line size and address of its UnsafeRow, and of its text, and bits of the first 64 columns that the record
   * has; the row has size 0 if it is not certain that Spark reads it so. {@code asPage}: only if a line has no row.
   *
   * <p>Lines start at {@code lastStart} at most; {@code skipsFirst}: the page begins within a line that is not of this
   * part; {@code hasHeader}: its first line that is not blank is no record, but the header (of size 0: none has come yet);
   * {@code isEnd}: nothing follows the page.
   */
  public static native long readLines(
      long reader,
      long address,
      long bytes,
      long lastStart,
      boolean skipsFirst,
      boolean hasHeader,
      boolean isEnd,
      boolean asPage);

  /** Off-heap memory as a buffer, which does not own it. */
  public static native ByteBuffer buffer(long address, long bytes);

  /** Nothing if the handle is closed already. */
  public static native void closeRecordReader(long reader);
}
