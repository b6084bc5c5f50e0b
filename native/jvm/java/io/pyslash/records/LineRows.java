package io.pyslash.records;

import io.pyslash.core.Native;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.NoSuchElementException;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.StructFilters;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.util.LongAccumulator;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/**
 * The rows of a split of a text file, a record a line: pages of bytes go to native code, which divides them into lines and
 * reads those that it is certain to read as Spark does; Spark's own parser reads the others.
 *
 * <p>They come one by one, or as a {@link LinePage} where that is wanted and native code has read all of a page. A row is valid
 * until the next one is asked for.
 */
final class LineRows extends AbstractIterator<Object> {
  private static final int FIRST_BYTES = 1 << 19; // of a page; a longer line makes it grow
  private static final int MOST_BYTES = Integer.MAX_VALUE - 64; // of a line, as Hadoop has it
  private static final ByteBuffer ORDER_MARK = ByteBuffer.wrap(new byte[] {(byte) 0xef, (byte) 0xbb, (byte) 0xbf});
  // Longs of an answer: bytes consumed, is it full, lines, those without a row, all rows, the header
  private static final int HEAD = 8;
  private static final int LINE = 5; // longs of a line: size and address of its row and of its text, columns

  private enum Verdict {
    KEPT,
    DROPPED,
    SPARKS
  }

  private final LineRecords records;
  private final PartitionedFile file;
  private final TextBytes input;
  private final LongAccumulator leftToSpark;
  private final UnsafeRow row;
  private final StructFilters filters;
  private final int[] filtered; // columns that filters look at
  private final boolean asPages;
  private final TaskContext task = TaskContext.get();

  private long ahead; // bytes of the split behind the page; no more than none: the page ends behind the split
  private boolean isFirst; // nothing has been read
  private boolean skipsFirst; // the first line is another split's
  private boolean hasHeader; // the header is still to come
  private boolean isEnd; // of the file
  private boolean isOver; // no line is behind those of the answer
  private boolean isClosed;
  private boolean isFull; // lines of the page wait for room for their rows
  private long reader;
  private long page;
  private ByteBuffer bytes; // of the page
  private int capacity;
  private int start; // of the first line in the page that is not read
  private int end; // of the page's bytes
  private long answer;
  private long lines;
  private long line;
  private LineRecords.Parser parser;
  private UnsafeProjection unsafe; // of its rows, the columns in their order here
  private Iterator<InternalRow> bySpark; // rows of one line
  private Object next;

  /**
   * `length`: of the split, which begins at `start`, where the input stands; `asPages`: rows may come as pages, if no filter
   * is to be asked about them; `leftToSpark` counts records.
   */
  LineRows(
      LineRecords records,
      PartitionedFile file,
      TextBytes input,
      long start,
      long length,
      boolean asPages,
      LongAccumulator leftToSpark) {
    this.input = input;
    if (task != null) { // first, so that a constructor that fails leaves nothing open
      task.<Void>addTaskCompletionListener(
          ended -> {
            close();
            return null;
          });
    }
    this.records = records;
    this.file = file;
    this.leftToSpark = leftToSpark;
    ahead = length;
    skipsFirst = start != 0;
    isFirst = start == 0;
    hasHeader = start == 0 && records.hasHeader();
    row = new UnsafeRow(records.columns.length());
    filters = records.newFilters();
    filtered = records.filtered();
    this.asPages = asPages && filtered.length == 0;
    reader = Native.createRecordReader(records.schema(), this.asPages);
    resize(FIRST_BYTES);
  }

  @Override
  public boolean hasNext() {
    while (next == null) {
      if (bySpark != null && bySpark.hasNext()) {
        next = unsafe.apply(bySpark.next());
      } else if (line < lines) {
        readLine();
      } else if (isOver) {
        close();
        return false;
      } else {
        readPage();
      }
    }
    return true;
  }

