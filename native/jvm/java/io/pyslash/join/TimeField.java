package io.pyslash.join;

import io.pyslash.catalyst.OnlySpark;
import java.io.Serializable;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.types.StructType;

/** Where a row has the time that Spark holds against a watermark: a column, or the end of one that is a window. */
record TimeField(int ordinal, boolean isWindow) implements Serializable {
  private static final int WINDOW_FIELDS = 2;
  private static final int END = 1;

  /** Of a column, as Spark's own operators take it. */
  static TimeField of(Attribute column, List<Attribute> columns) {
    return new TimeField(ordinalOf(column, columns), column.dataType() instanceof StructType);
  }

  /** Of an expression over these columns, or one that is bound already. */
  static TimeField of(Expression time, List<Attribute> columns) {
    boolean isWindow = time instanceof GetStructField end && end.ordinal() == END;
    Expression column = isWindow ? ((GetStructField) time).child() : time;
    if (column instanceof BoundReference bound) {
      return new TimeField(bound.ordinal(), isWindow);
    }
    if (column instanceof Attribute attribute) {
      return new TimeField(ordinalOf(attribute, columns), isWindow);
    }
    throw new OnlySpark("its watermark is of " + time.sql() + ", which is no column");
  }

  private static int ordinalOf(Attribute column, List<Attribute> columns) {
    for (int i = 0; i < columns.size(); i++) {
      if (columns.get(i).exprId().equals(column.exprId())) {
        return i;
      }
    }
    throw new OnlySpark("its watermark is of " + column.name() + ", which its rows have not");
  }

  /** Whether the row has no time. */
  boolean isNull(InternalRow row) {
    return row.isNullAt(ordinal) || isWindow && row.getStruct(ordinal, WINDOW_FIELDS).isNullAt(END);
  }

  /** The time, in microseconds. */
  long of(InternalRow row) {
    return isWindow ? row.getStruct(ordinal, WINDOW_FIELDS).getLong(END) : row.getLong(ordinal);
  }
}
