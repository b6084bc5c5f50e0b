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
import org.apache.spark.sql.catalyst.expressions.aggregate.Covariance;
import org.apache.spark.sql.catalyst.expressions.aggregate.First;
import org.apache.spark.sql.catalyst.expressions.aggregate.HyperLogLogPlusPlus;
import org.apache.spark.sql.catalyst.expressions.aggregate.Last;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.MaxBy;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.expressions.aggregate.MinBy;
import org.apache.spark.sql.catalyst.expressions.aggregate.PearsonCorrelation;
import org.apache.spark.sql.catalyst.expressions.aggregate.RegrIntercept;
import org.apache.spark.sql.catalyst.expressions.aggregate.RegrSlope;
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A value that a key or an aggregate function reads of a row.
 *
 * @param where the condition on which Spark evaluates it, and elsewhere it may be an error; null: it does in every row
 * @param isCounted whether only its nulls count: the value is whatever Spark has left of it
 */
record RowValue(Expression value, Expression where, boolean isCounted) {
  private static final int NONE = -1;

  RowValue(Expression value) {
    this(value, null, false);
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
      values = new ArrayList<>(List.of(present(values, DataType.fromJson('"' + types.get(0) + '"'))));
    } else if (heedsNulls(function) && values.size() < types.size()) {
      values.add(one());
    }
    return filtered(function, values);
  }

  /** The same, with one more value if none of them tells by a null that a row is there for other functions alone. */
  static List<RowValue> withPresence(AggregateExpression function, List<RowValue> values) {
    if (values.size() > (heedsNulls(function) ? 1 : 0)) {
      return values;
    }
    List<RowValue> more = new ArrayList<>(values);
    more.add(new RowValue(one()));
    return more;
  }

  /** Where some of these read a value; null: in every row. */
  static Expression anywhere(List<RowValue> readers) {
    List<Expression> conditions = new ArrayList<>();
    for (RowValue reader : readers) {
      if (reader.where == null) {
        return null;
      }
      if (conditions.stream().noneMatch(reader.where::semanticEquals)) {
        conditions.add(reader.where);
      }
    }
    return conditions.stream().reduce((one, other) -> new If(one, truth(true), other)).get();
  }

  private static List<RowValue> filtered(AggregateExpression expression, List<Expression> values) {
    AggregateFunction function = expression.aggregateFunction();
    Expression filter = expression.filter().isDefined() ? expression.filter().get() : null;
    List<RowValue> found = new ArrayList<>();
    for (int i = 0; i < values.size(); i++) {
      Expression value = values.get(i);
      boolean tells = filter != null && i == values.size() - 1; // which rows are left out
      Expression led = led(function, i);
      Expression where = tells && led == null || isPlain(value) ? null : both(filter, led);
      Expression told = tells ? new If(filter, value, nothing(value.dataType())) : value;
      found.add(new RowValue(told, where, function instanceof Count));
    }
    return found;
  }

  /** That the argument is there which Spark evaluates before this one; null: it evaluates none, or it always is. */
  private static Expression led(AggregateFunction function, int argument) {
    int first = first(function);
    if (first == NONE || first == argument) {
      return null;
    }
    Expression leading = ((Expression) function).children().apply(first);
    return leading.nullable() ? new IsNotNull(leading) : null;
  }

  /** The argument that Spark evaluates first, and no other one where it is null. */
  private static int first(AggregateFunction function) {
    if (function instanceof Covariance || function instanceof PearsonCorrelation) {
      return 0;
    }
    boolean isSecond =
        function instanceof MaxBy
            || function instanceof MinBy
            || function instanceof RegrSlope
            || function instanceof RegrIntercept;
    return isSecond ? 1 : NONE;
  }

  /** Whether it cannot be an error. */
  private static boolean isPlain(Expression value) {
    return value instanceof UnaryFunction bytes ? isPlain(bytes.child()) : value.children().isEmpty();
  }

  /** Both conditions, of which there may be none: not as an And, of which Spark may evaluate either side beforehand. */
  private static Expression both(Expression one, Expression other) {
    if (one == null || other == null) {
      return one == null ? other : one;
    }
    return new If(one, other, truth(false));
  }

  private static Expression truth(boolean value) {
    return Literal$.MODULE$.create(value, DataTypes.BooleanType);
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
