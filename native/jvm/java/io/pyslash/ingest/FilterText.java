package io.pyslash.ingest;

import io.pyslash.catalyst.OnlySpark;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A filter as nested lists: an operator and its operands, ["column", name, type] or ["literal", type, value].
 *
 * <p>Only what every engine evaluates alike: three-valued logic over comparisons of types that have one order. Floating
 * numbers are not among them (NaN), nor casts.
 */
final class FilterText {
  private static final Set<DataType> COMPARABLE =
      Set.of(
          DataTypes.BooleanType,
          DataTypes.ByteType,
          DataTypes.ShortType,
          DataTypes.IntegerType,
          DataTypes.LongType,
          DataTypes.StringType,
          DataTypes.DateType,
          DataTypes.TimestampType,
          DataTypes.TimestampNTZType);

  private final Map<Long, String> names;

  FilterText(Map<Long, String> names) {
    this.names = names;
  }

  List<Object> of(List<Expression> filters) {
    return filters.stream().<Object>map(this::of).toList();
  }

  private List<Object> of(Expression expression) {
    if (expression instanceof And and) {
      return List.of("and", of(and.left()), of(and.right()));
    }
    if (expression instanceof Or or) {
      return List.of("or", of(or.left()), of(or.right()));
    }
    if (expression instanceof Not not) {
      return List.of("not", of(not.child()));
    }
    if (expression instanceof IsNull isNull) {
      return List.of("null", operand(isNull.child()));
    }
    if (expression instanceof IsNotNull isNotNull) {
      return List.of("not", List.of("null", operand(isNotNull.child())));
    }
    if (expression instanceof In in) {
      List<Object> text = new ArrayList<>(List.of("in", comparable(in.value())));
      CollectionConverters.asJava(in.list()).forEach(value -> text.add(literal(value)));
      return text;
    }
    if (expression instanceof BinaryComparison comparison) {
      return List.of(operator(comparison), comparable(comparison.left()), comparable(comparison.right()));
    }
    // A boolean column is a condition by itself.
    if (expression instanceof Attribute && expression.dataType().equals(DataTypes.BooleanType)) {
      return operand(expression);
    }
    throw new OnlySpark("it filters by " + expression.sql());
  }

  /** The column of the files that rows are joined by. */
  List<Object> joinKey(Expression expression) {
    DataType type = expression.dataType();
    if (!COMPARABLE.contains(type) && !type.equals(DataTypes.BinaryType) && !(type instanceof DecimalType)) {
      throw new OnlySpark("it joins by " + expression.sql() + ", a " + type.simpleString());
    }
    if (!(expression instanceof Attribute attribute) || !names.containsKey(attribute.exprId().id())) {
      throw new OnlySpark("it joins by " + expression.sql());
    }
    return List.of(names.get(attribute.exprId().id()), type.simpleString());
  }

  private static String operator(BinaryComparison comparison) {
    if (comparison instanceof EqualTo) {
      return "=";
    }
    if (comparison instanceof LessThan) {
      return "<";
    }
    if (comparison instanceof LessThanOrEqual) {
      return "<=";
    }
    if (comparison instanceof GreaterThan) {
      return ">";
    }
    if (comparison instanceof GreaterThanOrEqual) {
      return ">=";
    }
    throw new OnlySpark("it filters by " + comparison.sql());
  }

  private List<Object> comparable(Expression expression) {
    if (!COMPARABLE.contains(expression.dataType())) {
      throw new OnlySpark("it compares " + expression.sql() + ", a " + expression.dataType().simpleString());
    }
    return expression instanceof Literal ? literal(expression) : operand(expression);
  }

  private List<Object> operand(Expression expression) {
    if (expression instanceof Attribute attribute && names.containsKey(attribute.exprId().id())) {
      return List.of("column", names.get(attribute.exprId().id()), attribute.dataType().simpleString());
    }
    throw new OnlySpark("it filters by " + expression.sql());
  }

  private static List<Object> literal(Expression expression) {
    if (!(expression instanceof Literal literal) || literal.value() == null) {
      throw new OnlySpark("it filters by " + expression.sql());
    }
    if (literal.value() instanceof UTF8String text) {
      if (!text.isValid()) {
        throw new OnlySpark("it filters by bytes that are no UTF-8: " + expression.sql());
      }
      return List.of("literal", literal.dataType().simpleString(), text.toString());
    }
    return List.of("literal", literal.dataType().simpleString(), literal.value());
  }
}
