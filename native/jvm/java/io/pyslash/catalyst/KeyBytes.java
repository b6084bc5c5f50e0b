package io.pyslash.catalyst;

import io.pyslash.core.RowShape;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A value of a type that native code does not know, as the bytes of an UnsafeRow: by these Spark tells keys apart, too.
 */
final class KeyBytes extends UnaryFunction {
  private static final long serialVersionUID = 1L;

  private transient UnsafeProjection projection;

  private KeyBytes(Expression key) {
    super(key);
  }

  /** A value that native code only keeps, so that it does not matter how Spark compares it: of any type that has values. */
  static Expression kept(Expression value) {
    boolean isNative = NativeTypes.nameOf(value.dataType()) != null;
    return isNative || value.dataType() instanceof NullType ? value : new KeyBytes(value);
  }

  /** What has come out of {@link #kept}, from the column that native code has given. */
  static Expression given(Expression column, DataType type) {
    return NativeTypes.nameOf(type) != null ? column : value(column, type);
  }

  /** The key as native code takes it: itself where it has a native type, or where Spark compares not only bytes. */
  static Expression of(Expression key) {
    boolean isNative = NativeTypes.nameOf(key.dataType()) != null;
    return isNative || !UnsafeRowUtils.isBinaryStable(key.dataType()) ? key : new KeyBytes(key);
  }

  /** The value of which a column has the bytes. */
  static Expression value(Expression bytes, DataType type) {
    return new Value(bytes, type);
  }

  @Override
  Object of(Object value) {
    if (projection == null) {
      List<Expression> field = List.of(new BoundReference(0, child().dataType(), false));
      projection = UnsafeProjection.create(CollectionConverters.asScala(field).toSeq());
    }
    return projection.apply(new GenericInternalRow(new Object[] {value})).copy().getBytes();
  }

  @Override
  UnaryFunction over(Expression other) {
    return new KeyBytes(other);
  }

  @Override
  public String sql() {
    return child().sql();
  }

  @Override
  public DataType dataType() {
    return DataTypes.BinaryType;
  }

  private static final class Value extends UnaryFunction {
    private static final long serialVersionUID = 1L;

    private final DataType type;
    private transient RowShape shape;

    Value(Expression bytes, DataType type) {
      super(bytes);
      this.type = type;
    }

    @Override
    Object of(Object value) {
      byte[] bytes = (byte[]) value;
      if (shape == null) {
        shape = RowShape.of(new StructType().add("key", type));
      }
      shape.check(bytes, 0, bytes.length);
      UnsafeRow row = new UnsafeRow(1);
      row.pointTo(bytes, bytes.length);
      return row.get(0, type);
    }

    @Override
    UnaryFunction over(Expression other) {
      return new Value(other, type);
    }

    @Override
    public DataType dataType() {
      return type;
    }
  }
}
