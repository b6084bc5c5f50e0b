package io.pyslash.merge;

import io.pyslash.catalyst.Projections;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Few rows from Python: `createDataFrame` takes forty calls and two plans for them. */
public final class ArrowRows {
  private static final boolean IS_POSSIBLE = isPossible();

  private ArrowRows() {}

  /** Whether Arrow can read in this JVM: not in a driver that a standalone worker has started, without Java's `--add-opens`. */
  public static boolean arePossible() {
    return IS_POSSIBLE;
  }

  private static boolean isPossible() {
    try (BufferAllocator allocator = ArrowUtils.rootAllocator().newChildAllocator("whether", 0, Long.MAX_VALUE);
        ArrowBuf buffer = allocator.buffer(1)) {
      buffer.nioBuffer(0, 1);
      return true;
    } catch (UnsupportedOperationException | LinkageError closed) {
      return false;
    }
  }

  /** The rows of an Arrow IPC stream, of no bytes if there are none, whose columns are those of the schema. */
  public static List<InternalRow> read(byte[] stream, StructType schema) {
    return stream.length == 0 ? List.of() : next(new ByteArrayInputStream(stream), schema);
  }

  /** The rows of streams that lie one after the other, a stream at a time. */
  public static Iterator<InternalRow> readAll(byte[] streams, StructType schema) {
    ByteArrayInputStream rest = new ByteArrayInputStream(streams);
    return new Iterator<>() {
      private Iterator<InternalRow> rows = Collections.emptyIterator();

      @Override
      public boolean hasNext() {
        while (!rows.hasNext() && rest.available() > 0) {
          rows = ArrowRows.next(rest, schema).iterator();
        }
        return rows.hasNext();
      }

      @Override
      public InternalRow next() {
        return hasNext() ? rows.next() : Collections.<InternalRow>emptyIterator().next();
      }
    };
  }

  private static List<InternalRow> next(ByteArrayInputStream streams, StructType schema) {
    List<InternalRow> rows = new ArrayList<>();
    try (BufferAllocator allocator = ArrowUtils.rootAllocator().newChildAllocator("merged rows", 0, Long.MAX_VALUE);
        ArrowStreamReader reader = new ArrowStreamReader(streams, allocator)) {
      while (reader.loadNextBatch()) {
        VectorSchemaRoot batch = reader.getVectorSchemaRoot();
        UnsafeProjection copied = Projections.of(schema, batch.getRowCount());
        ColumnVector[] columns =
            batch.getFieldVectors().stream().map(ArrowColumnVector::new).toArray(ColumnVector[]::new);
        new ColumnarBatch(columns, batch.getRowCount())
            .rowIterator()
            .forEachRemaining(row -> rows.add(copied.apply(row).copy()));
      }
    } catch (IOException impossible) {
      throw new IllegalStateException(impossible);
    }
    return rows;
  }
}
