package io.pyslash.catalyst;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.XxHash64;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.First;
import org.apache.spark.sql.catalyst.expressions.aggregate.HyperLogLogPlusPlus;
import org.apache.spark.sql.catalyst.expressions.aggregate.Last;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.MaxBy;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.expressions.aggregate.MinBy;
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A value that a key or an aggregate function reads of a row.
 *
 * @param isCounted whether only its nulls count: the value is whatever Spark has left of it
 */
record RowValue(Expression value, boolean isCounted) {
  RowValue(Expression value) {
    this(value, false);
  }

  /**
   * What the function reads; nothing if it counts every row. The last value is null where a `FILTER` leaves the row out; a
   * function that heeds nulls has that as a value of its own.
   */
  static List<RowValue> of(AggregateExpression function) {
    List<Expression> values = taken(function);
    if (function.filter().isDefined() && (values.isEmpty() || heedsNulls(function))) {
      values.add(one());
    }
    return filtered(function, values);
  }

  /**
   * The same in a micro-batch of a query that began with values of these types: Spark leaves out arguments that are never
   * null in this one, and filters that are always true.
   */
  static List<RowValue> of(AggregateExpression function, List<String> types) {
    List<Expression> values = taken(function);
    if (function.aggregateFunction() instanceof Count && types.size() == 1) {
      values = new ArrayList<>(List.of(present(values, DataType.fromDDL(types.get(0)))));
    } else if (heedsNulls(function) && values.size() < types.size()) {
      values.add(one());
    }
    return filtered(function, values);
  }

  /** The same with one that is null where no value is that counts: in a row that is there for other functions. */
  static List<RowValue> withPresence(AggregateExpression function, List<RowValue> values) {
    if (values.size() > (heedsNulls(function) ? 1 : 0)) {
      return values;
    }
    List<RowValue> more = new ArrayList<>(values);
    more.add(new RowValue(one()));
    return more;
  }

  private static List<RowValue> filtered(AggregateExpression function, List<Expression> values) {
    if (function.filter().isDefined() && !values.isEmpty()) {
      Expression last = values.remove(values.size() - 1);
      values.add(new If(function.filter().get(), last, nothing(last.dataType())));
    }
    boolean isCounted = function.aggregateFunction() instanceof Count;
    return values.stream().map(value -> new RowValue(value, isCounted)).toList();
  }

  /** Whatever the filter. */
  private static List<Expression> taken(AggregateExpression expression) {
    AggregateFunction function = expression.aggregateFunction();
    return new ArrayList<>(taken(function, CollectionConverters.asJava(((Expression) function).children())));
  }

  private static List<Expression> taken(AggregateFunction function, List<Expression> arguments) {
    if (function instanceof Count) {
      return counted(arguments);
    }
    if (function instanceof First || function instanceof Last) {
      return arguments.stream().map(KeyBytes::kept).toList();
    }
    if (function instanceof MaxBy || function instanceof MinBy) {
      return List.of(KeyBytes.kept(arguments.get(0)), OrderBytes.of(arguments.get(1)));
    }
    if (function instanceof Max || function instanceof Min) {
      return extreme(arguments.get(0));
    }
    return isEstimated(function) ? List.of(hashed(arguments.get(0))) : arguments;
  }

  /** What max() and min() read: the value, or, of a type that native code does not know, the value and its order. */
  private static List<Expression> extreme(Expression value) {
    Expression order = OrderBytes.of(value);
    return order == value ? List.of(value) : List.of(KeyBytes.kept(value), order);
  }

  /** Whether native code computes it, of hashes: of plain types, so that no collation decides what is distinct. */
  static boolean isEstimated(AggregateFunction function) {
    return function instanceof HyperLogLogPlusPlus distinct
        && NativeTypes.nameOf(distinct.child().dataType()) != null;
  }

  /** The hash that Spark's HyperLogLog++ takes of a value; null of null. */
  private static Expression hashed(Expression value) {
    boolean isFloating = value.dataType() instanceof DoubleType || value.dataType() instanceof FloatType;
    Expression normalized = isFloating ? new NormalizeNaNAndZero(value) : value;
    Expression hash = new XxHash64(CollectionConverters.asScala(List.of(normalized)).toSeq());
    return value.nullable() ? new If(new IsNotNull(value), hash, nothing(DataTypes.LongType)) : hash;
  }

  /** Whether a row counts whose value is null. */
  private static boolean heedsNulls(AggregateExpression function) {
    return function.aggregateFunction() instanceof First first && !first.ignoreNulls()
        || function.aggregateFunction() instanceof Last last && !last.ignoreNulls();
  }

  /** What count() counts where it is not null; nothing: every row. */
  private static List<Expression> counted(List<Expression> arguments) {
    List<Expression> nullable = arguments.stream().filter(Expression::nullable).toList();
    if (nullable.isEmpty()) {
      return List.of();
    }
    DataType type = nullable.get(0).dataType();
    if (nullable.size() == 1 && NativeTypes.nameOf(type) != null) {
      return nullable;
    }
    Expression present =
        nullable.stream().<Expression>map(IsNotNull::new).reduce((one, other) -> new And(one, other)).get();
    return List.of(new If(present, one(), nothing(DataTypes.IntegerType)));
  }

  /** What {@link #counted} has given, as one value of this type. */
  private static Expression present(List<Expression> counted, DataType type) {
    Expression some = NativeTypes.zero(type);
    if (counted.isEmpty()) {
      return some;
    }
    Expression value = counted.get(0);
    return value.dataType().equals(type) ? value : new If(new IsNotNull(value), some, nothing(type));
  }

  private static Expression one() {
    return Literal$.MODULE$.create(1, DataTypes.IntegerType);
  }

  private static Expression nothing(DataType type) {
    return Literal$.MODULE$.create(null, type);
  }
}
