package io.pyslash.ingest;

import io.pyslash.catalyst.NativeTypes;
import io.pyslash.core.Native;
import java.util.Arrays;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.util.TaskCompletionListener;

/**
 * Off-heap columns of values that generated code ({@link ColumnsExec}) fills, and that the accumulator reads in place when
 * they are full. It belongs to the thread of a task.
 *
 * <p>What generated code knows is a table of longs: the number of rows, which it keeps; the address of the bytes of strings,
 * and how many there is room for; for each column the address of its values, and that of a byte for each, 0 where it is
 * null.
 */
final class ColumnPage {
  /** As many as the accumulator takes at a time. */
  static final int ROWS = 4096;

  static final int ROWS_AT = 0;
  static final int TEXT_AT = Long.BYTES;
  static final int TEXT_BYTES_AT = 2 * Long.BYTES;
  static final int COLUMNS_AT = 3 * Long.BYTES;
  static final int COLUMN_BYTES = 2 * Long.BYTES;

  private static final int REFERENCE_BYTES = 2 * Long.BYTES; // of a string or binary: its address and its size
  private static final long FIRST_TEXT_BYTES = 256 << 10;
  private static final ThreadLocal<ColumnPage> OF_TASK = new ThreadLocal<>();

  private final long[] columns;
  private final long values; // of all columns, and the table behind them
  private final long table;
  private final TaskContext context;
  private long accumulator;
  private long taken;
  private EventTimes times; // null: nobody wants them
  private long text;
  private long textBytes;

  private ColumnPage(StructType schema, TaskContext context) {
    this.context = context;
    StructField[] fields = schema.fields();
    columns = new long[3 * fields.length];
    long bytes = 0;
    for (StructField field : fields) {
      bytes += (long) ROWS * (width(field.dataType()) + 1);
    }
    values = Platform.allocateMemory(bytes + COLUMNS_AT + (long) COLUMN_BYTES * fields.length);
    Platform.setMemory(values, (byte) 1, bytes); // columns that have no null tell nothing of them
    table = values + bytes;
    long next = values;
    for (int i = 0; i < fields.length; i++) {
      int width = width(fields[i].dataType());
      columns[3 * i] = next;
      columns[3 * i + 1] = next + (long) ROWS * width;
      columns[3 * i + 2] = width;
      Platform.putLong(null, table + COLUMNS_AT + (long) COLUMN_BYTES * i, columns[3 * i]);
      Platform.putLong(null, table + COLUMNS_AT + (long) COLUMN_BYTES * i + Long.BYTES, columns[3 * i + 1]);
      next = columns[3 * i + 1] + ROWS;
    }
    Platform.putLong(null, table + ROWS_AT, 0);
  }

  /** That of the task that this thread runs, which is there until the task ends. */
  static ColumnPage of(StructType schema) {
    ColumnPage page = OF_TASK.get();
    if (page == null) {
      TaskContext context = TaskContext.get();
      page = new ColumnPage(schema, context);
      OF_TASK.set(page);
      ColumnPage made = page;
      context.addTaskCompletionListener((TaskCompletionListener) ended -> made.free());
      made.grow(FIRST_TEXT_BYTES);
    }
    return page;
  }

  /**
   * Where the rows of this thread's task go, if they come in columns; {@code times} collects the statistics of their event
   * times, the first column, unless it is null.
   */
  static void lead(long accumulator, EventTimes times) {
    ColumnPage page = OF_TASK.get();
    if (page != null) {
      page.accumulator = accumulator;
      page.times = times;
    }
  }

  /** Hands over what is left of the rows of this thread's task. Returns how many of its rows have come in columns. */
  static long end() {
    ColumnPage page = OF_TASK.get();
    if (page == null) {
      return 0;
    }
    page.flush(0);
    return page.taken;
  }

  /** Bytes of a value; 0 if there are no columns of such values. */
  static int width(DataType type) {
    if (NativeTypes.nameOf(type) == null) {
      return 0;
    }
    if (type instanceof DecimalType decimal) {
      return decimal.precision() <= Decimal.MAX_LONG_DIGITS() ? Long.BYTES : 2 * Long.BYTES;
    }
    return UnsafeRow.isFixedLength(type) ? type.defaultSize() : REFERENCE_BYTES;
  }

  /** Whether there are columns of all values of such rows. */
  static boolean takes(StructType schema) {
    return Arrays.stream(schema.fields()).allMatch(field -> width(field.dataType()) > 0);
  }

  /** Hands the rows over; from then on there is room for so many bytes of strings. Returns the table's address. */
  long flush(long textBytesWanted) {
    long rows = Platform.getLong(null, table + ROWS_AT);
    if (rows > 0) {
      Platform.putLong(null, table + ROWS_AT, 0);
      if (times != null) {
        times.add(columns[0], rows);
      }
      Native.addValues(accumulator, columns, rows);
      taken += rows;
      if (context.isInterrupted()) {
        throw new TaskKilledException("the update task was killed");
      }
    }
    if (textBytesWanted > textBytes) {
      grow(textBytesWanted);
    }
    return table;
  }

  private void grow(long bytes) {
    Platform.freeMemory(text);
    text = 0;
    textBytes = 0;
    text = Platform.allocateMemory(bytes);
    textBytes = bytes;
    Platform.putLong(null, table + TEXT_AT, text);
    Platform.putLong(null, table + TEXT_BYTES_AT, textBytes);
  }

  private void free() {
    OF_TASK.remove();
    Platform.freeMemory(values);
    Platform.freeMemory(text);
  }
}