  @Override
  public Object next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    Object found = next;
    next = null;
    return found;
  }

  private void readLine() {
    long place = answer + (HEAD + LINE * line++) * Long.BYTES;
    int size = (int) Platform.getLong(null, place);
    Verdict verdict = Verdict.SPARKS;
    if (size > 0) {
      row.pointTo(null, Platform.getLong(null, place + Long.BYTES), size);
      verdict = filtered.length == 0 ? Verdict.KEPT : judged(Platform.getLong(null, place + 4 * Long.BYTES));
    }
    switch (verdict) {
      case KEPT -> next = row;
      case SPARKS -> parse(
          Platform.getLong(null, place + 3 * Long.BYTES), (int) Platform.getLong(null, place + 2 * Long.BYTES));
      case DROPPED -> {}
    }
  }

  /** Spark's parser asks a filter when all of its columns have come: never if the record lacks one. */
  private Verdict judged(long present) {
    filters.reset();
    for (int column : filtered) {
      if (column >= Long.SIZE) {
        return Verdict.SPARKS;
      }
      if ((present >>> column & 1) != 0 && filters.skipRow(row, column)) {
        return Verdict.DROPPED;
      }
    }
    return Verdict.KEPT;
  }

  private void parse(long address, int size) {
    leftToSpark.add(1L);
    bySpark = parser().parse(copied(address, size));
  }

  private static byte[] copied(long address, int size) {
    byte[] text = new byte[size];
    Platform.copyMemory(null, address, text, Platform.BYTE_ARRAY_OFFSET, size);
    return text;
  }

  private LineRecords.Parser parser() {
    if (parser == null) {
      parser = records.parser(file);
      unsafe = records.toColumns();
    }
    return parser;
  }

  private void readPage() {
    try {
      if (!isFull) {
        fill();
      }
    } catch (IOException failure) {
      throw LineFiles.sneaked(failure);
    }
    // A line belongs to the split in which, or just behind which, it starts.
    long lastStart = Math.max(0, end - start + Math.min(ahead, 0));
    if (start == end) {
      isOver = isEnd;
      return;
    }
    answer = Native.readLines(reader, page + start, end - start, lastStart, skipsFirst, hasHeader, isEnd, asPages);
    long consumed = answered(0);
    isFull = answered(1) != 0;
    lines = answered(2);
    line = 0;
    skipsFirst &= consumed == 0;
    isOver = !isFull && (isEnd || consumed > lastStart);
    start += (int) consumed;
    if (skipsFirst && !isEnd) { // all of it is another split's; what follows a \r tells where the line ends
      start = Platform.getByte(null, page + end - 1) == '\r' ? end - 1 : end;
      isOver |= ahead < 0; // and so are all lines behind it
    }
    if (answered(6) > 0) {
      hasHeader = false;
      parser().checkHeader(copied(answered(7), (int) answered(6)));
    }
    if (asPages && lines > 0 && answered(3) == 0) {
      next = new LinePage(answered(5), answered(4), (int) lines, records.columns.length());
      line = lines;
    }
  }

  private long answered(int index) {
    return Platform.getLong(null, answer + (long) index * Long.BYTES);
  }

  /** More bytes behind those that are not read. */
  private void fill() throws IOException {
    int kept = end - start;
    if (kept == capacity) {
      grow();
    } else {
      Platform.copyMemory(null, page + start, null, page, kept);
    }
    start = 0;
    end = kept;
    // Behind the split only its last line is of interest: each time as much again, so that each byte is looked at a few times.
    int wanted = (int) Math.min(capacity - kept, ahead > 0 ? ahead : Math.max(1 << 12, kept));
    wanted = isFirst ? Math.max(wanted, ORDER_MARK.limit()) : wanted;
    int found = input.read(bytes.limit(end + wanted).position(end));
    end += found;
    ahead -= found;
    isEnd = found < wanted;
    if (isFirst) {
      isFirst = false;
      if (found >= ORDER_MARK.limit() && bytes.slice(0, ORDER_MARK.limit()).equals(ORDER_MARK)) {
        start = ORDER_MARK.limit();
      }
    }
  }

  private void grow() throws IOException {
    if (capacity == MOST_BYTES) {
      throw new IOException("a line has more than " + MOST_BYTES + " bytes");
    }
    resize((int) Math.min(2L * capacity, MOST_BYTES));
  }

  private void resize(int size) {
    page = page == 0 ? Platform.allocateMemory(size) : Platform.reallocateMemory(page, capacity, size);
    capacity = size;
    bytes = Native.buffer(page, size);
  }

  private void close() {
    if (isClosed) {
      return;
    }
    isClosed = true;
    Native.closeRecordReader(reader);
    Platform.freeMemory(page);
    page = 0;
    lines = 0;
    isOver = true;
    try {
      input.close();
    } catch (IOException failure) {
      throw LineFiles.sneaked(failure);
    }
  }
}
