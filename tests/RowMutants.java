package io.pyslash.core;

import java.io.Serializable;
import java.util.Arrays;
import java.util.Random;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import scala.Function1;
import scala.Tuple2;
import scala.collection.Iterable;
import scala.collection.Iterator;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction1;

/**
 * Mutants of rows that Spark itself has laid out, checked by {@link RowShape} and then read by Spark, each twice, with other
 * bytes around it: what differs was read outside of the row. It is loaded beside the classes that it tests.
 */
public final class RowMutants {
  private static final int MARGIN = 1 << 16;

  private final StructType schema;
  private final RowShape shape;
  private final Function1<Object, Object> toScala;
  private final Random random;
  public long rows;
  public long read;
  public long refused;

  public RowMutants(StructType schema, long seed) {
    this.schema = schema;
    shape = RowShape.of(schema);
    toScala = CatalystTypeConverters.createToScalaConverter(schema);
    random = new Random(seed);
  }

  /** Every row passes; of each, so many mutants are refused or read within their bytes. What went wrong, or nothing. */
  public String check(Dataset<Row> frame, int mutants) {
    ClassTag<InternalRow> type = ClassTag$.MODULE$.apply(InternalRow.class);
    Object rowsOfSpark = frame.queryExecution().toRdd().map(new CopyRow(), type).collect();
    for (InternalRow any : (InternalRow[]) rowsOfSpark) {
      byte[] row = ((UnsafeRow) any).getBytes();
      rows++;
      try {
        shape.check(row, 0, row.length);
      } catch (RuntimeException failure) {
        return "a row of Spark's is refused: " + failure.getMessage();
      }
      for (int i = 0; i < mutants; i++) {
        byte[] mutant = mutated(row);
        try {
          shape.check(mutant, 0, mutant.length);
        } catch (RuntimeException failure) {
          refused++;
          continue;
        }
        read++;
        String once = said(mutant, (byte) 0x41);
        String twice = said(mutant, (byte) 0x17);
        if (!once.equals(twice)) {
          return "bytes outside of a row are read: " + Arrays.toString(mutant) + ": " + once + " / " + twice;
        }
      }
    }
    return "";
  }

  private byte[] mutated(byte[] row) {
    byte[] mutant = row.clone();
    for (int left = 1 + random.nextInt(3); left > 0; left--) {
      int at = random.nextInt(mutant.length);
      switch (random.nextInt(4)) {
        case 0 -> mutant[at] ^= (byte) (1 << random.nextInt(8));
        case 1 -> mutant[at] = (byte) random.nextInt();
        case 2 -> mutant[at & ~3] += (byte) (8 * (1 + random.nextInt(4)));
        default -> Platform.putLong(mutant, Platform.BYTE_ARRAY_OFFSET + (at & ~7L), mutant[at] * 8L << 32 | 8);
      }
    }
    return random.nextInt(10) == 0 ? Arrays.copyOf(mutant, random.nextInt(mutant.length + 1)) : mutant;
  }

  private String said(byte[] row, byte around) {
    byte[] place = new byte[row.length + 2 * MARGIN];
    Arrays.fill(place, around);
    System.arraycopy(row, 0, place, MARGIN, row.length);
    UnsafeRow seen = new UnsafeRow(schema.length());
    seen.pointTo(place, Platform.BYTE_ARRAY_OFFSET + MARGIN, row.length);
    try {
      return text(toScala.apply(seen));
    } catch (RuntimeException | AssertionError refusedBySpark) {
      return refusedBySpark.getClass().getName();
    }
  }

  /** Of values, also of bytes, whose own text is their address. */
  private static String text(Object value) {
    if (value instanceof byte[] bytes) {
      return Arrays.toString(bytes);
    }
    if (value instanceof Row row) {
      value = row.toSeq();
    }
    if (value instanceof Iterable<?> all) {
      StringBuilder text = new StringBuilder("[");
      for (Iterator<?> each = all.iterator(); each.hasNext(); ) {
        text.append(text(each.next())).append(',');
      }
      return text.append(']').toString();
    }
    return value instanceof Tuple2<?, ?> pair ? text(pair._1()) + ":" + text(pair._2()) : String.valueOf(value);
  }

  private static final class CopyRow extends AbstractFunction1<InternalRow, InternalRow> implements Serializable {
    private static final long serialVersionUID = 1L;

    @Override
    public InternalRow apply(InternalRow row) {
      return row.copy();
    }
  }
}
