package io.pyslash.transform;

import io.pyslash.merge.ArrowRows;
import io.pyslash.merge.RowsDataset;
import java.util.Iterator;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** Rows that lie packed in a column of others: each value has Arrow IPC streams of some of them, one after the other. */
public final class Unpacked implements FlatMapFunction<InternalRow, InternalRow> {
  private static final long serialVersionUID = 1L;

  private final int column;
  private final StructType schema;

  private Unpacked(int column, StructType schema) {
    this.column = column;
    this.schema = schema;
  }

  /** The rows, of this schema (JSON), that are packed in a column of these. */
  public static Dataset<Row> of(SparkSession session, Dataset<Row> packed, int column, String schema) {
    StructType columns = (StructType) DataType.fromJson(schema);
    RDD<InternalRow> rows = packed.queryExecution().toRdd();
    return RowsDataset.of(session, rows.toJavaRDD().flatMap(new Unpacked(column, columns)).rdd(), columns);
  }

  @Override
  public Iterator<InternalRow> call(InternalRow row) {
    return ArrowRows.readAll(row.getBinary(column), schema);
  }
}
